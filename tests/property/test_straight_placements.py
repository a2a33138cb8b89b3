"""A placement that changes little is applied straight; it leaves the scheduler as the general way does."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from checked import ONE_BY_ONE
from histories import Batch, History, draw_history
from msgspec import structs
from seeds import seeds

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, Fact
from ykactor.core.messages.submissions import Submission
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.scheduler import Cycle
from ykactor.core.values.ids import AllocationKey
from ykactor.sim.direct import DirectPartition
from ykactor.wire.decision_log import decision_log

#: So many equal asks are there of each.
COPIES = 4


class Recorder(DirectPartition):
    """Notes the scheduler's state after each cycle; one placement each.

    Args:
        straight: else nothing is ever applied straight, because all applications are said to have changed.
    """

    def __init__(self, history: History, *, straight: bool) -> None:
        self.facts: list[Fact] = []
        self.seen: list[dict[str, Any]] = []
        #: How many placements could be straight, and how many could not.
        self.ways = Counter[bool]()
        self._straight = straight
        super().__init__(history.config, ONE_BY_ONE, self.facts.extend)

    def cycle(self, now_ns: int) -> tuple[Cycle, bool]:
        state = self.scheduler.state
        if not self._straight:
            for application in state.applications.values():
                application.changed = True
        steady = {name for name, application in state.applications.items() if is_steady(application)}
        result = super().cycle(now_ns)
        placed = [fact.ask.application_id for fact in result[0].facts if isinstance(fact, Allocated)]
        self.ways.update(name in steady for name in placed)
        self.seen.append(dict(seen(state)))
        return result


def is_steady(application: PendingApplication) -> bool:
    queue = application.ask_queues.first()
    return queue is not None and application.is_steady(queue)


def seen(state: SchedulerState) -> Iterator[tuple[str, Any]]:
    """All that a placement may change, as plain data."""
    for path, queue in state.tree.nodes.items():
        place = queue.place
        yield f"queue {path}", (queue.allocated, queue.pending, queue.share, queue.priority, queue.parked, place.group_key)
        yield f"running in {path}", (list(queue.running), queue.priorities.highest)
        yield f"first in {path}", [application.application_id for application in queue.applications.queued_applications()]
    for name, application in state.applications.items():
        yield f"application {name}", (application.allocated, application.sort_key, application.shown_priority, application.state)
        yield f"asks of {name}", list(application.asks)
        queues = {key: (queue.sort_key, queue.parked, queue.items()) for key, queue in application.queues.items()}
        yield f"queues of {name}", (queues, application.in_classes, application.priorities.highest)
        yield f"trackers of {name}", [tracker.allocated for tracker in application.trackers]
    for node in state.nodes.in_order():
        yield f"node {node.node_id}", (node.available, node.place, node.revision)


def multiplied(history: History) -> History:
    """Each ask several times."""
    return structs.replace(history, batches=[Batch(each.at_ns, [*copies(each.submissions)]) for each in history.batches])


def copies(submissions: list[Submission]) -> Iterator[Submission]:
    for submission in submissions:
        yield submission
        if isinstance(submission, Ask) and submission.node_id is None:
            for number in range(1, COPIES):
                key = AllocationKey(f"{submission.allocation_key}-{number}")
                yield structs.replace(submission, allocation_key=key)


def played(seed: int, *, straight: bool) -> Recorder:
    history = multiplied(draw_history(seed, 12))
    recorder = Recorder(history, straight=straight)
    for batch in history.batches:
        recorder.intake(batch.at_ns, batch.submissions)
    return recorder


@pytest.mark.parametrize("seed", seeds(40))
def test_both_ways_lead_to_the_same_state(seed: int) -> None:
    """After each single decision of any history, whatever queues, limits and policies there are."""
    straight, general = played(seed, straight=True), played(seed, straight=False)
    for number, (found, expected) in enumerate(zip(straight.seen, general.seen, strict=True)):
        assert found == expected, f"after cycle {number}"
    assert decision_log(straight.facts) == decision_log(general.facts)


def test_both_ways_are_taken() -> None:
    """A good part of the placements in these histories is straight, another one general."""
    ways = Counter[bool]()
    for seed in range(8):
        ways += played(seed, straight=True).ways
    assert ways.total() // 5 < ways[True] < ways.total() * 4 // 5
