"""A node: its capacity and its allocations.

Only ``NodeCore`` writes these. Commands come from the partition: reports of the resource manager, and placements of the scheduler
(``PlaceBatch``); each is validated as a whole before anything changes.
"""

from typing import Any

from msgspec import structs

from ykactor.core.messages.asks import Ask, AskID, ask_id, created_ns
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import (
    Fact,
    ForeignChanged,
    NodeAdded,
    NodeAttributesChanged,
    NodeCapacityChanged,
    NodeSchedulable,
)
from ykactor.core.messages.kinds import Change
from ykactor.core.objects.commands import (
    ChangeAllocations,
    Decommission,
    NodeCommand,
    PlaceBatch,
    PlaceForeign,
    Register,
    ReleaseForeign,
    SetAttributes,
    SetCapacity,
    SetSchedulable,
)
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.core.values.resources import Resource, add_to, fits, positive, saturated, subtract_from, subtracted, text


class InvariantViolation(Exception):
    """A program error: an internal assumption does not hold. Never caused by input."""


class NodeCore:
    """One node. Read freely between commands; written only by ``handle``, which notes changed rows."""

    def __init__(
        self, node_id: NodeID, capacity: Resource, schedulable: bool, attributes: dict[str, str], changed: Changed
    ) -> None:
        self.node_id = node_id
        self._changed = changed
        #: Zero quantities are removed (SC-152), negative ones too: they would lower the total of the partition.
        self.capacity = positive(capacity)
        self.schedulable = schedulable
        self.attributes = attributes
        self.allocated: Resource = {}
        #: What foreign allocations use (SC-86).
        self.occupied: Resource = {}
        #: capacity - allocated - occupied; a quantity may be negative (SC-104).
        self.available: Resource = dict(self.capacity)
        #: Keys are unique within an application only, hence the pair.
        self.allocations: dict[AskID, Ask] = {}
        self.foreign: dict[AllocationKey, Ask] = {}
        #: One higher after every change of ``available``, ``schedulable``, ``attributes`` or ``allocations``.
        self.revision = 0

    def handle(self, command: NodeCommand[Any]) -> Any:
        """Carry out one command. Returns its reply, of the type that the command names."""
        match command:
            case PlaceBatch():
                return self.on_place_batch(command)
            case ChangeAllocations():
                self.on_change_allocations(command)
            case Register(now_ns):
                return self.on_register(now_ns)
            case SetCapacity():
                return self.on_set_capacity(command)
            case SetAttributes():
                return self.on_set_attributes(command)
            case SetSchedulable():
                return self.on_set_schedulable(command)
            case PlaceForeign():
                return self.on_place_foreign(command)
            case ReleaseForeign():
                return self.on_release_foreign(command)
            case Decommission():
                return list(self.allocations.values())
            case _:
                raise TypeError(f"{command} is not for a node")
        return None

    def on_register(self, now_ns: int) -> list[Fact]:
        """Report the schedulable flag first, then the node (EV-22)."""
        return [
            NodeSchedulable(now_ns, self.node_id, self.schedulable),
            NodeAdded(now_ns, self.node_id, self.capacity, self.schedulable, self.attributes),
        ]

    def on_place_batch(self, command: PlaceBatch) -> int:
        """Validate everything, then change: expected revision, no known key, enough room. Returns the new revision.

        Raises:
            InvariantViolation: something does not hold, so the index of the scheduler is wrong. Nothing has changed.
        """
        if command.revision != self.revision:
            raise self._refusal(f"at revision {self.revision}, expected {command.revision}")
        left = dict(self.available)
        placed: dict[AskID, Ask] = {}
        for ask in command.asks:
            identity, resource = ask_id(ask), ask.resource
            if identity in self.allocations:
                raise self._refusal(f"already runs {ask.allocation_key}")
            if not fits(left, resource):
                raise self._refusal(f"has {text(left)} left, wants {text(resource)}")
            for name, quantity in resource.items():
                if quantity:
                    left[name] = left.get(name, 0) - quantity
            placed[identity] = ask
        self.available = left
        self.allocations |= placed
        for ask in command.asks:
            add_to(self.allocated, ask.resource)
        self.revision += 1
        return self.revision

    def _refusal(self, why: str) -> InvariantViolation:
        return InvariantViolation(f"refused although the index was up to date: node {self.node_id}: {why}")

    def on_change_allocations(self, command: ChangeAllocations) -> None:
        for arrives, ask in command.changes:
            if arrives:
                self.put(ask)
            else:
                del self.allocations[ask_id(ask)]
                subtract_from(self.allocated, ask.resource)
                add_to(self.available, ask.resource)
        self.revision += 1

    def on_set_capacity(self, command: SetCapacity) -> list[Fact]:
        capacity = positive(command.capacity)
        if capacity == self.capacity:
            return []
        self.capacity = capacity
        self._changed.node(self.node_id)
        self._update_available()
        return [NodeCapacityChanged(command.now_ns, self.node_id, capacity)]

    def on_set_attributes(self, command: SetAttributes) -> list[Fact]:
        if command.attributes == self.attributes:
            return []
        self.attributes = command.attributes
        self._changed.node(self.node_id)
        self.revision += 1
        return [NodeAttributesChanged(command.now_ns, self.node_id, command.attributes)]

    def on_set_schedulable(self, command: SetSchedulable) -> list[Fact]:
        if command.schedulable == self.schedulable:
            return []  # SC-111
        self.schedulable = command.schedulable
        self._changed.node(self.node_id)
        self.revision += 1
        return [NodeSchedulable(command.now_ns, self.node_id, command.schedulable)]

    def on_place_foreign(self, command: PlaceForeign) -> list[Fact]:
        ask = command.ask
        before = self.foreign.get(ask.allocation_key)
        if before is not None and before.resource == ask.resource:
            return []
        created = created_ns(ask, command.now_ns) if before is None else before.created_ns
        self.foreign[ask.allocation_key] = structs.replace(ask, created_ns=created)
        self._changed.foreign(ask.allocation_key)
        if before is not None:
            subtract_from(self.occupied, before.resource)
        add_to(self.occupied, ask.resource)
        self._update_available()
        change = Change.ADD if before is None else Change.SET
        return [self._foreign_changed(command.now_ns, ask, change)]

    def on_release_foreign(self, command: ReleaseForeign) -> list[Fact]:
        ask = self.foreign.pop(command.allocation_key)
        self._changed.foreign(command.allocation_key)
        subtract_from(self.occupied, ask.resource)
        self._update_available()
        return [self._foreign_changed(command.now_ns, ask, Change.REMOVE)]

    def _foreign_changed(self, now_ns: int, ask: Ask, change: Change) -> ForeignChanged:
        return ForeignChanged(now_ns, self.node_id, ask.allocation_key, change, ask.resource, saturated(self.occupied))

    def restore_foreign(self, task: Ask) -> None:
        """Restore a foreign allocation."""
        self.foreign[task.allocation_key] = task
        add_to(self.occupied, task.resource)
        subtract_from(self.available, task.resource)

    def put(self, ask: Ask) -> None:
        """Add an allocation that runs here, whatever room there is."""
        self.allocations[ask_id(ask)] = ask
        allocated, available = self.allocated, self.available
        for name, quantity in ask.resource.items():
            allocated[name] = allocated.get(name, 0) + quantity
            if quantity:
                available[name] = available.get(name, 0) - quantity

    def _update_available(self) -> None:
        self.available = subtracted(subtracted(self.capacity, self.allocated), self.occupied)
        self.revision += 1
