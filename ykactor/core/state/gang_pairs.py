"""Applications with a *pair*: a real ask that waits, and a placeholder that it may replace.

An application in which no replacement is possible now, because no node has room or the predicate service has not answered, is
set aside until a node or an answer changes.
"""

from __future__ import annotations

from ykactor.core.messages.states import ApplicationState
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode


class GangPairs:
    """The applications that have pairs, by leaf; those that are set aside are in ``aside`` instead."""

    def __init__(self) -> None:
        self.by_leaf: dict[QueueNode, dict[PendingApplication, None]] = {}
        self.aside: dict[PendingApplication, QueueNode] = {}
        #: The counts of opened nodes and changed answers when applications were last offered again.
        self.recalled_at = -1, -1

    def note(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Note that asks or placeholders of an application have changed."""
        self.forget(leaf, application)
        gang = application.gang
        is_kept_back = application.state is ApplicationState.FAILING or application.hold is not None or leaf.is_held()
        if gang is not None and gang.has_pair() and not is_kept_back:
            self.by_leaf.setdefault(leaf, {})[application] = None

    def forget(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Forget an application that has no pairs, or leaves the queue."""
        self.aside.pop(application, None)
        if leaf in self.by_leaf:
            self.by_leaf[leaf].pop(application, None)
            if not self.by_leaf[leaf]:
                del self.by_leaf[leaf]

    def clear(self) -> None:
        """Forget all applications: all orders are rebuilt."""
        self.by_leaf.clear()
        self.aside.clear()

    def set_aside(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Set an application aside: no replacement is possible until a node, an answer or the application changes."""
        if application in self.by_leaf.get(leaf, ()):
            self.forget(leaf, application)
            self.aside[application] = leaf

    def recall(self, changes: tuple[int, int]) -> None:
        """Offer applications that were set aside again if a node or an answer has changed."""
        self.recalled_at = changes
        for application, leaf in self.aside.items():
            self.by_leaf.setdefault(leaf, {})[application] = None
        self.aside.clear()
