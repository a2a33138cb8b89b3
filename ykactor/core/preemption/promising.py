"""The promising nodes of shapes: nodes where victims could make room, those with the fewest victims first.

An order is made for a shape when an ask of it searches for victims. Later searches only update it, from a log of changed nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from ykactor.core.messages.asks import Shape
from ykactor.core.nodes.index import IndexedNode, NodeIndex
from ykactor.core.preemption.victims import NodeTasks, Rank, Search, Tasks
from ykactor.core.values.sorted_list import SortedList

#: Nodes in all orders together, about 250 bytes each; above it the oldest orders are dropped.
ENTRIES_MAX = 100_000


class _Kept:
    """The order for one shape.

    Attributes:
        basis: values on which the ranks depend beside the nodes.
        due: nodes that have not been ranked yet, the last first; until then they are nowhere else.
        seen: changes of nodes up to this count are in ``due`` or ranked.
        ranks: the nodes that are large enough and not reserved; None for one where no number of tasks makes room.
        order: the nodes by rank.
        reserved: the nodes that are large enough and reserved; few searches may use them.
    """

    __slots__ = ("basis", "due", "order", "ranks", "reserved", "seen")

    def __init__(self, basis: object, due: list[IndexedNode], seen: int) -> None:
        self.basis = basis
        self.due = dict.fromkeys(due)
        self.seen = seen
        self.ranks: dict[IndexedNode, Rank | None] = {}
        self.order: SortedList[IndexedNode] = SortedList()
        self.reserved: dict[IndexedNode, None] = {}

    def look_again(self, node: IndexedNode) -> None:
        """Rank a node again that is new, has changed or was removed."""
        rank = self.ranks.pop(node, None)
        if rank is not None:
            self.order.remove(rank)
        self.reserved.pop(node, None)
        self.due[node] = None


class PromisingNodes:
    """The orders of one partition."""

    def __init__(self, nodes: NodeIndex, tasks: Tasks) -> None:
        self._nodes = nodes
        self._tasks = tasks
        self._kept: dict[Shape, _Kept] = {}

    def for_search(
        self, search: Search, shape: Shape, reserved: Iterable[IndexedNode], spend: Callable[[int], None]
    ) -> tuple[int, Iterator[tuple[Rank, IndexedNode]]]:
        """The number of nodes that could be reserved for the ask (PE-38, PE-52), and the promising ones, best first.

        Args:
            reserved: the reserved nodes whose reservations give way to the ask; other reserved nodes are left out.
            spend: called with the cost of sorting the tasks of a changed node; if it raises, the next call goes on from there.
        """
        kept = self._up_to_date(search, shape, spend)
        usable = [node for node in reserved if node in kept.reserved]
        ranked = [(rank, node) for node in usable if (rank := search.rank(node, self._tasks_on(node, spend))) is not None]
        order = ((rank, node) for node in kept.order if (rank := kept.ranks[node]) is not None)
        return len(kept.ranks) + len(usable), heapq.merge(order, sorted(ranked, key=lambda entry: entry[0]))

    def _up_to_date(self, search: Search, shape: Shape, spend: Callable[[int], None]) -> _Kept:
        changed, predicates = self._nodes.changed, self._nodes.predicates
        basis = tuple(sorted(search.queue_needs.items())), predicates.changes if shape[3] else 0
        kept = self._kept.get(shape)
        news = None if kept is None or kept.basis != basis else changed.since(kept.seen)
        if kept is None or news is None:
            self._kept.pop(shape, None)
            while self._kept and (len(self._kept) + 1) * len(self._nodes.nodes) > ENTRIES_MAX:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[shape] = _Kept(basis, list(self._pool(shape))[::-1], changed.count)
        else:
            for node in news:
                kept.look_again(node)
            kept.seen = changed.count
        while kept.due:
            node = next(reversed(kept.due))
            self._look_at(kept, search, shape, node, spend)
            del kept.due[node]
        return kept

    def _pool(self, shape: Shape) -> Iterable[IndexedNode]:
        nodes, predicate = self._nodes.nodes, shape[3]
        passed = self._nodes.predicates.passed((predicate, True)) if predicate else nodes
        return (nodes[node_id] for node_id in passed)

    def _look_at(self, kept: _Kept, search: Search, shape: Shape, node: IndexedNode, spend: Callable[[int], None]) -> None:
        needs, _, selector, predicate = shape
        if not node.schedulable or not node.could_fit(needs, selector):  # a removed node is not schedulable
            return
        if predicate and self._nodes.predicates.verdict((predicate, True), node.node_id) is not True:
            return
        if node.reserved:
            kept.reserved[node] = None
            return
        rank = kept.ranks[node] = search.rank(node, self._tasks_on(node, spend))
        if rank is not None:
            kept.order.add(rank, node)

    def _tasks_on(self, node: IndexedNode, spend: Callable[[int], None]) -> NodeTasks:
        return self._tasks.on(node.node_id, spend)
