"""The messages of the daemon to resource managers; those that answer operators are among them."""

from collections.abc import Mapping, Sequence

from ykactor.wire.si.messages.base import Message, Part
from ykactor.wire.si.messages.requests import Allocation, AllocationRelease

# ---- parts


class AcceptedNode(Part, frozen=True):
    node_id: str


class RejectedNode(Part, frozen=True):
    """``code`` is one of ``RejectionCode``, here and in the other rejections (an addition to the SI)."""

    node_id: str
    reason: str
    code: str = ""


class AcceptedApplication(Part, frozen=True):
    """``queue_name`` is the leaf in which the application was placed.

    ``run_seconds`` is how long its tasks may run, if it has told no other time (an addition to the SI, AP-158); 0 is no limit.
    """

    application_id: str
    queue_name: str = ""
    run_seconds: float = 0


class RejectedApplication(Part, frozen=True):
    application_id: str
    reason: str
    code: str = ""


class MovedApplication(Part, frozen=True):
    """``queue_name`` is the leaf to which the application was moved (AP-136)."""

    application_id: str
    queue_name: str


class UpdatedApplication(Part, frozen=True):
    """``state`` is an ``ApplicationState``."""

    application_id: str
    state: str
    state_transition_timestamp: int
    message: str = ""


class HeldApplication(Part, frozen=True):
    """``held`` says whether an operator holds the application from now on, or has ended its hold."""

    application_id: str
    held: bool


class RejectedAllocation(Part, frozen=True):
    allocation_key: str
    application_id: str
    reason: str
    code: str = ""


class PredicateCheck(Part, frozen=True):
    """The question whether asks of a predicate class may run on the node. The allocation named is one of them.

    With ``allocate`` False: could they run there if preemption made room?
    """

    predicate: str
    node_id: str
    allocate: bool
    allocation_key: str = ""
    application_id: str = ""


class SchedulingStateEntry(Part, frozen=True):
    """The reason of a pending ask (AP-147).

    Attributes:
        state: a ``SchedulingState``: FAILED if no node can take it, but another node could.
        cause: a ``WaitingCause``.
        queue_name: the queue with the maximum or limit that has too little left; else that of the ask.
        requested, available: what it wants, and what it could have of that; None where this is not what it waits for.
        nodes: how many nodes cannot take it, by reason.
        reason: a sentence, with the numbers at that moment.
    """

    allocation_key: str
    application_id: str
    state: str
    cause: str
    queue_name: str = ""
    requested: Mapping[str, int] = {}
    available: Mapping[str, int] | None = None
    nodes: Mapping[str, int] = {}
    reason: str = ""


class _Response(Message, frozen=True, kw_only=True):
    #: One higher with each message to this ``rmID``; 0 in a message without a number.
    sequence: int = 0


class RegisterResourceManagerResponse(_Response, frozen=True, kw_only=True):
    """The resource manager is registered; ``term`` as in the ``Ack`` of the registration."""

    term: str = ""


class NodeResponse(_Response, frozen=True, kw_only=True):
    accepted: Sequence[AcceptedNode] = []
    rejected: Sequence[RejectedNode] = []


class ApplicationResponse(_Response, frozen=True, kw_only=True):
    accepted: Sequence[AcceptedApplication] = []
    rejected: Sequence[RejectedApplication] = []
    moved: Sequence[MovedApplication] = []
    updated: Sequence[UpdatedApplication] = []
    held: Sequence[HeldApplication] = []


class AllocationResponse(_Response, frozen=True, kw_only=True):
    new: Sequence[Allocation] = []
    released: Sequence[AllocationRelease] = []
    rejected_allocations: Sequence[RejectedAllocation] = []


class PredicatesRequest(_Response, frozen=True, kw_only=True):
    """Checks for the predicate service; a ``PredicatesResponse`` answers them."""

    partition_name: str = ""
    checks: Sequence[PredicateCheck] = []


class SchedulingStateResponse(_Response, frozen=True, kw_only=True):
    """The reasons of pending asks for which they are new (AP-146)."""

    partition_name: str = ""
    entries: Sequence[SchedulingStateEntry] = []


class Ack(_Response, frozen=True, kw_only=True):
    """The request ``id`` is carried out. An operator gets it too, without a number.

    Attributes:
        checksum: of the configuration now in force, if the request changed it.
        releasing: what an operator has cancelled goes on until the resource manager has confirmed its release (OP-10).
        term: of a registration, or to an operator: the present term of the daemon (EV-55). The numbers of messages belong to it
            from here on, and those of turns.
        until: the Unix time in ns at which the configuration of before comes back, unless this one is confirmed; 0: it stays.
        remains: sentences about what a configuration that was rolled back has done, and what stays.
        turns: of each partition that has carried it out, the number of the turn in which it had; who reads with these reads
            what the request has changed, also at a replica (DU-24).
    """

    id: str
    checksum: str = ""
    releasing: bool = False
    term: str = ""
    until: int = 0
    remains: Sequence[str] = []
    turns: Mapping[str, int] = {}


class ErrorResponse(_Response, frozen=True, kw_only=True):
    code: str
    message: str
    path: str = ""
    id: str = ""


class JournalStatus(_Response, frozen=True, kw_only=True):
    """The state of the journal: writable or not. Also sent to followers, and never numbered.

    While it cannot, because the disk is full or does not answer, nothing becomes durable: no request is acknowledged, and no
    decision and no event is sent.

    Attributes:
        since_nano: the Unix time since which it cannot be written.
        reason: why it cannot be written.
    """

    writable: bool
    since_nano: int = 0
    reason: str = ""


Response = (
    RegisterResourceManagerResponse
    | NodeResponse
    | ApplicationResponse
    | AllocationResponse
    | PredicatesRequest
    | SchedulingStateResponse
    | Ack
    | ErrorResponse
    | JournalStatus
)
