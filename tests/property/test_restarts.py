"""A partition that is made again from its rows goes on as the rules say."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from checked import ONE_BY_ONE, SMALL, World
from fragments import draw_fragments
from histories import draw_history
from seeds import seeds
from test_administered_histories import Administered, draw_operation

from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Submission
from ykactor.core.records.base import renewed
from ykactor.core.values.parts import finished


class RestartedWorld(World):
    """Before some batches of input it ends and goes on from what was kept, or is made anew from itself; each decision is that of
    the reference.
    """

    def __init__(self, config: PartitionConfig, seed: int, budget: Budget = ONE_BY_ONE) -> None:
        self.rng = random.Random(seed)
        self.restarts = 0
        super().__init__(config, budget, compare=budget is ONE_BY_ONE)

    def ingest(self, now_ns: int, submissions: Iterable[Submission]) -> None:
        if self.reference is not None and self.rng.random() < 0.3:
            self.restart()
        super().ingest(now_ns, submissions)

    def restart(self) -> None:
        self.restarts += 1
        if self.rng.random() < 0.5:
            self.restore(*finished(renewed(self.core, self.scheduler))[:2])
        else:
            self.restore(*self.kept.restored())
        self.scheduler.planner.preemptor.attempt_on_node = lambda *_: None
        assert self.reference is not None
        self.reference.partition = self.core


@pytest.mark.parametrize("seed", seeds(60))
def test_every_decision_is_right(seed: int) -> None:
    """After any number of restarts each decision is the one that a naive reading of the rules finds."""
    for history in (draw_history(seed), draw_fragments(seed)):
        RestartedWorld(history.config, seed).play(history.batches)


class RestartedAdministered(RestartedWorld, Administered):
    """The same with an operator."""


@pytest.mark.parametrize("seed", seeds(20))
def test_holds_and_priorities_are_kept(seed: int) -> None:
    """OP-8: whatever an operator has done is as it was after each restart, and each decision is right."""
    history = draw_history(seed)
    RestartedAdministered(history.config, seed).play_with(seed, history.batches, draw_operation)


@pytest.mark.parametrize("seed", seeds(20))
def test_small_budgets(seed: int) -> None:
    """A restart in the middle of a long search loses nothing but the work: invariants hold, and nothing is left that fits."""
    history = draw_history(seed, batches=60)
    world = RestartedWorld(history.config, seed, SMALL)
    world.play(history.batches)
    assert world.restarts
    assert world.reference is not None
    assert world.reference.next_step(history.batches[-1].at_ns, world.facts) == []
