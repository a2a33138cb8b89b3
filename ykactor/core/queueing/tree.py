"""The tree of scheduling queues: the usage and priority of each, and the order of its children or applications.

A ``QueueNode`` is the usage of a queue together with its position among its siblings. The tree keeps priorities and shares up to
date and knows the order in which the walk from root comes to its leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.acts import Hold
from ykactor.core.messages.changed import Changed
from ykactor.core.queueing.leaf_order import LeafOrder
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import Priority, PriorityBag, queue_priority
from ykactor.core.queueing.sibling_order import ChildOrder, ChildPlace, Effort
from ykactor.core.queueing.waits import Waits
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource

#: A queue takes as long as so many items (about 10 us).
_QUEUE_ITEMS = 3


class QueueNode(QueueUsage):
    """One queue as the planner sees it.

    Attributes:
        priorities: of the children, or of the leaf's applications; ``priority`` is what the parent sees (PR-11).
        children: of a parent, in order.
        applications: of a leaf, in order.
        place: among the siblings; written by the parent's ``children``, as is ``parked``.
        hold: its own; None while it has none (OP-2).
    """

    __slots__ = ("_effort", "applications", "children", "hold", "is_leaf", "parked", "place", "priorities", "priority", "waits")

    def __init__(self, config: QueueConfig, is_leaf: bool, parent: QueueNode | None, effort: Effort, waits: Waits) -> None:
        super().__init__(config, parent)
        self._effort = effort
        self.waits = waits
        self.priorities = PriorityBag()
        self.priority: Priority = None
        self.hold: Hold | None = None
        self.configure(config, is_leaf)

    def configure(self, config: QueueConfig, is_leaf: bool) -> None:
        """Apply new settings; usage stays, the order of children or applications is empty."""
        self.set_limits(config)
        self.is_leaf = is_leaf
        self.children: ChildOrder[QueueNode] = ChildOrder(self._effort, by_priority=config.properties.sort_by_priority)
        self.applications = LeafOrder(config, self.waits)
        self.applications.suspend(is_held=self.is_held())
        self.place: ChildPlace[QueueNode] = ChildPlace()
        self.parked = False

    def is_held(self) -> bool:
        """True if the queue or one above it is held."""
        return any(queue.hold is not None for queue in self.path_up)


class QueueTree:
    """All queues of a partition.

    Attributes:
        waits: what its asks wait for, over time.
    """

    def __init__(self, changed: Changed) -> None:
        self.waits = Waits(changed)
        #: Parents before their children.
        self.nodes: dict[QueuePath, QueueNode] = {}
        self.root: QueueNode
        #: The work of the present plan, of which comparing sibling queues is a part.
        self.effort = Effort()
        #: Sum of all node capacities (QU-30); None while it has no positive value.
        self.root_max: Resource | None = None
        self._shares_are_stale = True

    # ---- which queues there are

    def configure(self, queues: Iterable[tuple[QueueConfig, bool]]) -> Steps[None]:
        """Apply a queue tree: settings and "is a leaf", parents before children.

        Queues that are not named are dropped; they must be empty.
        """
        old, self.nodes = self.nodes, {}
        for queue in old.values():
            queue.applications.release_histories()
        for config, is_leaf in queues:
            node = old.get(config.path)
            if node is None:
                node = self.add(config, is_leaf)
            else:
                if not node.is_leaf:  # a leaf keeps the priorities of its applications; children are added again below
                    node.priorities = PriorityBag()
                node.configure(config, is_leaf)
                self.nodes[config.path] = node
            node.priority = None
            yield _QUEUE_ITEMS
        self.root = next(iter(self.nodes.values()))
        self.root.max = self.root_max
        for node in reversed(self.nodes.values()):  # children before parents
            self.refresh_priority(node)
            yield _QUEUE_ITEMS
        self._shares_are_stale = True

    def reconfigure_leaf(self, leaf: QueueNode, config: QueueConfig) -> None:
        """Apply new settings with the same properties to a leaf. The caller has to order its applications again."""
        assert leaf.parent is not None
        leaf.parent.children.remove(leaf)
        leaf.applications.release_histories()
        leaf.configure(config, is_leaf=True)
        leaf.set_denominators(has_cluster=bool(self.root_max))

    def add(self, config: QueueConfig, is_leaf: bool) -> QueueNode:
        """Add a queue; its parent must exist."""
        above = config.path.rpartition(".")[0]
        node = QueueNode(config, is_leaf, self.nodes[QueuePath(above)] if above else None, self.effort, self.waits)
        self.nodes[config.path] = node
        node.set_denominators(has_cluster=bool(self.root_max))
        return node

    def remove(self, path: QueuePath) -> None:
        """Remove an empty queue."""
        del self.nodes[path]

    def set_root_max(self, total: Resource | None) -> None:
        """Set the capacity of all nodes together."""
        had_nodes = bool(self.root_max)
        self.root_max = self.root.max = total
        self._shares_are_stale = True
        self.waits.has_nodes = bool(total)
        if bool(total) is not had_nodes:
            self.suspend(self.root)

    def suspend(self, queue: QueueNode) -> None:
        """Let the classes in a queue and below wait for the end of a hold or for a node, or be tried anew. O(leaves, classes)."""
        for node in self.nodes.values():
            if node.is_leaf and queue in node.path_up:
                node.applications.suspend(is_held=node.is_held())

    def children_of(self) -> dict[QueueNode, list[QueueNode]]:
        """The children of every parent that has some, in name order, with or without pending asks."""
        children: dict[QueueNode, list[QueueNode]] = {}
        for _, node in sorted(self.nodes.items()):
            if node.parent is not None:
                children.setdefault(node.parent, []).append(node)
        return children

    # ---- priorities and shares

    def refresh_priority(self, node: QueueNode) -> None:
        """Recompute the priority that a queue shows to its parent (PR-18), None if it is held (OP-4); pass a change upwards."""
        while True:
            priority = queue_priority(node.priorities.highest, node.config.properties) if node.hold is None else None
            if priority == node.priority:
                return
            parent = node.parent
            if parent is not None:
                parent.priorities.replace(node.priority, priority)
            node.priority = priority
            if parent is None:
                return
            node = parent

    def refresh_shares(self) -> Steps[None]:
        """Recompute every share, if a max, a guarantee or the cluster changed since the last time."""
        if not self._shares_are_stale:
            return
        self._shares_are_stale = False
        for node in self.nodes.values():  # parents before children
            node.set_denominators(has_cluster=bool(self.root_max))
            if node.parent is not None:
                node.parent.children.update(node)
            yield _QUEUE_ITEMS

    # ---- the walk

    def leaf_of(self, application: PendingApplication) -> QueueNode:
        """The leaf of an application."""
        leaf = application.leaf
        assert isinstance(leaf, QueueNode)
        return leaf

    def move(self, application: PendingApplication, to_leaf: QueueNode) -> None:
        """Move an application to another leaf; the caller has to order it there."""
        leaf = self.leaf_of(application)
        leaf.applications.remove(application)
        leaf.priorities.replace(application.shown_priority, None)
        application.shown_priority = None
        application.leave_classes()
        application.leaf = to_leaf

    def update_places(self, queues: Iterable[QueueNode]) -> None:
        """Bring the positions of these queues among their siblings up to date."""
        for node in queues:
            if node.parent is not None:
                node.parent.children.update(node)

    def wake(self, leaf: QueueNode) -> None:
        """Offer a leaf and its ancestors again."""
        for node in leaf.path_up:
            if node.parked and node.parent is not None:
                node.parent.children.wake(node)

    def first_of(self, leaves: Iterable[QueueNode]) -> QueueNode:
        """The leaf that the walk from root comes to first; each of ``leaves`` must have something pending."""
        return next(self.in_order(leaves))

    def in_order(self, leaves: Iterable[QueueNode]) -> Iterator[QueueNode]:
        """Yields ``leaves``, at least one, in the order in which the walk from root comes to them; ordered lazily."""
        children: dict[QueueNode, list[QueueNode]] = {}
        for node in {node for leaf in leaves for node in leaf.path_up}:
            if node.parent is not None:
                children.setdefault(node.parent, []).append(node)
        ahead = [self.root]
        while ahead:
            queue = ahead.pop()
            if queue in children:
                ahead += sorted(children[queue], key=queue.children.rank, reverse=True)
            else:
                yield queue
