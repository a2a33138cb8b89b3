"""Decisions that the resource manager could not carry out are handed back: the ask waits again, without that node (AP-144).

Functions on the record of one application; each returns the facts that it caused, in order.
"""

from __future__ import annotations

import heapq

from ykactor.core.messages import conditions
from ykactor.core.messages.asks import Ask, handed_back, readmitted
from ykactor.core.messages.facts import AskCondition, AskReadmitted, AskReturned, Fact, Released
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.objects.lifecycle import Timer, states_first
from ykactor.core.objects.record import ApplicationRecord
from ykactor.core.values.ids import AllocationKey
from ykactor.core.values.parts import Pace, Pausing


def hand_back(application: ApplicationRecord, now_ns: int, key: AllocationKey) -> list[Fact]:
    """An allocation that runs could not start: its ask is pending again with its age."""
    ask, node_id = application.allocations.pop(key)
    application.count_end(now_ns, ask, node_id, application.began_ns.pop(key))
    application.sized_ns[key] = now_ns  # what it has waited before is counted
    application.replaced_ns.pop(key, None)
    if ask.placeholder:
        application.placeholder_count -= 1
        application.gang.placeholder_handed_back(ask.resource)
        application.touch()
    else:
        application.real_count -= 1
    changes = application.move(now_ns, ApplicationEvent.RUN) if application.state is ApplicationState.COMPLETING else []
    after = handed_back(ask, now_ns, node_id)
    application.asks[key] = after
    application.changed.task(after)
    wait(application, after)
    released = Released(now_ns, ask, application.queue, node_id, TerminationType.SCHEDULING_FAILED_ON_RM, "")
    condition = AskCondition(now_ns, after, application.queue, conditions.handed_back(key, after.failures[-1]))
    return states_first([*changes, released, AskReturned(now_ns, after, application.queue), condition])


def wait(application: ApplicationRecord, ask: Ask) -> None:
    """Nodes are left out for a pending ask: note when the first of them no longer is, and set the timer."""
    due_ns = note(application, ask)
    if due_ns is not None:
        application.set_timer(Timer.BACKOFF, min(due_ns, application.timers.get(Timer.BACKOFF, due_ns)))


def note(application: ApplicationRecord, ask: Ask) -> int | None:
    """Note when the first node is no longer left out for a pending ask. Returns this time; None if none is left out."""
    due_ns = _due_ns(ask)
    if due_ns is not None:
        heapq.heappush(application.handed_back, (due_ns, ask.arrival, ask.allocation_key))
    return due_ns


def readmit(application: ApplicationRecord, now_ns: int) -> Pausing[list[Fact]]:
    """The timer has expired: nodes whose time is over are no longer left out. Costs nothing for asks whose time is not over."""
    facts, pace, due = list[Fact](), Pace(), dict[int, Ask]()
    while (ask := _first(application)) is not None and application.handed_back[0][0] <= now_ns:
        heapq.heappop(application.handed_back)
        due[ask.arrival] = ask
    for _, before in sorted(due.items()):
        after = readmitted(before, now_ns)
        application.asks[after.allocation_key] = after
        application.changed.task(after)
        facts.append(AskReadmitted(now_ns, before, after, application.queue))
        note(application, after)
        if pace.is_due():
            yield ()
    if _first(application) is not None:
        application.set_timer(Timer.BACKOFF, application.handed_back[0][0])
    return facts


def _first(application: ApplicationRecord) -> Ask | None:
    """The ask of the first entry, without entries that do not hold any more: their asks run, have gone, or wait for longer."""
    entries = application.handed_back
    while entries:
        due_ns, arrival, key = entries[0]
        ask = application.asks.get(key)
        if ask is not None and (_due_ns(ask), ask.arrival) == (due_ns, arrival):
            return ask
        heapq.heappop(entries)
    return None


def _due_ns(ask: Ask) -> int | None:
    return min((failure.until_ns for failure in ask.failures if failure.until_ns), default=None)
