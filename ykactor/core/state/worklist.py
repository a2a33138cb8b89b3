"""The list of what one observation still has to update, each item once, and the consequences of its facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ykactor.core.messages.facts import Fact
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource


class Worklist:
    """Collects changes while facts are observed.

    Attributes:
        consequences: facts caused by the fact that is being processed; they are published with it.
        applications, leaves, nodes: the objects that have changed.
        woken: applications that had nothing left, and have an ask or allocation again (QU-70).
        pending: changes of pending amounts by leaf.
        tree_changed: True if a queue became a leaf or a parent.
        is_out_of_order: True if the facts and their consequences must be sorted (EV-30).
    """

    def __init__(self) -> None:
        self.consequences: list[Fact] = []
        self.applications: dict[PendingApplication, None] = {}
        self.woken: dict[PendingApplication, None] = {}
        self.leaves: dict[QueueNode, None] = {}
        self.nodes: dict[NodeID, None] = {}
        self.pending: dict[QueueUsage, Resource] = {}
        self.tree_changed = False
        self.is_out_of_order = False

    def touch(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Note a changed application of ``leaf``."""
        self.applications[application] = None
        self.leaves[leaf] = None

    def begin(self, application: PendingApplication) -> None:
        """Note that an ask or allocation of an application is new; to be called before anything of it is counted."""
        if application.enrolled and not application.asks and not application.allocated:
            self.woken[application] = None

    def change_pending(self, leaf: QueueUsage, resource: Resource, sign: int) -> None:
        """Note that asks of ``leaf`` became pending (``sign`` 1) or are no longer pending (-1)."""
        change = self.pending.get(leaf)
        if change is None:
            change = self.pending[leaf] = {}
        for name, quantity in resource.items():
            change[name] = change.get(name, 0) + sign * quantity

    def forget_leaves(self, tree: QueueTree) -> None:
        """Forget leaves that are gone: the tree was rebuilt without them."""
        self.leaves = {leaf: None for leaf in self.leaves if tree.nodes.get(leaf.path) is leaf}

    def take_consequences(self) -> list[Fact]:
        """The consequences since the last call."""
        taken, self.consequences = self.consequences, []
        return taken


#: Processes one fact of its type.
Handler = Callable[[SchedulerState, Worklist, Any], None]
