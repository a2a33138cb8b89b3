"""What a scrape reads of a partition between two of its turns. It costs the partition about 10 us for each queue, and less than
1 us for each application and node."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from ykactor.core.messages.kinds import WaitingCause
from ykactor.core.messages.states import ApplicationState
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, add_to, saturated, saturated_and_pruned
from ykactor.surfaces.metrics.waiting import by_reason

#: Apache YuniKorn has no longer the state Starting, in which an application runs already.
STATES = {
    ApplicationState.NEW: "new",
    ApplicationState.ACCEPTED: "accepted",
    ApplicationState.STARTING: "running",
    ApplicationState.RUNNING: "running",
    ApplicationState.RESUMING: "resuming",
    ApplicationState.FAILING: "failing",
    ApplicationState.COMPLETING: "completing",
}
BANDS_COUNT = 10
#: A queue takes as long as so many other items.
_QUEUE_ITEMS = 5


class QueueFigures(Struct, eq=False):
    """A queue, or the sum of several.

    Attributes:
        applications: live ones by state; of a leaf.
        applications_max: 0 is no limit.
        amounts: ``guaranteed``, ``max``, ``allocated``, ``pending`` and ``preempting``, in base units.
    """

    applications_max: int
    amounts: dict[str, Resource]
    applications: Counter[str] = field(default_factory=Counter)

    def add(self, other: QueueFigures) -> None:
        """Make it the sum of both."""
        self.applications_max += other.applications_max
        self.applications.update(other.applications)
        for kind, amount in other.amounts.items():
            add_to(self.amounts[kind], amount)


class PartitionFigures(Struct, eq=False):
    """A partition at one moment.

    Attributes:
        queues: by path, parents before their children.
        applications: live ones by state.
        draining: how many nodes are not schedulable.
        bands: for each type that a node has, the number of nodes by how much of it is allocated.
        waiting: pending asks by reason (``waiting.REASONS``).
    """

    name: PartitionName
    queues: dict[QueuePath, QueueFigures] = {}
    applications: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    draining: int = 0
    bands: dict[str, list[int]] = {}
    waiting: Counter[WaitingCause] = field(default_factory=Counter)


def read(core: PartitionCore, state: SchedulerState) -> Pausing[PartitionFigures]:
    """Read a partition, between two turns."""
    figures, pace = PartitionFigures(core.name), Pace()
    for path, queue in state.tree.nodes.items():
        figures.queues[path] = _queue(queue)
        if pace.is_due(_QUEUE_ITEMS):
            yield ()
    for application in state.applications.values():
        state_name = STATES[application.state]
        figures.queues[application.leaf.path].applications[state_name] += 1
        figures.applications[state_name] += 1
        if pace.is_due():
            yield ()
    for node in core.registry.nodes.values():
        figures.nodes += 1
        figures.draining += not node.schedulable
        for name, capacity in node.capacity.items():
            bands = figures.bands.setdefault(name, [0] * BANDS_COUNT)
            bands[_band(node.allocated.get(name, 0), capacity)] += 1
        if pace.is_due():
            yield ()
    figures.waiting = yield from by_reason(state)
    return figures


def _queue(queue: QueueNode) -> QueueFigures:
    return QueueFigures(
        queue.config.max_applications,
        {
            "guaranteed": saturated(queue.config.guaranteed or {}),
            "max": saturated(queue.max or {}),
            "allocated": saturated_and_pruned(queue.allocated),
            "pending": saturated_and_pruned(queue.pending),
            "preempting": saturated_and_pruned(queue.preempting),
        },
    )


def _band(amount: int, capacity: int) -> int:
    """0 up to a tenth, then one for each further tenth, which belongs to its band; the last one also for more than all."""
    return min(max(0, -(-BANDS_COUNT * amount // capacity) - 1), BANDS_COUNT - 1)
