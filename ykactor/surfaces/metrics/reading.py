"""The figures that a scrape reads of a partition between two of its turns.

They cost the partition about 16 us for each queue, and less than 1 us for each application and node.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from ykactor.core.inspection.queue_status import IN_USE, LIMITS, QueueStatus, queue_status
from ykactor.core.messages.kinds import WaitingCause
from ykactor.core.messages.states import ApplicationState
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.state.above_max import AboveMax, above_max
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, add_to, saturated, saturated_and_pruned
from ykactor.core.waiting.causes import is_held, pending_of, pending_of_reserved
from ykactor.surfaces.metrics.series import NAMES_MAX, ZEROS_MAX

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
_QUEUE_ITEMS = 8


#: The amounts that are maxima: what is not there is not limited, while 0 allows nothing.
_MAXIMA = ("max", "maxRunningApps")


class QueueFigures(Struct, eq=False):
    """A queue, or the sum of several.

    Attributes:
        is_leaf: whether it has applications.
        amounts: ``guaranteed``, ``max``, ``allocated``, ``pending`` and ``preempting``, in base units; and ``maxRunningApps``.
        applications: live ones by state; of a leaf.
    """

    is_leaf: bool
    amounts: dict[str, Resource]
    applications: Counter[str] = field(default_factory=Counter)

    def add(self, other: QueueFigures) -> None:
        """Make it the sum of both; together they have a maximum only of types of which both have one."""
        self.is_leaf |= other.is_leaf
        self.applications.update(other.applications)
        for kind, amount in other.amounts.items():
            own = self.amounts[kind]
            for name in [name for name in own if kind in _MAXIMA and name not in amount]:
                del own[name]
            add_to(own, {name: quantity for name, quantity in amount.items() if kind not in _MAXIMA or name in own})


class PartitionFigures(Struct, eq=False):
    """A partition at one moment.

    Attributes:
        queues: by path, parents before their children.
        applications: live ones by state.
        draining: how many nodes are not schedulable.
        bands: for each type that a node has, the number of nodes by how much of it is allocated.
        waiting: pending asks by reason (``REASONS``).
        above_max: the queues above their max.
    """

    name: PartitionName
    queues: dict[QueuePath, QueueFigures] = {}
    applications: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    draining: int = 0
    bands: dict[str, list[int]] = {}
    waiting: Counter[WaitingCause] = field(default_factory=Counter)
    above_max: dict[QueuePath, AboveMax] = field(default_factory=dict)


def read(core: PartitionCore, state: SchedulerState) -> Steps[PartitionFigures]:
    """Read a partition, between two turns."""
    figures = PartitionFigures(core.name)
    types = state.tree.root_max or {}
    nothing = dict.fromkeys(types, 0) if len(types) <= min(NAMES_MAX, ZEROS_MAX // len(state.tree.nodes)) else {}
    statuses: dict[str, QueueStatus] = {}
    for path, queue in state.tree.nodes.items():  # parents before children
        statuses[path] = status = queue_status(core.registry, state, queue, statuses)
        figures.queues[path] = _queue(status, queue.preempting, nothing)
        if (excess := above_max(state, queue)) is not None:
            figures.above_max[path] = excess
        yield _QUEUE_ITEMS
    for application in state.applications.values():
        state_name = STATES[application.state]
        figures.queues[application.leaf.path].applications[state_name] += 1
        figures.applications[state_name] += 1
        yield 1
    for node in core.registry.nodes.values():
        figures.nodes += 1
        figures.draining += not node.schedulable
        for name, capacity in node.capacity.items():
            bands = figures.bands.setdefault(name, [0] * BANDS_COUNT)
            bands[_band(node.allocated.get(name, 0), capacity)] += 1
        yield 1
    figures.waiting = yield from by_reason(state)
    return figures


def _queue(status: QueueStatus, preempting: Resource, nothing: Resource) -> QueueFigures:
    """The figures of a queue; ``nothing`` has a 0 for each type that is shown although nothing of it is used."""
    limits = {name: saturated(getattr(status, name) or {}) for name in LIMITS}
    in_use = {name: nothing | getattr(status, name) for name in IN_USE}
    return QueueFigures(
        status.is_leaf,
        limits
        | in_use
        | {
            "preempting": nothing | saturated_and_pruned(preempting),
            "maxRunningApps": {"apps": status.max_applications} if status.max_applications else {},
        },
    )


def _band(amount: int, capacity: int) -> int:
    """0 up to a tenth, then one for each further tenth, which belongs to its band; the last one also for more than all."""
    return min(max(0, -(-BANDS_COUNT * amount // capacity) - 1), BANDS_COUNT - 1)


#: What is missing, by its label.
REASONS = {
    WaitingCause.HELD: "an operator, who ends the hold of its application or queue",
    WaitingCause.MAX_APPLICATIONS: "the application may not start: too many run",
    WaitingCause.USER: "a limit of its user or group",
    WaitingCause.QUEUE: "the maximum of a queue",
    WaitingCause.NODES: "room on a node",
    WaitingCause.PREDICATE: "a node that the resource manager lets it run on",
    WaitingCause.RESERVED: "room on the node that is reserved for it",
    WaitingCause.PLACEHOLDER: "a placeholder that it replaces",
    WaitingCause.BACKOFF: "the end of the back-off of its application",
    WaitingCause.APPLICATION: "its application fails, or another one starts first",
    WaitingCause.UNTRIED: "nothing is known to be: its turn has not come yet",
}
#: To look at an ask queue takes as long as so many other items, if its class was not looked at.
_CLASS_ITEMS = 3


def by_reason(state: SchedulerState) -> Steps[Counter[WaitingCause]]:
    """The number of pending asks for each reason."""
    found: Counter[WaitingCause] = Counter()
    known: dict[AskClass, WaitingCause] = {}
    for application in state.applications.values():
        held = is_held(state, application)
        if application.gang is not None and application.gang.held:
            found[WaitingCause.HELD if held else WaitingCause.PLACEHOLDER] += len(application.gang.held)
        for queue in application.queues.values():
            if queue.key[1] == HAS_NODE:
                continue
            found[WaitingCause.HELD if held else _reason(state, application, queue, known)] += len(queue)
            yield _CLASS_ITEMS
        yield 1
    for reservation in state.reservations.by_ask.values():
        held = is_held(state, reservation.application)
        found[WaitingCause.HELD if held else pending_of_reserved(state, reservation).cause] += 1
        yield _CLASS_ITEMS
    return found


def _reason(
    state: SchedulerState, application: PendingApplication, queue: AskQueue, known: dict[AskClass, WaitingCause]
) -> WaitingCause:
    ask_class = queue.ask_class
    if ask_class is None:
        return pending_of(state, application, queue).cause
    reason = known.get(ask_class)
    if reason is None:
        reason = known[ask_class] = pending_of(state, application, queue).cause
    return reason
