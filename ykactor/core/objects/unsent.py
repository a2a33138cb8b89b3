"""Placements that the scheduler has decided and that were not sent to nodes yet.

Nothing but the scheduler places on a node between two messages to it, so placements of a plan are only noted, and sent to nodes
together: when a burst of placements is over, when many are noted, and before anything else reads or changes nodes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Protocol

from ykactor.core.messages.asks import Ask
from ykactor.core.objects.commands import PlaceBatch, Placed, Refused
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import NodeID

#: Placements that are noted at most after a plan.
UNSENT_MAX = 8192


class InvariantViolation(Exception):
    """A program error: an internal assumption does not hold. Never caused by input."""


class IndexedNode(Protocol):
    """A node as the scheduler knows it, at the revision that it expects the node to have."""

    node_id: NodeID
    revision: int

    def __hash__(self) -> int: ...


class UnsentPlacements:
    """Written by the scheduler; sent at the end of its cycle, or by the partition before it reads or changes nodes.

    Attributes:
        count: the number of placements.
    """

    __slots__ = ("_batches", "_nodes", "count")

    def __init__(self, nodes: Mapping[NodeID, NodeCore]) -> None:
        self._nodes = nodes
        self._batches: dict[IndexedNode, list[Ask]] = {}
        self.count = 0

    def note(self, node: IndexedNode, ask: Ask) -> None:
        """Note that the ask is placed on the node."""
        self.count += 1
        batch = self._batches.get(node)
        if batch is None:
            self._batches[node] = [ask]
        else:
            batch.append(ask)

    def send(self) -> Generator[list[tuple[NodeCore, PlaceBatch]], list[Placed | Refused], None]:
        """Send each node what is placed there (``objects.registry``).

        Raises:
            InvariantViolation: a node has refused. It is at the expected revision, so the index of the scheduler is wrong.
        """
        if not self.count:
            return
        batches, self._batches, self.count = self._batches, {}, 0
        replies = yield [(self._nodes[node.node_id], PlaceBatch(node.revision, asks)) for node, asks in batches.items()]
        for node, reply in zip(batches, replies, strict=True):
            if isinstance(reply, Refused):
                raise InvariantViolation(f"refused although the index was up to date: {reply.reason}")
            node.revision = reply.revision
