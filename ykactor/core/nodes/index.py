"""The scheduler's index of nodes, in the order in which they are tried (PR-60 to PR-67).

``NodeCore`` owns what runs on a node; this index is derived from it, and the planner charges placements to it. The nodes are in
one list sorted by (score, node id). An ask takes the first node on which it fits. A selector that names few nodes is compared
with these only (``Labels``). Where the first node that fits is far back in the list (binpacking with many full nodes in front,
or a shape that fits almost nowhere) the nodes that fit are kept for the shape (``BestNodes``).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from ykactor.core.config.model import NodeSortPolicy
from ykactor.core.messages.asks import Shape, look_work
from ykactor.core.messages.changed import Changed
from ykactor.core.nodes.predicates import Predicates
from ykactor.core.objects.node import NodeCore
from ykactor.core.queueing.sibling_order import Effort
from ykactor.core.queueing.waiting_classes import NodeLog, OpenedNodes
from ykactor.core.values.ids import NodeID
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.resources import Resource
from ykactor.core.values.selector import NODE_ID, Requirement, Selector, selects
from ykactor.core.values.sorted_list import SortedList

#: Entries of the log of changed nodes that are remembered.
CHANGED_MAX = 10_000
#: Attributes that are indexed at a time. Above it the one that was used longest ago is dropped.
ATTRIBUTES_MAX = 64
#: Entries of all heaps of one ranking together; above it the oldest heaps are dropped (about 150 bytes an entry).
ENTRIES_MAX = 500_000
#: A heap may have, or be behind by, this many entries more than twice the nodes.
SPARE = 64
#: Nodes that are tried for an ask before the nodes that fit are looked up or kept for its shape.
SCAN_MAX = 64
#: The work of looking at nodes that is done at once for a shape with many amounts or requirements: about 1 ms.
READY_WORK = 5_000

#: A node on which a shape fits: its position for the shape (the lowest is the best), its version, and the node.
Entry = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class IndexedNode:
    """A node as the planner sees it: charged with placements that are not yet settled.

    Attributes:
        available: base units; a type that is absent or negative counts as 0.
        attributes: those that were ``reported``, and the node's own name (``selector.NODE_ID``).
        weights: (type, weight, capacity) of the types that count, in name order (PR-64).
        reserved: True if the node is reserved for asks.
        offered: True if asks that require no node may run here: the node is schedulable and not reserved (SC-40, SC-41).
        place: (score, node id), the position of the node in the order.
        version: from one counter of the index, so that a node that was removed and added again is not mistaken for the old one.
        revision: that of the ``NodeCore`` when ``available`` was read, for ``PlaceBatch``.
    """

    node_id: NodeID
    available: Resource = field(default_factory=dict)
    capacity: Resource = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    reported: dict[str, str] | None = None
    weights: list[tuple[str, float, float]] = field(default_factory=list)
    schedulable: bool = False
    reserved: bool = False
    offered: bool = False
    place: tuple[float, NodeID] = (0.0, NodeID(""))
    version: int = 0
    revision: int = 0

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


#: The nodes by the value of one attribute; those without the attribute are not in it.
_ByValue = dict[str, dict[NodeID, IndexedNode]]


class Labels:
    """The nodes that have an attribute with a value, so that a selector is compared with few nodes.

    Only attributes that some selector has named are indexed, each when it is named for the first time.
    """

    def __init__(self, nodes: dict[NodeID, IndexedNode]) -> None:
        self._nodes = nodes
        self._by_key: dict[str, _ByValue] = {}

    def add(self, node: IndexedNode) -> None:
        """Index a node that is new, or whose attributes have changed since ``remove``."""
        for key, by_value in self._by_key.items():
            _enter(by_value, key, node)

    def remove(self, node: IndexedNode) -> None:
        """Take out a node that leaves, or whose attributes are about to change."""
        for key, by_value in self._by_key.items():
            value = node.attributes.get(key)
            if value is not None:
                del by_value[value][node.node_id]
                if not by_value[value]:
                    del by_value[value]

    def meeting(self, selector: Selector) -> list[dict[NodeID, IndexedNode]] | None:
        """The nodes that meet the most selective requirement, in parts; None if all requirements are negative.

        All other nodes do not match the selector, and some of these may not match its other requirements. O(values named), and
        O(nodes) when an attribute is named for the first time.
        """
        found = [self._with_value(requirement) for requirement in selector if requirement.holds and requirement.values]
        return min(found, key=lambda parts: sum(map(len, parts))) if found else None

    def _with_value(self, requirement: Requirement) -> list[dict[NodeID, IndexedNode]]:
        by_value = self._of(requirement.key)
        assert requirement.values is not None
        return [by_value[value] for value in dict.fromkeys(requirement.values) if value in by_value]

    def _of(self, key: str) -> _ByValue:
        by_value = self._by_key.pop(key, None)
        if by_value is None:
            if len(self._by_key) >= ATTRIBUTES_MAX:
                del self._by_key[next(iter(self._by_key))]
            by_value = {}
            for node in self._nodes.values():
                _enter(by_value, key, node)
        self._by_key[key] = by_value  # as the one that was used last
        return by_value


def _enter(by_value: _ByValue, key: str, node: IndexedNode) -> None:
    value = node.attributes.get(key)
    if value is not None:
        by_value.setdefault(value, {})[node.node_id] = node


class _Heap:
    """The nodes on which one shape fits; entries with an older version than the node's are stale."""

    __slots__ = ("entries", "log_end", "made_with", "readmissions")

    def __init__(self, entries: list[Entry], readmissions: int) -> None:
        self.entries = entries
        #: The number of entries when the heap was built, and one for the heap.
        self.made_with = len(entries) + 1
        #: The log of changed nodes is applied up to here.
        self.log_end = 0
        #: ``Predicates.readmissions`` when the heap was built; only matters for shapes with a predicate class.
        self.readmissions = readmissions


