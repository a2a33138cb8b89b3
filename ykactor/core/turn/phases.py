"""The phases of a turn: ``turn()`` yields them to its driver, which carries each one out and sends back its reply.

| phase | carried out by | in | reply |
|---|---|---|---|
| ``Ingest`` | the partition, with its owners | ``partition/`` | facts |
| ``Observe`` | the scheduler | ``state/observer.py`` | the same facts with their consequences |
| ``MakePlan`` | the scheduler | ``planner/planner.py`` | a plan |
| ``Commit`` | the partition, with nodes | ``objects/unsent.py`` | none |
| ``Settle`` | the scheduler, with leaves | ``planner/settle.py`` | facts |
| ``Publish`` | the driver | the feed | none |
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.objects.exchange import Exchange
from ykactor.core.planner.plan import Plan

R = TypeVar("R")


class Ingest(Struct, frozen=True):
    """Let the partition process input, or fire its timers."""

    input: Exchange[list[Fact]]


class Observe(Struct, frozen=True):
    """Let the scheduler observe what the owners reported."""

    facts: list[Fact]


class MakePlan(Struct, frozen=True):
    """Plan at Unix time ``now_ns``, within ``budget``."""

    now_ns: int
    budget: Budget


class Commit(Struct, frozen=True):
    """Let the partition send the nodes the placements that they have not been sent yet."""

    input: Exchange[None]


class Settle(Struct, frozen=True):
    """Send the orders of the plan to the leaves."""

    plan: Plan


class Publish(Struct, frozen=True):
    """Publish facts in this order."""

    facts: list[Fact]


#: Phases that the scheduler carries out.
SchedulerPhase = Observe | MakePlan | Settle
Phase = Ingest | Commit | SchedulerPhase | Publish

#: A generator that yields phases and receives their replies.
Turn = Generator[Phase, Any, R]
