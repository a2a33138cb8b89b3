"""The scheduler of one partition: it owns the scheduler's state and the planner, and carries out its phases of a turn.

A cycle is one message to it: it makes a plan, sends nodes their placements, and has leaves settle the decisions.

The phases of a turn: ``turn()`` yields them to its driver, which carries each one out and sends back its reply.

| phase | carried out by | in | reply |
|---|---|---|---|
| ``Ingest`` | the partition, with its owners | ``partition/`` | facts |
| ``Observe`` | the scheduler | ``state/observer.py`` | the same facts with their consequences |
| ``Decide`` | the scheduler, with nodes and leaves | ``SchedulerCore`` | a ``Cycle`` |
| ``Publish`` | the driver | the feed | none |
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal, TypeVar

from msgspec import Struct

from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.objects.registry import UNSENT_MAX, Exchange, Registry
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.planner.planner import Planner, settle
from ykactor.core.state.observer import Observer
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import paced

R = TypeVar("R")


class Ingest(Struct, frozen=True):
    """Let the partition process input, or fire its timers."""

    input: Exchange[list[Fact]]


class Observe(Struct, frozen=True):
    """Let the scheduler observe what the owners reported."""

    facts: list[Fact]


class Decide(Struct, frozen=True):
    """Let the scheduler run a cycle at Unix time ``now_ns``, within ``budget``: plan, commit and settle."""

    now_ns: int
    budget: Budget


class Cycle(Struct):
    """The result of one cycle.

    Attributes:
        facts: in the order of decision.
        at_rest: nothing more can be decided until something changes.
        is_full: True if the budget of placements was used up: there was progress, and probably there is more to place.
        work: units of work spent (see ``planned.Budget``).
        recheck_ns: the time when the next cycle is due although nothing has changed; None if there is none.
    """

    facts: list[Fact]
    at_rest: bool
    is_full: bool
    work: int
    recheck_ns: int | None = None


class Publish(Struct, frozen=True):
    """Publish facts in this order."""

    facts: list[Fact]


#: Phases that the scheduler carries out.
SchedulerPhase = Observe | Decide
Phase = Ingest | SchedulerPhase | Publish

#: A generator that yields phases and receives their replies.
Turn = Generator[Phase, Any, R]


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
        """Carry out one phase; returns its reply. ``on_step`` is called when a step of it begins."""
        if isinstance(phase, Observe):
            on_step("observe")
            return paced(self.observer.observe(phase.facts))
        return self._decide(phase.now_ns, phase.budget, on_step)

    def _decide(self, now_ns: int, budget: Budget, on_step: Callable[[Step], None]) -> Exchange[Cycle]:
        """Plan, commit and settle. Unconfirmed usage is zero before and after."""
        on_step("plan")
        plan = yield from self.planner.plan(now_ns, budget)
        unsent, is_full = self.state.registry.unsent, plan.is_full()
        is_burst = is_full and not plan.at_rest and unsent.behind < UNSENT_MAX
        if unsent.behind and not is_burst:
            on_step("commit")
            yield from unsent.send()
        if not plan:
            return Cycle([], plan.at_rest, False, plan.work, plan.recheck_ns)
        on_step("settle")
        facts = yield from settle(self.state, plan)
        return Cycle(facts, plan.at_rest, is_full, plan.work, plan.recheck_ns)


Cores = tuple[PartitionCore, SchedulerCore]


def without_anything(config: PartitionConfig, *, reserves: bool) -> Cores:
    """The cores of a partition without an applied configuration; ``reserves``: asks reserve nodes (SC-50)."""
    core = PartitionCore(config)
    return core, SchedulerCore(core.registry, reserves=reserves)
