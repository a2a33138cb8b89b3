"""Running tasks, read from their owners; only preemption needs them.

The owners agree with the scheduler's state only as long as a plan has decided nothing. A step that reads them therefore needs a
plan of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ykactor.core.messages.asks import Ask, shape_of
from ykactor.core.objects.application import Application
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.registry import Registry
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.ids import ApplicationID, NodeID


class RunningTasks:
    """A read-only view of nodes and leaves."""

    def __init__(self, registry: Registry, applications: Mapping[ApplicationID, PendingApplication]) -> None:
        self._registry = registry
        self._applications = applications

    def on_node(self, node_id: NodeID) -> NodeCore:
        """The owner of a node."""
        return self._registry.nodes[node_id]

    def began_ns(self, task: Ask) -> int:
        """The time when a task began to run, in ns."""
        return self._owner_of(task).tasks.began_ns[task.allocation_key]

    def queue_of(self, task: Ask) -> QueueUsage:
        """The queue of a task's application."""
        return self._applications[task.application_id].leaf

    def queue_of_victim(self, task: Ask) -> QueueUsage | None:
        """The queue of a task that may be preempted; None for one that may not (PE-30).

        A possible victim runs, requires no node, and is not being released.
        """
        owner, key = self._owner_of(task), task.allocation_key
        is_possible = key in owner.tasks.allocations and key not in owner.tasks.released and shape_of(task)[1] is None
        return self.queue_of(task) if is_possible else None

    def of_leaf(self, leaf: QueueUsage) -> Iterator[Ask]:
        """The tasks of a leaf; lazily, because they can be many."""
        owners = self._registry.leaf(leaf.path).applications.values()
        return (task for owner in owners for task, _ in owner.tasks.allocations.values())

    def _owner_of(self, task: Ask) -> Application:
        application = self._applications[task.application_id]
        return self._registry.leaf(application.leaf.path).applications[application.application_id]
