"""A log of the nodes that changed, for readers that update what they keep of all nodes."""

from __future__ import annotations

from ykactor.core.nodes.indexed_node import IndexedNode

#: Entries that are remembered. A reader that is further behind looks at all nodes again.
CHANGED_MAX = 10_000


class ChangedNodes:
    """The nodes that changed last. Each reader remembers the value of ``count`` up to which it has read.

    Attributes:
        count: how many entries the log has had.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: list[IndexedNode] = []

    def note(self, node: IndexedNode) -> None:
        """The node is new, has changed or was removed."""
        self.count += 1
        self._last.append(node)
        if len(self._last) > CHANGED_MAX:
            del self._last[: CHANGED_MAX // 2]

    def since(self, count: int) -> list[IndexedNode] | None:
        """The nodes that changed since ``count`` had this value, each once; None if they are no longer remembered."""
        first = len(self._last) - (self.count - count)
        return None if first < 0 else list(dict.fromkeys(self._last[first:]))
