"""Tasks as the REST API shows them: the names of Apache YuniKorn, and the answers that it does not have (``types``)."""

from __future__ import annotations

from msgspec import UNSET

from ykactor.core.inspection.application_status import RecordStatus
from ykactor.core.inspection.task_status import AllocationStatus, AskStatus, ForeignStatus
from ykactor.core.values.resources import Resource
from ykactor.wire.rest.types import Payload


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
