"""The status of one task: an ask that is pending, an allocation, or a foreign allocation.

Snapshots have asks in groups (``ask_status``) and allocations by their keys; the REST API shows each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from ykactor.core.inspection.shown import Shown
from ykactor.core.messages.asks import FOREIGN_TAG, STATIC, Ask, ask_id, shape_of
from ykactor.core.values.resources import Resource, saturated

if TYPE_CHECKING:
    from ykactor.core.objects.application import Application
    from ykactor.core.state.state import SchedulerState
    from ykactor.core.values.ids import AllocationKey, NodeID


class _TaskStatus(Shown, frozen=True, kw_only=True):
    """The fields of a task that its resource manager has set."""

    allocation_key: str
    application_id: str
    tags: dict[str, str]
    resource: Resource
    priority: int
    placeholder: bool = False
    task_group_name: str = ""
    originator: bool = False


class AskStatus(_TaskStatus, frozen=True, kw_only=True):
    """An ask that is pending.

    Attributes:
        is_preempting: it has preempted others, and waits for their place.
        is_tried: asks like it were tried, and their queues or the nodes had no room.
        has_notified_failed: the last notification of the resource manager is that no node can take it (AP-147).
    """

    creation_time: int
    required_node: str | UnsetType = UNSET
    is_preempting: bool
    is_tried: bool
    has_notified_failed: bool


class AllocationStatus(_TaskStatus, frozen=True, kw_only=True):
    """An ask that runs.

    Attributes:
        request_time: when the ask, or the placeholder that it has replaced, was made.
        has_replaced: it has replaced a placeholder.
        is_victim: it is being preempted.
    """

    node_id: str
    request_time: int
    start_time: int
    has_replaced: bool
    is_victim: bool


class ForeignStatus(_TaskStatus, frozen=True, kw_only=True):
    """An allocation of another scheduler.

    Attributes:
        creation_time: 0 if it comes from the journal of an older version, which did not keep that.
        is_static: so says its tag; no rule depends on it (SC-85).
    """

    node_id: str
    creation_time: int
    is_static: bool


#: The times that a limited reader sees in whole milliseconds.
ASK_TIMES, ALLOCATION_TIMES = ("creation_time",), ("request_time", "start_time")


def ask_status(state: SchedulerState, ask: Ask, *, is_tried: bool) -> AskStatus:
    """The status of a pending ask."""
    return AskStatus(
        allocation_key=ask.allocation_key,
        application_id=ask.application_id,
        tags=ask.tags,
        resource=saturated(ask.resource),
        priority=ask.priority,
        placeholder=ask.placeholder,
        task_group_name=ask.task_group_name,
        originator=ask.originator,
        creation_time=ask.created_ns,
        required_node=(ask.tags and shape_of(ask)[1]) or UNSET,
        is_preempting=ask_id(ask) in state.preemptions.by_ask,
        is_tried=is_tried,
        has_notified_failed=state.scheduling_states.has_notified_failed(ask),
    )


def allocation_status(state: SchedulerState, application: Application, key: AllocationKey) -> AllocationStatus:
    """The status of an allocation of an application."""
    ask, node_id = application.tasks.allocations[key]
    return AllocationStatus(
        allocation_key=ask.allocation_key,
        application_id=ask.application_id,
        tags=ask.tags,
        resource=saturated(ask.resource),
        priority=ask.priority,
        placeholder=ask.placeholder,
        task_group_name=ask.task_group_name,
        originator=ask.originator,
        node_id=node_id,
        request_time=application.tasks.replaced_ns.get(key, ask.created_ns),
        start_time=application.tasks.began_ns[key],
        has_replaced=key in application.tasks.replaced_ns,
        is_victim=ask_id(ask) in state.preemptions.victims,
    )


def foreign_status(task: Ask, node_id: NodeID) -> ForeignStatus:
    """The status of a foreign allocation on a node."""
    return ForeignStatus(
        allocation_key=task.allocation_key,
        application_id=task.application_id,
        tags=task.tags,
        resource=saturated(task.resource),
        priority=task.priority,
        node_id=node_id,
        creation_time=task.created_ns,
        is_static=task.tags.get(FOREIGN_TAG) == STATIC,
    )
