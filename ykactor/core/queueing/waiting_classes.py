"""The classes of a leaf that wait for a node: each is offered again only when a node opened for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from ykactor.core.messages.asks import Shape
from ykactor.core.queueing.equivalence import EquivalenceClass
from ykactor.core.quota.headroom import Amounts, shortage
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import TrackerTuple
from ykactor.core.values.resources import Resource
from ykactor.core.values.selector import Selector
from ykactor.core.values.sorted_list import NeedList, SortKey

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


class NodeLog(Generic[N]):
    """A log of nodes, of which the latest entries are remembered. Each reader keeps the ``count`` up to which it has read.

    Args:
        most: so many entries are remembered; a reader that is further behind looks at all nodes again.

    Attributes:
        count: the number of entries the log has had.
    """

    def __init__(self, most: int) -> None:
        self.count = 0
        self._last: deque[N] = deque(maxlen=most)

    def note(self, node: N) -> None:
        """Add an entry."""
        self.count += 1
        self._last.append(node)

    def since(self, count: int) -> list[N] | None:
        """The nodes of the entries since ``count`` had this value, each once; None if these are not all remembered."""
        entries = self.count - count
        return None if entries > len(self._last) else list(dict.fromkeys([*islice(reversed(self._last), entries)][::-1]))


class OpenedNodes(NodeLog[N]):
    """A log of the nodes that may take asks which they did not take before: they changed, were removed, or are offered again.

    Args:
        reserves: True if asks reserve nodes: a node is then open to all asks that would fit if nothing else ran there.
    """

    def __init__(self, *, reserves: bool) -> None:
        super().__init__(OPENED_MAX)
        self._reserves = reserves

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


AnyClass = EquivalenceClass[Any]


class WaitingGroup:
    """The waiting classes of a leaf that count against the same limits: if quotas have room for the most, they have for all."""

    __slots__ = ("_classes", "_most", "_path_up", "_trackers")

    def __init__(self, path_up: tuple[QueueUsage, ...], trackers: TrackerTuple) -> None:
        self._path_up = path_up
        self._trackers = trackers
        self._classes: dict[AnyClass, None] = {}
        #: Per type, the largest need of one of the classes, or more.
        self._most: Resource = {}

    def __len__(self) -> int:
        return len(self._classes)

    def add(self, ask_class: AnyClass) -> None:
        """Add a waiting class."""
        self._classes[ask_class] = None
        self._raise(_needs(ask_class))

    def remove(self, ask_class: AnyClass) -> None:
        """Remove a class that no longer waits."""
        self._classes.pop(ask_class, None)

    def short(self) -> list[AnyClass]:
        """The classes that a quota holds back now. O(classes) if there may be some, else O(1)."""
        if not self._classes or not self._is_short(tuple(self._most.items())):
            return []
        self._most = {}
        found = []
        for ask_class in self._classes:
            if self._is_short(_needs(ask_class)):
                found.append(ask_class)
            else:
                self._raise(_needs(ask_class))
        return found

    def _is_short(self, needs: Amounts) -> bool:
        return shortage(self._path_up, self._trackers, needs, is_pinned=False) is not None

    def _raise(self, needs: Amounts) -> None:
        most = self._most
        for name, wanted in needs:
            most[name] = max(wanted, most.get(name, wanted))


class WaitingClasses:
    """Classes for which no node was open when they were tried, in the order of the leaf.

    They come out one by one, when it is their turn: the first one often reserves the node that opened, and then the node is open
    to no other.

    Attributes:
        groups: the groups of the classes, by the limits that they count against.
        nodes: the nodes that opened since ``first`` found no class for them.
    """

    __slots__ = ("_classes", "_opened", "_seen", "_tried", "groups", "nodes")

    def __init__(self) -> None:
        self._classes: NeedList[AnyClass] = NeedList()
        self.groups: dict[TrackerTuple, WaitingGroup] = {}
        self._opened: OpenedNodes[Any] | None = None
        self.nodes: list[Any] = []
        #: The position in the log of opened nodes.
        self._seen = 0
        #: No class up to this position can use ``nodes``; None if that is not known of any.
        self._tried: SortKey | None = None

    def add(self, ask_class: AnyClass) -> None:
        """Add a class that waits from now on."""
        self._put(ask_class)
        trackers = ask_class.key[2]
        if trackers not in self.groups:
            self.groups[trackers] = WaitingGroup(ask_class.head().leaf.path_up, trackers)
        self.groups[trackers].add(ask_class)

    def move(self, ask_class: AnyClass) -> None:
        """Bring the position of a waiting class up to date; a class that has become empty leaves."""
        key = ask_class.turn()
        if key != ask_class.waits_at:
            self.remove(ask_class)
            self._tried = None
            if key is not None:
                self.add(ask_class)

    def _put(self, ask_class: AnyClass) -> None:
        ask_class.waits_at = key = ask_class.turn()
        assert key is not None
        self._classes.add(key, _needs(ask_class), ask_class)

    def remove(self, ask_class: AnyClass) -> None:
        """Remove a class that no longer waits for a node."""
        if ask_class.waits_at is not None:
            self._classes.remove(ask_class.waits_at)
            ask_class.waits_at = None
            group = self.groups[ask_class.key[2]]
            group.remove(ask_class)
            if not group:
                del self.groups[ask_class.key[2]]

    def look(self, opened: OpenedNodes[Any]) -> list[AnyClass]:
        """Note the nodes that opened since the last call; something grew.

        Returns: the classes to offer at once: those that a quota holds back now, and all if too many nodes opened.
        """
        nodes = opened.since(self._seen)
        self._opened, self._seen, self._tried = opened, opened.count, None
        if not self._classes:
            self.nodes = []
            return []
        if nodes is not None and len(self.nodes) + len(nodes) <= OPENED_MAX:
            self.nodes = list(dict.fromkeys([*self.nodes, *nodes]))
            return [ask_class for group in self.groups.values() for ask_class in group.short()]
        self.nodes = []
        return self._classes.items()

    def missed(self, opened: OpenedNodes[Any], offered: list[Any]) -> list[AnyClass]:
        """The classes that still wait although a node is open to them; for checks."""
        if self.nodes or self._seen != opened.count:
            return []  # they will be offered when the leaf has its turn
        classes = self._classes.items()
        return [ask_class for ask_class in classes if any(opened.is_open(node, ask_class.key[0][0]) for node in offered)]

    def first(self, before: SortKey | None) -> AnyClass | None:
        """The first class that one of the opened nodes is open to, if its turn is before the turn ``before``."""
        opened = self._opened
        self.nodes = nodes = [node for node in self.nodes if node.offered]
        if not nodes or opened is None:
            return None
        room = opened.room(nodes)
        while (found := self._classes.first(room, self._tried)) is not None:
            key, ask_class = found
            if before is not None and before < key:
                return None
            if key != ask_class.turn():  # its first ask was withdrawn
                self.move(ask_class)
                continue
            self._tried = key
            if any(opened.is_open(node, ask_class.key[0][0]) for node in nodes):
                return ask_class
        self.nodes = []
        return None


def _needs(ask_class: AnyClass) -> Amounts:
    return ask_class.key[0][0][0]