class BestNodes:
    """The best offered node for each shape, by one ranking: the nodes on which a shape fits are kept for it, best first.

    A heap is built for a shape when it is needed, and updated from the log of changed nodes when it is used again. So a shape
    that fits on no node costs O(1) until a node changes. A heap that is so far behind that building it costs less is built again.

    Args:
        index: has all nodes; read only.
        rank: yields the entries of the nodes among these on which a shape fits. Nodes that are refused for its predicate class
            are skipped.
    """

    def __init__(self, index: NodeIndex, rank: Callable[[Shape, list[IndexedNode]], list[Entry]]) -> None:
        self._index = index
        self._rank = rank
        #: In the order in which they were used last; for their shapes ``first`` is cheap, unless they are far behind.
        self.heaps: dict[Shape, _Heap] = {}
        #: The sum of ``made_with`` of all heaps.
        self._entries = 0

    def work(self, shape: Shape) -> int:
        """The work units of ``first``, unless ``prepare`` has done the work."""
        heap = self._usable(shape)
        index = self._index
        return (len(index.nodes) if heap is None else index.changed.count - heap.log_end) * look_work(shape)

    def prepare(self, shape: Shape) -> Steps[None]:
        """Do the work of ``first`` in parts; nothing may change meanwhile."""
        heap = self._usable(shape)
        ranked = []
        for part in in_parts(self._to_rank(shape, heap)):
            ranked.append(self._rank(shape, part))
            yield len(part)
        self._add(shape, heap, [*chain.from_iterable(ranked)])

    def first(self, shape: Shape) -> IndexedNode | None:
        """The best node for a shape; None if it fits on none."""
        heap = self._usable(shape)
        if heap is None or heap.log_end != self._index.changed.count:
            heap = self._add(shape, heap, self._rank(shape, self._to_rank(shape, heap)))
        entries, predicates = heap.entries, self._index.predicates
        while entries:
            version, node = entries[0][-2:]
            if version == node.version and predicates.admits(shape[3], node.node_id):
                found: IndexedNode = node
                return found
            heapq.heappop(entries)
        return None

    def _usable(self, shape: Shape) -> _Heap | None:
        """The heap of a shape; None if it is to be built: it is too large or too far behind, or nodes are no longer refused."""
        heap = self.heaps.get(shape)
        if heap is None or len(heap.entries) > 2 * len(self._index.nodes) + SPARE or self.is_behind(heap):
            return None
        return heap if not shape[3] or heap.readmissions == self._index.predicates.readmissions else None

    def is_behind(self, heap: _Heap) -> bool:
        """True if applying the log costs more than building the heap again, or entries are no longer remembered."""
        index = self._index
        return index.changed.count - heap.log_end > min(2 * len(index.nodes) + SPARE, CHANGED_MAX)

    def _to_rank(self, shape: Shape, heap: _Heap | None) -> list[IndexedNode]:
        """The nodes to look at: all, or those that have changed since the heap was used. They count as work."""
        index = self._index
        nodes = index.pool(shape) if heap is None else index.changed.since(heap.log_end) or ()
        offered = [node for node in nodes if node.offered]
        index.effort.spent += (len(offered) if heap is None else index.changed.count - heap.log_end) * look_work(shape)
        return offered

    def _add(self, shape: Shape, heap: _Heap | None, ranked: list[Entry]) -> _Heap:
        """Add nodes to a heap, or to a new one. Heaps that are too far behind are dropped, with the removed nodes in them."""
        before = self.heaps.pop(shape, None)
        if heap is None:
            heapq.heapify(ranked)
            heap = _Heap(ranked, self._index.predicates.readmissions)
        else:
            for entry in ranked:
                heapq.heappush(heap.entries, entry)
        heap.log_end = self._index.changed.count
        self.heaps[shape] = heap
        self._entries += heap.made_with - (0 if before is None else before.made_with)
        while len(self.heaps) > 1 and (self._entries > ENTRIES_MAX or self.is_behind(next(iter(self.heaps.values())))):
            self._entries -= self.heaps.pop(next(iter(self.heaps))).made_with
        return heap


