"""How much of a partition's time readers may take, and how old their answers become meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from weakref import WeakValueDictionary

import trio

#: What all readers together may take for answers about all that is in a partition, of the time, and while the loop is not busy.
READ_SHARE = 0.015
IDLE_SHARE = 0.2
#: How old an answer may be that is shown meanwhile: so much, or up to so much where all that are asked for take longer to make.
STALE_S = 20.0
STALE_MAX_S = 120.0
#: How often that is reckoned.
REVIEW_S = 1.0
#: How much they may take at once when they have taken nothing for a while.
BURST_S = 2.0


class Allowance:
    """The time that readers may take of a partition for answers about all that is in it, one after the other.

    Attributes:
        stale_s: how old an answer may be.
    """

    def __init__(self) -> None:
        self.stale_s = STALE_S
        self._reviewed_s = -inf
        self._turn = trio.Lock()
        #: Who reads one after the other, by the name of an identity, while somebody does.
        self._own: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        #: When everything that was taken is made up for.
        self._even_at_s = 0.0

    def own(self, name: str) -> trio.Lock:
        """Held by an identity while it reads: so identities take turns, however many requests one of them has sent."""
        lock = self._own.get(name)
        if lock is None:
            lock = self._own[name] = trio.Lock()
        return lock

    def may_renew(self, age: float, name: str) -> bool:
        """Whether a page may be made again that could be shown as it is. Nobody has to wait for that, and the oldest come first.

        Args:
            age: 0 to 1, when it can be shown no longer; the older it is, the less of ``BURST_S`` has to be left.
            name: of the identity that asks for it.
        """
        return not self.own(name).locked() and trio.current_time() >= self._even_at_s - age * BURST_S / READ_SHARE

    def is_review_due(self) -> bool:
        """Whether ``review`` should be told what all answers took."""
        return trio.current_time() >= self._reviewed_s + REVIEW_S

    def review(self, taken_s: float) -> None:
        """Answers may be as old as it takes to make all that are asked for again, and some more.

        Args:
            taken_s: what these took when they were made.
        """
        self.stale_s = min(STALE_MAX_S, max(STALE_S, 1.2 * taken_s / READ_SHARE))
        self._reviewed_s = trio.current_time()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Read within the block, when everything before is made up for."""
        async with self._turn:
            await trio.sleep_until(self._due_s)
            yield

    @property
    def _due_s(self) -> float:
        return self._even_at_s - BURST_S / READ_SHARE

    def charge(self, took_s: float, share: float) -> None:
        """So much was taken, of which this is the share that they may have."""
        self._even_at_s = max(self._even_at_s, trio.current_time()) + took_s / share
