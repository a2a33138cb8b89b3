"""What an administrator may do to an application: end it, or move it to another leaf with all that it has.

Requests come between two decisions, when everything that happened is in the scheduler's state. ``refusal_of`` looks at all of
it before anything is touched, so a request is carried out as a whole or not at all.
"""

from __future__ import annotations

from ykactor.core.config.access import UserGroups, may_administer
from ykactor.core.messages.facts import ApplicationMoved, Decision
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState
from ykactor.core.messages.submissions import Administration, MoveApplication
from ykactor.core.objects.application import Application
from ykactor.core.objects.commands import GiveAway, TakeOver
from ykactor.core.objects.exchange import Exchange, send
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Roster
from ykactor.core.placement.admission import gang_objection
from ykactor.core.placement.placement import closure
from ykactor.core.placement.rules import RECOVERY_QUEUE, brief
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.limits import keep_group
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import Resource

_BEFORE_GANG = frozenset({ApplicationState.NEW, ApplicationState.ACCEPTED})


def refusal_of(roster: Roster, state: SchedulerState, request: Administration, who: UserGroups | None) -> str:
    """Why the request cannot be carried out, or "". ``who`` is None for the resource manager, which may do all."""
    if request.application_id not in roster.applications:
        return f"failed to find application {brief(request.application_id)}"
    leaf = roster.leaf_of(request.application_id)
    why = _forbidden(roster, leaf.path, who)
    if why:
        return why
    if isinstance(request, MoveApplication):
        return _move_objection(roster, state, leaf, request, who)
    is_failing = leaf.applications[request.application_id].state is ApplicationState.FAILING
    return f"application {request.application_id} is failing already" if is_failing else ""


def _forbidden(roster: Roster, path: QueuePath, who: UserGroups | None) -> str:
    """Nobody administers the recovery queue but the resource manager (QU-13)."""
    if who is None or (path != RECOVERY_QUEUE and may_administer([queue.config for queue in roster.lineage(path)], who)):
        return ""
    return f"user {brief(who.user)} may not administer {brief(path)}"


def target_of(request: MoveApplication) -> QueuePath:
    """The queue that is meant: in lower case, with or without ``root.`` in front."""
    name = request.queue_name.lower()
    return QueuePath(name if name == "root" or name.startswith("root.") else f"root.{name}")


def _move_objection(
    roster: Roster, state: SchedulerState, leaf: LeafCore, request: MoveApplication, who: UserGroups | None
) -> str:
    path = target_of(request)
    target = roster.queues.get(path)
    if target is None:
        return f"queue {brief(path)} does not exist"
    if not isinstance(target, LeafCore):
        return f"queue {brief(path)} is a parent"
    if target is leaf:
        return f"application {request.application_id} is in {brief(path)} already"
    if path == RECOVERY_QUEUE:
        return f"queue {brief(path)} takes no applications that are moved"
    waiting = state.applications[request.application_id]
    account = state.leaf_of(waiting)
    return (
        _forbidden(roster, path, who)
        or closure(roster.lineage(path))
        or _gang_objection(roster, target, leaf.applications[request.application_id])
        or _quota_objection(account, state.tree.nodes[path], waiting)
        or _limit_objection(state, state.tree.nodes[path], waiting)
    )


def _gang_objection(roster: Roster, target: LeafCore, application: Application) -> str:
    """What is asked of a new gang, as long as placeholders may still come or run (AP-18, AP-19)."""
    is_coming = bool(application.gang.total) and application.state in _BEFORE_GANG
    if not (is_coming or application.placeholder_count):
        return ""
    path_up = [queue.config for queue in roster.lineage(target.path)]
    return gang_objection(application.application_id, application.gang.total if is_coming else {}, path_up)


def _quota_objection(leaf: QueueNode, target: QueueNode, application: WaitingApplication) -> str:
    """Running slots and ``max`` of the queues that it does not count in yet (QU-31, QU-52)."""
    needs_slot = application.state in COUNTED_AS_RUNNING or application.holds_slot
    for account in target.path_up:
        if account in leaf.path_up:
            break
        limit = account.config.max_applications
        if needs_slot and limit and len(account.running) + len(account.accepted) + 1 > limit:
            return f"queue {account.path} has no room for one more running application"
        lacking = _lacking(account.max, account.allocated, application.allocated)
        if lacking:
            return f"queue {account.path} has not enough {lacking} left for what the application uses"
    return ""


def _lacking(limit: Resource | None, used: Resource, more: Resource) -> str:
    """A type of which there is not enough, or ""."""
    if limit is None:
        return ""
    return next((name for name, it in more.items() if it and name in limit and used.get(name, 0) + it > limit[name]), "")


def _limit_objection(state: SchedulerState, target: QueueNode, application: WaitingApplication) -> str:
    """The limits of its user and group that it does not count against yet (QU-64, QU-73)."""
    if not application.enrolled:
        return ""
    limits_up = target.limits_up()
    group = keep_group(limits_up, application.who, application.group)
    for tracker in state.trackers.find(limits_up, application.who, group):
        if tracker in application.trackers:
            continue
        where = f"the limit of {tracker.whose} in {tracker.path}"
        if application.counted and tracker.lacks_slot(application.application_id):
            return f"{where} has no room for one more application"
        lacking = tracker.shortage(tuple(application.allocated.items()))
        if lacking is not None:
            return f"{where} has not enough {lacking} left for what the application uses"
    return ""


def move(roster: Roster, now_ns: int, application_id: ApplicationID, path: QueuePath) -> Exchange[list[Decision]]:
    """Hand an application from its leaf to another one; ``refusal_of`` must have had none."""
    leaf = roster.leaf_of(application_id)
    (application,) = yield from send([(leaf, GiveAway(application_id))])
    yield from send([(roster.leaf(path), TakeOver(application))])
    roster.applications[application_id] = path
    return [ApplicationMoved(now_ns, application_id, leaf.path, path)]
