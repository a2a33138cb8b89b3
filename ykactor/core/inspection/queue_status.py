"""The status of a queue, as snapshots, the REST API, metrics, the verbs and the page show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from ykactor.core.config.properties import QueueProperties
from ykactor.core.inspection.shown import Held, Shown, held
from ykactor.core.queueing.priorities import PRIORITY_MIN, priority_above
from ykactor.core.quota.headroom import left_of
from ykactor.core.values.resources import Resource, min_union, saturated, saturated_and_pruned

if TYPE_CHECKING:  # the clients of a daemon load this file, and need no scheduler
    from ykactor.core.objects.registry import Registry
    from ykactor.core.queueing.tree import QueueNode
    from ykactor.core.state.state import SchedulerState


class AboveMaxStatus(Shown, frozen=True, kw_only=True):
    """The amounts by which a queue is above its max, and why it stays there."""

    resource: Resource
    reason: str


class QueueStatus(Shown, frozen=True, kw_only=True):
    """A queue.

    Attributes:
        allocated, pending: the amounts of the queue and everything below.
        priority: the priority that the parent sees; the lowest int32 when nothing is pending.
        max: None is no limit.
        headroom: the amounts that the queue and those above it leave; None is no limit.
        actual_guaranteed: the smallest guarantee of the queue and those above it.
        share: the usage against the guarantee.
        max_applications: 0 is no limit.
        held: the hold of the queue itself.
        held_with: the nearest queue above it that is held.
        walltime_default, walltime_max: how long tasks may run, in ns; UNSET is no limit.
        above_max: of snapshots only.
        quota_preemption_start_time: the time when its victims are chosen.
        pending_asks: the number of asks pending in it and below; of snapshots only.
    """

    allocated: Resource
    pending: Resource
    priority: int
    state: str
    is_managed: bool
    max: Resource | None
    headroom: Resource | None
    guaranteed: Resource | None
    actual_guaranteed: Resource | None
    share: float | UnsetType = UNSET
    max_applications: int
    running_applications: int
    is_leaf: bool
    sort_policy: str
    priority_policy: str
    priority_offset: int
    preemption_policy: str
    walltime_default: int | UnsetType = UNSET
    walltime_max: int | UnsetType = UNSET
    held: Held | UnsetType = UNSET
    held_with: str | UnsetType = UNSET
    above_max: AboveMaxStatus | UnsetType = UNSET
    quota_preemption_start_time: int | UnsetType = UNSET
    pending_asks: int | UnsetType = UNSET


class PriorityStep(Shown, frozen=True, kw_only=True):
    """A step of a priority on its way to root: a queue adds its offset, or shows the offset alone as a fence."""

    queue_name: str
    offset: int
    is_fence: bool
    priority: int


#: The amounts that are metrics: those in use, also when they are 0, and the limits.
IN_USE, LIMITS = ("allocated", "pending"), ("guaranteed", "max")
#: The fields that a limited reader sees: they are of the queue alone. What also depends on the queues above is computed again.
OF_THE_QUEUE = (
    "allocated",
    "pending",
    "priority",
    "state",
    "is_managed",
    "max",
    "guaranteed",
    "max_applications",
    "running_applications",
    "is_leaf",
    "sort_policy",
    "priority_policy",
    "priority_offset",
    "preemption_policy",
    "walltime_default",
    "walltime_max",
    "quota_preemption_start_time",
    "pending_asks",
)


def queue_status(registry: Registry, state: SchedulerState, queue: QueueNode, queues: Mapping[str, QueueStatus]) -> QueueStatus:
    """Make the status of a queue; ``queues`` has that of the queue above it, unless that is not shown."""
    above = parent_path(queue.path)
    parent = queues.get(above)
    config, properties = queue.config, queue.config.properties
    starts = state.clocks.starts if state.enforces_quotas() else {}
    return QueueStatus(
        allocated=saturated_and_pruned(queue.allocated),
        pending=saturated_and_pruned(queue.pending),
        priority=PRIORITY_MIN if queue.priority is None else queue.priority,
        state=registry.queues[queue.path].state.value,
        is_managed=config.managed,
        max=None if queue.max is None else saturated(queue.max),
        headroom=headroom(queue.max, queue.allocated, parent),
        guaranteed=config.guaranteed,
        actual_guaranteed=actual_guaranteed(config.guaranteed, parent),
        share=queue.share,
        max_applications=config.max_applications,
        running_applications=len(queue.running),
        is_leaf=queue.is_leaf,
        sort_policy=properties.sort_policy,
        priority_policy="fence" if properties.priority_fence else "default",
        priority_offset=properties.priority_offset,
        preemption_policy=properties.preemption_policy,
        walltime_default=properties.usual_walltime_ns or UNSET,
        walltime_max=properties.walltime_max_ns or UNSET,
        held=held(queue.hold),
        held_with=held_with(above, queues),
        quota_preemption_start_time=starts.get(queue, UNSET),
    )


def headroom(limit: Resource | None, allocated: Resource, parent: QueueStatus | None) -> Resource | None:
    """The amounts that a queue and those above it leave; None is no limit (QU-36, QU-37)."""
    left = min_union(left_of(limit, allocated), None if parent is None else parent.headroom)
    return None if left is None else saturated(left)


def actual_guaranteed(guaranteed: Resource | None, parent: QueueStatus | None) -> Resource | None:
    """The smallest guarantee of a queue and those above it; None if no queue has one (QU-46)."""
    return min_union(guaranteed, None if parent is None else parent.actual_guaranteed)


def parent_path(path: str) -> str:
    """The path of the queue above; "" of root."""
    return path.rpartition(".")[0]


def held_with(path: str, queues: Mapping[str, QueueStatus]) -> str | UnsetType:
    """The queue at ``path`` or the nearest one above it that is held, as far as these are shown; UNSET if none is (OP-2)."""
    queue = queues.get(path)
    if queue is None:
        return UNSET
    return queue.held_with if queue.held is UNSET else path


def priority_steps(request: int, path: str, queues: Mapping[str, QueueStatus]) -> Iterator[PriorityStep]:
    """The steps of a priority from the queue at ``path`` upwards, if nothing in a queue is more important (PR-11)."""
    while path in queues:
        offset, is_fence = queues[path].priority_offset, queues[path].priority_policy == "fence"
        shown = priority_above(request, QueueProperties(priority_offset=offset, priority_fence=is_fence))
        yield PriorityStep(queue_name=path, offset=offset, is_fence=is_fence, priority=shown)
        request, path = shown, parent_path(path)


def effective_priority(request: int, path: str, queues: Mapping[str, QueueStatus]) -> int:
    """The priority at root, or at the highest of these queues; the lowest int32 stays: nothing is pending."""
    if request == PRIORITY_MIN:
        return request
    for step in priority_steps(request, path, queues):
        request = step.priority
    return request
