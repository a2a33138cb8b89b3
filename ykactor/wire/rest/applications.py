"""Applications and their tasks as the REST API shows them: the names of Apache YuniKorn, and what each is made of (``types``)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, UnsetType, field

from ykactor.core.inspection.application_status import ApplicationDetails, ApplicationStatus, RecordStatus, StateStatus
from ykactor.core.inspection.task_status import AllocationStatus, AskStatus, ForeignStatus
from ykactor.core.messages.states import ApplicationState, Outcome
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values.resources import Resource
from ykactor.core.values.times import MS_NS, S_NS, utc_text
from ykactor.wire.rest.types import Payload

#: The start of an application that never ran: the first second of the year 1, in Unix milliseconds.
NEVER_STARTED_MS = -62_135_596_800_000


class StateChange(Payload, frozen=True, kw_only=True):
    """The time at which an application came into a state."""

    time: int = 0
    state: str = field(name="applicationState", default="")


class TaskGroup(Payload, frozen=True, kw_only=True):
    """The placeholders of a task group."""

    task_group_name: str = ""
    count: int = 0
    min_resource: Resource = {}
    replaced: int = 0
    timed_out: int = field(name="timedout", default=0)


class ResourceHistory(Payload, frozen=True, kw_only=True):
    """Amounts times whole seconds, by type of instance: of tasks that ended, that were preempted, and of placeholders."""

    used: dict[str, Resource] = field(name="resourceUsage", default={})
    preempted: dict[str, Resource] = field(name="preemptedResource", default={})
    placeholders: dict[str, Resource] = field(name="placeholderResource", default={})


class Application(Payload, frozen=True, kw_only=True):
    """An application.

    Attributes:
        max_used: the most that it has used at a time.
        queue_name: empty if it was rejected before it had a queue.
        requests, allocations: of a live one they are put in encoded (``codec.encode_with``).
        finished_time: 0 while it lives.
        rejected_message: why it was rejected, or how it has ended, if its resource manager has said so.
        state_log: the oldest first.
        reservations: the keys of asks for which a node is reserved.
        start_time: when it entered Running from another state for the last time, Unix milliseconds.
        backoff_deadline: such as ``2026-01-01T00:00:00.5Z``.
    """

    application_id: str = field(name="applicationID")
    allocated: Resource = field(name="usedResource", default={})
    max_used: Resource = field(name="maxUsedResource", default={})
    pending_resource: Resource = {}
    partition: str
    queue_name: str
    submission_time: int = 0
    finished_time: int = 0
    requests: list[Request] = []
    allocations: list[Allocation] = []
    state: str = field(name="applicationState", default="")
    user: str = ""
    groups: list[str] = []
    rejected_message: str = ""
    state_log: list[StateChange] = []
    placeholder_data: list[TaskGroup] = []
    has_reserved: bool = False
    reservations: list[str] = []
    max_request_priority: int = 0
    start_time: int = 0
    resource_history: ResourceHistory
    backoff_deadline: str = ""


def state_name(state: str) -> str:
    """The name of a state, also of one that Apache YuniKorn does not have (AP-40)."""
    return ApplicationState.RUNNING.value if state == ApplicationState.STARTING else state


def application(
    partition: str, application_id: str, status: ApplicationStatus, details: ApplicationDetails, pending: Resource
) -> Application:
    """An application that lives or has ended; ``status`` is without its tasks, and ``pending`` is what its asks want together."""
    return Application.of(
        status,
        details,
        application_id=application_id,
        pending_resource=pending,
        partition=partition,
        state=state_name(status.state),
        rejected_message=_end(status, details),
        state_log=_state_log(details.states),
        placeholder_data=[TaskGroup.of(group, task_group_name=name) for name, group in details.task_groups.items()],
        has_reserved=bool(details.reservations),
        max_request_priority=PRIORITY_MIN if status.priority is UNSET else status.priority,
        start_time=NEVER_STARTED_MS if details.running_since is UNSET else details.running_since // MS_NS,
        resource_history=ResourceHistory.of(details),
        backoff_deadline=rfc3339(details.backoff_end) if details.backoff_end else "",
    )


def _end(status: ApplicationStatus, details: ApplicationDetails) -> str:
    """The reason of a rejection, or the outcome of an application, if it says more than its state."""
    if status.allocated is not UNSET:  # it lives
        return ""
    if status.state == ApplicationState.REJECTED:
        return status.reason or ""
    if status.outcome != Outcome.CANCELLED:
        return details.message
    return f"{status.outcome}: {details.message}" if details.message else Outcome.CANCELLED.value


def _state_log(states: Iterable[StateStatus]) -> list[StateChange]:
    """The changes between states that are not shown as the same."""
    log: list[StateChange] = []
    for change in states:
        shown = state_name(change.state)
        if not log or log[-1].state != shown:
            log.append(StateChange.of(change, state=shown))
    return log


def rfc3339(at_ns: int) -> str:
    """Such as ``2026-01-01T00:00:00.5Z``."""
    rest = at_ns % S_NS
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{utc_text(at_ns)[:-1]}{fraction}Z"


# ---- tasks: asks, allocations, those of other schedulers, and what Apache YuniKorn does not have


class Request(Payload, frozen=True, kw_only=True):
    """An ask that is pending.

    Attributes:
        priority: the text of a number.
        is_tried: asks like it were tried, and their queues or the nodes had no room.
        has_notified_failed: the resource manager was told last that no node can take it (AP-147).
    """

    allocation_key: str
    tags: dict[str, str] = field(name="allocationTags", default={})
    creation_time: int = field(name="requestTime", default=0)
    resource: Resource = {}
    priority: str
    required_node: str | UnsetType = field(name="requiredNodeId", default=UNSET)
    application_id: str = ""
    placeholder: bool = False
    task_group_name: str = ""
    is_preempting: bool = field(name="triggeredPreemption", default=False)
    originator: bool = False
    is_tried: bool = field(name="schedulingAttempted", default=False)
    has_notified_failed: bool = field(name="triggeredScaleUp", default=False)


class Allocation(Payload, frozen=True, kw_only=True):
    """An ask that runs.

    Attributes:
        request_time: when the ask, or the placeholder that it has replaced, was made.
        allocation_delay: from then to ``start_time``.
        has_replaced: it has replaced a placeholder.
        is_victim: it is being preempted.
    """

    allocation_key: str
    tags: dict[str, str] = field(name="allocationTags", default={})
    request_time: int = 0
    start_time: int = field(name="allocationTime", default=0)
    allocation_delay: int = 0
    resource: Resource = {}
    priority: str
    node_id: str = ""
    application_id: str = ""
    placeholder: bool = False
    has_replaced: bool = field(name="placeholderUsed", default=False)
    task_group_name: str = ""
    is_victim: bool = field(name="preempted", default=False)
    originator: bool = False


class ForeignAllocation(Payload, frozen=True, kw_only=True):
    """An allocation that another scheduler, or nobody, has placed on a node.

    Attributes:
        creation_time: 0 if it comes from the journal of an older version, which did not keep that.
        preemptable: False if its tag ``foreign`` is ``static``. No rule depends on it (SC-85).
    """

    allocation_key: str
    tags: dict[str, str] = field(name="allocationTags", default={})
    creation_time: int = field(name="allocationTime", default=0)
    resource: Resource = {}
    priority: str
    node_id: str
    preemptable: bool = False


class PendingAsk(Payload, frozen=True, kw_only=True):
    """The reason for which an ask is pending now: a code (AP-150), and a sentence."""

    allocation_key: str
    code: str
    reason: str


class TaskRecord(Payload, frozen=True, kw_only=True):
    """The end of a task, as its resource manager reports it (AP-152).

    Attributes:
        exit_code: null if there is none.
        signal: the name of the one that has ended it.
        reason: why it has ended like that, for people.
        queue_name: the queue in which it has ended.
        eligible_time, start_time, finished_time: Unix nanoseconds, of which the first one is when it began to wait for a place; 0
            if they are not known.
        cpu_time: nanoseconds; like ``peak_memory``, which is bytes, null if nothing has measured it.
    """

    allocation_key: str
    user: str
    node_id: str = ""
    state: str
    exit_code: int | None
    signal: str = ""
    reason: str = ""
    queue_name: str = ""
    eligible_time: int = 0
    start_time: int = 0
    finished_time: int = 0
    cpu_time: int | None
    peak_memory: int | None


def request(ask: AskStatus) -> Request:
    """A pending ask. Not by ``Payload.of``, which takes six times as long: there may be a million of them."""
    return Request(
        allocation_key=ask.allocation_key,
        tags=ask.tags,
        creation_time=ask.creation_time,
        resource=ask.resource,
        priority=str(ask.priority),
        required_node=ask.required_node,
        application_id=ask.application_id,
        placeholder=ask.placeholder,
        task_group_name=ask.task_group_name,
        is_preempting=ask.is_preempting,
        originator=ask.originator,
        is_tried=ask.is_tried,
        has_notified_failed=ask.has_notified_failed,
    )


def allocation(task: AllocationStatus) -> Allocation:
    """An allocation of an application, likewise."""
    return Allocation(
        allocation_key=task.allocation_key,
        tags=task.tags,
        request_time=task.request_time,
        start_time=task.start_time,
        allocation_delay=max(0, task.start_time - task.request_time),
        resource=task.resource,
        priority=str(task.priority),
        node_id=task.node_id,
        application_id=task.application_id,
        placeholder=task.placeholder,
        has_replaced=task.has_replaced,
        task_group_name=task.task_group_name,
        is_victim=task.is_victim,
        originator=task.originator,
    )


def foreign(task: ForeignStatus) -> ForeignAllocation:
    """An allocation of another scheduler."""
    return ForeignAllocation.of(task, priority=str(task.priority), preemptable=not task.is_static)


def record(user: str, ended: RecordStatus) -> TaskRecord:
    """The end of a task of a user."""
    return TaskRecord.of(
        ended,
        user=user,
        exit_code=None if ended.exit_code is UNSET else ended.exit_code,
        cpu_time=None if ended.cpu_time is UNSET else ended.cpu_time,
        peak_memory=None if ended.peak_memory is UNSET else ended.peak_memory,
    )
