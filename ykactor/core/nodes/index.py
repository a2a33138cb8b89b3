"""The scheduler's index of nodes, in the order in which they are tried (PR-60 to PR-67).

``NodeCore`` owns what runs on a node; this index is derived from it, and the planner charges placements to it. The nodes are in
one list sorted by (score, node id). An ask takes the first node on which it fits. Where that is far back in the list (binpacking
with many full nodes in front, or a shape that fits almost nowhere) a heap of the nodes that fit is built for the shape. When the
heap is used again it is updated from the log of changed nodes; so a shape that fits nowhere costs O(1) until a node changes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice

from ykactor.core.config.model import NodeSortPolicy
from ykactor.core.messages.asks import Shape
from ykactor.core.nodes.predicates import Predicates
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource
from ykactor.core.values.selector import Selector, selects

#: Nodes that are tried for an ask before a heap is built for its shape.
SCAN_MAX = 64
#: Entries of all heaps together; above it the oldest heaps are dropped (about 150 bytes an entry).
ENTRIES_MAX = 1_000_000
#: The most shapes that are remembered as too large for every node.
TOO_LARGE_MAX = 10_000

#: Nodes scored again between two yields to other tasks.
YIELD_EVERY = 500


class IndexedNode:
    """A node as the planner sees it: charged with placements that are not yet settled.

    Attributes:
        available: base units; a type that is absent or negative counts as 0.
        reserved: whether the node is reserved for asks.
        offered: whether asks that require no node may run here: the node is schedulable and not reserved (SC-40, SC-41).
        version: from one counter of the index, so that a node that was removed and added again is not mistaken for the old one.
        revision: that of the ``NodeCore`` when ``available`` was read, for ``PlaceBatch``.
    """

    __slots__ = (
        "attributes",
        "available",
        "capacity",
        "node_id",
        "offered",
        "reserved",
        "revision",
        "schedulable",
        "score",
        "version",
        "weights",
    )

    def __init__(self, node_id: NodeID) -> None:
        self.node_id = node_id
        self.available: Resource = {}
        self.capacity: Resource = {}
        self.attributes: dict[str, str] = {}
        #: (type, weight, capacity) of the types that count, in name order (PR-64).
        self.weights: list[tuple[str, float, float]] = []
        self.schedulable = self.reserved = self.offered = False
        self.score = 0.0
        self.version = 0
        self.revision = 0

    def fits(self, items: tuple[tuple[str, int], ...], selector: Selector) -> bool:
        """Whether the ask fits in what is available (SC-42), and its selector matches the node."""
        available = self.available
        for name, quantity in items:
            if quantity > 0 and quantity > available.get(name, 0):
                return False
        return not selector or selects(selector, self.attributes)

    def could_fit(self, items: tuple[tuple[str, int], ...], selector: Selector) -> bool:
        """Whether the ask would fit if nothing else ran here (SC-41), and its selector matches the node."""
        capacity = self.capacity
        for name, quantity in items:
            if quantity > 0 and quantity > capacity.get(name, 0):
                return False
        return not selector or selects(selector, self.attributes)


class _Heap:
    """The nodes on which one shape fits, best first; entries whose version is no longer the node's are stale."""

    __slots__ = ("entries", "log_end", "made_with", "readmissions")

    def __init__(self) -> None:
        self.entries: list[tuple[float, NodeID, int, IndexedNode]] = []
        #: The number of entries when the heap was built.
        self.made_with = 0
        #: The log of changed nodes is applied up to this absolute position.
        self.log_end = 0
        #: ``Predicates.readmissions`` when the heap was built; only matters for shapes with a predicate class.
        self.readmissions = 0


