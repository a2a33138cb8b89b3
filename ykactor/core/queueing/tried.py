"""The front of an order of asks that may not reserve or preempt yet, as most of them have tried in vain a short time ago."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from ykactor.core.messages.asks import Ask
from ykactor.core.values.sorted_list import SortKey
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
