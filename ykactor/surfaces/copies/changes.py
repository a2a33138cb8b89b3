"""The explanation of a pending ask with the smallest changes with which it would be placed (AP-155), as its reader sees them.

A reader that is limited to queues is told of changes that name only what it sees, and of amounts only where it sees all that is
short; the others are counted (SE-84).
"""

from __future__ import annotations

from time import monotonic

from msgspec import UNSET, structs

from ykactor.access.explanations import explanation, limited
from ykactor.access.view import View
from ykactor.core.inspection.changes import AddNode, Change, EndHold, Free, Prioritise, Raise, Resize, Search, Undrain, Wait
from ykactor.core.inspection.explanation import AskExplanation, LevelStatus
from ykactor.core.inspection.finding import Match
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.names import ANY
from ykactor.core.values.parts import finished
from ykactor.core.values.times import MS_NS
from ykactor.sim.twin import Forks, Twin
from ykactor.sim.what_if import Fork
from ykactor.surfaces.copies.questions import Changes
from ykactor.wire.si import messages as si

#: How long changes are looked for.
SEARCH_S = 5.0


def answer(question: Changes, fork: Fork) -> si.Explanation | None:
    """The explanation that is asked for."""
    view = None if question.queues is None else View(ANY, frozenset(question.queues))
    cores = fork()[question.match.partition]
    return explained(question.match, cores, view, question.now_ns, may_preempt=question.may_preempt)


def explained(match: Match, cores: Cores, view: View | None, now_ns: int, *, may_preempt: bool) -> si.Explanation | None:
    """The explanation of a task on a copy of its partition, which is of no use afterwards; None if there is no such task.

    An ask that does not wait, or is placed in the next cycle, has a status only.
    """
    told = finished(explanation(match, view, cores[0], cores[1].state, now_ns))
    if told is None or told.ask is None:
        return told
    ask_id = ApplicationID(told.ask.application_id), AllocationKey(told.ask.allocation_key)
    sight = limited(view)
    twin = Twin(cores, now_ns, ask_id, sight, may_preempt=may_preempt)
    if (placed := twin.placement()) is not None:
        where = f" on {placed[0]}" if sight is None else ""
        return si.Explanation(status=f"task {ask_id[1]} is placed{where} in the next cycle")
    partition = twin.partition
    found = finished(explanation(match._replace(key=ask_id[1]), view, partition.core, partition.scheduler.state, now_ns))
    if found is None or found.ask is None:
        return si.Explanation(status=f"task {ask_id[1]} of application {ask_id[0]} has ended")
    forks = Forks(twin, monotonic, SEARCH_S)
    search = twin.smallest_changes(forks.attempt, forks.wait)
    if sight is not None:
        search = in_view(search, sight, found.ask, partition.core)
    return structs.replace(found, changes=search)


# ---- what a reader that is limited to queues sees


def in_view(search: Search, view: View, ask: AskExplanation, core: PartitionCore) -> Search:
    """The results of which all is seen, without nodes and with times in whole milliseconds; the others are counted."""
    shown = [found for found in search.found if all(_is_seen(change, view, ask, core) for change in found.changes)]
    found = [structs.replace(each, node_id=NodeID(""), at_ns=each.at_ns // MS_NS * MS_NS) for each in shown]
    return structs.replace(search, found=found, others=len(search.found) - len(found))


def _is_seen(change: Change, view: View, ask: AskExplanation, core: PartitionCore) -> bool:
    match change:
        case Raise(queue_name=queue) | EndHold(queue_name=queue):
            return not queue or view.shows_queue(queue.lower())
        case Free(tasks=tasks):
            queues = core.registry.applications
            return all(view.shows_queue(queues.get(owner, QueuePath(""))) for owner, _ in tasks)
        case Wait(task=(owner, _)):
            return view.shows_queue(core.registry.applications.get(owner, QueuePath("")))
        case Resize():  # how much fits tells how much is left
            return not any(level.code and _is_of_others(level) for level in ask.levels)
        case AddNode() | Undrain() | Prioritise():  # which nodes there are, and who has which priority
            return False
    return True


def _is_of_others(level: LevelStatus) -> bool:
    """True if a level is that of a queue that is hidden, or of nodes."""
    return level.used is UNSET and (level.wants is not UNSET or level.whose in ("nodes", "reservation"))
