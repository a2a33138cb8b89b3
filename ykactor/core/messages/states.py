"""The states of applications and queues as tables, and how tasks end. A transition that is not listed changes nothing (AP-30)."""

from enum import StrEnum

from msgspec import Struct

from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.times import S_NS


class ApplicationState(StrEnum):
    """The states of an application; the values are the wire's spelling (AP-30)."""

    NEW = "New"
    ACCEPTED = "Accepted"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    RESUMING = "Resuming"
    FAILING = "Failing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    EXPIRED = "Expired"


class Outcome(StrEnum):
    """The outcomes of an application that its resource manager can report (AP-151)."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class ApplicationEvent(StrEnum):
    """The events that change the state of an application; the values are the names in the SI (AP-95)."""

    RUN = "runApplication"
    COMPLETE = "completeApplication"
    FAIL = "failApplication"
    EXPIRE = "expireApplication"
    RESUME = "resumeApplication"


_S, _E = ApplicationState, ApplicationEvent

#: The moves of an application (AP-30). ``Rejected`` is the state of a refused application; no move leads there.
APPLICATION_MOVES: dict[tuple[ApplicationState, ApplicationEvent], ApplicationState] = {
    (_S.NEW, _E.RUN): _S.ACCEPTED,
    (_S.NEW, _E.FAIL): _S.FAILING,
    (_S.NEW, _E.RESUME): _S.RESUMING,
    (_S.ACCEPTED, _E.RUN): _S.STARTING,
    (_S.ACCEPTED, _E.COMPLETE): _S.COMPLETING,
    (_S.ACCEPTED, _E.FAIL): _S.FAILING,
    (_S.ACCEPTED, _E.RESUME): _S.RESUMING,
    (_S.STARTING, _E.RUN): _S.RUNNING,
    (_S.STARTING, _E.COMPLETE): _S.COMPLETING,
    (_S.STARTING, _E.FAIL): _S.FAILING,
    (_S.RUNNING, _E.COMPLETE): _S.COMPLETING,
    (_S.RUNNING, _E.FAIL): _S.FAILING,
    (_S.COMPLETING, _E.RUN): _S.RUNNING,
    (_S.COMPLETING, _E.COMPLETE): _S.COMPLETED,
    (_S.COMPLETING, _E.FAIL): _S.FAILING,
    (_S.RESUMING, _E.RUN): _S.ACCEPTED,
    (_S.RESUMING, _E.FAIL): _S.FAILING,
    (_S.FAILING, _E.FAIL): _S.FAILED,
    (_S.COMPLETED, _E.EXPIRE): _S.EXPIRED,
    (_S.FAILED, _E.EXPIRE): _S.EXPIRED,
    (_S.REJECTED, _E.EXPIRE): _S.EXPIRED,
}


#: An application in one of these holds a running slot in every queue of its path (QU-53).
COUNTED_AS_RUNNING = frozenset({_S.STARTING, _S.RUNNING})


#: A gang in one of these has timed out and uses no placeholder any more.
WINDING_UP = frozenset({_S.RESUMING, _S.FAILING})


class PartitionState(StrEnum):
    """The states of a partition: active, or stopped after too many failures (EV-27)."""

    ACTIVE = "Active"
    STOPPED = "Stopped"


class QueueState(StrEnum):
    """The states of a queue (CF-82)."""

    ACTIVE = "Active"
    DRAINING = "Draining"


class QueueEvent(StrEnum):
    """The events of managed queues: the configuration lists the queue (START) or no longer does (REMOVE)."""

    START = "start"
    REMOVE = "remove"


#: The moves of CF-82; a queue begins Active.
QUEUE_MOVES: dict[tuple[QueueState, QueueEvent], QueueState] = {
    (QueueState.ACTIVE, QueueEvent.START): QueueState.ACTIVE,
    (QueueState.ACTIVE, QueueEvent.REMOVE): QueueState.DRAINING,
    (QueueState.DRAINING, QueueEvent.START): QueueState.ACTIVE,
    (QueueState.DRAINING, QueueEvent.REMOVE): QueueState.DRAINING,
}


#: Starting ends after this long (AP-40).
STARTING_TIMEOUT_NS = 300 * S_NS
#: Completing ends after this long without further work (AP-51).
COMPLETING_TIMEOUT_NS = 30 * S_NS
#: The time that a gang waits for its placeholders to be allocated or replaced, if it names no timeout (AP-61).
PLACEHOLDER_TIMEOUT_NS = 900 * S_NS
#: Ended applications stay visible this long (AP-73).
TERMINAL_TIMEOUT_NS = 72 * 3600 * S_NS
#: The time after which an empty dynamic or draining queue is removed (QU-96).
QUEUE_CLEANER_NS = 10 * S_NS


def after_allocation(state: ApplicationState, *, stateaware: bool) -> tuple[ApplicationState, ...]:
    """The states that an application enters by a real allocation, in order; empty when nothing changes (AP-36, AP-40).

    Args:
        state: the application's state before the allocation.
        stateaware: False when the tag ``application.stateaware.disable`` is true: Starting is left at once.
    """
    entered = APPLICATION_MOVES.get((state, ApplicationEvent.RUN))
    if entered is None or state is ApplicationState.RESUMING:  # left with its last placeholder (GA-49)
        return ()
    if entered is ApplicationState.STARTING and not stateaware:
        return entered, ApplicationState.RUNNING
    if entered is ApplicationState.ACCEPTED:  # a recovered allocation comes before any ask (AP-35)
        return entered, *after_allocation(entered, stateaware=stateaware)
    return (entered,)


#: Characters of a key and of the name of a node that are kept.
NAME_MAX = 256
#: Characters of the name of a signal.
SIGNAL_MAX = 32


class TaskOutcome(StrEnum):
    """The outcomes of a task."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    PREEMPTED = "Preempted"
    TIMED_OUT = "TimedOut"
    REJECTED = "Rejected"
    LOST = "Lost"


class TaskRecord(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """The record of an ended task; its user is that of its application.

    Attributes:
        exit_code: None if there is none.
        signal: the name of the signal that has ended it; "" if none has.
        started_ns, finished_ns: its begin and end, Unix nanoseconds; 0 if it did not begin or end, or the time is unknown.
        peak_memory: the most that it has used at a time, in bytes; None if nothing has measured it.
        node_id: where it ran; "" if it ran nowhere. The resource manager does not say it.
        eligible_ns: when it began to wait for a place, as the other times.
        cpu_ns: the processor time that it has used; None if nothing has measured it.
        message: why it has ended like that, for people.
        queue: that of its application at that time. The resource manager does not say it.
    """

    allocation_key: AllocationKey
    state: TaskOutcome
    exit_code: int | None = None
    signal: str = ""
    started_ns: int = 0
    finished_ns: int = 0
    peak_memory: int | None = None
    node_id: NodeID = NodeID("")
    eligible_ns: int = 0
    cpu_ns: int | None = None
    message: str = ""
    queue: QueuePath = QueuePath("")


class JobReport(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """The word of a resource manager about the job that an application is (AP-160).

    Attributes:
        name: for people.
        tasks: how many the job has, also those that are not asked for yet; another attempt of a task is the same one.
        completed, cancelled, failed: how many of them have ended for good, and how; ``failed`` in any other way.
    """

    name: str
    tasks: int
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
