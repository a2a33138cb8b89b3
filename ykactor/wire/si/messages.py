"""The wire vocabulary: the messages of YuniKorn's scheduler interface (SI) as tagged structs.

Field names on the wire are the SI's; in Python they are snake case, and ``_si_name`` converts them. A field is optional if
the SI lets a sender leave it out. The structs are plain data: ``requests`` and ``responses`` convert them.

Requests are strict: an unknown field is an error, because it is probably a typo. Messages that only the daemon sends are not,
so that older clients can read new fields. For the same reason a field whose text is of an enum (``NodeAction``,
``TerminationType``, ``ApplicationState``, ``RejectionCode``, ``PreemptionKind``, ``SchedulingState``, ``WaitingCause``) is a
string: members of the enums are strings, and compare equal to it. A field with its default value is not encoded (``codec``
relies on it).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ykactor.core.inspection.partition_status import PartitionStatus as PartitionStatus
from ykactor.core.messages.kinds import NodeAction as NodeAction
from ykactor.core.messages.kinds import PreemptionKind as PreemptionKind
from ykactor.core.messages.kinds import RejectionCode as RejectionCode
from ykactor.core.messages.kinds import SchedulingState as SchedulingState
from ykactor.core.messages.kinds import TerminationType as TerminationType
from ykactor.core.messages.kinds import WaitingCause as WaitingCause
from ykactor.core.messages.states import ApplicationState as ApplicationState
from ykactor.core.messages.states import Outcome as Outcome
from ykactor.core.messages.states import TaskOutcome as TaskOutcome
from ykactor.core.values.resources import QUANTITY_MAX, QUANTITY_MIN

#: Words that the SI writes in capitals, except at the start of a name.
_ACRONYMS = {"id": "ID"}

#: Every integer of a request has limits: JSON has none, and what is kept of a request must fit in msgpack.
Int64 = Annotated[int, Meta(ge=QUANTITY_MIN, le=QUANTITY_MAX)]
#: A time or a size.
NotNegative = Annotated[int, Meta(ge=0, le=QUANTITY_MAX)]
#: On the wire a quantity is a 64-bit integer in base units, or text as in the queue configuration ("2Gi").
Quantity = Int64 | str
WireResource = Mapping[str, Quantity]

#: Any int32 (PR-1).
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


def _si_name(name: str) -> str:
    """``application_id`` -> ``applicationID``, ``node_id`` -> ``nodeID``, ``rm_id`` -> ``rmID``."""
    head, *tail = name.split("_")
    return head + "".join(_ACRONYMS.get(word, word.capitalize()) for word in tail)


class _Part(Struct, rename=_si_name, omit_defaults=True, frozen=True, gc=False, kw_only=True):
    """A struct inside a message."""


class _RequestPart(_Part, frozen=True, forbid_unknown_fields=True):
    """A struct inside a request; some occur in responses too."""


class _Message(Struct, rename=_si_name, omit_defaults=True, frozen=True, kw_only=True, tag_field="type", tag=str):
    """A whole message; the field ``type`` holds the name of its class."""


# ---- parts


class UserGroupInformation(_RequestPart, frozen=True):
    user: str = ""
    groups: Sequence[str] = []


class NodeInfo(_RequestPart, frozen=True):
    """``action`` is a ``NodeAction``."""

    node_id: str
    action: str
    attributes: Mapping[str, str] = {}
    schedulable_resource: WireResource | None = None


class AddApplicationRequest(_RequestPart, frozen=True):
    application_id: str
    queue_name: str = ""
    partition_name: str = ""
    ugi: UserGroupInformation = UserGroupInformation()
    tags: Mapping[str, str] = {}
    execution_timeout_milli_seconds: Int64 = 0
    placeholder_ask: WireResource | None = None
    gang_scheduling_style: str = ""


class RemoveApplicationRequest(_RequestPart, frozen=True):
    """The end of an application. With an ``outcome``, an ``Outcome``, it stays visible (an addition to the SI)."""

    application_id: str
    partition_name: str = ""
    outcome: str = ""
    message: str = ""


class TaskRecord(_RequestPart, frozen=True):
    """The end of a task (an addition to the SI): ``state`` is a ``TaskOutcome``.

    ``start_time`` and ``finished_time`` are Unix nanoseconds, ``peak_memory`` is bytes.
    """

    application_id: str
    allocation_key: str
    state: str
    partition_name: str = ""
    exit_code: Int64 | None = None
    signal: str = ""
    start_time: NotNegative = 0
    finished_time: NotNegative = 0
    peak_memory: NotNegative | None = None


class PreemptionPolicy(_RequestPart, frozen=True):
    """An absent field is not the same as a false one: ``requests`` fills in its default (AP-53)."""

    allow_preempt_self: bool | UnsetType = UNSET
    allow_preempt_other: bool | UnsetType = UNSET


class Allocation(_RequestPart, frozen=True):
    """``releasing``: with ``node_id``, it is ending already (an addition to the SI)."""

    allocation_key: str
    application_id: str = ""
    partition_name: str = ""
    resource_per_alloc: WireResource = {}
    priority: Priority = 0
    allocation_tags: Mapping[str, str] = {}
    task_group_name: str = ""
    placeholder: bool = False
    originator: bool = False
    preemption_policy: PreemptionPolicy | None = None
    node_id: str = ""
    releasing: bool = False


class AllocationRelease(_RequestPart, frozen=True):
    """``termination_type`` is a ``TerminationType``.

    ``node_id``: of an allocation that is handed back with ``SCHEDULING_FAILED_ON_RM``, where it could not start.
    """

    application_id: str = ""
    allocation_key: str = ""
    partition_name: str = ""
    termination_type: str = "UNKNOWN_TERMINATION_TYPE"
    message: str = ""
    node_id: str = ""


class AllocationReleasesRequest(_RequestPart, frozen=True):
    allocations_to_release: Sequence[AllocationRelease] = []


class AcceptedNode(_Part, frozen=True):
    node_id: str


class RejectedNode(_Part, frozen=True):
    """``code`` is one of ``RejectionCode``, here and in the other rejections (an addition to the SI)."""

    node_id: str
    reason: str
    code: str = ""


class AcceptedApplication(_Part, frozen=True):
    """``queue_name`` is the leaf in which the application was placed."""

    application_id: str
    queue_name: str = ""


class RejectedApplication(_Part, frozen=True):
    application_id: str
    reason: str
    code: str = ""


class MovedApplication(_Part, frozen=True):
    """``queue_name`` is the leaf to which the application was moved (AP-136)."""

    application_id: str
    queue_name: str


class UpdatedApplication(_Part, frozen=True):
    """``state`` is an ``ApplicationState``."""

    application_id: str
    state: str
    state_transition_timestamp: int
    message: str = ""


class RejectedAllocation(_Part, frozen=True):
    allocation_key: str
    application_id: str
    reason: str
    code: str = ""


class PredicateCheck(_Part, frozen=True):
    """The question whether asks of a predicate class may run on the node. The allocation named is one of them.

    With ``allocate`` False: could they run there if preemption made room?
    """

    predicate: str
    node_id: str
    allocate: bool
    allocation_key: str = ""
    application_id: str = ""


class SchedulingStateEntry(_Part, frozen=True):
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


class PredicateAnswer(_RequestPart, frozen=True):
    """The asks may run on the node if ``error`` is empty; otherwise ``error`` is the reason why not.

    With ``uses`` this holds for so many placements, at least 1, after which the daemon asks anew.
    """

    predicate: str
    node_id: str
    allocate: bool = True
    error: str = ""
    uses: Int64 | None = None


class PredicateScope(_RequestPart, frozen=True):
    """The answers for a predicate class on a node; an empty field stands for all classes or all nodes."""

    predicate: str = ""
    node_id: str = ""


class PreemptionVictim(_Part, frozen=True):
    queue_name: str
    application_id: str
    allocation_key: str


class Alternative(_Part, frozen=True):
    """A node that was considered for the preemption, and why it was not chosen."""

    node_id: str
    reason: str


class Preemption(_Part, frozen=True):
    """An entry of the preemption ledger (an addition to the SI): the victims of one preemption, and why they may be preempted.

    Attributes:
        node_id: where the ask will run.
        kind: a ``PreemptionKind``: ``generic`` or ``required_node`` (PE-90).
        why: what allows the preemption, in a sentence.
        shares_before, shares_after: for each queue the largest used share of its guarantee, before the preemption, and after
            the victims are gone and the ask runs.
        rejected: other nodes that were considered, the best first; only the first few.
        work_lost: what the victims had used, in base units times seconds.
    """

    node_id: str
    kind: str
    why: str
    victims: Sequence[PreemptionVictim]
    shares_before: Mapping[str, float] = {}
    shares_after: Mapping[str, float] = {}
    rejected: Sequence[Alternative] = []
    work_lost: Mapping[str, int] = {}


class EventRecord(_Part, frozen=True):
    """One event of the feed; ``event_change_type`` and ``event_change_detail`` are the SI's names.

    ``preemption`` is set if the event is about an ask for which victims are preempted.
    """

    sequence: int
    type: str
    object_id: str
    event_change_type: str
    event_change_detail: str
    timestamp_nano: int
    reference_id: str = ""
    message: str = ""
    partition: str = ""
    queue_name: str = ""
    resource: Mapping[str, int] | None = None
    preemption: Preemption | None = None


# ---- resource manager to scheduler


class _Request(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    #: Chosen by the sender; the ``Ack`` or ``ErrorResponse`` that answers the request has the same id.
    id: str = ""


class RegisterResourceManagerRequest(_Request, frozen=True, kw_only=True):
    rm_id: str
    version: str = ""
    policy_group: str = ""
    build_info: Mapping[str, str] = {}
    config: str = ""
    extra_config: Mapping[str, str] = {}
    #: The number of the last message received, or "now" to continue with new messages only; unset: a fresh registration.
    resume_from: Int64 | Literal["now"] | UnsetType = UNSET
    #: The term of this number: that of the last ``Ack`` or ``RegisterResourceManagerResponse`` that answered a registration.
    term: str = ""
    #: True if the resource manager answers each ``PredicatesRequest``; if not, none is sent to it.
    answers_predicates: bool = False
    #: True if the resource manager is told why its asks wait (``SchedulingStateResponse``).
    wants_scheduling_states: bool = False
    #: Higher with each process that takes over from another one of this ``rmID``: a lower one is refused (SC-158).
    epoch: Annotated[int, Meta(ge=0, le=QUANTITY_MAX)] = 0


class DeregisterResourceManagerRequest(_Request, frozen=True, kw_only=True):
    """Ends the registration (an addition to the SI): drops all that the resource manager has, and any other may register."""


class NodeRequest(_Request, frozen=True, kw_only=True):
    nodes: Sequence[NodeInfo] = []


class ApplicationRequest(_Request, frozen=True, kw_only=True):
    """Carried out in this order: ``new``, ``records`` (an addition to the SI), ``remove``."""

    new: Sequence[AddApplicationRequest] = []
    records: Sequence[TaskRecord] = []
    remove: Sequence[RemoveApplicationRequest] = []


class AllocationRequest(_Request, frozen=True, kw_only=True):
    allocations: Sequence[Allocation] = []
    releases: AllocationReleasesRequest = AllocationReleasesRequest()


class UpdateConfigurationRequest(_Request, frozen=True, kw_only=True):
    config: str = ""
    extra_config: Mapping[str, str] = {}
    if_checksum: str = ""


class TerminateApplication(_Request, frozen=True, kw_only=True):
    """``ugi`` is the requesting user, who must be an administrator; if absent the resource manager requests, which is allowed."""

    application_id: str
    partition_name: str = ""
    ugi: UserGroupInformation | None = None


class MoveApplication(_Request, frozen=True, kw_only=True):
    """``ugi`` as in ``TerminateApplication``."""

    application_id: str
    queue_name: str
    partition_name: str = ""
    ugi: UserGroupInformation | None = None


class SetQueueQuotas(_Request, frozen=True, kw_only=True):
    """Sets quotas of a dynamic leaf (an addition to the SI): ``tags`` as those of applications, an empty one removes a quota."""

    queue_name: str
    tags: Mapping[str, str] = {}
    partition_name: str = ""


class PredicatesResponse(_Request, frozen=True, kw_only=True):
    """Answers to some or all checks of a ``PredicatesRequest``, or to future checks. ``forget`` is applied before ``answers``."""

    partition_name: str = ""
    forget: Sequence[PredicateScope] = []
    answers: Sequence[PredicateAnswer] = []


class ScheduleRequest(_Request, frozen=True, kw_only=True):
    steps: Int64 = 1


#: Every request but those about the registration: the messages of a scenario.
WorkRequest = (
    NodeRequest
    | ApplicationRequest
    | AllocationRequest
    | UpdateConfigurationRequest
    | TerminateApplication
    | MoveApplication
    | SetQueueQuotas
    | PredicatesResponse
    | ScheduleRequest
)
Request = RegisterResourceManagerRequest | WorkRequest | DeregisterResourceManagerRequest


# ---- operator to scheduler


class HoldApplication(_Request, frozen=True, kw_only=True):
    """Hold an application, so that it gets nothing new, or end its hold."""

    application_id: str
    partition_name: str = ""
    held: bool = True


class HoldQueue(_Request, frozen=True, kw_only=True):
    """The same for a queue with all below it."""

    queue_name: str
    partition_name: str = ""
    held: bool = True


class CancelAllocation(_Request, frozen=True, kw_only=True):
    """Remove a pending ask, or release an allocation."""

    application_id: str
    allocation_key: str
    partition_name: str = ""


class SetPriority(_Request, frozen=True, kw_only=True):
    """Give a pending ask another priority; without ``allocation_key`` all pending asks of the application."""

    application_id: str
    priority: Priority
    allocation_key: str = ""
    partition_name: str = ""


class ExpectNoAllocations(_Request, frozen=True, kw_only=True):
    """Refused if an ask or allocation has one of these keys: before names are taken for those of applications."""

    allocation_keys: Sequence[str] = []
    partition_name: str = ""


class ReloadConfiguration(_Request, frozen=True, kw_only=True):
    """Read the queue file that the daemon watches again now, and put it into force."""


class ReleaseResourceManager(_Request, frozen=True, kw_only=True):
    """End the registration of the resource manager ``rm_id``, as its own ``DeregisterResourceManagerRequest`` does.

    With ``forget_epoch`` also forget its epoch, whether it is registered or not (SC-158).
    """

    rm_id: str
    forget_epoch: bool = False


#: The acts of an operator on applications and queues. It acts for itself: ``ugi`` is absent.
OperatorAct = TerminateApplication | MoveApplication | HoldApplication | HoldQueue | CancelAllocation | SetPriority
#: Of a ``NodeRequest`` it has DRAIN_NODE and DRAIN_TO_SCHEDULABLE.
OperatorRequest = (
    OperatorAct | ExpectNoAllocations | NodeRequest | UpdateConfigurationRequest | ReloadConfiguration | ReleaseResourceManager
)


# ---- scheduler to resource manager


class _Response(_Message, frozen=True, kw_only=True):
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
        term: of a registration: the present term of the daemon (EV-55). The numbers of messages belong to it from here on.
    """

    id: str
    checksum: str = ""
    releasing: bool = False
    term: str = ""


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


