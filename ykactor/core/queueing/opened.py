"""The log of opened nodes: each may take asks that it did not take before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Generic, Protocol, TypeVar

from ykactor.core.messages.asks import Shape
from ykactor.core.values.resources import Resource
from ykactor.core.values.selector import Selector

#: The most nodes in the log. If more have opened, trying everything again is cheaper than searching for asks that fit.
OPENED_MAX = 64


class Node(Protocol):
    """A node as the scheduler knows it."""

    available: Resource
    capacity: Resource
    offered: bool

    def fits(self, items: tuple[tuple[str, int], ...], selector: Selector) -> bool:
        """True if an ask fits in the available amounts."""

    def could_fit(self, items: tuple[tuple[str, int], ...], selector: Selector) -> bool:
        """True if an ask would fit if nothing else ran here."""

    def __hash__(self) -> int: ...


N = TypeVar("N", bound=Node)


class OpenedNodes(Generic[N]):
    """A log of the nodes that have changed, were removed, or are offered again; the latest of them are remembered.

    Args:
        reserves: True if asks reserve nodes: a node is then open to all asks that would fit if nothing else ran there.

    Attributes:
        count: the number of entries the log has had.
    """

    def __init__(self, *, reserves: bool) -> None:
        self.count = 0
        self._last: deque[N] = deque(maxlen=OPENED_MAX)
        self._reserves = reserves

    def note(self, node: N) -> None:
        """Log a node that may take asks that it did not take before."""
        self.count += 1
        self._last.append(node)

    def since(self, count: int) -> list[N] | None:
        """The nodes that opened since ``count`` had this value, each once; None if they are too many to be remembered."""
        entries = self.count - count
        if entries > len(self._last):
            return None
        return list(dict.fromkeys(islice(self._last, len(self._last) - entries, None)))

    def room(self, nodes: Iterable[N]) -> Resource:
        """Per type, the most that one of the nodes could give to an ask that it is open to."""
        most: Resource = {}
        for node in nodes:
            for name, amount in (node.capacity if self._reserves else node.available).items():
                if amount > most.get(name, 0):
                    most[name] = amount
        return most

    def is_open(self, node: N, shape: Shape) -> bool:
        """True if an ask of this shape, which requires no node, could be placed on the node or reserve it."""
        fits = node.could_fit if self._reserves else node.fits
        return node.offered and fits(shape[0], shape[2])
