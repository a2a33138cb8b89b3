"""The queues and nodes of a partition, by name.

Only the partition actor adds and removes. All others read: the scheduler copies node states from here, the snapshot walks
all of it. Each core in it is written by its own actor only.
"""

from __future__ import annotations

from ykactor.core.accounting.books import Books
from ykactor.core.config.model import PartitionConfig
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.parent import ParentCore
from ykactor.core.objects.unsent import UnsentPlacements
from ykactor.core.values.ids import ApplicationID, NodeID, QueuePath

QueueCore = LeafCore | ParentCore
Core = QueueCore | NodeCore


class Registry:
    """The members of one partition."""

    def __init__(self, config: PartitionConfig) -> None:
        self.config = config
        #: Written by every owner: what was counted.
        self.books = Books()
        #: Written by every owner and by the scheduler: what the present turn has changed.
        self.changed = self.books.changed
        #: Parents before their children.
        self.queues: dict[QueuePath, QueueCore] = {}
        #: How many of them are there because placement created them.
        self.dynamic_queues = 0
        self.nodes: dict[NodeID, NodeCore] = {}
        #: What the scheduler has placed and nodes have not been sent yet.
        self.unsent = UnsentPlacements(self.nodes)
        #: The leaf of every live application.
        self.applications: dict[ApplicationID, QueuePath] = {}

    def count_queues(self) -> None:
        """Count the queues again: the set of queues or their settings have changed."""
        self.dynamic_queues = sum(not queue.config.managed for queue in self.queues.values())

    def leaf(self, path: QueuePath) -> LeafCore:
        """The leaf at ``path``, which must be one."""
        queue = self.queues[path]
        assert isinstance(queue, LeafCore)
        return queue

    def lineage(self, path: QueuePath) -> list[QueueCore]:
        """The queue at ``path``, which must be there, and its ancestors up to root."""
        lineage = []
        above: str = path
        while above:
            lineage.append(self.queues[QueuePath(above)])
            above = above.rpartition(".")[0]
        return lineage

    def leaf_of(self, application_id: ApplicationID) -> LeafCore:
        """The leaf of a live application."""
        leaf = self.queues[self.applications[application_id]]
        assert isinstance(leaf, LeafCore)
        return leaf
