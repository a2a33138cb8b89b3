"""The scheduler of one partition: it owns the scheduler's state and the planner, and carries out its phases of a turn."""

from __future__ import annotations

from typing import Any

from ykactor.core.messages.facts import Fact
from ykactor.core.objects.exchange import Exchange
from ykactor.core.objects.registry import Registry
from ykactor.core.planner.planner import Planner
from ykactor.core.planner.settle import settle
from ykactor.core.state.observer import Observer
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.phases import MakePlan, Observe, SchedulerPhase, Settle


class SchedulerCore:
    """The scheduler without its task.

    Args:
        registry: the owners of the partition.
        reserves: whether asks reserve nodes (SC-50).
    """

    def __init__(self, registry: Registry, *, reserves: bool = True) -> None:
        self.state = SchedulerState(registry, reserves=reserves)
        self.planner = Planner(self.state)
        self.observer = Observer(self.state)

    def handle(self, phase: SchedulerPhase) -> Exchange[Any]:
        """Carry out one phase; returns the reply that ``phases`` names."""
        match phase:
            case Observe(facts):
                return (yield from self._observe(facts))
            case MakePlan(now_ns, budget):
                return (yield from self.planner.plan(now_ns, budget))
            case Settle(plan):
                return (yield from settle(self.state, plan))

    def _observe(self, facts: list[Fact]) -> Exchange[list[Fact]]:
        observing = self.observer.observe(facts)
        while True:
            try:
                next(observing)
            except StopIteration as stop:
                observed: list[Fact] = stop.value
                return observed
            yield []  # let other tasks run