# ---- the feed


class Subscribe(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The events that a client wants to receive.

    Attributes:
        from_: "now" (default), "snapshot" or a sequence number, which means to start with the event after it: a follower sends
            the number of the last event that it has. One more than the newest is answered with a ``Bookmark`` at the newest.
        term: the term of this number (``Bookmark.term``). If the history of the daemon does not have this number of this term, a
            ``Snapshot`` with the reason confirms the subscription. Empty: not known, and any history will do.
        instance: the same for clients of version 0.2; such a number is refused with ``RESYNC_REQUIRED``.
        pending_asks: whether a ``Snapshot`` has ``pendingAsks`` in each partition: by a number in parts, each with
            ``applicationID``, and the ``allocationKeys`` and ``creationTimes`` of up to 500 of its pending asks.
        partitions, queues, applications, kinds: which events; empty means all. A queue includes all queues below it, and has to
            exist or to be below one that exists. A kind is a type or a detail.
    """

    from_: Int64 | str = "now"
    term: str = ""
    instance: str = ""
    pending_asks: bool = False
    partitions: list[str] = []
    queues: list[str] = []
    applications: list[str] = []
    kinds: list[str] = []


class ReadConfiguration(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for the queue configuration in force, which is answered with ``Configuration``."""


class CheckHealth(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask whether the daemon is well, which is answered with ``Health``."""


class ReadUsage(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask what was used and waited for, which is answered with ``Usage`` (AP-141).

    Attributes:
        by: what is summed up for itself, each once: day, queue, user, group, application.
        first_day, last_day: of the days that count, dates such as ``2026-01-31``, in UTC; empty: the first and the last that
            are kept.
        partitions: those that count, together; empty means all.
    """

    by: Sequence[str] = ("user",)
    first_day: str = ""
    last_day: str = ""
    partitions: list[str] = []


#: The messages of a follower. Only a subscription goes on: the others have one answer, beside the subscription.
FeedRequest = Subscribe | ReadConfiguration | CheckHealth | ReadUsage


class RegisteredResourceManager(_Part, frozen=True):
    """The resource manager that serves all partitions.

    Attributes:
        connected: whether it has a session.
        since: the Unix time in ns at which this session began, or the last one ended; without a session since the daemon was
            started, that of the start.
    """

    rm_id: str
    connected: bool
    since: int


class Snapshot(_Message, frozen=True, kw_only=True):
    """The state after the event ``sequence``; ``term``, ``instance`` and ``missing_queues`` as in ``Bookmark``.

    Attributes:
        reason: why there is a snapshot although the subscription named a number; "" if it asked for one.
        cycles: for each partition ``count``, since the daemon was started, ``lastSeconds``, ``meanSeconds`` and ``maxSeconds``.
        resource_manager: null if none is registered; left out for a limited reader.
    """

    sequence: int
    term: str = ""
    instance: str = ""
    reason: str = ""
    missing_queues: list[str] = []
    partitions: list[PartitionStatus]
    cycles: Mapping[str, Mapping[str, int | float]] = {}
    resource_manager: RegisteredResourceManager | UnsetType | None = UNSET


class Events(_Message, frozen=True, kw_only=True):
    events: list[EventRecord]


class Bookmark(_Message, frozen=True, kw_only=True):
    """All wanted events up to ``sequence`` were sent; ``term`` is the present one of the daemon, to which this number belongs.

    ``instance`` is the same text, for clients of version 0.2.
    ``missing_queues``, in the confirmation of a subscription, are those of its queues that do not exist yet.
    """

    sequence: int
    term: str = ""
    instance: str = ""
    missing_queues: list[str] = []


class Lagged(_Message, frozen=True, kw_only=True):
    """The events ``from_`` to ``to`` (inclusive) are lost for this subscriber."""

    from_: int
    to: int


class Configuration(_Message, frozen=True, kw_only=True):
    """The queue configuration in force: the text as it was read, and its checksum (CF-12)."""

    config: str
    checksum: str


class HealthCheck(_Part, frozen=True):
    """One check; ``problem`` says what is wrong, and is "" if it has succeeded."""

    name: str
    description: str
    problem: str = ""


class Health(_Message, frozen=True, kw_only=True):
    """The checks of the last 30 s; the daemon is healthy if all have succeeded.

    ``resource_manager`` is as in ``Snapshot``, and no check: the daemon is well while it is away.
    """

    healthy: bool
    checks: list[HealthCheck]
    resource_manager: RegisteredResourceManager | UnsetType | None = UNSET


class UsageRow(_Part, frozen=True):
    """Resource-seconds of what was asked for; the other columns are empty.

    Attributes:
        day: a date such as ``2026-01-31``, in UTC.
        allocated, waited: what tasks have used, and what asks have waited for; in base units times seconds. An amount beyond 64
            bits is a text of its digits.
        lost: the part of ``allocated`` that preempted tasks have used.
    """

    day: str = ""
    queue: str = ""
    user: str = ""
    group: str = ""
    application: str = ""
    allocated: Mapping[str, int | str] = {}
    waited: Mapping[str, int | str] = {}
    lost: Mapping[str, int | str] = {}


class Usage(_Message, frozen=True, kw_only=True):
    """The use and the waiting up to now; the rows are in no order."""

    rows: list[UsageRow]


FeedMessage = Snapshot | Events | Bookmark | Lagged | Configuration | Health | Usage | ErrorResponse | JournalStatus
