"""The shapes of asks with a reservation; finds those that fit on an offered node without looking at all of them."""

from __future__ import annotations

from ykactor.core.messages.asks import Shape
from ykactor.core.nodes.index import NodeIndex
from ykactor.core.values.need_list import NeedList


class ReservedShapes:
    """Shapes that require no node. Those that fit nowhere are looked up again only when they fit on a node that opened."""

    def __init__(self, nodes: NodeIndex) -> None:
        self._nodes = nodes
        #: To be looked up: they are new, or fitted on some node when that was last asked.
        self._hopeful: dict[Shape, None] = {}
        #: They fit on no node, except on those that opened since ``_seen``.
        self._hopeless: NeedList[Shape] = NeedList()
        self._numbers: dict[Shape, tuple[int]] = {}
        self._added = 0
        self._seen = 0

    def add(self, shape: Shape) -> None:
        """Add a shape."""
        self._hopeful[shape] = None

    def remove(self, shape: Shape) -> None:
        """Forget a shape."""
        if shape in self._numbers:
            self._hopeless.remove(self._numbers.pop(shape))
        else:
            del self._hopeful[shape]

    def fitting(self) -> list[Shape]:
        """The shapes that fit on an offered node now; the predicate service may have refused other nodes."""
        self._look_at_opened()
        found = []
        for shape in list(self._hopeful):
            if self._nodes.first_fit(shape) is not None:
                found.append(shape)
            elif not shape[3]:  # answers of the predicate service open a node too
                self._give_up(shape)
        return found

    def _give_up(self, shape: Shape) -> None:
        del self._hopeful[shape]
        self._added += 1
        self._numbers[shape] = (self._added,)
        self._hopeless.add((self._added,), shape[0], shape)

    def _look_at_opened(self) -> None:
        opened = self._nodes.opened.since(self._seen)
        self._seen = self._nodes.opened.count
        if opened is None:
            self._hopeful.update(dict.fromkeys(self._numbers))
            self._numbers.clear()
            self._hopeless = NeedList()
            return
        for node in opened:
            while node.offered and (found := self._hopeless.first(node.available)) is not None:
                number, shape = found
                self._hopeless.remove(number)
                del self._numbers[shape]
                self._hopeful[shape] = None
