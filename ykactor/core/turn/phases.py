"""The phases of a turn: ``turn()`` yields them to its driver, which carries each one out and sends back its reply.

| phase | carried out by | in | reply |
|---|---|---|---|
| ``Ingest`` | the partition, with its owners | ``partition/`` | facts |
| ``Observe`` | the scheduler | ``state/observer.py`` | the same facts with their consequences |
| ``Decide`` | the scheduler, with nodes and leaves | ``turn/scheduler.py`` | a ``Cycle`` |
| ``Publish`` | the driver | the feed | none |
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.objects.registry import Exchange

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