class NodeIndex:
    """All nodes of a partition, in order."""

    def __init__(self, policy: NodeSortPolicy) -> None:
        self.nodes: dict[NodeID, IndexedNode] = {}
        self.predicates = Predicates()
        self._policy = policy
        #: The offered nodes by (score, node id).
        self._sorted: list[tuple[float, NodeID, IndexedNode]] = []
        self._heaps: dict[Shape, _Heap] = {}
        #: Shapes that are known to be too large for every offered node.
        self._too_large: set[Shape] = set()
        self._log: list[IndexedNode] = []
        #: Absolute position of the log's first entry.
        self._log_start = 0
        self._versions = 0
        #: Reserved nodes that have changed since ``take_changed``.
        self._changed: dict[NodeID, None] = {}
        #: The number of entries of all heaps when they were built, plus one for each heap.
        self._entries = 0
        #: Nodes looked at since the last plan began: the unit of the planner's budget.
        self.visited = 0
        #: Increased whenever a node may accept what it did not before: it has changed, was removed, or is offered again.
        self.openings = 0

    # ---- what nodes report

    def configure(self, policy: NodeSortPolicy) -> Iterator[None]:
        """Order all nodes by another policy from now on (CF-78). Yields to other tasks."""
        if policy == self._policy:
            return
        self._policy = policy
        for number, node in enumerate(self.nodes.values(), 1):
            self._weigh(node)
            self._rescore(node)
            if number % YIELD_EVERY == 0:
                yield

    def sync(self, core: NodeCore) -> None:
        """Take over the present state of a new or known node."""
        self.openings += 1
        node = self.nodes.get(core.node_id)
        if node is None:
            node = self.nodes[core.node_id] = IndexedNode(core.node_id)
        elif node.offered:
            self._take_out(node)
        if node.schedulable is not core.schedulable:
            self._too_large.clear()
        if node.capacity is not core.capacity:
            self.set_capacity(node, core.capacity)
        node.available = dict(core.available)
        node.attributes = core.attributes
        node.schedulable = core.schedulable
        node.offered = core.schedulable and not node.reserved
        node.revision = core.revision
        self._put_in(node)

    def set_capacity(self, node: IndexedNode, capacity: Resource) -> None:
        """The node has another capacity; ``sync`` updates its available amounts and its position."""
        self._too_large.clear()
        node.capacity = capacity
        self._weigh(node)

    def remove(self, node_id: NodeID) -> None:
        """Remove a node."""
        self.openings += 1
        node = self.nodes.pop(node_id)
        if node.offered:
            self._take_out(node)
        node.schedulable = node.offered = False
        self._touch(node)

    def set_reserved(self, node: IndexedNode, *, reserved: bool) -> None:
        """Reserve the node for asks, or offer it to all asks again."""
        if node.offered:
            self._take_out(node)
        node.reserved = reserved
        node.offered = node.schedulable and not reserved
        self._put_in(node)
        if not reserved:
            self.openings += 1
            self._too_large.clear()

    def mark(self, node: IndexedNode) -> None:
        """A reserved node, or one of its reservations, has changed."""
        self._changed[node.node_id] = None

    def take_changed(self) -> list[NodeID]:
        """The reserved nodes that have changed since the last call."""
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def in_order(self) -> list[IndexedNode]:
        """The offered nodes, best first."""
        return [node for _, _, node in self._sorted]

    # ---- what the planner does

    def charge(self, node: IndexedNode, resource: Resource) -> None:
        """Charge a placement to ``node``; its position changes before the next ask (PR-66)."""
        available = node.available
        for name, quantity in resource.items():
            available[name] = available.get(name, 0) - quantity
        self._rescore(node)

    def first_fit(self, shape: Shape) -> IndexedNode | None:
        """The first node in order on which a shape that requires none fits (PR-67).

        Nodes that the predicate service has refused are skipped. The node that is returned may still be without an answer:
        see ``predicates.verdict``.
        """
        items, _, selector, predicate = shape
        heap = self._heaps.get(shape)
        if heap is not None:
            return self._first_of_heap(shape, heap)
        for _, _, node in islice(self._sorted, SCAN_MAX):
            if node.fits(items, selector) and (not predicate or self._admits(predicate, node)):
                self.visited += 1
                return node
        self.visited += min(SCAN_MAX, len(self._sorted))
        if len(self._sorted) <= SCAN_MAX:
            return None
        return self._first_of_heap(shape, self._make_heap(shape))

    def best_to_reserve(self, shape: Shape) -> IndexedNode | None:
        """The offered node that lacks the least of what the ask needs, of those that are large enough (SC-51). O(nodes).

        Nodes that the predicate service has refused are skipped: a reservation there would be in vain.
        """
        items, _, selector, predicate = shape
        if shape in self._too_large:
            return None
        self.visited += len(self._sorted)
        candidates = [node for node in self.in_order() if node.could_fit(items, selector) and self._admits(predicate, node)]
        if predicate and not candidates:  # not remembered: an answer may change it
            return None
        if not candidates:
            if len(self._too_large) >= TOO_LARGE_MAX:
                self._too_large.clear()
            self._too_large.add(shape)
            return None
        return min(candidates, key=lambda node: _shortfall(items, node.available))  # of equals the first in order

    def candidates(self, shape: Shape) -> Iterator[IndexedNode]:
        """All nodes on which the shape fits, in order, also those that the predicate service has refused. O(nodes)."""
        items, required, selector, _ = shape
        pinned = [self.nodes[required]] if required in self.nodes else []
        for node in self.in_order() if required is None else pinned:
            self.visited += 1
            if node.fits(items, selector):
                yield node

    def _admits(self, predicate: str, node: IndexedNode) -> bool:
        return not predicate or self.predicates.verdict((predicate, True), node.node_id) is not False

    # ---- heaps of shapes

    def _make_heap(self, shape: Shape) -> _Heap:
        if shape in self._heaps:
            self._drop(shape)
        heap = _Heap()
        items, _, selector, _ = shape
        heap.entries = [
            (score, node_id, node.version, node) for score, node_id, node in self._sorted if node.fits(items, selector)
        ]  # sorted, and a sorted list is a heap
        heap.made_with = len(heap.entries)
        heap.log_end = self._log_start + len(self._log)
        heap.readmissions = self.predicates.readmissions
        self.visited += len(self._sorted)
        self._heaps[shape] = heap
        self._entries += len(heap.entries) + 1
        while self._entries > ENTRIES_MAX and len(self._heaps) > 1:
            self._drop(next(iter(self._heaps)))
        return heap

    def _drop(self, shape: Shape) -> None:
        self._entries -= self._heaps.pop(shape).made_with + 1

    def _first_of_heap(self, shape: Shape, heap: _Heap) -> IndexedNode | None:
        is_stale = bool(shape[3]) and heap.readmissions != self.predicates.readmissions
        if is_stale or heap.log_end < self._log_start or len(heap.entries) > 2 * len(self._sorted) + SCAN_MAX:
            heap = self._make_heap(shape)
        else:
            self._catch_up(shape, heap)
        entries = heap.entries
        while entries:
            _, _, version, node = entries[0]
            if version == node.version and self._admits(shape[3], node):
                return node
            heapq.heappop(entries)
        return None

    def _catch_up(self, shape: Shape, heap: _Heap) -> None:
        changed = self._log[heap.log_end - self._log_start :]
        if not changed:
            return
        heap.log_end += len(changed)
        self.visited += len(changed)
        entries = heap.entries
        items, _, selector, _ = shape
        for node in dict.fromkeys(changed) if len(changed) > 1 else changed:
            if node.offered and node.fits(items, selector):
                heapq.heappush(entries, (node.score, node.node_id, node.version, node))

    def _touch(self, node: IndexedNode) -> None:
        """Give the node a new version and log the change. The log is halved when applying it costs more than building a heap."""
        self._versions += 1
        node.version = self._versions
        if node.reserved:
            self.mark(node)
        if self._heaps:
            self._log.append(node)
            if len(self._log) > 2 * len(self.nodes) + SCAN_MAX:
                cut = len(self._log) // 2
                del self._log[:cut]
                self._log_start += cut

    # ---- the order

    def _weigh(self, node: IndexedNode) -> None:
        weights = self._policy.resource_weights
        node.weights = [
            (name, weights[name], float(node.capacity[name]))
            for name in sorted(node.capacity)
            if weights.get(name, 0.0) > 0 and node.capacity[name] != 0
        ]

    def _rescore(self, node: IndexedNode) -> None:
        if node.offered:
            self._take_out(node)
        self._put_in(node)

    def _take_out(self, node: IndexedNode) -> None:
        # most placements move the first node
        place = 0 if self._sorted[0][2] is node else bisect_left(self._sorted, (node.score, node.node_id))
        del self._sorted[place]

    def _put_in(self, node: IndexedNode) -> None:
        used = weight_sum = 0.0
        available = node.available
        for name, weight, capacity in node.weights:
            used += weight * (1.0 - available.get(name, 0) / capacity)
            weight_sum += weight
        utilisation = used / weight_sum if weight_sum else 0.0
        node.score = utilisation if self._policy.type == "fair" else 1.0 - utilisation
        if node.offered:
            insort(self._sorted, (node.score, node.node_id, node))
        self._touch(node)


def _shortfall(items: tuple[tuple[str, int], ...], available: Resource) -> float:
    """The sum over the ask's types of the part that is missing (SC-51)."""
    return sum(max(0, quantity - max(0, available.get(name, 0))) / quantity for name, quantity in items if quantity > 0)
