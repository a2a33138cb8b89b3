"""The phases of a turn, as requests of ``turn()`` to whoever drives it; each is replied to before the next begins.

| phase | carried out by | in | reply |
|---|---|---|---|
| ``Ingest`` | the partition, with its owners | ``partition/`` | facts |
| ``Observe`` | the scheduler | ``state/observer.py`` | the same facts with their consequences |
| ``MakePlan`` | the scheduler | ``planner/planner.py`` | a plan |
| ``Commit`` | the scheduler, with nodes | ``planner/commit.py`` | the nodes that refused |
| ``Settle`` | the scheduler, with leaves | ``planner/settle.py`` | facts |
| ``Publish`` | the driver | the feed | none |
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.objects.exchange import Exchange
from ykactor.core.planner.plan import Budget, Plan

R = TypeVar("R")


class Ingest(Struct, frozen=True):
    """Let the partition take in input, or fire its timers."""

    input: Exchange[list[Fact]]


class Observe(Struct, frozen=True):
    """Let the scheduler observe what the owners reported."""

    facts: list[Fact]


class MakePlan(Struct, frozen=True):
    """Plan at Unix time ``now_ns``, within ``budget``."""

    now_ns: int
    budget: Budget


class Commit(Struct, frozen=True):
    """Have the nodes take what the plan puts on them."""

    plan: Plan


class Settle(Struct, frozen=True):
    """Tell the leaves what was decided for them, but for what nodes refused."""

    plan: Plan
    refused: set[IndexedNode]


class Publish(Struct, frozen=True):
    """Tell the world, in this order."""

    facts: list[Fact]


#: What the scheduler's task is asked for.
SchedulerPhase = Observe | MakePlan | Commit | Settle
Phase = Ingest | SchedulerPhase | Publish

#: Yields phases and is sent their replies.
Turn = Generator[Phase, Any, R]
