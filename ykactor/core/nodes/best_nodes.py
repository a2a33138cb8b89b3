"""The best nodes for shapes: per shape, the nodes on which it fits, best first.

A heap is built for a shape when it is needed, and updated from a log of changed nodes when it is used again. So a shape that fits
on no node costs O(1) until a node changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from ykactor.core.messages.asks import Shape, look_work
from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.nodes.predicates import Predicates
from ykactor.core.queueing.sibling_order import Effort
from ykactor.core.values.ids import NodeID
from ykactor.core.values.parts import Pausing, in_parts

#: Entries of all heaps of one ranking together; above it the oldest heaps are dropped (about 150 bytes an entry).
ENTRIES_MAX = 500_000
#: A heap and the log may have this many entries more than twice the nodes.
SPARE = 64


#: A node on which a shape fits: its position for the shape (the lowest is the best), its version, and the node.
Entry = tuple[Any, ...]


class _Heap:
    """The nodes on which one shape fits; entries with an older version than the node's are stale."""

    __slots__ = ("entries", "log_end", "made_with", "readmissions")

    def __init__(self, entries: list[Entry], log_end: int, readmissions: int) -> None:
        self.entries = entries
        #: The number of entries when the heap was built.
        self.made_with = len(entries)
        #: The log of changed nodes is applied up to this absolute position.
        self.log_end = log_end
        #: ``Predicates.readmissions`` when the heap was built; only matters for shapes with a predicate class.
        self.readmissions = readmissions


class BestNodes:
    """The best offered node for each shape, by one ranking.

    Args:
        nodes: all nodes; read only.
        pool: yields at least all nodes on which a shape may fit.
        rank: yields the entries of the nodes among these on which a shape fits.
        predicates: nodes that are refused for the shape's predicate class are skipped.
        effort: counts the nodes looked at.

    Attributes:
        heaps: of the shapes for which ``first`` is cheap.
    """

    def __init__(
        self,
        nodes: dict[NodeID, IndexedNode],
        pool: Callable[[Shape], Iterable[IndexedNode]],
        rank: Callable[[Shape, list[IndexedNode]], list[Entry]],
        predicates: Predicates,
        effort: Effort,
    ) -> None:
        self._nodes = nodes
        self._pool = pool
        self._rank = rank
        self._predicates = predicates
        self.heaps: dict[Shape, _Heap] = {}
        self._log: list[IndexedNode] = []
        #: Absolute position of the log's first entry.
        self._log_start = 0
        #: The number of entries of all heaps when they were built, plus one for each heap.
        self._entries = 0
        self._effort = effort

    def note(self, node: IndexedNode) -> None:
        """Log a node that has changed, with its version; to be called only while there are heaps.

        The log is halved when applying it costs more than building a heap. Heaps that were not used since are dropped, with the
        removed nodes in them: they would have to be built again anyway.
        """
        self._log.append(node)
        if len(self._log) > 2 * len(self._nodes) + SPARE:
            cut = len(self._log) // 2
            del self._log[:cut]
            self._log_start += cut
            for shape in [shape for shape, heap in self.heaps.items() if heap.log_end < self._log_start]:
                self._drop(shape)

    def work(self, shape: Shape) -> int:
        """The work units of ``first``, unless ``prepare`` has done the work."""
        heap = self.heaps.get(shape)
        looks = len(self._nodes) if heap is None or self._is_outdated(shape, heap) else self._log_end() - heap.log_end
        return looks * look_work(shape)

    def prepare(self, shape: Shape) -> Pausing[None]:
        """Do the work of ``first`` in parts; nothing may change meanwhile."""
        heap = self.heaps.get(shape)
        nodes = self._offered(shape) if heap is None or self._is_outdated(shape, heap) else self._changed_since(heap)
        self._effort.spent += len(nodes) * look_work(shape)
        ranked = []
        for part in in_parts(nodes):
            ranked.append(self._rank(shape, part))
            yield ()
        if heap is None or self._is_outdated(shape, heap):
            self._keep(shape, [*chain.from_iterable(ranked)])
            return
        heap.log_end = self._log_end()
        for entry in chain.from_iterable(ranked):
            heapq.heappush(heap.entries, entry)

    def first(self, shape: Shape) -> IndexedNode | None:
        """The best node for a shape; None if it fits on none."""
        heap = self._up_to_date(shape)
        entries = heap.entries
        while entries:
            version, node = entries[0][-2:]
            if version == node.version and self._predicates.admits(shape[3], node.node_id):
                found: IndexedNode = node
                return found
            heapq.heappop(entries)
        return None

    def _up_to_date(self, shape: Shape) -> _Heap:
        heap = self.heaps.get(shape)
        if heap is None or self._is_outdated(shape, heap):
            pool = self._offered(shape)
            self._effort.spent += len(pool) * look_work(shape)
            return self._keep(shape, self._rank(shape, pool))
        if heap.log_end != self._log_end():
            changed = self._changed_since(heap)
            self._effort.spent += (self._log_end() - heap.log_end) * look_work(shape)
            heap.log_end = self._log_end()
            for entry in self._rank(shape, changed):
                heapq.heappush(heap.entries, entry)
        return heap

    def _is_outdated(self, shape: Shape, heap: _Heap) -> bool:
        """True if the heap is to be built anew: it is too large, or nodes are no longer refused."""
        is_too_large = len(heap.entries) > 2 * len(self._nodes) + SPARE
        return is_too_large or (bool(shape[3]) and heap.readmissions != self._predicates.readmissions)

    def _log_end(self) -> int:
        return self._log_start + len(self._log)

    def _offered(self, shape: Shape) -> list[IndexedNode]:
        return [node for node in self._pool(shape) if node.offered]

    def _changed_since(self, heap: _Heap) -> list[IndexedNode]:
        return [node for node in dict.fromkeys(self._log[heap.log_end - self._log_start :]) if node.offered]

    def _keep(self, shape: Shape, entries: list[Entry]) -> _Heap:
        if shape in self.heaps:
            self._drop(shape)
        heapq.heapify(entries)
        heap = _Heap(entries, self._log_end(), self._predicates.readmissions)
        self.heaps[shape] = heap
        self._entries += heap.made_with + 1
        while self._entries > ENTRIES_MAX and len(self.heaps) > 1:
            self._drop(next(iter(self.heaps)))
        return heap

    def _drop(self, shape: Shape) -> None:
        self._entries -= self.heaps.pop(shape).made_with + 1
