"""AP-154: what an ask waited for adds up to its wait, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from checked import LARGE, SMALL
from fragments import draw_fragments
from ganghistories import ResourceManager
from histories import draw_history
from naivewaits import NaiveWaits
from preemptinghistories import Preempting
from seeds import seeds
from test_administered_histories import Administered, draw_operation
from test_answer_histories import TEXT as ANSWERED
from test_answer_histories import Talk
from world import S_NS

from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Submission
from ykactor.core.queueing import waits
from ykactor.core.records.base import renewed
from ykactor.core.turn.turn import Cause, TurnResult
from ykactor.core.values.parts import finished
from ykactor.sim.direct import DirectPartition
from ykactor.wire import queuefile


class WaitingPartition(DirectPartition):
    """Each turn is compared with the naive sums; now and then the partition goes on from what was kept, or is made anew."""

    facts: list[Fact]
    naive: NaiveWaits
    rng: random.Random

    def run_turn(self, now_ns: int, cause: Cause) -> TurnResult:
        heard, now_ns = len(self.facts), max(now_ns, self.naive.seen_ns)  # an overdue timer fires now, as in a daemon
        self.naive.pass_time(now_ns)
        result = super().run_turn(now_ns, cause)
        self.naive.hear(self.facts[heard:])
        self.naive.look(self.core, self.scheduler.state)
        return result

    def ingest(self, now_ns: int, submissions: Iterable[Submission]) -> None:
        if self.naive.seen_ns and self.rng.random() < 0.2:
            self.restart()
        super().ingest(now_ns, submissions)

    def restart(self) -> None:
        restored = finished(renewed(self.core, self.scheduler))[:2] if self.rng.random() < 0.5 else self.kept.restored()
        self.restore(*restored)
        codes = dict(self.naive.codes)
        self.naive.look(self.core, self.scheduler.state)
        assert self.naive.codes == codes


class Talked(WaitingPartition):
    """The partition of a resource manager that answers what it hears."""

    def __init__(self, config: PartitionConfig, seed: int, *, is_exact: bool = True) -> None:
        self.rng, self.naive, self.facts = random.Random(seed), NaiveWaits(is_exact=is_exact), []
        super().__init__(config, LARGE, self.facts.extend, confirms=False, wakes=True)


class Operated(WaitingPartition, Administered):
    """A partition with an operator, who holds, moves, and gives priorities."""

    def __init__(self, config: PartitionConfig, seed: int, budget: Budget, *, is_exact: bool) -> None:
        self.rng, self.naive = random.Random(seed), NaiveWaits(is_exact=is_exact)
        super().__init__(config, budget, is_thorough=False)

    def restart(self) -> None:
        super().restart()
        self.scheduler.planner.preemptor.attempt_on_node = lambda *_: None  # type: ignore[method-assign]
        assert self.reference is not None
        self.reference.partition = self.core


def operated(seed: int, budget: Budget, *, is_exact: bool) -> Counter[PendingCode]:
    waited: Counter[PendingCode] = Counter()
    for history in (draw_history(seed), draw_fragments(seed)):
        world = Operated(history.config, seed, budget, is_exact=is_exact)
        world.play_with(seed, history.batches, draw_operation)
        waited += world.naive.waited
    return waited


def gangs(seed: int, *, is_exact: bool) -> Counter[PendingCode]:
    """Placeholders, tasks that are handed back, victims, releases that are confirmed late or never."""
    manager = (ResourceManager if seed % 3 == 0 else Preempting)(seed)
    world = Talked(queuefile.load(manager.text).partitions[0], seed, is_exact=is_exact)
    world.intake(0, manager.opening())
    for _ in range(40):
        heard = len(world.facts)
        submissions = manager.draw()
        world.intake(manager.now_ns, submissions)
        manager.hear(world.facts[heard:])
    return world.naive.waited


def answers(seed: int) -> Counter[PendingCode]:
    """Answers about nodes that come late, or never."""
    world = Talked(queuefile.load(ANSWERED).partitions[0], seed)
    for at_s, submissions in Talk(seed).history():
        world.intake(at_s * S_NS, submissions)
    return world.naive.waited


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are never merged."""
    monkeypatch.setattr(waits, "CHANGES_MAX", 10**9)


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("seed", seeds(20))
def test_each_part_is_right(seed: int) -> None:
    """AP-154: restarts, reloads, moves, holds, other priorities, small budgets: each code as long as an ask had it."""
    operated(seed, (LARGE, SMALL)[seed % 2], is_exact=True)


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("seed", seeds(20))
def test_each_part_is_right_with_gangs(seed: int) -> None:
    """AP-154: the same with placeholders, preemption, tasks that could not start, and nodes that are refused."""
    gangs(seed, is_exact=True)
    answers(seed)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("seed", seeds(10))
def test_the_sum_is_exact_whatever_is_merged(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """AP-154: with few changes kept, the parts still add up."""
    monkeypatch.setattr(waits, "CHANGES_MAX", most)
    operated(seed, LARGE, is_exact=False)
    gangs(seed, is_exact=False)


@pytest.mark.usefixtures("unlimited")
def test_the_histories_wait_for_everything() -> None:
    """All codes are waited for, but those of applications that are in back-off, or fail."""
    waited: Counter[PendingCode] = Counter()
    for seed in seeds(40):
        waited += operated(seed, LARGE, is_exact=True) + gangs(seed, is_exact=True) + answers(seed)
    codes = {"HELD", "ORDER", "PLACEHOLDER", "MAX_APPLICATIONS", "LIMIT", "QUOTA", "NODES", "PREDICATE", "RESERVED", "PREEMPTING"}
    assert {code.value for code, ns in waited.items() if ns} >= codes
