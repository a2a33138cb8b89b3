"""The state of an application and its timers (AP-30): the moves, and the timers that they start and stop.

``Application`` has one, and decides with ``gang`` when it moves.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from ykactor.core.accounting.past import Past
from ykactor.core.messages.facts import ApplicationChanged, Fact
from ykactor.core.messages.states import (
    APPLICATION_MOVES,
    COMPLETING_TIMEOUT_NS,
    STARTING_TIMEOUT_NS,
    ApplicationEvent,
    ApplicationState,
    after_allocation,
)
from ykactor.core.values.quantities import is_true


class Timer(StrEnum):
    """The timers of an application (AP-43, AP-44, AP-46, AP-144)."""

    STATE = "state"
    PLACEHOLDERS = "placeholders"
    EXECUTION = "execution"
    BACKOFF = "backoff"


#: How long a state lasts before its timer moves the application on, and by which event (AP-43).
_STATE_TIMERS = {
    ApplicationState.STARTING: (STARTING_TIMEOUT_NS, ApplicationEvent.RUN),
    ApplicationState.COMPLETING: (COMPLETING_TIMEOUT_NS, ApplicationEvent.COMPLETE),
}
#: The state in which an allocation changes nothing, as nearly always.
_RUNNING = ApplicationState.RUNNING
_STARTED = (ApplicationState.STARTING, _RUNNING)
_ENDED = (ApplicationState.COMPLETED, ApplicationState.FAILED)
#: States that an application only enters after it has run something or its gang is complete.
HAVE_STARTED = (*_STARTED, ApplicationState.COMPLETING)


def is_stateaware(tags: dict[str, str]) -> bool:
    """False when the tag ``application.stateaware.disable`` (name in any case) holds a true value."""
    return not any(name.lower() == "application.stateaware.disable" and is_true(value.lower()) for name, value in tags.items())


def states_first(facts: list[Fact]) -> list[Fact]:
    """The facts of one step, state changes before the other facts (AP-96)."""
    return sorted(facts, key=lambda fact: type(fact) is not ApplicationChanged)


class Lifecycle:
    """The state of an application and its timers. Only its methods write it, and note the row.

    Attributes:
        stateaware: False when Starting is left at once (AP-40).
        execution_timeout_ns: the longest time that it may run; None is "no limit" (AP-62).
        timers: the deadlines by timer; ``armed`` holds those that the leaf has not noted yet.
    """

    __slots__ = ("_note", "_past", "armed", "execution_timeout_ns", "state", "stateaware", "timers")

    def __init__(self, note: Callable[[], object], past: Past, *, stateaware: bool, execution_timeout_ns: int | None) -> None:
        self._note = note
        self._past = past
        self.state = ApplicationState.NEW
        self.stateaware = stateaware
        self.execution_timeout_ns = execution_timeout_ns
        self.timers: dict[Timer, int] = {}
        self.armed: list[tuple[int, Timer]] = []

    def after(self, event: ApplicationEvent) -> ApplicationState | None:
        """The state that follows from ``event``; None where the table has no move (AP-30)."""
        return APPLICATION_MOVES.get((self.state, event))

    def after_allocation(self) -> tuple[ApplicationState, ...]:
        """The states that follow, one after the other, when a real allocation is added (AP-36, AP-40)."""
        return after_allocation(self.state, stateaware=self.stateaware)

    def after_timer(self) -> ApplicationEvent:
        """The event when the timer of the state expires (AP-43)."""
        return _STATE_TIMERS[self.state][1]

    def enter(self, now_ns: int, state: ApplicationState, why: str) -> None:
        """Move to a state because of ``why``, and set the timers that it starts and stops."""
        self._past.enter(now_ns, self.state, state, why)
        self.state = state
        self._note()
        self.set_timer(Timer.STATE, now_ns + _STATE_TIMERS[state][0] if state in _STATE_TIMERS else None)
        if state in _STARTED and self.execution_timeout_ns and Timer.EXECUTION not in self.timers:
            self.set_timer(Timer.EXECUTION, now_ns + self.execution_timeout_ns)

    def set_timer(self, timer: Timer, deadline_ns: int | None) -> None:
        """Set a timer to ``deadline_ns``, or stop it (None)."""
        if self.timers.get(timer) == deadline_ns:
            return
        if deadline_ns is None:
            del self.timers[timer]
        else:
            self.timers[timer] = deadline_ns
            self.armed.append((deadline_ns, timer))
        self._note()

    def arm_all(self) -> None:
        """Let the leaf note all timers."""
        self.armed = [(deadline_ns, timer) for timer, deadline_ns in self.timers.items()]

    def has_ended(self) -> bool:
        """True if the application is in a state in which it leaves its queue."""
        return self.state in _ENDED
