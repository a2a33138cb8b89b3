"""For each shape the nodes that suit it, best first.

A heap is built for a shape when it is needed, and updated from a log of changed nodes when it is used again. So a shape that no
node suits costs O(1) until a node changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from ykactor.core.messages.asks import Shape
from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.nodes.predicates import Predicates
from ykactor.core.values.ids import NodeID

#: Entries of all heaps of one ranking together; above it the oldest heaps are dropped (about 150 bytes an entry).
ENTRIES_MAX = 500_000
#: A heap and the log may have this many entries more than twice the nodes.
SPARE = 64


#: A node that suits a shape: what its position for the shape is, the lowest is the best; then its version, and the node.
Entry = tuple[Any, ...]


class _Heap:
    """The nodes that suit one shape; entries whose version is no longer the node's are stale."""

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
        pool: all nodes that may suit a shape, and possibly others.
        rank: those of some offered nodes that suit a shape.
        predicates: nodes that are refused for the shape's predicate class are skipped.

    Attributes:
        visited: nodes looked at, until it is set to 0.
    """

    def __init__(
        self,
        nodes: dict[NodeID, IndexedNode],
        pool: Callable[[Shape], Iterable[IndexedNode]],
        rank: Callable[[Shape, list[IndexedNode]], list[Entry]],
        predicates: Predicates,
    ) -> None:
        self._nodes = nodes
        self._pool = pool
        self._rank = rank
        self._predicates = predicates
        self._heaps: dict[Shape, _Heap] = {}
        self._log: list[IndexedNode] = []
        #: Absolute position of the log's first entry.
        self._log_start = 0
        #: The number of entries of all heaps when they were built, plus one for each heap.
        self._entries = 0
        self.visited = 0

    def __contains__(self, shape: Shape) -> bool:
        """Whether there is a heap for the shape, so that ``first`` is cheap."""
        return shape in self._heaps

    def note(self, node: IndexedNode) -> None:
        """The node has changed, and its version with it.

        The log is halved when applying it costs more than building a heap. Heaps that were not used since would be built anew if
        they were used again: they go, and with them the nodes that were removed since.
        """
        if self._heaps:
            self._log.append(node)
            if len(self._log) > 2 * len(self._nodes) + SPARE:
                cut = len(self._log) // 2
                del self._log[:cut]
                self._log_start += cut
                for shape in [shape for shape, heap in self._heaps.items() if heap.log_end < self._log_start]:
                    self._drop(shape)

    def first(self, shape: Shape) -> IndexedNode | None:
        """The best node for a shape; None if no node suits it."""
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
        heap = self._heaps.get(shape)
        if heap is None or len(heap.entries) > 2 * len(self._nodes) + SPARE:
            return self._build(shape)
        if shape[3] and heap.readmissions != self._predicates.readmissions:
            return self._build(shape)
        changed = self._log[heap.log_end - self._log_start :]
        if changed:
            heap.log_end += len(changed)
            self.visited += len(changed)
            for entry in self._rank(shape, [node for node in dict.fromkeys(changed) if node.offered]):
                heapq.heappush(heap.entries, entry)
        return heap

    def _build(self, shape: Shape) -> _Heap:
        if shape in self._heaps:
            self._drop(shape)
        pool = [node for node in self._pool(shape) if node.offered]
        self.visited += len(pool)
        entries = self._rank(shape, pool)
        heapq.heapify(entries)
        heap = _Heap(entries, self._log_start + len(self._log), self._predicates.readmissions)
        self._heaps[shape] = heap
        self._entries += heap.made_with + 1
        while self._entries > ENTRIES_MAX and len(self._heaps) > 1:
            self._drop(next(iter(self._heaps)))
        return heap

    def _drop(self, shape: Shape) -> None:
        self._entries -= self._heaps.pop(shape).made_with + 1