class NodeIndex:
    """All nodes of a partition, in order.

    Args:
        effort: counts the nodes looked at: the unit of the planner's budget.
    """

    def __init__(self, policy: NodeSortPolicy, changed: Changed, effort: Effort, *, reserves: bool) -> None:
        self.effort = effort
        self.nodes: dict[NodeID, IndexedNode] = {}
        self.predicates = Predicates(changed)
        self._policy = policy
        #: The offered nodes by place.
        self._sorted: SortedList[IndexedNode] = SortedList()
        #: Offered nodes that have changed since the order was last needed, and are not in ``_sorted``.
        self._unsorted: dict[NodeID, IndexedNode] = {}
        self._labels = Labels(self.nodes)
        self._fitting = BestNodes(self, _by_place)
        self._reservable = BestNodes(self, _by_shortfall)
        #: The log of all changes of nodes, also of those that only have less available or were reserved.
        self.changed: NodeLog[IndexedNode] = NodeLog(CHANGED_MAX)
        self._versions = 0
        #: Reserved nodes that have changed since ``take_changed``.
        self._changed: dict[NodeID, None] = {}
        #: The nodes that may accept what they did not before: they have changed, were removed, or are offered again.
        self.opened: OpenedNodes[IndexedNode] = OpenedNodes(reserves=reserves)

    # ---- what nodes report

    def configure(self, policy: NodeSortPolicy) -> Steps[None]:
        """Order all nodes by another policy from now on (CF-78)."""
        if policy == self._policy:
            return
        self._policy = policy
        for node in self.nodes.values():
            self._weigh(node)
            if node.offered:
                self._take_out(node)
            self._put_in(node)
            yield 1

    def sync(self, core: NodeCore) -> None:
        """Copy the present state of a new or known node. It is put in order when the order is needed."""
        node = self.nodes.get(core.node_id)
        if node is None:
            node = self.nodes[core.node_id] = IndexedNode(core.node_id)
        elif node.offered:
            self._take_out(node)
        if node.capacity is not core.capacity:
            self.set_capacity(node, core.capacity)
        node.available = dict(core.available)
        if node.reported is not core.attributes:
            self._labels.remove(node)
            node.reported = core.attributes
            node.attributes = {**core.attributes, NODE_ID: core.node_id}
            self._labels.add(node)
        node.schedulable = core.schedulable
        node.offered = core.schedulable and not node.reserved
        node.revision = core.revision
        self._score(node)
        if node.offered:
            self._unsorted[node.node_id] = node
        self._touch(node)
        self.opened.note(node)

    def set_capacity(self, node: IndexedNode, capacity: Resource) -> None:
        """Set the capacity of a node; ``sync`` updates its available amounts and its position."""
        node.capacity = capacity
        self._weigh(node)

    def remove(self, node_id: NodeID) -> None:
        """Remove a node."""
        node = self.nodes.pop(node_id)
        self._labels.remove(node)
        if node.offered:
            self._take_out(node)
        node.schedulable = node.offered = False
        self._touch(node)
        self.opened.note(node)

    def set_reserved(self, node: IndexedNode, *, reserved: bool) -> None:
        """Reserve the node for asks, or offer it to all asks again."""
        if node.offered:
            self._take_out(node)
        node.reserved = reserved
        node.offered = node.schedulable and not reserved
        self._put_in(node)
        if not reserved:
            self.opened.note(node)

    def mark(self, node: IndexedNode) -> None:
        """Note that a reserved node or one of its reservations has changed."""
        self._changed[node.node_id] = None

    def take_changed(self) -> list[NodeID]:
        """The reserved nodes that have changed since the last call."""
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def in_order(self) -> list[IndexedNode]:
        """The offered nodes, best first."""
        return self._order().items()

    # ---- what the planner does

    def charge(self, node: IndexedNode, resource: Resource) -> None:
        """Charge a placement to ``node``; its position changes before the next ask (PR-66)."""
        available = node.available
        for name, quantity in resource.items():
            available[name] = available.get(name, 0) - quantity
        if not node.offered:
            self._score(node)
        else:
            if not self._unsorted or self._unsorted.pop(node.node_id, None) is None:
                self._sorted.remove(node.place)
            self._score(node)
            self._sorted.add(node.place, node)
        self._touch(node)

    def is_ready(self, shape: Shape) -> bool:
        """True if finding a node for the shape, or one to reserve, takes little time."""
        return look_work(shape) == 1 or max(self._fitting.work(shape), self._reservable.work(shape)) <= READY_WORK

    def prepare(self, shape: Shape) -> Steps[None]:
        """Look at all nodes for a shape with many amounts or requirements, in parts."""
        yield from self._fitting.prepare(shape)
        yield from self._reservable.prepare(shape)

    def first_fit(self, shape: Shape) -> IndexedNode | None:
        """The first node in order on which a shape that requires none fits (PR-67).

        Nodes that the predicate service has refused are skipped. The node that is returned may still be without an answer:
        see ``predicates.verdict``.
        """
        heap = self._fitting.heaps.get(shape)
        if heap is not None and not self._fitting.is_behind(heap):
            return self._fitting.first(shape)
        items, _, selector, predicate = shape
        labelled = self._labels.meeting(selector) if selector else None
        if labelled is not None and sum(map(len, labelled)) <= SCAN_MAX:
            return self._first_of(shape, [node for part in labelled for node in part.values()])
        for node in islice(self._order() if self._unsorted else self._sorted, SCAN_MAX):
            if node.fits(items, selector) and (not predicate or self.predicates.admits(predicate, node.node_id)):
                self.effort.spent += 1
                return node
        self.effort.spent += min(SCAN_MAX, len(self._sorted)) * look_work(shape)
        return None if len(self._sorted) <= SCAN_MAX else self._fitting.first(shape)

    def _first_of(self, shape: Shape, nodes: list[IndexedNode]) -> IndexedNode | None:
        items, _, selector, predicate = shape
        self.effort.spent += len(nodes) * look_work(shape)
        rest = selector if len(selector) > 1 else ()  # a single requirement is met by all of these
        found = _with_room([node for node in nodes if node.offered], items, rest)
        if predicate:
            found = [node for node in found if self.predicates.admits(predicate, node.node_id)]
        return min(found, key=lambda node: node.place, default=None)

    def best_to_reserve(self, shape: Shape) -> IndexedNode | None:
        """The offered node that lacks the least of what the ask needs, of those that are large enough (SC-51).

        Nodes that the predicate service has refused are skipped: a reservation there would be in vain.
        """
        return self._reservable.first(shape)

    def candidates(self, shape: Shape) -> Iterator[IndexedNode]:
        """All nodes on which the shape fits, in order, also those that the predicate service has refused. O(nodes)."""
        items, required, selector, _ = shape
        if required is None:
            nodes = sorted((node for node in self.pool(shape) if node.offered), key=lambda node: node.place)
        else:
            nodes = [self.nodes[required]] if required in self.nodes else []
        for node in nodes:
            self.effort.spent += 1
            if node.fits(items, selector):
                yield node

    def pool(self, shape: Shape) -> Iterable[IndexedNode]:
        """The nodes that may suit a shape: those with an attribute that its selector asks for, or all that are offered."""
        labelled = self._labels.meeting(shape[2])
        return self._order().items() if labelled is None else chain.from_iterable(part.values() for part in labelled)

    # ---- the order

    def _weigh(self, node: IndexedNode) -> None:
        weights = self._policy.resource_weights
        node.weights = [
            (name, weights[name], float(node.capacity[name]))
            for name in sorted(node.capacity)
            if weights.get(name, 0.0) > 0 and node.capacity[name] != 0
        ]

    def _order(self) -> SortedList[IndexedNode]:
        """The offered nodes by place."""
        if self._unsorted:
            self._sorted.add_all([(node.place, node) for node in self._unsorted.values()])
            self._unsorted.clear()
        return self._sorted

    def _take_out(self, node: IndexedNode) -> None:
        if not self._unsorted or self._unsorted.pop(node.node_id, None) is None:
            self._sorted.remove(node.place)

    def _put_in(self, node: IndexedNode) -> None:
        self._score(node)
        if node.offered:
            self._sorted.add(node.place, node)
        self._touch(node)

    def _score(self, node: IndexedNode) -> None:
        used = weight_sum = 0.0
        available = node.available
        for name, weight, capacity in node.weights:
            used += weight * (1.0 - available.get(name, 0) / capacity)
            weight_sum += weight
        utilisation = used / weight_sum if weight_sum else 0.0
        node.place = utilisation if self._policy.type == "fair" else 1.0 - utilisation, node.node_id

    def _touch(self, node: IndexedNode) -> None:
        """Give the node a new version, and log that it has changed."""
        self._versions += 1
        node.version = self._versions
        if node.reserved:
            self.mark(node)
        self.changed.note(node)


