"""What the resource manager was told of asks that wait, and when there may be more to tell (AP-146, AP-148).

All that waits is looked at in rounds. A round takes several plans if much waits. What was told is kept only while a resource
manager is connected that wants to know it: the next one is told everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import WaitingCause
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.times import MS_NS, S_NS

#: The shortest time between two entries about one ask.
APART_NS = 15 * S_NS
#: From the begin of a round to that of the next: so long for each item that was looked at (an ask; a group of asks is ten more),
#: but within these bounds. An item takes about 0.2 us, so rounds take about 2 % of the time.
ITEM_NS = MS_NS // 100
ROUND_MIN_NS, ROUND_MAX_NS = S_NS, 15 * S_NS


class Pending(NamedTuple):
    """What asks are pending for.

    Attributes:
        queue: the queue with the maximum or limit that has too little left; else their own.
        has_failed: whether no node can take them, but another node could.
    """

    cause: WaitingCause
    queue: QueuePath
    has_failed: bool = False


class Told(NamedTuple):
    """What was told of an ask, and when."""

    pending: Pending
    at_ns: int


class SchedulingStates:
    """The rounds of one partition, and what was told of each ask.

    Attributes:
        is_wanted: whether a resource manager is connected that wants to know.
        is_restored: whether the partition was made anew since it was last asked what is due.
        has_changed: whether asks may wait for something else than when the newest round began.
        items: what was looked at in the newest round.
        queue_number: of the application that is next the last of its ask queues that was looked at.
    """

    def __init__(self) -> None:
        self.want(is_wanted=False)

    def want(self, *, is_wanted: bool) -> None:
        """Another resource manager is connected, or the same one again, or none: nothing was told."""
        self.is_wanted = is_wanted
        self.is_restored = False
        self.has_changed = True
        self.items = self.queue_number = 0
        #: By arrival number: in the last round that is complete, and in the present one.
        self._told: dict[int, Told] = {}
        self._kept: dict[int, Told] = {}
        #: The applications that the present round has not looked at yet, the next one last.
        self._ahead: list[ApplicationID] = []
        self._began_ns = self._next_ns = 0
        #: When the first of the asks may be told for which it was too early; None if there is none.
        self._early_ns: int | None = None

    def restore(self, *, is_wanted: bool) -> None:
        """The partition is made anew: what was told is not known any more."""
        self.want(is_wanted=is_wanted)
        self.is_restored = True

    def postpone(self, now_ns: int) -> None:
        """After ``restore``, when it is known what time it is: nothing is told too early, whatever was told before."""
        self.is_restored = False
        self._next_ns = now_ns + APART_NS

    # ---- rounds

    def due_ns(self) -> int | None:
        """When the next round is due; None if there is nothing more to tell."""
        if not self.is_wanted or not (self.has_changed or self._early_ns is not None):
            return None
        return self._next_ns if self.has_changed else max(self._next_ns, self._early_ns or 0)

    def begin(self, now_ns: int, applications: Iterable[ApplicationID]) -> None:
        """A round begins."""
        self._ahead = [*applications]
        self._ahead.reverse()
        self._began_ns, self.items = now_ns, 0
        self.has_changed, self._early_ns = False, None
        self._end_if_complete()

    def next_application(self) -> ApplicationID | None:
        """The application that is next in the present round; None if the round is complete."""
        return self._ahead[-1] if self._ahead else None

    def pass_on(self) -> None:
        """All that waits of this application was looked at."""
        self._ahead.pop()
        self.queue_number = 0
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if not self._ahead:
            self._told, self._kept = self._kept, {}
            self._next_ns = self._began_ns + min(max(ROUND_MIN_NS, self.items * ITEM_NS), ROUND_MAX_NS)

    # ---- asks

    def is_news(self, now_ns: int, ask: Ask, pending: Pending) -> bool:
        """Whether this is to be told of an ask now. If it is new but too early, a later round tells it."""
        told = self._keep(ask)
        if told is None:
            return pending.cause is not WaitingCause.UNTRIED
        if pending == told.pending or pending.cause is WaitingCause.UNTRIED:
            return False
        may_ns = told.at_ns + APART_NS
        if may_ns > now_ns:
            self._early_ns = may_ns if self._early_ns is None else min(may_ns, self._early_ns)
        return may_ns <= now_ns

    def _keep(self, ask: Ask) -> Told | None:
        """What was told of an ask, which is still pending; None if nothing was."""
        told = self._kept.get(ask.arrival)
        if told is None:
            told = self._told.get(ask.arrival)
            if told is not None:
                self._kept[ask.arrival] = told
        return told

    def has_told_failed(self, ask: Ask) -> bool:
        """True if the last that was told of an ask is that no node can take it (``SchedulingState.FAILED``)."""
        told = self._kept.get(ask.arrival) or self._told.get(ask.arrival)
        return told is not None and told.pending.has_failed

    def note(self, ask: Ask, told: Told) -> None:
        """An ask is told."""
        self._kept[ask.arrival] = told

    def forget(self, ask: Ask) -> None:
        """An ask that was placed is pending again: nothing was told of it since."""
        self._told.pop(ask.arrival, None)
        self._kept.pop(ask.arrival, None)
