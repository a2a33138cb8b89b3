"""The acts of administrators and operators: on applications (``objects.acts``), on queues (OP-2), and from one leaf to another;
and the quotas of dynamic leaves that the resource manager sets beside applications (QU-107).

Requests are handled between two decisions, when the scheduler has observed everything that happened. ``refusal_of`` checks all
of it before anything changes, so that a request is carried out as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable

from ykactor.core.config.access import UserGroups, may_administer
from ykactor.core.messages.acts import (
    Administration,
    Hold,
    HoldQueue,
    MoveApplication,
    Operator,
    SetQueueQuotas,
    full_path,
)
from ykactor.core.messages.facts import ApplicationMoved, Fact, QueueHeld
from ykactor.core.messages.states import ApplicationState
from ykactor.core.messages.submissions import TYPES_MAX
from ykactor.core.objects.acts import EFFECTS
from ykactor.core.objects.application import Application
from ykactor.core.objects.commands import ActOn, Configure, GiveAway, SetHold, TakeOver
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import Exchange, Registry, send
from ykactor.core.partition.timers import Timers
from ykactor.core.placement.admission import gang_objection
from ykactor.core.placement.dynamic import limit_changes, quotas_objection, with_set_quotas
from ykactor.core.placement.rules import RECOVERY_QUEUE, closure
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.parts import paced
from ykactor.core.values.quantities import brief, quota_types

#: Why the scheduler objects to moving an application to a leaf, or "".
Objections = Callable[[ApplicationID, QueuePath], str]

_BEFORE_GANG = frozenset({ApplicationState.NEW, ApplicationState.ACCEPTED})


def knows_application(registry: Registry, application_id: ApplicationID, operator: Operator | None) -> bool:
    """True if the application lives, and the operator may act on it (SE-26)."""
    path = registry.applications.get(application_id, QueuePath(""))
    # Asked of what does not exist too: the same work for it as for what must not be seen.
    return (operator is None or operator.may_operate(path)) and bool(path)


def _not_there(timers: Timers, application_id: ApplicationID, operator: Operator | None) -> str:
    """A sentence that an application does not live: how it has ended, if that is remembered and the operator may know it."""
    for ended in reversed(timers.ended.values()):
        if ended.application_id == application_id and (operator is None or operator.may_operate(QueuePath(ended.queue))):
            return f"application {brief(application_id)} has ended: {(ended.past.outcome or ended.state).value}"
    sees_rejected = operator is None or operator.may_operate(QueuePath(""))  # those have no queue
    if sees_rejected and application_id in timers.rejected:
        return f"application {brief(application_id)} has ended: {ApplicationState.REJECTED.value}"
    return f"failed to find application {brief(application_id)}"


def refusal_of(
    registry: Registry, timers: Timers, objections: Objections, request: Administration, who: UserGroups | None
) -> str:
    """The reason why the request cannot be carried out, or "". ``who`` is None for a caller who may do everything."""
    if isinstance(request, SetQueueQuotas):
        return _quotas_refusal(registry, request)
    if isinstance(request, HoldQueue):
        path = full_path(request.queue_name)
        is_known = request.operator.may_operate(path) and path in registry.queues
        return "" if is_known else f"queue {brief(path)} does not exist"
    if not knows_application(registry, request.application_id, request.operator):
        return _not_there(timers, request.application_id, request.operator)
    leaf = registry.leaf_of(request.application_id)
    why = _forbidden(registry, leaf.path, who)
    if why:
        return why
    if isinstance(request, MoveApplication):
        return _move_objection(registry, objections, leaf, request, who)
    return EFFECTS[type(request)].objection(leaf.applications[request.application_id], request)


def _forbidden(registry: Registry, path: QueuePath, who: UserGroups | None) -> str:
    """A refusal, or "": the user is no administrator of the queue, or it is the recovery queue, which has none (QU-13)."""
    if who is None or (path != RECOVERY_QUEUE and may_administer([queue.config for queue in registry.lineage(path)], who)):
        return ""
    return f"user {brief(who.user)} may not administer {brief(path)}"


def _move_objection(
    registry: Registry, objections: Objections, leaf: LeafCore, request: MoveApplication, who: UserGroups | None
) -> str:
    path = full_path(request.queue_name)
    target = registry.queues.get(path)
    if target is None:
        return f"queue {brief(path)} does not exist"
    if not isinstance(target, LeafCore):
        return f"queue {brief(path)} is a parent"
    if target is leaf:
        return f"application {request.application_id} is in {brief(path)} already"
    if path == RECOVERY_QUEUE:
        return f"queue {brief(path)} takes no applications that are moved"
    return (
        _forbidden(registry, path, who)
        or closure(registry.lineage(path))
        or _gang_objection(registry, target, leaf.applications[request.application_id])
        or objections(request.application_id, path)
    )


def _gang_objection(registry: Registry, target: LeafCore, application: Application) -> str:
    """The reason why a leaf cannot take an application with its gang, or "" (AP-18, AP-19).

    The conditions for a new gang apply as long as placeholders may still come or run.
    """
    is_coming = bool(application.gang.total) and application.state in _BEFORE_GANG
    if not (is_coming or application.tasks.placeholder_count):
        return ""
    path_up = [queue.config for queue in registry.lineage(target.path)]
    objection = gang_objection(application.application_id, application.gang.total if is_coming else {}, path_up)
    return "" if objection is None else objection.reason


def carry_out(registry: Registry, now_ns: int, request: Administration) -> Exchange[list[Fact]]:
    """Carry out a request to which ``refusal_of`` had no objection; what holds already is left as it is."""
    match request:
        case SetQueueQuotas():
            return (yield from _set_quotas(registry, now_ns, request))
        case HoldQueue():
            return (yield from _hold_queue(registry, now_ns, request))
        case MoveApplication(name, queue_name):
            return (yield from _move(registry, now_ns, name, full_path(queue_name)))
    (facts,) = yield from send([(registry.leaf_of(request.application_id), ActOn(now_ns, request))])
    return facts


def _hold_queue(registry: Registry, now_ns: int, request: HoldQueue) -> Exchange[list[Fact]]:
    queue, by = registry.queues[full_path(request.queue_name)], request.operator.name
    if (queue.hold is not None) is request.is_held:
        return []
    yield from send([(queue, SetHold(Hold(by, now_ns) if request.is_held else None))])
    return [QueueHeld(now_ns, queue.path, by, request.is_held)]


def _move(registry: Registry, now_ns: int, application_id: ApplicationID, path: QueuePath) -> Exchange[list[Fact]]:
    """Move an application from its leaf to another one."""
    leaf = registry.leaf_of(application_id)
    (application,) = yield from send([(leaf, GiveAway(application_id))])
    yield from paced(application.account.count_so_far(registry.books.accounts, now_ns))
    application.account.restart(now_ns)
    yield from send([(registry.leaf(path), TakeOver(application))])
    registry.applications[application_id] = path
    return [ApplicationMoved(now_ns, application_id, leaf.path, path)]


def _quotas_refusal(registry: Registry, request: SetQueueQuotas) -> str:
    """The reason why the quotas of this queue cannot be set beside applications, or "" (QU-107)."""
    path = full_path(request.queue_name)
    queue = registry.queues.get(path)
    if queue is None:
        return f"queue {brief(path)} does not exist"
    if not isinstance(queue, LeafCore) or queue.config.managed or path == RECOVERY_QUEUE:
        return f"queue {brief(path)} is no dynamic leaf: its quotas come from the queue file"
    return quotas_objection(request.tags) or _too_many_types(registry, request)


def _too_many_types(registry: Registry, request: SetQueueQuotas) -> str:
    types = registry.books.types
    found, new = types.found(), types.new(quota_types(request.tags))
    if not new or found + len(new) <= TYPES_MAX:
        return ""
    return f"tags: found {len(new)} new resource types beside {found}, expected at most {TYPES_MAX} in a partition"


def _set_quotas(registry: Registry, now_ns: int, request: SetQueueQuotas) -> Exchange[list[Fact]]:
    """Set the quotas of a dynamic leaf (QU-107)."""
    leaf = registry.leaf(full_path(request.queue_name))
    before = leaf.config
    after = with_set_quotas(registry.queues, before, request.tags)
    if after is before:
        return []
    yield from send([(leaf, Configure(after, leaf.state))])
    return limit_changes(before, after, now_ns)
