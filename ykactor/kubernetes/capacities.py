"""The room that drivers say they have, by storage class and by the labels of the nodes that can use it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ykactor.kubernetes import quantities
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import LabelSelector
from ykactor.kubernetes.policies import selects
from ykactor.kubernetes.storagemodel import CSIStorageCapacity


class Capacity(Struct, frozen=True):
    """A CSIStorageCapacity.

    Attributes:
        nodes: the nodes that can use it.
        size: of the largest volume that can be made, in bytes.
    """

    storage_class: str
    nodes: LabelSelector
    size: int

    def covers(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels can use it."""
        return selects(self.nodes, labels)


def capacity_of(found: CSIStorageCapacity) -> Capacity | None:
    """The part of a CSIStorageCapacity that is kept; None for one that no node can use.

    Raises:
        QuantityError: its size cannot be read.
    """
    largest = found.maximum_volume_size if found.maximum_volume_size is not None else found.capacity
    if found.node_topology is None or largest is None:
        return None
    return Capacity(found.storage_class_name, found.node_topology, quantities.parse(largest, up=False))


class Capacities:
    """The newest of these objects."""

    def __init__(self) -> None:
        self._all: dict[Ref, Capacity] = {}
        #: By storage class and a label that the nodes have; None for those whose selector names none.
        self._by_label: dict[tuple[str, tuple[str, str] | None], dict[Ref, Capacity]] = {}

    def refs(self) -> list[Ref]:
        """The objects that are known."""
        return list(self._all)

    def put(self, ref: Ref, capacity: Capacity | None) -> Capacity | None:
        """An object is new, has changed or is gone (None); returns what it was before."""
        before = self._all.pop(ref, None)
        if before is not None:
            there = self._by_label[_place(before)]
            del there[ref]
            if not there:
                del self._by_label[_place(before)]
        if capacity is not None:
            self._all[ref] = capacity
            self._by_label.setdefault(_place(capacity), {})[ref] = capacity
        return before

    def has_room(self, storage_class: str, size: int, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels can use a new volume of this class and size."""
        for label in (None, *labels.items()):
            for capacity in self._by_label.get((storage_class, label), {}).values():
                if capacity.size >= size and capacity.covers(labels):
                    return True
        return False


def _place(capacity: Capacity) -> tuple[str, tuple[str, str] | None]:
    return capacity.storage_class, min(capacity.nodes.match_labels.items(), default=None)
