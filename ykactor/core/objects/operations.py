"""What operators do to an application (OP-1, OP-10 to OP-13): hold it, cancel its tasks, change the priorities of its asks.

Functions on one application; the partition has found out that they may be done.
"""

from __future__ import annotations

from ykactor.core.messages.asks import prioritised
from ykactor.core.messages.facts import AskPriorityChanged, Fact, ReleaseStarted
from ykactor.core.messages.holds import Hold
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.objects.application import Application
from ykactor.core.objects.lifecycle import states_first
from ykactor.core.values.ids import AllocationKey
from ykactor.core.values.parts import Pace, Pausing

_CANCELLED = "cancelled by an operator"


def set_hold(application: Application, hold: Hold | None) -> None:
    """Hold the application, or end its hold (None)."""
    application.hold = hold
    application.touch()


def cancel(application: Application, now_ns: int, key: AllocationKey) -> list[Fact]:
    """Remove an ask at once; ask the resource manager to end an allocation, which must not be released already."""
    if key in application.allocations:
        return application.start_release(now_ns, [key], _CANCELLED)
    placeholder = application.gang.placeholder_of(key)
    ask = application.asks[key] if placeholder is None else application.gang.replacing[placeholder][0]
    told = ReleaseStarted(now_ns, ask, application.queue, None, TerminationType.TIMEOUT, _CANCELLED)
    return states_first([told, *application.release(now_ns, key, TerminationType.TIMEOUT)])


def prioritise(application: Application, now_ns: int, key: AllocationKey | None, priority: int) -> Pausing[list[Fact]]:
    """Give a pending ask another priority, or all of them (``key`` is None)."""
    facts, pace = list[Fact](), Pace()
    for each in [key] if key is not None else list(application.asks):
        before = application.asks[each]
        if before.spec.priority != priority:
            after = application.asks[each] = prioritised(before, priority)
            application.changed.task(after)
            facts.append(AskPriorityChanged(now_ns, before, after, application.queue))
        if pace.is_due():
            yield ()
    return facts
