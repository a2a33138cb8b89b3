"""The answers to "explain", of what a reader may see: an ask, an application, a queue or a node (AP-153, AP-156)."""

from __future__ import annotations

from msgspec import UNSET, structs

from ykactor.access.view import View, in_whole_ms
from ykactor.core.inspection.explaining import explain, first_ask
from ykactor.core.inspection.explaining_places import explain_node, explain_queue
from ykactor.core.inspection.finding import Kind, Match, matches
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.wire.si import messages as si


def limited(view: View | None) -> View | None:
    """The view if it shows less than all of a partition; else None."""
    return None if view is None or view.queues is None else view


def meanings(name: str, kind: Kind | None, view: View | None, core: PartitionCore, state: SchedulerState) -> Steps[list[Match]]:
    """All that a name means in a partition, as far as it is shown."""
    return matches(core, state, name, kind, limited(view))


def explanation(
    match: Match, view: View | None, core: PartitionCore, state: SchedulerState, now_ns: int
) -> Steps[si.Explanation | None]:
    """The explanation of what a name means; None if that has gone meanwhile, or an application has no such task."""
    sight = limited(view)
    match match.kind:
        case "node":
            node = yield from explain_node(core, state, NodeID(match.name))
            return None if node is None else si.Explanation(node=node)
        case "queue":
            queue = yield from explain_queue(core, state, QueuePath(match.name), sight)
            if queue is not None and sight is not None and queue.oldest is not UNSET:
                queue = structs.replace(queue, oldest=in_whole_ms(queue.oldest, ["creation_time"]))
            return None if queue is None else si.Explanation(queue=queue)
    return (yield from _of_task(match, view, core, state, now_ns))


def no_task(match: Match) -> str:
    """A sentence: an application has no such task."""
    return f"application {match.name} has no task {match.key} that waits or runs"


def _of_task(
    match: Match, view: View | None, core: PartitionCore, state: SchedulerState, now_ns: int
) -> Steps[si.Explanation | None]:
    application_id, key = ApplicationID(match.name), AllocationKey(match.key)
    path, sight = core.registry.applications.get(application_id), limited(view)
    if path is None or not (view is None or view.shows_queue(path)):
        return (yield from _gone(application_id, core, view))
    waiting = state.applications[application_id]
    wanted = key or (yield from first_ask(waiting))
    if wanted is None:
        return si.Explanation(status=f"nothing of application {application_id} is pending: it is {waiting.state.value}")
    if (found := (yield from explain(core, state, (application_id, wanted), now_ns, sight))) is not None:
        return si.Explanation(ask=found if sight is None else in_whole_ms(found, ["creation_time"]))
    running = core.registry.leaf_of(application_id).applications[application_id].tasks.allocations.get(wanted)
    if running is None:
        return None
    where = f" on {running[1]}" if sight is None else ""
    return si.Explanation(status=f"task {wanted} runs{where}")


def _gone(application_id: ApplicationID, core: PartitionCore, view: View | None) -> Steps[si.Explanation | None]:
    """The answer about an application that does not live: the last one with this id that is remembered."""
    for ended in reversed(core.timers.ended.values()):
        if ended.application_id == application_id and (view is None or view.shows_queue(ended.queue)):
            past, state = ended.past, (ended.past.outcome or ended.state).value
            why = ended.reason or past.message or past.failure
            return si.Explanation(status=f"application {application_id} has ended: it is {state}{f': {why}' if why else ''}")
        yield 1
    rejected = core.timers.rejected.get(application_id)
    if rejected is not None and limited(view) is None:
        return si.Explanation(status=f"application {application_id} was rejected: {rejected.reason}")
    return None
