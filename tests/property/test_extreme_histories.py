"""Histories with extremes of everything: invariants hold after each step.

Amounts go up to 2^63 - 1. Clocks stand still: a daemon that was suspended, or whose machine was, fires everything that fell due
at once. Releases are confirmed late, twice or never; meanwhile applications are moved, queues change between parent and leaf, and
the resource manager restarts and reports what it has.
"""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

import pytest
from checked import LARGE, World
from histories import Batch, Drawer, History
from seeds import IS_NIGHT
from test_administered_histories import NO_TASK, draw_request
from test_recovery import cluster_of, rank

from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.acts import MoveApplication
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import ConfigurationChanged, ReleaseStarted
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import AddApplication, ReleaseAllocations, Reset, Submission
from ykactor.core.values.ids import AllocationKey, ApplicationID

HUGE = 2**63 - 1
SIZES = (1, 1, 2, HUGE // 2, HUGE - 1, HUGE)
#: 100 in ``make test``; 5,000 in ``make test-nightly``.
HISTORIES = 5000 if IS_NIGHT else 50
TIMEOUTS_MS = (0, 0, 1000, 3000, 13_000, 2**63 - 1)


class Extreme(Drawer):
    """Amounts at both ends of 64 bits, gangs, execution timeouts, and many deadlines between two batches."""

    gaps_s, gap_weights = (0.0, 0.5, 3.0, 10.0, 12.0, 40.0, 1000.0), (40, 30, 10, 10, 5, 5, 5)

    def resource(self) -> dict[str, int]:
        names = self.rng.sample(("vcore", "memory", "gpu"), self.rng.randint(1, 2))
        return {name: self.rng.choice(SIZES) for name in names}

    def capacity(self) -> dict[str, int]:
        return {name: self.rng.choice((4, 8, HUGE, HUGE - 1)) for name in ("vcore", "memory")}

    def add_application(self) -> Submission:
        added = super().add_application()
        assert isinstance(added, AddApplication)
        total = {"vcore": self.rng.choice((1, 2, HUGE))} if self.rng.random() < 0.3 else None
        return AddApplication(
            added.application_id,
            added.queue_name,
            added.user,
            added.groups,
            added.tags,
            self.rng.choice(TIMEOUTS_MS),
            total,
            self.rng.choice(("Soft", "Hard")),
        )

    def ask(self) -> Submission:
        submission = super().ask()
        assert isinstance(submission, Ask)
        group, is_placeholder = self.rng.choice((("", False), ("", False), ("g", False), ("g", True)))
        return Ask(
            submission.allocation_key,
            submission.application_id,
            submission.resource,
            submission.priority,
            None,
            submission.tags,
            group,
            is_placeholder,
            allow_preempt_other=self.rng.random() < 0.3,
        )

    def release(self) -> Submission:
        released = super().release()
        assert isinstance(released, ReleaseAllocations)
        kind = self.rng.choice((released.termination_type, TerminationType.PLACEHOLDER_REPLACED))
        return ReleaseAllocations(released.application_id, released.allocation_key, kind)


def draw(seed: int) -> tuple[History, list[bool]]:
    """A history, and for each batch whether the clock stood still before it."""
    rng = random.Random(seed)
    drawer = Extreme(rng, ("fifo", "fair", "stateaware"))
    config: PartitionConfig = drawer.draw_config()
    opening = [drawer.create_node() for _ in range(rng.randint(0, 3))] + [drawer.add_application() for _ in range(4)]
    batches = [Batch(0, opening), *drawer.draw_batches(0, 20, reloads=6)]
    return History(config, batches), [rng.random() < 0.5 for _ in batches]


class Brief(NamedTuple):
    """Summary of a history; the histories themselves would be too many to keep."""

    changes: list[str]
    #: Moves while the application has replacements or other releases under way.
    moved_amid: int
    restarts: int


class ExtremeWorld(World):
    """A partition with a resource manager that answers when it likes, restarts, and is administered."""

    def __init__(self, seed: int) -> None:
        self.history, self.suspended = draw(seed)
        self.rng = random.Random(seed)
        self.moved_amid = 0
        self.restarts = 0
        super().__init__(self.history.config, LARGE, confirms=seed % 3 == 0)

    def play_all(self) -> ExtremeWorld:
        for batch, stood_still in zip(self.history.batches, self.suspended, strict=True):
            if stood_still:
                self.now_ns = batch.at_ns
                self.wake_at(batch.at_ns)
            self.intake(batch.at_ns, batch.submissions)
            self.meddle(batch.at_ns)
        self.advance(self.now_ns + 2000 * 10**9)
        return self

    def meddle(self, at_ns: int) -> None:
        """Between two batches: confirmations, moves and terminations, a restart."""
        queues = list(self.core.registry.queues)
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.administer(at_ns, draw_request(self.rng, self.rng.choice(queues), NO_TASK))
            self.schedule(at_ns)
        owed = self.owed()
        if owed and self.rng.random() < 0.5:
            refusal = self.administer(at_ns, MoveApplication(self.rng.choice(owed)[0], self.rng.choice(queues), None))
            self.moved_amid += not refusal
        self.intake(at_ns, [ReleaseAllocations(*self.rng.choice(owed)) for _ in range(min(len(owed), self.rng.randint(0, 3)))])
        if self.rng.random() < 0.03:
            self.restarts += 1
            cluster = sorted(cluster_of(self, self.rng), key=rank)
            self.intake(at_ns, [Reset()])
            self.intake(at_ns, cluster)

    def owed(self) -> list[tuple[ApplicationID, AllocationKey, TerminationType]]:
        """The last releases that were to be confirmed; some have been, and come twice if they are drawn again."""
        started = [fact for fact in self.facts if isinstance(fact, ReleaseStarted) and fact.node_id is not None]
        return [(fact.ask.application_id, fact.ask.allocation_key, fact.termination_type) for fact in started[-4:]]


@cache
def brief_of(seed: int) -> Brief:
    """Play one history and summarize it."""
    world = ExtremeWorld(seed).play_all()
    changes = [change for fact in world.facts if isinstance(fact, ConfigurationChanged) for change in fact.changes]
    return Brief(changes, world.moved_amid, world.restarts)


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_invariants_hold(first: int) -> None:
    """Ten histories: nothing raises, and nothing derived differs from what the owners have."""
    for seed in range(first, first + 10):
        brief_of(seed)


def test_the_histories_have_what_they_should() -> None:
    """Sums above 64 bits, gangs, timeouts, preemption; moves amid releases, queues that change their type, restarts."""
    text = "".join(repr(draw(seed)) for seed in range(20))
    for needle in (str(HUGE), "placeholder=True", "execution_timeout_ms=3000", "allow_preempt_other=True", "ApplyConfig"):
        assert text.count(needle) > 5, needle
    briefs = [brief_of(seed) for seed in range(40)]
    changes = [change for brief in briefs for change in brief.changes]
    assert sum("parent becomes leaf" in change for change in changes) > 5
    assert sum("leaf becomes parent" in change for change in changes) > 5
    assert sum(brief.moved_amid for brief in briefs) > 5
    assert sum(brief.restarts for brief in briefs) > 5
