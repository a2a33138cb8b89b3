"""The single devices of nodes: how many placements had room on a node, and on no device of it.

A node that offers n of a resource, and 1000 n of its thousandths (``gpu`` and ``gpu-milli``), has n such devices. The scheduler
counts both in total for each node. Here a placement of thousandths takes the fullest device that has room, and one of n whole
devices takes n that are empty; if there are none, it takes no device, so that one mistake does not cause others.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, Fact, NodeAdded, NodeCapacityChanged, NodeRemoved, Released
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID
from ykactor.core.values.resources import Resource

_THOUSANDTHS = "-milli"
_WHOLE = 1000
#: A node that offers more has no single devices.
_DEVICES_MAX = 1024

#: An allocation, and a type of its resource.
_Key = tuple[ApplicationID, AllocationKey, str]


class DeviceUse(Struct, frozen=True, rename="camel"):
    """Placements that want a type of device, and how many of these had room on no single one."""

    placed: int
    without_device: int


class Devices:
    """Gives placements to devices, in the order of the facts."""

    def __init__(self) -> None:
        #: What is free of each device, in thousandths, by node and type.
        self._free: dict[tuple[NodeID, str], list[int]] = {}
        #: The devices that an allocation uses, and what it uses of each.
        self._taken: dict[_Key, tuple[list[int], int]] = {}
        self._placed = Counter[str]()
        self._without = Counter[str]()

    def observe(self, fact: Fact) -> None:
        """Take the next fact. Cost: O(devices of the node)."""
        match fact:
            case NodeAdded() | NodeCapacityChanged():
                self._offer(fact.node_id, fact.capacity)
            case NodeRemoved():
                self._offer(fact.node_id, {})
            case Allocated():
                self._place(fact.node_id, fact.ask)
            case Released():
                self._release(fact.node_id, fact.ask)
            case _:
                pass

    def uses(self) -> dict[str, DeviceUse]:
        """The use of each type of device, in alphabetical order."""
        return {name: DeviceUse(self._placed[name], self._without[name]) for name in sorted(self._placed)}

    def _offer(self, node_id: NodeID, capacity: Resource) -> None:
        """Devices that remain keep what is placed on them; the last ones go first."""
        for name in {*_types(capacity), *(name for node, name in self._free if node == node_id)}:
            free, count = self._free.setdefault((node_id, name), []), _count(capacity, name)
            free[count:] = [_WHOLE] * (count - len(free))
            if not count:
                del self._free[node_id, name]

    def _place(self, node_id: NodeID, ask: Ask) -> None:
        for name in _types(ask.resource):
            free = self._free.get((node_id, name))
            if free is None:
                continue
            self._placed[name] += 1
            whole = ask.resource.get(name, 0)
            share = _WHOLE if whole else ask.resource[name + _THOUSANDTHS]
            fitting = sorted((left, index) for index, left in enumerate(free) if left >= share)[: whole or 1]
            if len(fitting) < (whole or 1):
                self._without[name] += 1
                continue
            for _, index in fitting:
                free[index] -= share
            self._taken[ask.application_id, ask.allocation_key, name] = [index for _, index in fitting], share

    def _release(self, node_id: NodeID, ask: Ask) -> None:
        for name in _types(ask.resource):
            indexes, share = self._taken.pop((ask.application_id, ask.allocation_key, name), ([], 0))
            free = self._free.get((node_id, name), [])
            for index in indexes:
                if index < len(free):
                    free[index] += share


def _types(resource: Resource) -> Iterator[str]:
    """The types of device of which there are thousandths."""
    return (name.removesuffix(_THOUSANDTHS) for name, amount in resource.items() if name.endswith(_THOUSANDTHS) and amount > 0)


def _count(capacity: Resource, name: str) -> int:
    """The number of devices that a node with this capacity has; 0 if the two amounts do not agree."""
    count = capacity.get(name, 0)
    return count if count <= _DEVICES_MAX and capacity.get(name + _THOUSANDTHS) == _WHOLE * count else 0
