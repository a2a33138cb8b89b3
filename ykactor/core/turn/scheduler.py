"""The scheduler of one partition: it owns the scheduler's state and the planner, and carries out its phases of a turn.

A cycle is one message to it: it makes a plan, sends nodes their placements, and has leaves settle the decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ykactor.core.messages.planned import Budget
from ykactor.core.objects.registry import UNSENT_MAX, Exchange, Registry
from ykactor.core.planner.planner import Planner, settle
from ykactor.core.state.observer import Observer
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.phases import Cycle, Observe, SchedulerPhase
from ykactor.core.values.parts import paced

Step = Literal["observe", "plan", "commit", "settle"]


def _ignore(_: Step) -> None:
    pass


class SchedulerCore:
    """The scheduler without its task.

    Args:
        registry: the owners of the partition.
        reserves: True if asks reserve nodes (SC-50).
    """

    def __init__(self, registry: Registry, *, reserves: bool = True) -> None:
        self.state = SchedulerState(registry, reserves=reserves)
        self.planner = Planner(self.state)
        self.observer = Observer(self.state)

    def handle(self, phase: SchedulerPhase, on_step: Callable[[Step], None] = _ignore) -> Exchange[Any]:
        """Carry out one phase; returns the reply that ``phases`` names. ``on_step`` is called when a step of it begins."""
        if isinstance(phase, Observe):
            on_step("observe")
            return paced(self.observer.observe(phase.facts))
        return self._decide(phase.now_ns, phase.budget, on_step)

    def _decide(self, now_ns: int, budget: Budget, on_step: Callable[[Step], None]) -> Exchange[Cycle]:
        """Plan, commit and settle. Unconfirmed usage is zero before and after."""
        on_step("plan")
        plan = yield from self.planner.plan(now_ns, budget)
        unsent, is_full = self.state.registry.unsent, plan.is_full()
        is_burst = is_full and not plan.at_rest and unsent.count < UNSENT_MAX
        if unsent.count and not is_burst:
            on_step("commit")
            yield from unsent.send()
        if not plan:
            return Cycle([], plan.at_rest, False, plan.work, plan.recheck_ns)
        on_step("settle")
        facts = yield from settle(self.state, plan)
        return Cycle(facts, plan.at_rest, is_full, plan.work, plan.recheck_ns)
