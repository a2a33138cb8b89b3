"""A node as the planner sees it: charged with placements that are not yet settled."""

from __future__ import annotations

from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource
from ykactor.core.values.selector import Selector, selects


class IndexedNode:
    """One node.

    Attributes:
        attributes: those that were ``reported``, and the node's own name (``selector.NODE_ID``).
        available: base units; a type that is absent or negative counts as 0.
        reserved: True if the node is reserved for asks.
        place: (score, node id), the position of the node in the order.
        offered: True if asks that require no node may run here: the node is schedulable and not reserved (SC-40, SC-41).
        version: from one counter of the index, so that a node that was removed and added again is not mistaken for the old one.
        revision: that of the ``NodeCore`` when ``available`` was read, for ``PlaceBatch``.
    """

    __slots__ = (
        "attributes",
        "available",
        "capacity",
        "node_id",
        "offered",
        "place",
        "reported",
        "reserved",
        "revision",
        "schedulable",
        "version",
        "weights",
    )

    def __init__(self, node_id: NodeID) -> None:
        self.node_id = node_id
        self.available: Resource = {}
        self.capacity: Resource = {}
        self.attributes: dict[str, str] = {}
        self.reported: dict[str, str] | None = None
        #: (type, weight, capacity) of the types that count, in name order (PR-64).
        self.weights: list[tuple[str, float, float]] = []
        self.schedulable = self.reserved = self.offered = False
        self.place: tuple[float, NodeID] = (0.0, node_id)
        self.version = 0
        self.revision = 0

    def fits(self, items: tuple[tuple[str, int], ...], selector: Selector) -> bool:
        """True if the ask fits in the available amounts (SC-42), and its selector matches the node."""
        available = self.available
        for name, quantity in items:
            if quantity > 0 and quantity > available.get(name, 0):
                return False
        return not selector or selects(selector, self.attributes)

    def could_fit(self, items: tuple[tuple[str, int], ...], selector: Selector) -> bool:
        """True if the ask would fit if nothing else ran here (SC-41), and its selector matches the node."""
        capacity = self.capacity
        for name, quantity in items:
            if quantity > 0 and quantity > capacity.get(name, 0):
                return False
        return not selector or selects(selector, self.attributes)
