"""One turn of a partition: process, observe and publish input; or run one cycle, and publish its decisions.

The direct effects of input are published before any decision that follows from it.

The cause of a turn, with the state and the time before it, decides everything that the turn does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from ykactor.core.messages.acts import Administration
from ykactor.core.messages.facts import Fact, ReleaseStarted
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import HeldLimits, ReleaseAllocations, Submission
from ykactor.core.objects.registry import Exchange
from ykactor.core.partition.partition import PartitionCore, refusal_in
from ykactor.core.partition.rounds import Round
from ykactor.core.state import moving
from ykactor.core.turn.scheduler import Cycle, Decide, Ingest, Observe, Publish, SchedulerCore, Turn


class Input(Struct, frozen=True):
    """Submissions that are handled together, in order; ``limits`` are those of their sender, if it has any."""

    submissions: list[Submission]
    limits: HeldLimits | None = None


class TimersDue(Struct, frozen=True):
    """Timers have expired."""


class Request(Struct, frozen=True):
    """The request of an administrator, which is carried out or refused."""

    wanted: Administration


class CycleDue(Struct, frozen=True):
    """A cycle within a budget: something may be decided."""

    budget: Budget


Cause = Input | TimersDue | Request | CycleDue


class TurnResult(Struct):
    """The result of one turn.

    Attributes:
        has_observed: True if the input had effects.
        refusal: the reason of a refused request of an administrator, or "".
        cycle: None if the cause was no ``CycleDue``.
        has_confirmed: True if releases were confirmed after the cycle: there may be more to decide.
        exceeded: for each limit of the sender that the input exceeds, the reason of the first refused entry.
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
        has_confirmed = yield from _confirm(partition, now_ns, _confirmations(cycle.facts) if confirms else [])
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
    """Process input. Returns True if it had effects, and the reason of a refused request of an administrator."""
    facts: list[Fact] = yield Ingest(taken_in)
    if not facts:
        return False, ""
    facts = yield Observe(facts)
    refusal, confirmed = refusal_in(facts), _confirmations(facts) if confirms else []
    yield Publish(facts)
    yield from _confirm(partition, now_ns, confirmed)
    return True, refusal


def _confirmations(facts: Iterable[Fact]) -> list[Submission]:
    """The confirmations of a simulated resource manager (AP-133); pending placeholders need none."""
    return [
        ReleaseAllocations(fact.ask.application_id, fact.ask.allocation_key, fact.termination_type)
        for fact in facts
        if type(fact) is ReleaseStarted and fact.node_id is not None
    ]


def _confirm(partition: PartitionCore, now_ns: int, confirmed: list[Submission]) -> Turn[bool]:
    """Confirm the releases that were started; returns whether there were any."""
    if confirmed:
        yield from _take_in(partition, now_ns, partition.ingest(now_ns, confirmed), confirms=True)
    return bool(confirmed)


def _cycle(partition: PartitionCore, now_ns: int, budget: Budget) -> Turn[Cycle]:
    cycle: Cycle = yield Decide(now_ns, budget)
    partition.timers.recheck_ns = cycle.recheck_ns
    if cycle.facts:
        partition.note(cycle.facts)
        yield Publish(cycle.facts)
    return cycle
