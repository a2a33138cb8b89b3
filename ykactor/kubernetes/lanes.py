"""Work for the API server in lanes: what is urgent never waits for what is not, and what has to be tried again waits aside."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar

import trio

#: The shortest pause: rounding may leave a little less than a token at the end of a longer one.
_SLEEP_S = 0.001
#: Other work goes on after this time, however much urgent work there is.
_PATIENCE_S = 0.2
#: So long after urgent work there may be more of it, and other work takes a quarter of the time: it rests three times as long.
_BUSY_S, _REST = 1.0, 3.0
#: Reading what has come over a socket takes fewer passes of the event loop.
_PASSES = 5
W = TypeVar("W")


class Pace:
    """A token bucket of requests per second. Urgent work takes without waiting and may owe; other work waits for what is left.

    A process with much to do gets its share of a busy machine late, so other work makes urgent work wait beside it and after it.
    """

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._tokens = per_second
        self._filled_s = trio.current_time()
        #: How many urgent requests, and how many others, have no answer yet.
        self._urgent = self._others = 0
        self._busy_until_s = self._rests_until_s = self._filled_s
        self._lull = trio.lowlevel.ParkingLot()
        self._inputs = 0
        self._turn = trio.Lock()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """An urgent request: takes a token now, but not more than those of one second are owed."""
        self._fill()
        self._tokens = max(self._tokens - 1, -self.per_second)
        self._urgent += 1
        try:
            yield
        finally:
            self._urgent -= 1
            self._busy_until_s = trio.current_time() + _BUSY_S
            self._lull.unpark_all()

    def note_input(self) -> None:
        """Something has arrived that may lead to urgent requests."""
        self._inputs += 1

    @asynccontextmanager
    async def spare(self) -> AsyncIterator[None]:
        """Another request: waits for a lull, but not for long, and for a token. Beside urgent work there is one at a time."""
        async with self._turn:  # what one begins is done, but for the answer, before the next one finds a lull
            with trio.move_on_after(_PATIENCE_S):
                await self._wait_for_lull()
            await self._take()
        began_s = trio.current_time()
        self._others += 1
        try:
            yield
        finally:
            self._others -= 1
            if self._is_busy():
                self._rests_until_s = trio.current_time() + _REST * (trio.current_time() - began_s)
            self._lull.unpark_all()

    async def _wait_for_lull(self) -> None:
        """Wait until nothing is open that counts, it has rested, and some passes of the event loop have brought no input."""
        passes = 0
        while passes < _PASSES:
            before = self._inputs
            if self._is_lull():
                await trio.sleep_until(self._rests_until_s)
            else:
                await self._lull.park()
            passes = passes + 1 if before == self._inputs and self._is_lull() else 0

    def _is_lull(self) -> bool:
        return not self._urgent and not (self._others and self._is_busy())

    def _is_busy(self) -> bool:
        """True if there is urgent work, or was a short time ago."""
        return self._urgent > 0 or trio.current_time() < self._busy_until_s

    async def _take(self) -> None:
        self._fill()
        while self._tokens < 1:
            await trio.sleep(max(_SLEEP_S, (1 - self._tokens) / self.per_second))
            self._fill()
        self._tokens -= 1

    def _fill(self) -> None:
        now_s = trio.current_time()
        self._tokens = min(self.per_second, self._tokens + (now_s - self._filled_s) * self.per_second)
        self._filled_s = now_s


class Lane(Generic[W]):
    """Work that is carried out by some workers, one item for each key at a time.

    Args:
        carry_out: called with each item and the number of attempts before; returns after how many seconds it is to be tried
            again, None if it is done.
        size: of the items that wait; the oldest is dropped beyond it. None: those about what is gone are dismissed.
        newest_first: the item that came last is carried out first.

    Attributes:
        dropped: how many items were dropped.
    """

    def __init__(
        self, carry_out: Callable[[W, int], Awaitable[float | None]], *, size: int | None = None, newest_first: bool = False
    ) -> None:
        self._carry_out = carry_out
        self._size = size
        self._newest_first = newest_first
        self._items: OrderedDict[Hashable, tuple[W, int]] = OrderedDict()
        self._aside: OrderedDict[Hashable, tuple[W, int, float]] = OrderedDict()
        #: When items that are aside are due; entries of items that were replaced stay until then.
        self._due: list[tuple[float, int, Hashable]] = []
        self._count = 0
        self._busy: set[Hashable] = set()
        self._grown = trio.lowlevel.ParkingLot()
        self._is_closed = False
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items) + len(self._aside)

    def put(self, key: Hashable, item: W) -> None:
        """Add an item; one of the same key that still waits is replaced."""
        self._aside.pop(key, None)
        self._items.pop(key, None)
        self._items[key] = item, 0
        self._trim()
        self._grown.unpark()

    def dismiss(self, key: Hashable) -> None:
        """Drop the item of a key, if one waits."""
        self._items.pop(key, None)
        self._aside.pop(key, None)

    def close(self) -> None:
        """Begin no further item."""
        self._is_closed = True
        self._grown.unpark_all()

    async def work(self) -> None:
        """Carry out items until ``close``."""
        while not self._is_closed:
            key = self._next()
            if key is None:
                with trio.move_on_at(self._due[0][0] if self._due else float("inf")):
                    await self._grown.park()
                continue
            item, attempts = self._items.pop(key)
            self._busy.add(key)
            pause_s = await self._carry_out(item, attempts)
            self._busy.discard(key)
            if pause_s is not None and key not in self._items:
                self._set_aside(key, item, attempts + 1, trio.current_time() + pause_s)

    def _next(self) -> Hashable | None:
        """The key of the next item; one whose key is busy has to wait."""
        self._fetch_due()
        keys = reversed(self._items) if self._newest_first else iter(self._items)
        return next((key for key in keys if key not in self._busy), None)

    def _set_aside(self, key: Hashable, item: W, attempts: int, due_s: float) -> None:
        self._count += 1
        self._aside[key] = item, attempts, due_s
        heapq.heappush(self._due, (due_s, self._count, key))
        self._trim()
        self._grown.unpark()  # whoever waits has to know when this is due

    def _fetch_due(self) -> None:
        now_s = trio.current_time()
        while self._due and self._due[0][0] <= now_s:
            due_s, _, key = heapq.heappop(self._due)
            if key in self._aside and self._aside[key][2] == due_s:
                item, attempts, _ = self._aside.pop(key)
                self._items[key] = item, attempts

    def _trim(self) -> None:
        if self._size is not None and len(self) > self._size:
            (self._aside or self._items).popitem(last=False)
            self.dropped += 1
