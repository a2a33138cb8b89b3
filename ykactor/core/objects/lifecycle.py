"""The state of an application and its timers (AP-30): which moves there are, and which timers they start and stop.

``application`` and ``placeholders`` decide when it moves.
"""

from __future__ import annotations

from enum import StrEnum

from ykactor.core.accounting.past import Past
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import ApplicationChanged, Fact
from ykactor.core.messages.states import (
    APPLICATION_MOVES,
    COMPLETING_TIMEOUT_NS,
    STARTING_TIMEOUT_NS,
    ApplicationEvent,
    ApplicationState,
    after_allocation,
)
from ykactor.core.values.ids import ApplicationID, QueuePath
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
    """The identity of an application, its queue, its state and its timers.

    Attributes:
        stateaware: False when Starting is left at once (AP-40).
        execution_timeout_ns: how long it may run; None is "no limit" (AP-62).
        timers: by timer, when it is due; ``armed`` holds those that the leaf has not noted yet.
        past: what is remembered of it.
        changed: notes what changes.
    """

    __slots__ = (
        "application_id",
        "armed",
        "changed",
        "execution_timeout_ns",
        "past",
        "queue",
        "state",
        "stateaware",
        "tags",
        "timers",
    )

    def __init__(
        self,
        application_id: ApplicationID,
        queue: QueuePath,
        tags: dict[str, str],
        execution_timeout_ns: int | None,
        changed: Changed,
    ) -> None:
        self.changed = changed
        self.application_id = application_id
        self.queue = queue
        self.tags = tags
        self.execution_timeout_ns = execution_timeout_ns
        self.state = ApplicationState.NEW
        self.stateaware = is_stateaware(tags)
        self.timers: dict[Timer, int] = {}
        self.armed: list[tuple[int, Timer]] = []
        self.past = Past()

    def touch(self) -> None:
        """Something of the application changes that is not one of its tasks."""
        self.changed.application(self.application_id)

    def move_to(self, queue: QueuePath) -> None:
        """The application is in another leaf from now on, which has to note all of its timers."""
        self.queue = queue
        self.touch()
        self.arm_all()

    def arm_all(self) -> None:
        """The leaf has to note all timers."""
        self.armed = [(deadline_ns, timer) for timer, deadline_ns in self.timers.items()]

    def move(self, now_ns: int, event: ApplicationEvent, why: str = "") -> list[Fact]:
        """Carry out ``event``; nothing happens where the table has no move (AP-30)."""
        entered = APPLICATION_MOVES.get((self.state, event))
        return [] if entered is None else [self._enter(now_ns, entered, event, why)]

    def _enter(self, now_ns: int, state: ApplicationState, event: ApplicationEvent, why: str = "") -> ApplicationChanged:
        self.past.enter(now_ns, self.state, state, why)
        self.state = state
        self.touch()
        self.set_timer(Timer.STATE, now_ns + _STATE_TIMERS[state][0] if state in _STATE_TIMERS else None)
        if state in _STARTED and self.execution_timeout_ns and Timer.EXECUTION not in self.timers:
            self.set_timer(Timer.EXECUTION, now_ns + self.execution_timeout_ns)
        return ApplicationChanged(now_ns, self.application_id, self.queue, state, event, why)

    def set_timer(self, timer: Timer, deadline_ns: int | None) -> None:
        """Set a timer to ``deadline_ns``, or stop it (None)."""
        if deadline_ns is None:
            if self.timers.pop(timer, None) is not None:
                self.touch()
        elif self.timers.get(timer) != deadline_ns:
            self.touch()
            self.timers[timer] = deadline_ns
            self.armed.append((deadline_ns, timer))

    def move_on(self, now_ns: int) -> list[Fact]:
        """The timer of the state has expired (AP-43)."""
        return self.move(now_ns, _STATE_TIMERS[self.state][1])

    def run(self, now_ns: int) -> list[Fact]:
        """A real allocation was added (AP-36, AP-40)."""
        if self.state is _RUNNING:
            return []
        entered = after_allocation(self.state, stateaware=self.stateaware)
        return [self._enter(now_ns, state, ApplicationEvent.RUN) for state in entered] if entered else []

    def complete(self, now_ns: int) -> list[Fact]:
        """Move to Completing, unless the state is Completing: a second event would end that state early."""
        return [] if self.state is ApplicationState.COMPLETING else self.move(now_ns, ApplicationEvent.COMPLETE)

    def has_ended(self) -> bool:
        """Whether the application is in a state in which it leaves its queue."""
        return self.state in _ENDED
