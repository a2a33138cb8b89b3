"""The scheduler's objections to moving an application to another leaf: quotas and limits that it would exceed there."""

from __future__ import annotations

from ykactor.core.messages.states import COUNTED_AS_RUNNING
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import keep_group
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import first_exceeded


def objection(state: SchedulerState, application_id: ApplicationID, path: QueuePath) -> str:
    """The reason why the application may not move to the leaf at ``path``; "" if it may."""
    application, target = state.applications[application_id], state.tree.nodes[path]
    return _quota_objection(application.leaf, target, application) or _limit_objection(state, target, application)


def _quota_objection(leaf: QueueUsage, target: QueueUsage, application: PendingApplication) -> str:
    """The objection of a running slot or ``max`` of the queues that it does not count in yet, or "" (QU-31, QU-52)."""
    needs_slot = application.state in COUNTED_AS_RUNNING or application.holds_slot
    for queue in target.path_up:
        if queue in leaf.path_up:
            break
        if needs_slot and queue.lacks_slot(application.application_id):
            return f"queue {queue.path} has no room for one more running application"
        missing = first_exceeded(queue.max, queue.allocated, application.allocated.items())
        if missing is not None:
            return f"queue {queue.path} has not enough {missing} left for what the application uses"
    return ""


def _limit_objection(state: SchedulerState, target: QueueUsage, application: PendingApplication) -> str:
    """The objection of a limit of its user and group that it does not count against yet, or "" (QU-64, QU-73)."""
    if not application.enrolled:
        return ""
    limits_up = target.limits_up()
    group = keep_group(limits_up, application.who, application.group)
    for tracker in state.trackers.find(limits_up, application.who, group):
        if tracker in application.trackers:
            continue
        where = f"the limit of {tracker.whose} in {tracker.path}"
        if application.counted_as_running and tracker.lacks_slot(application.application_id):
            return f"{where} has no room for one more application"
        missing = first_exceeded(tracker.max, tracker.allocated, application.allocated.items())
        if missing is not None:
            return f"{where} has not enough {missing} left for what the application uses"
    return ""
