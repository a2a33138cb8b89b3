"""The wire vocabulary: the messages of YuniKorn's scheduler interface (SI) as tagged structs.

Field names are the SI's; in Python they are snake case and ``_si_name`` joins the two. Everything is optional that the
SI lets a sender leave out. Structs here are plain data: meaning is given to them by ``wire.translate``.

What a client sends is strict: an unknown field is its typo. What only the daemon sends is not, so that older clients can
read it. A field that a sender left out is not written when its message is encoded again (``wire.codec`` relies on it).
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from ykactor.core.values.resources import QUANTITY_MAX, QUANTITY_MIN

#: Words that the SI writes in capitals at the end of a name.
_ACRONYMS = {"id": "ID"}

#: On the wire a quantity is a 64-bit integer in base units, or text as in the queue configuration ("2Gi").
Quantity = Annotated[int, Meta(ge=QUANTITY_MIN, le=QUANTITY_MAX)] | str
WireResource = dict[str, Quantity]

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
    """A whole message, told apart by its ``type``."""


# ---- parts


class UserGroupInformation(_RequestPart, frozen=True):
    user: str = ""
    groups: list[str] = []


class NodeInfo(_RequestPart, frozen=True):
    node_id: str
    action: str
    attributes: dict[str, str] = {}
    schedulable_resource: WireResource | None = None


class AddApplicationRequest(_RequestPart, frozen=True):
    application_id: str
    queue_name: str = ""
    partition_name: str = ""
    ugi: UserGroupInformation = UserGroupInformation()
    tags: dict[str, str] = {}
    execution_timeout_milli_seconds: int = 0
    placeholder_ask: WireResource | None = None
    gang_scheduling_style: str = ""


class RemoveApplicationRequest(_RequestPart, frozen=True):
    application_id: str
    partition_name: str = ""


class PreemptionPolicy(_RequestPart, frozen=True):
    """An absent field is not the same as a false one: ``wire.translate`` fills it in (AP-53)."""

    allow_preempt_self: bool | UnsetType = UNSET
    allow_preempt_other: bool | UnsetType = UNSET


class Allocation(_RequestPart, frozen=True):
    allocation_key: str
    application_id: str = ""
    partition_name: str = ""
    resource_per_alloc: WireResource = {}
    priority: Priority = 0
    allocation_tags: dict[str, str] = {}
    task_group_name: str = ""
    placeholder: bool = False
    originator: bool = False
    preemption_policy: PreemptionPolicy | None = None
    node_id: str = ""


class AllocationRelease(_RequestPart, frozen=True):
    application_id: str = ""
    allocation_key: str = ""
    partition_name: str = ""
    termination_type: str = "UNKNOWN_TERMINATION_TYPE"
    message: str = ""


class AllocationReleasesRequest(_RequestPart, frozen=True):
    allocations_to_release: list[AllocationRelease] = []


class AcceptedNode(_Part, frozen=True):
    node_id: str


class RejectedNode(_Part, frozen=True):
    node_id: str
    reason: str


class AcceptedApplication(_Part, frozen=True):
    """``queue_name`` is where it was placed."""

    application_id: str
    queue_name: str = ""


class RejectedApplication(_Part, frozen=True):
    application_id: str
    reason: str


class UpdatedApplication(_Part, frozen=True):
    application_id: str
    state: str
    state_transition_timestamp: int
    message: str = ""


class RejectedAllocation(_Part, frozen=True):
    allocation_key: str
    application_id: str
    reason: str


class PredicateCheck(_Part, frozen=True):
    """May asks of the class ``predicate`` run on the node? The allocation named is one of them.

    ``allocate`` False asks whether they could if what runs there made room.
    """

    predicate: str
    node_id: str
    allocate: bool
    allocation_key: str = ""
    application_id: str = ""


class PredicateAnswer(_RequestPart, frozen=True):
    """They may if ``error`` is empty, else it says why not."""

    predicate: str
    node_id: str
    allocate: bool = True
    error: str = ""


class PredicateScope(_RequestPart, frozen=True):
    """What has been answered about a class on a node; a field that is empty means all of them."""

    predicate: str = ""
    node_id: str = ""


class PreemptionVictim(_Part, frozen=True):
    queue_name: str
    application_id: str
    allocation_key: str


class Alternative(_Part, frozen=True):
    """Another node on which others could have gone, and why they do not."""

    node_id: str
    reason: str


class Preemption(_Part, frozen=True):
    """An entry of the ledger of preemptions (ours, not the SI's): who goes for an ask, and why they may be told to.

    Attributes:
        node_id: where the ask will run.
        why: the law that allows it, in a sentence.
        shares_before, shares_after: by queue the largest used part of its guarantee, as it will be when all has happened.
        rejected: other nodes that were looked at, the best first; only the first few.
        work_lost: what the victims had used, in base units times seconds.
    """

    node_id: str
    why: str
    victims: list[PreemptionVictim]
    shares_before: dict[str, float] = {}
    shares_after: dict[str, float] = {}
    rejected: list[Alternative] = []
    work_lost: dict[str, int] = {}


class EventRecord(_Part, frozen=True):
    """One line of the feed; ``event_change_type`` and ``event_change_detail`` are the SI's names.

    ``preemption`` is there when others are told to go for the ask that the event is about.
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
    resource: dict[str, int] | None = None
    preemption: Preemption | None = None


# ---- resource manager to scheduler


class _Request(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    #: Chosen by the sender; answered by an ``Ack`` or an ``ErrorResponse`` with the same id.
    id: str = ""


class RegisterResourceManagerRequest(_Request, frozen=True, kw_only=True):
    rm_id: str
    version: str = ""
    policy_group: str = ""
    build_info: dict[str, str] = {}
    config: str = ""
    extra_config: dict[str, str] = {}
    resume_from: int | UnsetType = UNSET
    #: Whether it answers each ``PredicatesRequest`` with a ``PredicatesResponse``; else it is sent none.
    answers_predicates: bool = False


class NodeRequest(_Request, frozen=True, kw_only=True):
    nodes: list[NodeInfo] = []


class ApplicationRequest(_Request, frozen=True, kw_only=True):
    new: list[AddApplicationRequest] = []
    remove: list[RemoveApplicationRequest] = []


class AllocationRequest(_Request, frozen=True, kw_only=True):
    allocations: list[Allocation] = []
    releases: AllocationReleasesRequest = AllocationReleasesRequest()


class UpdateConfigurationRequest(_Request, frozen=True, kw_only=True):
    config: str = ""
    extra_config: dict[str, str] = {}
    if_checksum: str = ""


class TerminateApplication(_Request, frozen=True, kw_only=True):
    """``ugi`` is who asks and has to be an administrator; without it the resource manager does, which may."""

    application_id: str
    partition_name: str = ""
    ugi: UserGroupInformation | None = None


class MoveApplication(_Request, frozen=True, kw_only=True):
    """``ugi`` as in ``TerminateApplication``."""

    application_id: str
    queue_name: str
    partition_name: str = ""
    ugi: UserGroupInformation | None = None


class PredicatesResponse(_Request, frozen=True, kw_only=True):
    """Answers to checks of a ``PredicatesRequest``, all or some, or to checks that may come; before them, what to forget."""

    partition_name: str = ""
    forget: list[PredicateScope] = []
    answers: list[PredicateAnswer] = []


class ScheduleRequest(_Request, frozen=True, kw_only=True):
    steps: int = 1


#: The work of a resource manager: what scenarios are made of.
WorkRequest = (
    NodeRequest
    | ApplicationRequest
    | AllocationRequest
    | UpdateConfigurationRequest
    | TerminateApplication
    | MoveApplication
    | PredicatesResponse
    | ScheduleRequest
)
Request = RegisterResourceManagerRequest | WorkRequest


# ---- scheduler to resource manager


class _Response(_Message, frozen=True, kw_only=True):
    #: One higher with each message to this ``rmID``.
    sequence: int = 0


class RegisterResourceManagerResponse(_Response, frozen=True, kw_only=True):
    pass


class NodeResponse(_Response, frozen=True, kw_only=True):
    accepted: list[AcceptedNode] = []
    rejected: list[RejectedNode] = []


class ApplicationResponse(_Response, frozen=True, kw_only=True):
    accepted: list[AcceptedApplication] = []
    rejected: list[RejectedApplication] = []
    updated: list[UpdatedApplication] = []


class AllocationResponse(_Response, frozen=True, kw_only=True):
    new: list[Allocation] = []
    released: list[AllocationRelease] = []
    rejected_allocations: list[RejectedAllocation] = []


class PredicatesRequest(_Response, frozen=True, kw_only=True):
    """What the scheduler wants to know; a ``PredicatesResponse`` answers it."""

    partition_name: str = ""
    checks: list[PredicateCheck] = []


class Ack(_Response, frozen=True, kw_only=True):
    """The request ``id`` is carried out; to one that changed the configuration with the ``checksum`` of what runs now."""

    id: str
    checksum: str = ""


class ErrorResponse(_Response, frozen=True, kw_only=True):
    code: str
    message: str
    path: str = ""
    id: str = ""


Response = (
    RegisterResourceManagerResponse
    | NodeResponse
    | ApplicationResponse
    | AllocationResponse
    | PredicatesRequest
    | Ack
    | ErrorResponse
)


# ---- the feed


class Subscribe(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client wants to see.

    Attributes:
        from_: "now" (default), "snapshot" or a sequence number: the first event wanted is the one after it.
        instance: the run of the daemon that gave this sequence number (``Bookmark.instance``). Numbers begin anew with every
            run: those of another one are refused with ``RESYNC_REQUIRED``. Empty: the client does not know.
    """

    from_: int | str = "now"
    instance: str = ""
    partitions: list[str] = []
    queues: list[str] = []
    applications: list[str] = []
    kinds: list[str] = []


class Snapshot(_Message, frozen=True, kw_only=True):
    """The state exactly at ``sequence``; ``instance`` as in ``Bookmark``."""

    sequence: int
    instance: str = ""
    partitions: list[dict[str, Any]]


class Events(_Message, frozen=True, kw_only=True):
    events: list[EventRecord]


class Bookmark(_Message, frozen=True, kw_only=True):
    """Nothing up to ``sequence`` is missing; ``instance`` names the daemon's run: another one numbers other events."""

    sequence: int
    instance: str = ""


class Lagged(_Message, frozen=True, kw_only=True):
    """The events ``from_`` to ``to`` (both included) are gone for this subscriber."""

    from_: int
    to: int


FeedMessage = Snapshot | Events | Bookmark | Lagged | ErrorResponse
