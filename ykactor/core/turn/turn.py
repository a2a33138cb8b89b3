"""One turn of a partition: process, observe and publish input; or plan, commit, settle and publish one cycle.

The direct effects of input are published before any decision that follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from ykactor.core.messages.confirmations import confirmations
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Submission
from ykactor.core.objects.exchange import Exchange
from ykactor.core.objects.unsent import UNSENT_MAX
from ykactor.core.partition.partition import PartitionCore, refusal_in
from ykactor.core.partition.rounds import Round
from ykactor.core.planner.plan import Plan
from ykactor.core.state import moving
from ykactor.core.turn.causes import Cause, CycleDue, Input, Request, TimersDue
from ykactor.core.turn.phases import Commit, Ingest, MakePlan, Observe, Publish, Settle, Turn
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.parts import emptied, in_parts


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
        has_observed: whether the input had effects.
        refusal: why an administrator's request was refused, or "".
        cycle: None if the cause was another.
        has_confirmed: releases were confirmed after the cycle: there may be more to decide.
        exceeded: for each limit of the sender that the input exceeds, why the first entry was refused.
    """

    has_observed: bool
    refusal: str
    cycle: Cycle | None = None
    has_confirmed: bool = False
    exceeded: Sequence[str] = ()


def turn(
    partition: PartitionCore, scheduler: SchedulerCore, now_ns: int, cause: Cause, *, confirms: bool = False
) -> Turn[TurnResult]:
    """Process input, or run a cycle.

    At the end ``registry.changed`` has the keys of all rows of the state that the turn has changed.

    Args:
        now_ns: Unix time of everything in this turn.
        confirms: confirm at once the releases that the scheduler starts (simulation).
    """
    partition.begin_turn()
    if isinstance(cause, CycleDue):
        cycle = yield from _cycle(partition, now_ns, cause.budget)
        has_confirmed = yield from _confirm(partition, now_ns, confirmations(cycle.facts) if confirms else [])
        return TurnResult(False, "", cycle, has_confirmed)
    taken_in = _taken_in(partition, scheduler, now_ns, cause)
    has_observed, refusal = yield from _take_in(partition, now_ns, taken_in, confirms=confirms)
    return TurnResult(has_observed, refusal, exceeded=[*partition.holdings.exceeded.values()])


def _taken_in(partition: PartitionCore, scheduler: SchedulerCore, now_ns: int, cause: Input | TimersDue | Request) -> Round:
    match cause:
        case Input(submissions, limits):
            return partition.ingest(now_ns, submissions, limits)
        case TimersDue():
            return partition.fire(now_ns)
        case Request(wanted):
            return partition.administer(now_ns, wanted, partial(moving.objection, scheduler.state))


def _take_in(partition: PartitionCore, now_ns: int, taken_in: Exchange[list[Fact]], *, confirms: bool) -> Turn[tuple[bool, str]]:
    """Returns whether the input had effects, and why an administrator's request was refused."""
    facts: list[Fact] = yield Ingest(taken_in)
    if not facts:
        return False, ""
    facts = yield Observe(facts)
    refusal, confirmed = refusal_in(facts), confirmations(facts) if confirms else []
    for part in emptied(facts):
        yield Publish(part)
    yield from _confirm(partition, now_ns, confirmed)
    return True, refusal


def _confirm(partition: PartitionCore, now_ns: int, confirmed: list[Submission]) -> Turn[bool]:
    """Confirm the releases that were started; returns whether there were any."""
    if confirmed:
        yield from _take_in(partition, now_ns, partition.ingest(now_ns, confirmed), confirms=True)
    return bool(confirmed)


def _cycle(partition: PartitionCore, now_ns: int, budget: Budget) -> Turn[Cycle]:
    """Plan, commit, settle and publish. Unconfirmed usage is zero before and after."""
    plan: Plan = yield MakePlan(now_ns, budget)
    partition.timers.recheck_ns = plan.recheck_ns
    unsent = partition.registry.unsent
    is_burst = plan.is_full() and not plan.at_rest and unsent.count < UNSENT_MAX
    if unsent.count and not is_burst:
        yield Commit(unsent.send())
    if not plan:
        return Cycle([], plan.at_rest, False, plan.work)
    facts: list[Fact] = yield Settle(plan)
    partition.note(facts)
    for part in in_parts(facts):
        yield Publish(part)
    return Cycle(facts, plan.at_rest, plan.is_full(), plan.work)
