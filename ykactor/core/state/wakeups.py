"""Changes by time alone: asks become old enough to reserve or preempt, preemption attempts fail, back-off ends."""

from __future__ import annotations

from heapq import merge

from ykactor.core.messages.asks import Ask, order_of
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.times import MS_NS, NEVER, US_NS

#: The shortest interval of cycles caused by time alone, so that asks that become eligible one after the other are tried together.
WAKE_NS = 100 * MS_NS


def wake_ns(state: SchedulerState, cycled_ns: int) -> int | None:
    """The time when a partition runs its next cycle without other input, in whole microseconds like its clock; None is never.

    Args:
        cycled_ns: the time of its last cycle.
    """
    at_ns = next_ns(state, cycled_ns)
    return None if at_ns is None else max(-(-at_ns // US_NS) * US_NS, cycled_ns + WAKE_NS)


def next_ns(state: SchedulerState, after_ns: int) -> int | None:
    """The time when a decision may become possible that the plan at ``after_ns`` could not make; None is never."""
    times = [NEVER if state.next_eligible_ns is None else state.next_eligible_ns]
    if state.backoffs:
        times.append(min(state.backoffs.values()))
    if state.reservations.by_ask:
        times.append(state.reservations.next_old_ns(after_ns))
    if state.preemptions.by_ask:
        times.append(state.preemptions.next_ns())
    if state.clocks.starts and state.enforces_quotas():
        times.append(state.clocks.next_ns())
    soonest_ns = min(times)
    return soonest_ns if soonest_ns < NEVER else None


def on_deadlines(state: SchedulerState, now_ns: int) -> None:
    """Process deadlines: attempts that made room in vain (PE-55), ends of back-off, asks that are old enough to act."""
    for attempt in state.preemptions.overdue(now_ns) if state.preemptions.by_ask else ():
        state.preemptions.end(state.leaf_of(attempt.application), attempt.ask)
        state.occupy(attempt.application, attempt.ask)
        state.nodes.mark(state.reservations.of(attempt.ask).node)
        state.requeue(attempt.application)
        state.next_eligible_ns = now_ns
    if state.backoffs:
        for application in [application for application, until_ns in state.backoffs.items() if until_ns <= now_ns]:
            _end_backoff(state, application)
    if state.next_eligible_ns is not None:
        on_ages(state, now_ns)


def on_ages(state: SchedulerState, now_ns: int) -> None:
    """Try everything again if an ask has become old enough to reserve or preempt, or has joined a class that was tried before."""
    if state.next_eligible_ns is not None and state.next_eligible_ns <= now_ns:
        state.next_eligible_ns = None
        state.capacity_grew()


# ---- back-off


def back_off(state: SchedulerState, application: PendingApplication, until_ns: int) -> None:
    """Put an application into back-off until ``until_ns``; new asks do not end it (SC-38)."""
    state.backoffs[application] = until_ns
    application.back_off(until_ns)
    state.requeue(application)


def _end_backoff(state: SchedulerState, application: PendingApplication) -> None:
    del state.backoffs[application]
    application.back_off(0)
    state.requeue(application)
    state.tree.wake(state.leaf_of(application))


def has_enough(application: PendingApplication, count_max: int) -> bool:
    """True if ``count_max`` asks are known to fit nowhere before the first untried one, and another ask follows (SC-38)."""
    count = 0
    for ask in merge(*application.queues.values(), key=order_of):
        if count == count_max:
            return True
        verdict = _fits_nowhere(application, ask)
        if verdict is None:
            return False
        count += verdict
    return False


def _fits_nowhere(application: PendingApplication, ask: Ask) -> bool | None:
    """True if an ask is known to fit on no node; None while it is untried. False for asks that lack quota or require a node."""
    queue = application.asks[ask.allocation_key][1]
    assert queue is not None
    ask_class = queue.ask_class
    if ask_class is None:
        return None
    is_behind = ask_class.stuck and queue.sort_key is not None and order_of(ask) < queue.sort_key
    if not (ask_class.parked or is_behind):
        return None
    return queue.required_node is None and ask_class.shortage is None
