"""Histories with amounts up to 2^63 - 1, timeouts, gangs, and clocks that stood still: invariants hold after each step.

A daemon that was suspended, or whose machine was, fires everything that fell due at once.
"""

from __future__ import annotations

import random

import pytest
from checked import LARGE, World
from histories import Batch, Drawer, History
from seeds import FACTOR

from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.asks import AllocationSpec
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import AddApplication, ReleaseAllocations, Submission, SubmitAllocation

HUGE = 2**63 - 1
SIZES = (1, 1, 2, HUGE // 2, HUGE - 1, HUGE)
#: 200 in ``make test``; 5,000 in ``make test-nightly``.
HISTORIES = 200 if FACTOR == 1 else 5000
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
        assert isinstance(submission, SubmitAllocation)
        spec = submission.spec
        group, is_placeholder = self.rng.choice((("", False), ("", False), ("g", False), ("g", True)))
        return SubmitAllocation(
            AllocationSpec(
                spec.allocation_key,
                spec.application_id,
                spec.resource,
                spec.priority,
                None,
                spec.tags,
                group,
                is_placeholder,
                allow_preempt_other=self.rng.random() < 0.3,
            )
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


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_invariants_hold(first: int) -> None:
    """Ten histories: nothing raises, and nothing derived differs from what the owners have."""
    for seed in range(first, first + 10):
        history, suspended = draw(seed)
        world = World(history.config, LARGE, confirms=seed % 3 > 0)
        for batch, stood_still in zip(history.batches, suspended, strict=True):
            if stood_still:
                world.now_ns = batch.at_ns
                world.wake_at(batch.at_ns)
            world.intake(batch.at_ns, batch.submissions)
        world.advance(world.now_ns + 2000 * 10**9)


def test_the_histories_hold_what_they_should() -> None:
    """Sums above 64 bits, gangs, timeouts, preemption allowed, and reloads that turn parents into leaves occur."""
    text = "".join(repr(draw(seed)) for seed in range(20))
    for needle in (str(HUGE), "placeholder=True", "execution_timeout_ms=3000", "allow_preempt_other=True", "ApplyConfig"):
        assert text.count(needle) > 5, needle
