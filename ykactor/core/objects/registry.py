"""The queues and nodes of a partition, by name.

Only the partition actor adds and removes. All others read: the scheduler copies node states from here, the snapshot walks
all of it. Each core in it is written by its own actor only.

*Exchanges*: a core has commands carried out by owners without knowing how they are transported. Its work is a generator: it
yields commands and is sent their replies in the same order. The actors carry the commands over memory channels, ``sim.direct``
calls the owners in a loop.

*Unsent placements*: nothing but the scheduler places on a node between two messages to it, so placements of a plan are only
noted, and sent to nodes together: when a burst of placements is over, when many are noted, and before anything else reads or
changes nodes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ykactor.core.accounting.books import Books
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.objects.commands import NodeCommand, PlaceBatch, QueueCommand
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.values.ids import ApplicationID, NodeID, QueuePath

#: Placements that are noted at most after a plan.
UNSENT_MAX = 8192


class IndexedNode(Protocol):
    """A node as the scheduler knows it, at the revision that it expects the node to have."""

    node_id: NodeID
    revision: int

    def __hash__(self) -> int: ...


class UnsentPlacements:
    """Written by the scheduler; sent at the end of its cycle, or by the partition before it reads or changes nodes.

    Readers come at any time, and no decision may depend on that: decisions depend on ``behind``, which ``show`` does not change.

    Attributes:
        count: the number of placements.
        behind: the number of placements since ``send``.
    """

    __slots__ = ("_batches", "_nodes", "behind", "count")

    def __init__(self, nodes: Mapping[NodeID, NodeCore]) -> None:
        self._nodes = nodes
        self._batches: dict[IndexedNode, list[Ask]] = {}
        self.count = self.behind = 0

    def note(self, node: IndexedNode, ask: Ask) -> None:
        """Note that the ask is placed on the node."""
        self.count += 1
        self.behind += 1
        batch = self._batches.get(node)
        if batch is None:
            self._batches[node] = [ask]
        else:
            batch.append(ask)

    def send(self) -> Generator[list[tuple[NodeCore, PlaceBatch]], list[int], None]:
        """Send each node what is placed there (``objects.registry``), as part of a turn."""
        self.behind = 0
        yield from self.show()

    def show(self) -> Generator[list[tuple[NodeCore, PlaceBatch]], list[int], None]:
        """Send the same between two turns, before somebody reads nodes."""
        if not self.count:
            return
        batches, self._batches, self.count = self._batches, {}, 0
        revisions = yield [(self._nodes[node.node_id], PlaceBatch(node.revision, asks)) for node, asks in batches.items()]
        for node, revision in zip(batches, revisions, strict=True):
            node.revision = revision


QueueCore = LeafCore | ParentCore
Core = QueueCore | NodeCore
R = TypeVar("R")

#: A command and its owner.
Send = tuple[QueueCore, QueueCommand[R]] | tuple[NodeCore, NodeCommand[R]]
Sends = Sequence[Send[R]]

#: Work that returns an ``R`` at its end. It yields an empty list where other tasks may run: a pause. Nothing that the work reads
#: changes meanwhile. Where it pauses depends on its input only (``values.parts``).
Exchange = Generator[Sends[Any], list[Any], R]


def send(sends: Sends[R]) -> Exchange[list[R]]:
    """Have commands of one kind of reply carried out. Returns their replies, in the order of the commands."""
    replies: list[R] = yield sends
    return replies


class Registry:
    """The members of one partition."""

    def __init__(self, config: PartitionConfig) -> None:
        self.config = config
        #: Written by every owner: what was counted.
        self.books = Books()
        #: Written by every owner and by the scheduler: what the present turn has changed.
        self.changed = self.books.changed
        #: Parents before their children; written by ``add_queue`` and ``replace_queues``.
        self.queues: dict[QueuePath, QueueCore] = {}
        #: How many of them are there because placement created them.
        self.dynamic_queues = 0
        self.nodes: KeptRows[NodeID, NodeCore] = KeptRows(self.changed.node)
        #: What the scheduler has placed and nodes have not been sent yet.
        self.unsent = UnsentPlacements(self.nodes)
        #: The leaf of every live application.
        self.applications: KeptRows[ApplicationID, QueuePath] = KeptRows(self.changed.application)

    def configure(self, config: PartitionConfig) -> None:
        """Put another configuration into force; queues are told by commands."""
        self.config = config
        self.changed.configuration()

    def add_queue(self, queue: QueueCore) -> None:
        """Add a queue that placement has created."""
        self.queues[queue.path] = queue
        self.changed.queue(queue.path)
        self.dynamic_queues += 1

    def replace_queues(self, queues: dict[QueuePath, QueueCore]) -> None:
        """Replace the set of queues; their settings have changed already, or ``count_queues`` follows."""
        for path in {**self.queues, **queues}:
            if self.queues.get(path) is not queues.get(path):
                self.changed.queue(path)
        self.queues = queues
        self.count_queues()

    def count_queues(self) -> None:
        """Count the queues again: the settings of some have changed."""
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
