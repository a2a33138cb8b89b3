"""The final state of a simulation, in the format of ``--final``."""

from __future__ import annotations

from ykactor.core.inspection.shown import Shown
from ykactor.core.inspection.snapshot import ended_applications, node_statuses, queue_statuses
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource


class FinalQueue(Shown, frozen=True, kw_only=True):
    """A queue, with fields of its status."""

    allocated: Resource
    pending: Resource
    priority: int
    state: str


class FinalApplication(Shown, frozen=True, kw_only=True):
    """An application; one that was refused before it had a queue has none."""

    state: str
    queue_name: str


class FinalNode(Shown, frozen=True, kw_only=True):
    """A node, with fields of its status."""

    allocated: Resource
    allocations: list[str]
    schedulable: bool
    occupied: Resource


class FinalState(Shown, frozen=True, kw_only=True):
    """The queues, applications and nodes of a partition. Ended applications are listed, removed ones are not."""

    queues: dict[str, FinalQueue]
    applications: dict[str, FinalApplication]
    nodes: dict[str, FinalNode]


class FinalStates(Shown, frozen=True, kw_only=True):
    """The final states of several partitions, by name."""

    partitions: dict[str, FinalState]


def final_state(partition: PartitionCore, state: SchedulerState) -> Steps[FinalState]:
    """The final state of a partition."""
    queues, nodes = (yield from queue_statuses(partition, state)), (yield from node_statuses(partition, state))
    applications = {ended.application_id: (ended.state.value, ended.queue) for ended in ended_applications(partition)}
    live = {waiting.application_id: (waiting.state.value, waiting.leaf.path) for waiting in state.applications.values()}
    return FinalState(
        queues={
            path: FinalQueue(allocated=queue.allocated, pending=queue.pending, priority=queue.priority, state=queue.state)
            for path, queue in queues.items()
        },
        applications={
            name: FinalApplication(state=shown, queue_name=queue)
            for name, (shown, queue) in sorted((applications | live).items())
        },
        nodes={
            node_id: FinalNode(
                allocated=node.allocated,
                allocations=node.allocations,
                schedulable=node.schedulable,
                occupied=node.occupied,
            )
            for node_id, node in nodes.items()
        },
    )
