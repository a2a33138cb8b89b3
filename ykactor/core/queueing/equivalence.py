"""Equivalence classes: asks with equal resources and constraints succeed or fail together, and are tried once."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from ykactor.core.messages.asks import Ask, Shape, look_work
from ykactor.core.messages.changed import Changed
from ykactor.core.queueing.waits import CodeHistory, QueuePast, name_of
from ykactor.core.quota.headroom import Shortage
from ykactor.core.quota.limits import TrackerTuple
from ykactor.core.values.ids import AllocationKey, ApplicationID
from ykactor.core.values.sorted_list import SortedList, SortKey
from ykactor.core.values.times import NEVER


class Turns(Protocol):
    """The times when asks of a class without room may reserve or preempt."""

    @property
    def delay_ns(self) -> int:
        """The shortest time that an ask must have been pending."""
        ...

    @property
    def from_ns(self) -> int:
        """The time before which no ask may."""
        ...

    @property
    def stamp(self) -> Hashable:
        """Equal for two searches if no ask may sooner than before; None if that is not known."""
        ...

    def at_ns(self, ask: Ask) -> int:
        """The Unix time from which an ask may."""
        ...


class Tried:
    """The front of an order: no ask in it may before ``until_ns``.

    Thousands of asks may try before the first of them may try again; the search for the next one begins behind them.

    Attributes:
        up_to: the last key of the front; None if there is none.
        until_ns: NEVER without a front.
    """

    __slots__ = ("_delay_ns", "_stamp", "until_ns", "up_to")

    def __init__(self) -> None:
        self._stamp: Hashable = None
        self._delay_ns = 0
        self.up_to: SortKey | None = None
        self.until_ns = NEVER

    def forget(self) -> None:
        """Begin the next search at the first key."""
        self.up_to, self.until_ns = None, NEVER

    def begin(self, now_ns: int, turns: Turns) -> None:
        """Begin a search: forget the front if one of its asks may by now, or if ``turns`` are not those of the last search."""
        stamp = turns.stamp
        if self.until_ns <= now_ns or stamp is None or stamp != self._stamp:
            self.forget()
        self._stamp, self._delay_ns = stamp, turns.delay_ns

    def extend(self, key: SortKey, at_ns: int) -> None:
        """Extend the front to ``key``: nothing in it may before ``at_ns``, nor before ``until_ns``."""
        if self._stamp is not None:
            self.up_to, self.until_ns = key, min(self.until_ns, at_ns)

    def add(self, ask: Ask) -> None:
        """Add an ask to the front."""
        self.until_ns = min(self.until_ns, ask.since_ns + self._delay_ns)


class Candidate(Protocol):
    """A candidate of a ``SchedulingQueue``."""

    #: The position in the order, or None while not in it; written by the ``SchedulingQueue`` only.
    sort_key: SortKey | None
    #: True if it is not offered until it is woken; written by the ``SchedulingQueue`` only.
    parked: bool


C = TypeVar("C", bound=Candidate)


class SchedulingQueue(Generic[C]):
    """Candidates in the order of their keys, some of them parked."""

    __slots__ = ("_parked", "_ready", "first")

    def __init__(self) -> None:
        self._ready: SortedList[C] = SortedList()
        self._parked: dict[C, None] = {}
        #: The best candidate that is not parked; None if all are.
        self.first: Callable[[], C | None] = self._ready.peek

    def put(self, candidate: C, key: SortKey | None) -> None:
        """Give ``candidate`` the position ``key``; None takes it out. A parked candidate stays parked."""
        old = candidate.sort_key
        if old == key:
            return
        candidate.sort_key = key
        if candidate.parked:
            if key is None:
                candidate.parked = False
                self._parked.pop(candidate, None)
            return
        ready = self._ready
        if old is None:
            assert key is not None
            ready.add(key, candidate)
        elif key is None:
            ready.remove(old)
        elif ready.first() is not candidate or not ready.first_moves_to(key):
            ready.remove(old)
            ready.add(key, candidate)

    def park(self, candidate: C, *, is_woken_alone: bool = False) -> None:
        """Do not offer ``candidate`` until it is woken; it must be in the order and not be parked.

        Args:
            is_woken_alone: ``wake_all`` does not wake it.
        """
        assert candidate.sort_key is not None
        self._ready.remove(candidate.sort_key)
        candidate.parked = True
        if not is_woken_alone:
            self._parked[candidate] = None

    def wake(self, candidate: C) -> None:
        """Offer ``candidate`` again."""
        if candidate.parked:
            assert candidate.sort_key is not None
            candidate.parked = False
            self._parked.pop(candidate, None)
            self._ready.add(candidate.sort_key, candidate)

    def wake_all(self) -> list[C]:
        """Offer the parked candidates again, without those that are woken alone. Returns them."""
        woken = list(self._parked)
        if woken:
            self._ready.add_all((candidate.sort_key, candidate) for candidate in woken if candidate.sort_key is not None)
            for candidate in woken:
                candidate.parked = False
            self._parked.clear()
        return woken

    def has_ready(self) -> bool:
        """True if some candidate is not parked."""
        return bool(self._ready)


#: The ways of asks that fit nowhere: reserve a node; reserve a node or preempt; only preempt, because they have a node.
RESERVES, PREEMPTS, HAS_NODE = range(3)


#: The bits reported of an ask: it exceeds what the limits of its user or group leave, or what its queues leave.
OVER_LIMIT, OVER_QUOTA = 1, 2
#: The bits reported of an application: it may not start because of ``maxapplications`` of a queue, or of a limit.
HELD_BY_QUEUE, HELD_BY_LIMIT = 4, 8


class NotifiedAsks:
    """The asks of one ``AskQueue`` by the bits last reported of them; 0 is "fits". Each change notes the row of the ask.

    Created at the first report, so that asks which always fit cost nothing.
    """

    __slots__ = ("_changed", "asks")

    def __init__(self, asks: Iterable[Ask], changed: Changed) -> None:
        self._changed = changed
        self.asks: tuple[dict[AllocationKey, Ask], ...] = ({ask.allocation_key: ask for ask in asks}, {}, {}, {})

    def add(self, ask: Ask) -> None:
        """Add an ask without a report."""
        self.asks[0][ask.allocation_key] = ask
        self._changed.task(ask)

    def drop(self, ask: Ask) -> int:
        """Remove an ask. Returns the bits last reported of it."""
        key = ask.allocation_key
        before = next(bits for bits, asks in enumerate(self.asks) if key in asks)
        del self.asks[before][key]
        self._changed.task(ask)
        return before

    def report(self, asks: Iterable[Ask], before: int, after: int) -> None:
        """Note other bits of asks."""
        for ask in asks:
            del self.asks[before][ask.allocation_key]
            self.asks[after][ask.allocation_key] = ask
            self._changed.task(ask)


#: The common key of the asks of one ``AskQueue``: their shape, and one of ``RESERVES``, ``PREEMPTS`` and ``HAS_NODE``.
QueueKey = tuple[Shape, int]


class AskQueue(SortedList[Ask]):
    """The pending asks of one application that have the same ``QueueKey``, in ask order."""

    __slots__ = (
        "_example",
        "ask_class",
        "history",
        "is_by_age",
        "is_heavy",
        "key",
        "needs",
        "notified",
        "number",
        "order",
        "parked",
        "past",
        "predicate",
        "required_node",
        "selector",
        "shape",
        "sort_key",
        "tried",
    )

    def __init__(self, key: QueueKey, number: int, order: SchedulingQueue[AskQueue], example: Ask) -> None:
        super().__init__()
        self.key = key
        #: The first of these asks.
        self._example = example
        #: The number of queues that the application had made with this one.
        self.number = number
        #: The order of the application's queues, which this one is in.
        self.order = order
        self.shape = shape = key[0]
        self.needs, self.required_node, self.selector, self.predicate = shape
        self.is_heavy = look_work(shape) > 1
        self.sort_key: SortKey | None = None
        self.parked = False
        #: The class of these asks; None while the application is kept back. Written by the leaf's order.
        self.ask_class: EquivalenceClass[Any] | None = None
        #: The last reports of these asks; None while there is none.
        self.notified: NotifiedAsks | None = None
        #: What the asks wait for: the history of their class, or of their application while it is kept back; None before that.
        self.history: CodeHistory | None = None
        #: What they waited for before they followed it; None if they have always followed it.
        self.past: QueuePast | None = None
        #: True if no ask has been pending for longer than one before it, as usual: asks are mostly added at the end.
        self.is_by_age = True
        self.tried = Tried()

    def takes(self, ask: Ask) -> bool:
        """True if an ask without a node certainly has the key of this queue; a cheap check."""
        example = self._example
        return (
            ask.resource is example.resource
            and ask.tags == example.tags
            and ask.allow_preempt_other is example.allow_preempt_other
            and ask.failures == example.failures
        )

    def add(self, key: SortKey, item: Ask) -> None:
        """Insert an ask at ``key``, its position."""
        entries, tried = self._entries, self.tried
        if tried.up_to is not None and key < tried.up_to:
            tried.add(item)
        if self._start == len(entries):
            self.is_by_age = True
            entries.append((key, item))
            return
        last_key, last = entries[-1]
        if last_key < key:  # what arrives is often last
            self.is_by_age = self.is_by_age and last.since_ns <= item.since_ns
            entries.append((key, item))
        else:
            self.is_by_age = False
            insort(entries, (key, item), lo=self._start)

    def is_alike(self) -> bool:
        """True if the queue is at its first ask, and another one of the same priority follows."""
        entries, start = self._entries, self._start
        if start + 1 >= len(entries):
            return False
        first_key = entries[start][0]
        return first_key == self.sort_key and first_key[0] == entries[start + 1][0][0]

    def oldest_ns(self) -> int:
        """The time since which the oldest ask has been pending; there must be one."""
        return self.first().since_ns if self.is_by_age else min(ask.since_ns for ask in self)

    def first_eligible(self, now_ns: int, turns: Turns) -> tuple[Ask | None, int]:
        """Find the first ask that may reserve or preempt by ``now_ns``.

        Returns: the ask and the time from which it may; else None and a later time, before which no ask may.
        """
        tried = self.tried
        tried.begin(now_ns, turns)
        soonest_ns = tried.until_ns
        for key, ask in self.entries(tried.up_to):
            at_ns = turns.at_ns(ask)
            if at_ns <= now_ns:
                return ask, at_ns
            soonest_ns = min(soonest_ns, at_ns)
            if at_ns <= turns.from_ns:
                break
            if self.is_by_age and ask.since_ns + turns.delay_ns > now_ns:  # those behind it are no older
                return None, min(soonest_ns, ask.since_ns + turns.delay_ns)
            tried.extend(key, at_ns)
        return None, soonest_ns


#: The key of asks of several applications that succeed or fail together: their queue key, the running slots that the
#: application must find before it may start (QU-51, QU-73), and the limits that it counts against (QU-64). In a leaf with
#: back-off each application has classes of its own: there the key contains its id, elsewhere None.
ClassKey = tuple[QueueKey, int, TrackerTuple, ApplicationID | None]


def class_name(key: ClassKey) -> str:
    """The name of a class in its leaf, the same after its order was rebuilt, and in every process."""
    queue_key, slots_needed, trackers, application_id = key
    return name_of(queue_key, slots_needed, [(tracker.path, str(tracker.whose)) for tracker in trackers], application_id)


class Member(Protocol):
    """A member of a class: an application."""

    queues: dict[QueueKey, AskQueue]
    sort_key: SortKey | None

    def __hash__(self) -> int: ...


M = TypeVar("M", bound=Member)


class EquivalenceClass(Generic[M]):
    """The applications of a leaf whose asks of one key succeed or fail together, in the leaf's order: tried and parked as one.

    The position of an application in its class may be too early, but never too late. An application that moves back (it got an
    allocation, or its most important ask was placed) is repositioned when it comes to the front.

    A class that found no room is *stuck* until something grows: its asks can only reserve a node or preempt, each in its own turn
    and when it is old enough (SC-50, PE-14). The class then has the position of the first application with such an ask.

    Attributes:
        stuck: see above.
        answer: the quotas that held the class back when it was last parked, as bits like ``OVER_QUOTA``; None before that.
        tried: the first applications, in which no ask may reserve or preempt yet.
        representative: the application whose turn it is in a stuck class; None if that is the first one.
        offered: the asks of the class that its head offers; None while the class is parked. Written by the leaf's order.
        waits_at: its position among those that wait for a node (``waiting_classes``); None while it is not one of them.
        history: what it was found short of, and when.
        name: of the row of its history; "" while it has none.
        oldest_ns: no ask in the class has been pending since before this time.
    """

    __slots__ = (
        "_order",
        "_places",
        "answer",
        "history",
        "key",
        "name",
        "number",
        "offered",
        "oldest_ns",
        "parked",
        "representative",
        "shortage",
        "sort_key",
        "stuck",
        "tried",
        "waits_at",
    )

    def __init__(self, key: ClassKey, number: int, history: CodeHistory) -> None:
        self.key = key
        self.number = number
        self.history = history
        self.name = ""
        self._order: SortedList[M] = SortedList()
        #: The positions in the order.
        self._places: dict[M, SortKey] = {}
        self.sort_key: SortKey | None = None
        self.parked = self.stuck = False
        self.offered: AskQueue | None = None
        self.waits_at: SortKey | None = None
        self.tried = Tried()
        self.representative: M | None = None
        self.oldest_ns = NEVER
        self.answer: int | None = None
        #: The queue or tracker that was short when the class was last tried; None if only a node was missing, or before that.
        self.shortage: Shortage | None = None

    def __len__(self) -> int:
        return len(self._places)

    def put(self, application: M) -> None:
        """Add an application, or move it, to the position of its present key."""
        key = application.sort_key
        assert key is not None
        old = self._places.get(application)
        if old == key:
            return
        self._places[application] = key
        self.representative = None
        self.tried.forget()
        if old is not None:
            self._order.remove(old)
        self._order.add(key, application)

    def leave(self, application: M) -> None:
        """Take out an application."""
        self._order.remove(self._places.pop(application))
        self.representative = None

    def is_new(self) -> bool:
        """True if the class was never found short of anything, and is not stuck."""
        return self.answer is None and not self.stuck and not self.name

    def rename(self, key: ClassKey, queue: AskQueue) -> None:
        """Give a new class another key; ``queue`` has all its asks."""
        self.key, self.shortage, self.oldest_ns = key, None, NEVER
        self.tried.forget()
        self.note_age(queue)

    def note_age(self, queue: AskQueue) -> None:
        """Note that the asks of ``queue`` joined. The age of one ask is noted; that of several is computed when it is needed."""
        self.oldest_ns = min(self.oldest_ns, queue.first().since_ns) if len(queue) == 1 else 0

    def find_representative(self, now_ns: int, turns: Turns) -> int:
        """Make the first application that has an ask which may reserve or preempt by ``now_ns`` the representative.

        Returns: the time from which that ask may; without one, a later time, before which no ask of the class may.
        """
        tried = self.tried
        tried.begin(now_ns, turns)
        is_whole, soonest_ns, oldest_ns = tried.up_to is None, tried.until_ns, NEVER
        for key, application in self._order.entries(tried.up_to):
            queue = application.queues[self.key[0]]
            ask, at_ns = queue.first_eligible(now_ns, turns)
            if ask is not None:
                self.representative = application
                return at_ns
            soonest_ns = min(soonest_ns, at_ns)
            if at_ns <= turns.from_ns:
                return soonest_ns
            oldest_ns = min(oldest_ns, queue.oldest_ns())
            tried.extend(key, at_ns)
        if is_whole:
            self.oldest_ns = oldest_ns
        return soonest_ns

    def head(self) -> M:
        """The representative, else the first application; there must be one."""
        return self.representative or self._order.first()

    def head_key(self) -> SortKey | None:
        """The position of the class among the others: that of its head. None when it is empty."""
        if self.representative is not None:
            return self._places[self.representative], self.number
        first_key = self._order.first_key()
        return None if first_key is None else (first_key, self.number)

    def turn(self) -> SortKey | None:
        """The position of the class by application, then by ask; None when it is empty. It may be too early."""
        if not self._places:
            return None
        head = self.head()
        queue = head.queues.get(self.key[0])
        return self._places[head], () if queue is None else queue.sort_key, self.number

    def places(self) -> dict[M, SortKey]:
        """All applications of the class with their positions in it."""
        return dict(self._places)
