"""Equivalence classes: asks with equal resources and constraints succeed or fail together, and are tried once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ykactor.core.messages.asks import Ask, Shape
from ykactor.core.queueing.notified import NotifiedAsks
from ykactor.core.quota.headroom import Shortage
from ykactor.core.quota.limits import TrackerTuple
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.sorted_list import SortedList, SortKey
from ykactor.core.values.times import NEVER

#: What asks can do for themselves where nothing has room for them: reserve a node; that or preempt; preempt only, for they have a
#: node.
RESERVES, PREEMPTS, HAS_NODE = range(3)


#: What the asks of one queue have in common.
QueueKey = tuple[Shape, int]


class AskQueue(SortedList[Ask]):
    """The waiting asks of one application that have one shape and can do the same for themselves, in order."""

    __slots__ = ("ask_class", "key", "needs", "notified", "parked", "predicate", "required_node", "selector", "shape", "sort_key")

    def __init__(self, key: QueueKey) -> None:
        super().__init__()
        self.key = key
        self.shape = shape = key[0]
        self.needs, self.required_node, self.selector, self.predicate = shape
        self.sort_key: SortKey | None = None
        self.parked = False
        #: Where the application stands with these asks; None while it is kept back. Written by the leaf's order.
        self.ask_class: EquivalenceClass[Any] | None = None
        #: None while none of them was told that it does not fit.
        self.notified: NotifiedAsks | None = None

    def first_eligible(self, now_ns: int, eligible_ns: Callable[[Ask], int]) -> tuple[Ask | None, int]:
        """The first ask that may act by now, or None and when the first of them may."""
        soonest_ns = NEVER
        for ask in self:
            at_ns = eligible_ns(ask)
            if at_ns <= now_ns:
                return ask, at_ns
            soonest_ns = min(soonest_ns, at_ns)
        return None, soonest_ns


#: What an application's asks must share with those of others to fare as they do: their shape, the slots that the application has
#: to find before it may begin (QU-51, QU-73), and the limits that it counts against (QU-64). Where applications are left alone
#: when their asks fit nowhere, each has classes of its own.
ClassKey = tuple[QueueKey, int, TrackerTuple, ApplicationID | None]


class Member(Protocol):
    """What stands in a class: an application."""

    queues: dict[QueueKey, AskQueue]
    sort_key: SortKey | None

    def __hash__(self) -> int: ...


M = TypeVar("M", bound=Member)


class EquivalenceClass(Generic[M]):
    """The applications of a leaf whose asks of one shape fare alike, in the leaf's order: tried and parked as one.

    A place in a class may be too early, never too late: an application that moves back (it got something, its most important
    ask is placed) is put right when it comes to the front.

    A class that found no room is *stuck* until something grows: its asks can only reserve a node or preempt, each in its own turn
    and when it is old enough (SC-50, PE-14). Then the class stands where the first of these has its place.

    Attributes:
        stuck: see above.
        answer: what ``pending_reasons`` found when it was parked last; None before that.
        representative: whose turn it is in a stuck class, if it is not the first one's.
        oldest_ns: no ask in the class has waited since before this time.
    """

    __slots__ = (
        "_order",
        "_places",
        "answer",
        "key",
        "number",
        "oldest_ns",
        "parked",
        "reason",
        "representative",
        "sort_key",
        "stuck",
    )

    def __init__(self, key: ClassKey, number: int) -> None:
        self.key = key
        self.number = number
        self._order: SortedList[M] = SortedList()
        self._places: dict[M, SortKey] = {}
        self.sort_key: SortKey | None = None
        self.parked = self.stuck = False
        self.representative: M | None = None
        self.oldest_ns = NEVER
        self.answer: int | None = None
        #: Why it was parked last: a sentence, or the queue or tracker that is short of a type, or of a running slot (type "").
        self.reason: str | Shortage = "no node offers anything yet, or it has not been considered"

    def __len__(self) -> int:
        return len(self._order)

    def put(self, application: M) -> None:
        """Give the application the place of its present key."""
        key = application.sort_key
        assert key is not None
        old = self._places.get(application)
        if old == key:
            return
        self._places[application] = key
        self.representative = None
        if old is not None:
            self._order.remove(old)
        self._order.add(key, application)

    def remove(self, application: M) -> None:
        """The application has no such asks any more."""
        self._order.remove(self._places.pop(application))
        self.representative = None

    def note_age(self, queue: AskQueue) -> None:
        """Asks came in class; of several it is found out when it matters how old they are."""
        self.oldest_ns = min(self.oldest_ns, queue.first().since_ns) if len(queue) == 1 else 0

    def find_representative(self, now_ns: int, eligible_ns: Callable[[Ask], int]) -> int:
        """Make the first application speak that has an ask which may act by now; answers when the first ask may."""
        soonest_ns, oldest_ns = NEVER, NEVER
        for application in self._order:
            queue = application.queues[self.key[0]]
            ask, at_ns = queue.first_eligible(now_ns, eligible_ns)
            if ask is not None:
                self.representative = application
                return at_ns
            soonest_ns = min(soonest_ns, at_ns)
            oldest_ns = min(oldest_ns, *(ask.since_ns for ask in queue))
        self.oldest_ns = oldest_ns
        return soonest_ns

    def head(self) -> M:
        """The first application, or who speaks; there must be one."""
        return self.representative or self._order.first()

    def head_key(self) -> SortKey | None:
        """The place of the class among the others: that of its head. None when it is empty."""
        if self.representative is not None:
            return self._places[self.representative], self.number
        return (self._order.first_key(), self.number) if self._order else None

    def places(self) -> dict[M, SortKey]:
        """Everybody in the class with the place they have in it."""
        return dict(self._places)
