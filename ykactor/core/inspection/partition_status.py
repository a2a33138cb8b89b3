"""The status of a partition: its queues, applications, nodes and limits, the numbers of its scheduler, and its totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from ykactor.core.inspection.application_status import ApplicationStatus
from ykactor.core.inspection.ask_status import AsksPart
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.inspection.shown import Shown
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource

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


def partition_totals(
    partition: PartitionCore, state: SchedulerState, shows_queue: Callable[[str], bool]
) -> Steps[PartitionTotals]:
    """The totals of the shown queues; "" stands for objects in no queue."""
    registry, states = partition.registry, Counter[str]()
    allocations = 0
    for path in filter(shows_queue, dict.fromkeys(registry.applications.values())):
        for application in registry.leaf(path).applications.values():
            states[application.state.value] += 1
            allocations += len(application.allocations)
            yield 1
    states.update(ended.state.value for ended in partition.timers.ended.values() if shows_queue(ended.queue))
    if not shows_queue(""):
        return PartitionTotals(name=partition.name, applications=states, allocations=allocations)
    states.update(rejected.state.value for rejected in partition.timers.rejected.values())
    root = state.tree.root
    nodes = NodeTotals(count=len(registry.nodes), capacity=state.tree.root_max or {}, allocated=root.allocated)
    return PartitionTotals(name=partition.name, applications=states, allocations=allocations, nodes=nodes)
