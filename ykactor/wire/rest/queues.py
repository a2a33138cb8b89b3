"""Queues as the REST API shows them: the names of Apache YuniKorn, and what each is made of (``types``)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Raw, UnsetType, field

from ykactor.core.config.model import QueueConfig
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource, saturated_and_pruned
from ykactor.core.values.times import MS_NS, S_NS
from ykactor.wire.rest.types import Payload, Percent, limit, percent


class Template(Payload, frozen=True, kw_only=True):
    """The settings that a dynamic leaf below a queue gets."""

    max_applications: int = 0
    max: Resource = field(name="maxResource", default={})
    guaranteed: Resource = field(name="guaranteedResource", default={})
    properties: dict[str, str] = {}


class Queue(Payload, frozen=True, kw_only=True):
    """A queue.

    Attributes:
        queuename: the path.
        state: ``Active`` or ``Draining``.
        partition: only of the root in the answer about all queues; else empty.
        pending, allocated, preempting_resource: of everything below too.
        headroom: by type, what the queue and those above it leave.
        children: only where a tree is asked for, those that are encoded already as such; ``child_names`` are always there.
        abs_used_capacity: ``allocated`` in percent of ``max``.
        max_applications: 0 is no limit.
        priority: what the parent sees.
        allocating_accepted_apps: those that hold an allocation and do not count as running yet.
        preemption_delay, quota_preemption_delay: such as ``1m30s``.
    """

    queuename: str
    state: str = field(name="status")
    partition: str
    pending: Resource = field(name="pendingResource", default={})
    max: Resource = field(name="maxResource", default={})
    guaranteed: Resource = field(name="guaranteedResource", default={})
    allocated: Resource = field(name="allocatedResource", default={})
    preempting_resource: Resource = {}
    headroom: Resource = {}
    is_leaf: bool
    is_managed: bool
    properties: dict[str, str] = {}
    parent: str = ""
    template: Template | None = None
    children: Sequence[Queue | Raw] = []
    child_names: list[str] = []
    abs_used_capacity: Percent = {}
    max_applications: int = field(name="maxRunningApps", default=0)
    running_applications: int = field(name="runningApps", default=0)
    priority: int | UnsetType = field(name="currentPriority", default=UNSET)
    allocating_accepted_apps: list[str] = []
    sorting_policy: str | UnsetType = UNSET
    priority_sorting: bool | UnsetType = UNSET
    preemption_enabled: bool | UnsetType = UNSET
    is_preemption_fence: bool | UnsetType = UNSET
    preemption_delay: str | UnsetType = UNSET
    quota_preemption_delay: str | UnsetType = UNSET
    is_quota_preemption_running: bool = False
    quota_preemption_start_time: int = 0
    is_priority_fence: bool | UnsetType = UNSET
    priority_offset: int = 0
    unsched_ask_backoff: int = 0
    ask_backoff_delay: str = ""


def queue(
    status: QueueStatus,
    node: QueueNode,
    *,
    now_ns: int,
    partition: str,
    parent: str,
    children: Sequence[Raw],
    child_names: list[QueuePath],
) -> Queue:
    """A queue; what no snapshot has comes from its configuration (``node.config``) and the ledger."""
    config, properties = node.config, node.config.properties
    start_ns = status.quota_preemption_start_time or 0
    return Queue.of(
        status,
        queuename=node.path,
        partition=partition,
        max=status.max or {},
        guaranteed=limit(status.guaranteed),
        preempting_resource=saturated_and_pruned(node.preempting),
        headroom=status.headroom or {},
        properties=config.property_map,
        parent=parent,
        template=_template(config),
        children=children,
        child_names=[*child_names],
        abs_used_capacity=percent(node.allocated, node.max or {}),
        allocating_accepted_apps=sorted(node.accepted),
        sorting_policy=status.sort_policy if status.is_leaf else "fair",
        priority_sorting=properties.sort_by_priority,
        preemption_enabled=status.preemption_policy != "disabled",
        is_preemption_fence=status.preemption_policy == "fence",
        preemption_delay=duration_text(properties.preemption_delay_ns),
        quota_preemption_delay=duration_text(properties.quota_preemption_delay_ns),
        is_quota_preemption_running=bool(start_ns) and start_ns <= now_ns,
        is_priority_fence=status.priority_policy == "fence",
        unsched_ask_backoff=properties.backoff_count,
        ask_backoff_delay=duration_text(properties.backoff_delay_ns) if properties.backoff_count else "",
    )


def _template(config: QueueConfig) -> Template | None:
    template = config.child_template
    if template is None or config.managed is False:
        return None
    return Template.of(template, max=limit(template.max), guaranteed=limit(template.guaranteed))


_MINUTE_NS, _HOUR_NS = 60 * S_NS, 3600 * S_NS
#: Below a second, the units with their sizes.
_SMALL_UNITS = ((MS_NS, "ms"), (1000, "µs"), (1, "ns"))


def duration_text(duration_ns: int) -> str:
    """A duration that is not negative: ``0s``, ``1.5s``, ``1m30s``, ``1h0m0s``."""
    if 0 < duration_ns < S_NS:
        size, unit = next((size, unit) for size, unit in _SMALL_UNITS if duration_ns >= size)
        return f"{_decimal(duration_ns, size)}{unit}"
    hours, rest = divmod(duration_ns, _HOUR_NS)
    minutes, rest = divmod(rest, _MINUTE_NS)
    seconds = f"{_decimal(rest, S_NS)}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(amount: int, unit: int) -> str:
    """``amount / unit`` without zeros at the end."""
    whole, rest = divmod(amount, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0") if rest else str(whole)
