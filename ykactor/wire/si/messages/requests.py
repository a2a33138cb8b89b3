"""The requests of resource managers and of operators."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from ykactor.core.values.resources import QUANTITY_MAX
from ykactor.wire.si.messages.base import Int64, Message, NotNegative, Priority, RequestPart, WireResource

# ---- parts


class UserGroupInformation(RequestPart, frozen=True):
    user: str = ""
    groups: Sequence[str] = []


class NodeInfo(RequestPart, frozen=True):
    """``action`` is a ``NodeAction``."""

    node_id: str
    action: str
    attributes: Mapping[str, str] = {}
    schedulable_resource: WireResource | None = None


class AddApplicationRequest(RequestPart, frozen=True):
    application_id: str
    queue_name: str = ""
    partition_name: str = ""
    ugi: UserGroupInformation = UserGroupInformation()
    tags: Mapping[str, str] = {}
    execution_timeout_milli_seconds: Int64 = 0
    placeholder_ask: WireResource | None = None
    gang_scheduling_style: str = ""


class RemoveApplicationRequest(RequestPart, frozen=True):
    """The end of an application. With an ``outcome``, an ``Outcome``, it stays visible (an addition to the SI)."""

    application_id: str
    partition_name: str = ""
    outcome: str = ""
    message: str = ""


class TaskRecord(RequestPart, frozen=True):
    """The end of a task (an addition to the SI): ``state`` is a ``TaskOutcome``.

    Times are Unix nanoseconds, ``cpu_time`` is nanoseconds too, ``peak_memory`` is bytes.
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
    eligible_time: NotNegative = 0
    cpu_time: NotNegative | None = None
    message: str = ""


class JobReport(RequestPart, frozen=True, kw_only=True):
    """The job that an application is (an addition to the SI): how many tasks it has, and how many have ended in which way."""

    application_id: str
    partition_name: str = ""
    name: str = ""
    tasks: NotNegative
    completed: NotNegative = 0
    failed: NotNegative = 0
    cancelled: NotNegative = 0


class PreemptionPolicy(RequestPart, frozen=True):
    """An absent field is not the same as a false one: ``requests`` fills in its default (AP-53)."""

    allow_preempt_self: bool | UnsetType = UNSET
    allow_preempt_other: bool | UnsetType = UNSET


class Allocation(RequestPart, frozen=True):
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


class AllocationRelease(RequestPart, frozen=True):
    """``termination_type`` is a ``TerminationType``.

    ``node_id``: of an allocation that is handed back with ``SCHEDULING_FAILED_ON_RM``, where it could not start.
    """

    application_id: str = ""
    allocation_key: str = ""
    partition_name: str = ""
    termination_type: str = "UNKNOWN_TERMINATION_TYPE"
    message: str = ""
    node_id: str = ""


class AllocationReleasesRequest(RequestPart, frozen=True):
    allocations_to_release: Sequence[AllocationRelease] = []


class PredicateAnswer(RequestPart, frozen=True):
    """The asks may run on the node if ``error`` is empty; otherwise ``error`` is the reason why not.

    With ``uses`` this holds for so many placements, at least 1, after which the daemon asks anew.
    """

    predicate: str
    node_id: str
    allocate: bool = True
    error: str = ""
    uses: Int64 | None = None


class PredicateScope(RequestPart, frozen=True):
    """The answers for a predicate class on a node; an empty field stands for all classes or all nodes."""

    predicate: str = ""
    node_id: str = ""


# ---- resource manager to scheduler


class _Request(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    """Carried out in this order: ``new``, ``jobs`` and ``records`` (additions to the SI), ``remove``."""

    new: Sequence[AddApplicationRequest] = []
    jobs: Sequence[JobReport] = []
    records: Sequence[TaskRecord] = []
    remove: Sequence[RemoveApplicationRequest] = []


class AllocationRequest(_Request, frozen=True, kw_only=True):
    allocations: Sequence[Allocation] = []
    releases: AllocationReleasesRequest = AllocationReleasesRequest()


class UpdateConfigurationRequest(_Request, frozen=True, kw_only=True):
    """Another configuration (CF-91).

    Attributes:
        confirm_within_seconds: for operators: unless it is confirmed in time, the one of before comes back.
        waits_for_confirmation: for resource managers; False if it is to be refused at once while another one awaits confirmation.
    """

    config: str = ""
    extra_config: Mapping[str, str] = {}
    if_checksum: str = ""
    confirm_within_seconds: float | None = None
    waits_for_confirmation: bool = True


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


class ConfirmConfiguration(_Request, frozen=True, kw_only=True):
    """Keep the configuration that awaits confirmation (CF-91); with ``if_checksum`` only if it is this one.

    With ``if_checksum`` nothing is wrong if this configuration is in force and awaits no confirmation.
    """

    if_checksum: str = ""


class RollBackConfiguration(_Request, frozen=True, kw_only=True):
    """Put the configuration back into force that was there before the one that awaits confirmation."""


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
    OperatorAct
    | ExpectNoAllocations
    | NodeRequest
    | UpdateConfigurationRequest
    | ReloadConfiguration
    | ConfirmConfiguration
    | RollBackConfiguration
    | ReleaseResourceManager
)
