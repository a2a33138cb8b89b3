"""The status of a partition: its queues, applications, nodes and limits, the numbers of its scheduler, and its totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from ykactor.core.inspection.application_status import ApplicationStatus, AsksPart
from ykactor.core.inspection.node_status import NodeStatus, node_state
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.inspection.shown import Shown
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, add_to

if TYPE_CHECKING:  # the clients of a daemon load this file, and need no scheduler
    from ykactor.core.partition.partition import PartitionCore
    from ykactor.core.state.state import SchedulerState


class LimitStatus(Shown, frozen=True, kw_only=True):
    """A limit of a user or group in a queue that applications count against.

    Attributes:
        whose: the user or group, such as ``user bob``.
        max: None is no limit of resources.
        max_applications: 0 is no limit.
        applications: the applications that count as running.
    """

    queue: str
    whose: str
    max: Resource | None
    allocated: Resource
    max_applications: int
    applications: list[str]


class PredicateStatus(Shown, frozen=True, kw_only=True):
    """A predicate class, with the numbers of nodes that were asked, passed and refused; ``allocate`` as in SC-120."""

    predicate: str
    allocate: bool
    asked: int
    passed: int
    refused: int


class PredicatesStatus(Shown, frozen=True, kw_only=True):
    """The questions to the predicate service, and if one is connected that answers them."""

    is_answered: bool
    classes: list[PredicateStatus]


class PreemptionStatus(Shown, frozen=True, kw_only=True):
    """The counters of preemption, and the current numbers of attempts and victims."""

    enabled: bool
    preemptions: int
    evictions: int
    in_vain: int
    refused: int
    work_lost: Resource
    preemptors: int
    victims: int


class PartitionStatus(Shown, frozen=True, kw_only=True):
    """The state of a partition. Objects outside of queues are left out for readers that are limited to queues.

    Attributes:
        queues: by path, parents before their children.
        applications: by id; live ones, and ended ones that are still kept.
        nodes: by id.
        pending_asks: all pending asks in numbered parts, each of one application; only on request.
    """

    name: str
    queues: dict[str, QueueStatus]
    applications: dict[str, ApplicationStatus]
    nodes: dict[str, NodeStatus] | UnsetType = UNSET
    pending_asks: dict[str, AsksPart] | UnsetType = UNSET
    limits: list[LimitStatus]
    predicates: PredicatesStatus | UnsetType = UNSET
    preemption: PreemptionStatus | UnsetType = UNSET


class PartitionSummary(Shown, frozen=True, kw_only=True):
    """The numbers of what a status shows.

    Attributes:
        nodes: by state; like ``reservations`` left out where no nodes are shown.
        applications: by state, ended and refused ones too.
        allocations, pending_asks: numbers of tasks.
        capacity, allocated, pending: the amounts of root; left out where it is not shown.
    """

    queues: int
    nodes: dict[str, int] | UnsetType = UNSET
    reservations: int | UnsetType = UNSET
    applications: dict[str, int]
    allocations: int
    pending_asks: int
    capacity: Resource | UnsetType | None = UNSET
    allocated: Resource | UnsetType = UNSET
    pending: Resource | UnsetType = UNSET


class QueueUse(Shown, frozen=True, kw_only=True):
    """The use of a user or group in a queue; only one of ``user`` and ``group`` is there.

    Attributes:
        whose: both in one text, such as ``user bob``.
        max: None is no limit of resources.
        max_applications: 0 is no limit.
    """

    user: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    whose: str
    queue_name: str
    allocated: Resource
    max: Resource | None
    running_applications: int
    max_applications: int


class NodeTotals(Shown, frozen=True, kw_only=True):
    """All nodes of a partition together: their number, capacity and allocations."""

    count: int
    capacity: Resource
    allocated: Resource


class PartitionTotals(Shown, frozen=True, kw_only=True):
    """The totals of a partition.

    Attributes:
        applications: by state; those that have ended or were refused count while they are remembered.
        nodes: left out for readers that are limited to queues.
    """

    name: str
    applications: dict[str, int]
    allocations: int
    nodes: NodeTotals | UnsetType = UNSET


def summary_of(status: PartitionStatus) -> PartitionSummary:
    """The numbers of a status; readers have them of what they see."""
    applications, root = status.applications.values(), status.queues.get("root")
    nodes = UNSET if status.nodes is UNSET else [*status.nodes.values()]
    return PartitionSummary(
        queues=len(status.queues),
        nodes=UNSET if nodes is UNSET else _counted(map(node_state, nodes)),
        reservations=UNSET if nodes is UNSET else sum(len(node.reservations) for node in nodes),
        applications=_counted(application.state for application in applications),
        allocations=sum(len(application.allocations or ()) for application in applications),
        pending_asks=pending_by_reason(status).total(),
        capacity=UNSET if root is None else root.max,
        allocated=UNSET if root is None else root.allocated,
        pending=UNSET if root is None else root.pending,
    )


def _counted(states: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(states).items()))


def pending_by_reason(status: PartitionStatus) -> Counter[str]:
    """The numbers of pending asks by the reason for which they wait."""
    waiting: Counter[str] = Counter()
    for application in status.applications.values():
        for group in application.pending or ():
            waiting[group.reason] += group.count
    return waiting


def uses_of(status: PartitionStatus) -> list[QueueUse]:
    """The uses that a status shows: one for each limit, and one for each leaf where no limit counts what a user has."""
    limited = [_limited(limit) for limit in status.limits]
    counted = {(use.user, use.queue_name) for use in limited}
    used: dict[tuple[str, str], Resource] = {}
    running: Counter[tuple[str, str]] = Counter()
    for application in status.applications.values():
        key = (application.user or "", application.queue_name)
        if application.allocated is not UNSET and key not in counted:  # it has not ended
            add_to(used.setdefault(key, {}), application.allocated)
            running[key] += bool(application.allocated)
    return limited + [
        QueueUse(
            user=user,
            whose=f"user {user}",
            queue_name=path,
            allocated=amounts,
            max=None,
            running_applications=running[user, path],
            max_applications=0,
        )
        for (user, path), amounts in used.items()
    ]


def _limited(limit: LimitStatus) -> QueueUse:
    kind, _, name = limit.whose.partition(" ")
    return QueueUse(
        user=name if kind == "user" else UNSET,
        group=name if kind == "group" else UNSET,
        whose=limit.whose,
        queue_name=limit.queue,
        allocated=limit.allocated,
        max=limit.max,
        running_applications=len(limit.applications),
        max_applications=limit.max_applications,
    )


def partition_totals(
    partition: PartitionCore, state: SchedulerState, shows_queue: Callable[[str], bool]
) -> Steps[PartitionTotals]:
    """The totals of the shown queues; "" stands for objects in no queue."""
    registry, states = partition.registry, Counter[str]()
    allocations = 0
    for path in filter(shows_queue, dict.fromkeys(registry.applications.values())):
        for application in registry.leaf(path).applications.values():
            states[application.state.value] += 1
            allocations += len(application.tasks.allocations)
            yield 1
    states.update(ended.state.value for ended in partition.timers.ended.values() if shows_queue(ended.queue))
    if not shows_queue(""):
        return PartitionTotals(name=partition.name, applications=states, allocations=allocations)
    states.update(rejected.state.value for rejected in partition.timers.rejected.values())
    root = state.tree.root
    nodes = NodeTotals(count=len(registry.nodes), capacity=state.tree.root_max or {}, allocated=root.allocated)
    return PartitionTotals(name=partition.name, applications=states, allocations=allocations, nodes=nodes)
