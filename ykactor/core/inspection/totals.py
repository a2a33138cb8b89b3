"""The totals of a partition: its applications by state, its allocations, and its nodes together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import UNSET, UnsetType

from ykactor.core.inspection.shown import Shown
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource


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
) -> Pausing[PartitionTotals]:
    """The totals of the shown queues; "" stands for objects in no queue."""
    registry, states = partition.registry, Counter[str]()
    allocations, pace = 0, Pace()
    for path in filter(shows_queue, dict.fromkeys(registry.applications.values())):
        for application in registry.leaf(path).applications.values():
            states[application.state.value] += 1
            allocations += len(application.allocations)
            if pace.is_due():
                yield ()
    states.update(ended.state.value for ended in partition.timers.ended.values() if shows_queue(ended.queue))
    if not shows_queue(""):
        return PartitionTotals(name=partition.name, applications=states, allocations=allocations)
    states.update(rejected.state.value for rejected in partition.timers.rejected.values())
    root = state.tree.root
    nodes = NodeTotals(count=len(registry.nodes), capacity=state.tree.root_max or {}, allocated=root.allocated)
    return PartitionTotals(name=partition.name, applications=states, allocations=allocations, nodes=nodes)
