"""One turn of a partition: process, observe and publish input; then plan, commit, settle and publish one cycle.

The direct effects of input are published before any decision that follows from it.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.confirmations import confirmations
from ykactor.core.messages.facts import Fact
from ykactor.core.objects.exchange import Exchange
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.planner.plan import Budget, Plan
from ykactor.core.turn.phases import Commit, Ingest, MakePlan, Observe, Publish, Settle, Turn


class Cycle(Struct):
    """The result of one cycle.

    Attributes:
        facts: in the order of decision.
        at_rest: nothing more can be decided until something changes.
        is_full: the budget of placements was used up: there was progress, and probably there is more to place.
        work: units of work spent (see ``plan.Budget``).
    """

    facts: list[Fact]
    at_rest: bool
    is_full: bool
    work: int


class TurnResult(Struct):
    """The result of one turn.

    Attributes:
        observed: the direct effects of the input.
        cycle: None for a turn without a cycle.
        has_confirmed: releases were confirmed after the cycle: there may be more to decide.
    """

    observed: list[Fact]
    cycle: Cycle | None = None
    has_confirmed: bool = False


def turn(
    partition: PartitionCore,
    now_ns: int,
    taken_in: Exchange[list[Fact]] | None = None,
    budget: Budget | None = None,
    *,
    confirms: bool = False,
) -> Turn[TurnResult]:
    """Process input if ``taken_in`` is given, then run a cycle if ``budget`` is given.

    Args:
        now_ns: Unix time of everything in this turn.
        taken_in: the input, as a generator of the partition that returns facts: ``ingest``, ``fire`` or ``administer``.
        budget: of the cycle.
        confirms: confirm at once the releases that the scheduler starts (simulation).
    """
    observed: list[Fact] = []
    if taken_in is not None:
        observed = yield from _take_in(partition, now_ns, taken_in, confirms=confirms)
    if budget is None:
        return TurnResult(observed)
    cycle = yield from _cycle(partition, now_ns, budget)
    has_confirmed = yield from _confirm(partition, now_ns, cycle.facts if confirms else [])
    return TurnResult(observed, cycle, has_confirmed)


def _take_in(partition: PartitionCore, now_ns: int, taken_in: Exchange[list[Fact]], *, confirms: bool) -> Turn[list[Fact]]:
    facts: list[Fact] = yield Ingest(taken_in)
    if facts:
        facts = yield Observe(facts)
        yield Publish(facts)
        yield from _confirm(partition, now_ns, facts if confirms else [])
    return facts


def _confirm(partition: PartitionCore, now_ns: int, facts: list[Fact]) -> Turn[bool]:
    """Confirm the releases that were started; returns whether there were any."""
    confirmed = confirmations(facts)
    if confirmed:
        yield from _take_in(partition, now_ns, partition.ingest(now_ns, confirmed), confirms=True)
    return bool(confirmed)


def _cycle(partition: PartitionCore, now_ns: int, budget: Budget) -> Turn[Cycle]:
    """Plan, commit, settle and publish. Unconfirmed usage is zero before and after."""
    plan: Plan = yield MakePlan(now_ns, budget)
    partition.timers.recheck_ns = plan.recheck_ns
    if not plan:
        return Cycle([], plan.at_rest, False, plan.work)
    refused = yield Commit(plan)
    facts: list[Fact] = yield Settle(plan, refused)
    partition.note(facts)
    if facts:
        yield Publish(facts)
    return Cycle(facts, plan.at_rest and not refused, plan.is_full(), plan.work)