def _by_place(shape: Shape, nodes: list[IndexedNode]) -> list[Entry]:
    """The nodes on which the ask fits, by their order."""
    return [(node.place, node.version, node) for node in _with_room(nodes, shape[0], shape[2])]


def _with_room(nodes: list[IndexedNode], items: tuple[tuple[str, int], ...], selector: Selector) -> list[IndexedNode]:
    """Filter nodes by ``IndexedNode.fits``."""
    for name, quantity in items:
        if quantity > 0:
            nodes = [node for node in nodes if node.available.get(name, 0) >= quantity]
    return [node for node in nodes if selects(selector, node.attributes)] if selector else nodes


def _by_shortfall(shape: Shape, nodes: list[IndexedNode]) -> list[Entry]:
    """The nodes that are large enough, by the sum over the types of the part that is missing (SC-51), then by their order."""
    items, _, selector, _ = shape
    needs = [(name, quantity) for name, quantity in items if quantity > 0]
    for name, quantity in needs:
        nodes = [node for node in nodes if node.capacity.get(name, 0) >= quantity]
    if selector:
        nodes = [node for node in nodes if selects(selector, node.attributes)]
    entries: list[Entry] = []
    for node in nodes:
        available, missing = node.available, 0.0
        for name, quantity in needs:
            left = available.get(name, 0)
            if left < quantity:
                missing += (quantity - left) / quantity if left > 0 else 1.0
        entries.append((missing, node.place, node.version, node))
    return entries
