"""What an administrator may do to an application: end it, or move it to another leaf with all that it has.

Requests are handled between two decisions, when the scheduler has observed everything that happened. ``refusal_of`` checks all
of it before anything changes, so that a request is carried out as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable

from ykactor.core.accounting.account import Account
from ykactor.core.config.access import UserGroups, may_administer
from ykactor.core.messages.facts import ApplicationMoved, Fact
from ykactor.core.messages.states import ApplicationState
from ykactor.core.messages.submissions import MoveApplication, TerminateApplication
from ykactor.core.objects.application import Application
from ykactor.core.objects.commands import GiveAway, TakeOver
from ykactor.core.objects.exchange import Exchange, send
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.operations import full_path, unknown_application
from ykactor.core.placement.admission import gang_objection
from ykactor.core.placement.placement import closure
from ykactor.core.placement.rules import RECOVERY_QUEUE, brief
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.parts import Pace

#: Why the scheduler objects to moving an application to a leaf, or "".
Objections = Callable[[ApplicationID, QueuePath], str]

_BEFORE_GANG = frozenset({ApplicationState.NEW, ApplicationState.ACCEPTED})


def refusal_of(
    registry: Registry, objections: Objections, request: TerminateApplication | MoveApplication, who: UserGroups | None
) -> str:
    """Why the request cannot be carried out, or "". ``who`` is None for who may do all."""
    unknown = unknown_application(registry, request.application_id, request.operator)
    if unknown:
        return unknown
    leaf = registry.leaf_of(request.application_id)
    why = _forbidden(registry, leaf.path, who)
    if why:
        return why
    if isinstance(request, MoveApplication):
        return _move_objection(registry, objections, leaf, request, who)
    is_failing = leaf.applications[request.application_id].state is ApplicationState.FAILING
    return f"application {request.application_id} is failing already" if is_failing else ""


def _forbidden(registry: Registry, path: QueuePath, who: UserGroups | None) -> str:
    """No administrator administers the recovery queue (QU-13)."""
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
    """The conditions for a new gang apply as long as placeholders may still come or run (AP-18, AP-19)."""
    is_coming = bool(application.gang.total) and application.state in _BEFORE_GANG
    if not (is_coming or application.placeholder_count):
        return ""
    path_up = [queue.config for queue in registry.lineage(target.path)]
    objection = gang_objection(application.application_id, application.gang.total if is_coming else {}, path_up)
    return "" if objection is None else objection.reason


def move(registry: Registry, now_ns: int, application_id: ApplicationID, path: QueuePath) -> Exchange[list[Fact]]:
    """Move an application from its leaf to another one; ``refusal_of`` must have had no objection."""
    leaf = registry.leaf_of(application_id)
    (application,) = yield from send([(leaf, GiveAway(application_id))])
    yield from application.count_so_far(registry.books.accounts, now_ns, Pace())
    application.account, application.counted_ns = Account(), now_ns
    application.touch_use()
    yield from send([(registry.leaf(path), TakeOver(application))])
    registry.applications[application_id] = path
    return [ApplicationMoved(now_ns, application_id, leaf.path, path)]
