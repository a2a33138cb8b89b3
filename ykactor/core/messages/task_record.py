"""The record of a task that has ended, as its resource manager tells it (AP-152)."""

from enum import StrEnum

from msgspec import Struct

from ykactor.core.values.ids import AllocationKey, NodeID

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
    """

    allocation_key: AllocationKey
    state: TaskOutcome
    exit_code: int | None = None
    signal: str = ""
    started_ns: int = 0
    finished_ns: int = 0
    peak_memory: int | None = None
    node_id: NodeID = NodeID("")
