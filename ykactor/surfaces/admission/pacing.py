"""The pace of messages, requests, and time of the loop and of partitions, and whose turn it is to take of them (SE-48, SE-96)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import trio

#: The shortest wait: a shorter one is left to the next that waits.
_WAIT_MIN_S = 1e-3
#: The longest sleep of a wait, which ends earlier when the rate rises.
_SLEEP_MAX_S = 1.0


class TokenBucket:
    """A token bucket that begins full. More may be taken than it has, and is owed then.

    Args:
        rate: tokens in a second, as it is now: what is owed is paid at the new rate.
        burst_s: of how many seconds it holds the tokens.

    Attributes:
        tokens: as ``delay_s`` or ``take`` left them; negative if they are owed.
    """

    def __init__(self, rate: Callable[[], float], burst_s: float = 1.0) -> None:
        self.tokens = math.inf
        self._rate = rate
        self._burst_s = burst_s
        self._filled_s = -math.inf

    def take(self, count: float) -> None:
        """Take tokens out; a negative count puts some back."""
        self._fill()
        self.tokens -= count

    def delay_s(self, least: float = 0.0) -> float:
        """Seconds until so many tokens are there; 0 if that is not worth a wait."""
        rate = self._fill()
        delay_s = (least - self.tokens) / rate
        return delay_s if delay_s >= _WAIT_MIN_S else 0.0

    async def wait(self, least: float = 0.0) -> None:
        """Wait until so many tokens are there."""
        while True:
            delay_s = self.delay_s(least)
            if not delay_s:
                return
            await trio.sleep(min(delay_s, _SLEEP_MAX_S))

    def _fill(self) -> float:
        """Add the tokens of the time since it was filled; returns the rate."""
        rate, now_s = self._rate(), trio.current_time()
        self.tokens = min(rate * self._burst_s, self.tokens + (now_s - self._filled_s) * rate)
        self._filled_s = now_s
        return rate


class FairQueue:
    """Lets holders (``slots``) take turns at a token bucket, however many of each wait.

    A holder has one in the queue, and the next one enters when that has left.
    """

    def __init__(self, bucket: TokenBucket) -> None:
        self.bucket = bucket
        self._first = trio.Lock()
        #: By holder, while somebody has it.
        self._entries: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    def entry(self, holder: str) -> trio.Lock:
        """The lock that a holder has while it is in the queue."""
        lock = self._entries.get(holder)
        if lock is None:
            lock = self._entries[holder] = trio.Lock()
        return lock

    @asynccontextmanager
    async def first(self) -> AsyncIterator[None]:
        """Be the first in the queue within the block, which begins when nothing is owed."""
        async with self._first:  # a queue: who has waited longest is next
            await self.bucket.wait()
            yield

    async def take(self, holder: str, count: float) -> None:
        """Take tokens when it is the turn of a holder."""
        if not self._first.locked() and not self.bucket.delay_s():
            self.bucket.tokens -= count  # it was filled just now
            return
        async with self.entry(holder), self.first():
            self.bucket.take(count)
