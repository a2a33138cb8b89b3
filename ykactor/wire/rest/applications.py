"""Applications and their tasks as the REST API shows them: the names of Apache YuniKorn, and what each is made of (``types``)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, field

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
    application_state: str = ""


class TaskGroup(Payload, frozen=True, kw_only=True):
    """The placeholders of a task group."""

    task_group_name: str = ""
    count: int = 0
    min_resource: Resource = {}
    replaced: int = 0
    timedout: int = 0


class ResourceHistory(Payload, frozen=True, kw_only=True):
    """Amounts times whole seconds, by type of instance: of tasks that ended, that were preempted, and of placeholders."""

    resource_usage: dict[str, Resource] = {}
    preempted_resource: dict[str, Resource] = {}
    placeholder_resource: dict[str, Resource] = {}


class Application(Payload, frozen=True, kw_only=True):
    """An application.

    Attributes:
        max_used_resource: the most that it has used at a time.
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
    used_resource: Resource = {}
    max_used_resource: Resource = {}
    pending_resource: Resource = {}
    partition: str
    queue_name: str
    submission_time: int = 0
    finished_time: int = 0
    requests: list[Request] = []
    allocations: list[Allocation] = []
    application_state: str = ""
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


_NO_HISTORY = ResourceHistory()


def state_name(state: str) -> str:
    """The name of a state, also of one that Apache YuniKorn does not have (AP-40)."""
    return ApplicationState.RUNNING.value if state == ApplicationState.STARTING else state


def application(
    partition: str, application_id: str, status: ApplicationStatus, details: ApplicationDetails, pending: Resource
) -> Application:
    """An application that lives or has ended; ``pending`` is what its asks want together."""
    return Application(
        application_id=application_id,
        used_resource=status.allocated or {},
        max_used_resource=details.max_used,
        pending_resource=pending,
        partition=partition,
        queue_name=status.queue_name,
        submission_time=status.submission_time or 0,
        finished_time=status.finished_time or 0,
        application_state=state_name(status.state),
        user=status.user or "",
        groups=status.groups or [],
        rejected_message=_end(status, details),
        state_log=_state_log(details.states),
        placeholder_data=[
            TaskGroup(
                task_group_name=name,
                count=group.count,
                min_resource=group.min_resource,
                replaced=group.replaced,
                timedout=group.timed_out,
            )
            for name, group in details.task_groups.items()
        ],
        has_reserved=bool(details.reservations),
        reservations=details.reservations,
        max_request_priority=PRIORITY_MIN if status.priority is UNSET else status.priority,
        start_time=NEVER_STARTED_MS if details.running_since is UNSET else details.running_since // MS_NS,
        resource_history=_history(details),
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
        if not log or log[-1].application_state != shown:
            log.append(StateChange(time=change.time, application_state=shown))
    return log


def _history(details: ApplicationDetails) -> ResourceHistory:
    if not (details.used or details.preempted or details.placeholders):
        return _NO_HISTORY
    return ResourceHistory(
        resource_usage=details.used, preempted_resource=details.preempted, placeholder_resource=details.placeholders
    )


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
        scheduling_attempted: asks like it were tried, and their queues or the nodes had no room.
        triggered_scale_up: the resource manager was told last that no node can take it (AP-147).
    """

    allocation_key: str
    allocation_tags: dict[str, str] = {}
    request_time: int = 0
    resource: Resource = {}
    priority: str
    required_node_id: str = ""
    application_id: str = ""
    placeholder: bool = False
    task_group_name: str = ""
    triggered_preemption: bool = False
    originator: bool = False
    scheduling_attempted: bool = False
    triggered_scale_up: bool = False


class Allocation(Payload, frozen=True, kw_only=True):
    """An ask that runs.

    Attributes:
        request_time: when the ask, or the placeholder that it has replaced, was made.
        allocation_delay: from then to ``allocation_time``.
        placeholder_used: it has replaced a placeholder.
        preempted: it is being preempted.
    """

    allocation_key: str
    allocation_tags: dict[str, str] = {}
    request_time: int = 0
    allocation_time: int = 0
    allocation_delay: int = 0
    resource: Resource = {}
    priority: str
    node_id: str = ""
    application_id: str = ""
    placeholder: bool = False
    placeholder_used: bool = False
    task_group_name: str = ""
    preempted: bool = False
    originator: bool = False


class ForeignAllocation(Payload, frozen=True, kw_only=True):
    """An allocation that another scheduler, or nobody, has placed on a node.

    Attributes:
        allocation_time: when it was created; 0 if it comes from the journal of an older version, which did not keep that.
        preemptable: False if its tag ``foreign`` is ``static``. No rule depends on it (SC-85).
    """

    allocation_key: str
    allocation_tags: dict[str, str] = {}
    allocation_time: int = 0
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
        start_time, finished_time: Unix nanoseconds; 0 if they are not known.
        peak_memory: bytes; null if nothing has measured it.
    """

    allocation_key: str
    user: str
    node_id: str = ""
    state: str
    exit_code: int | None
    signal: str = ""
    start_time: int = 0
    finished_time: int = 0
    peak_memory: int | None


def request(ask: AskStatus) -> Request:
    """A pending ask."""
    return Request(
        allocation_key=ask.allocation_key,
        allocation_tags=ask.tags,
        request_time=ask.creation_time,
        resource=ask.resource,
        priority=str(ask.priority),
        required_node_id=ask.required_node or "",
        application_id=ask.application_id,
        placeholder=ask.placeholder,
        task_group_name=ask.task_group_name,
        triggered_preemption=ask.is_preempting,
        originator=ask.originator,
        scheduling_attempted=ask.is_tried,
        triggered_scale_up=ask.has_notified_failed,
    )


def allocation(task: AllocationStatus) -> Allocation:
    """An allocation of an application."""
    return Allocation(
        allocation_key=task.allocation_key,
        allocation_tags=task.tags,
        request_time=task.request_time,
        allocation_time=task.start_time,
        allocation_delay=max(0, task.start_time - task.request_time),
        resource=task.resource,
        priority=str(task.priority),
        node_id=task.node_id,
        application_id=task.application_id,
        placeholder=task.placeholder,
        placeholder_used=task.has_replaced,
        task_group_name=task.task_group_name,
        preempted=task.is_victim,
        originator=task.originator,
    )


def foreign(task: ForeignStatus) -> ForeignAllocation:
    """An allocation of another scheduler."""
    return ForeignAllocation(
        allocation_key=task.allocation_key,
        allocation_tags=task.tags,
        allocation_time=task.creation_time,
        resource=task.resource,
        priority=str(task.priority),
        node_id=task.node_id,
        preemptable=not task.is_static,
    )


def record(user: str, ended: RecordStatus) -> TaskRecord:
    """The end of a task of a user."""
    return TaskRecord(
        allocation_key=ended.allocation_key,
        user=user,
        node_id=ended.node_id or "",
        state=ended.state,
        exit_code=None if ended.exit_code is UNSET else ended.exit_code,
        signal=ended.signal or "",
        start_time=ended.start_time or 0,
        finished_time=ended.finished_time or 0,
        peak_memory=None if ended.peak_memory is UNSET else ended.peak_memory,
    )
