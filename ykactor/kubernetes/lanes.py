"""Work for the API server in lanes: what is urgent never waits for what is not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import trio

W = TypeVar("W")


class Pace:
    """A token bucket of requests per second. Urgent work takes without waiting and may owe; other work waits for what is left."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._tokens = per_second
        self._filled_s = trio.current_time()

    def take(self) -> None:
        """Take a token now; not more than those of one second are owed."""
        self._fill()
        self._tokens = max(self._tokens - 1, -self.per_second)

    async def wait(self) -> None:
        """Wait for a token."""
        self._fill()
        while self._tokens < 1:
            await trio.sleep((1 - self._tokens) / self.per_second)
            self._fill()
        self._tokens -= 1

    def _fill(self) -> None:
        now_s = trio.current_time()
        self._tokens = min(self.per_second, self._tokens + (now_s - self._filled_s) * self.per_second)
        self._filled_s = now_s


class Lane(Generic[W]):
    """Work that is carried out by some workers, one item for each key at a time.

    Args:
        carry_out: called with each item.
        size: of the items that wait; the oldest is dropped beyond it. None: whoever puts them bounds them.
        newest_first: the item that came last is carried out first.

    Attributes:
        dropped: how many items were dropped.
    """

    def __init__(self, carry_out: Callable[[W], Awaitable[None]], *, size: int | None = None, newest_first: bool = False) -> None:
        self._carry_out = carry_out
        self._size = size
        self._newest_first = newest_first
        self._items: OrderedDict[Hashable, W] = OrderedDict()
        self._grown = trio.lowlevel.ParkingLot()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, key: Hashable, item: W) -> None:
        """Add an item; one of the same key that still waits is replaced."""
        self._items.pop(key, None)
        self._items[key] = item
        if self._size is not None and len(self._items) > self._size:
            self._items.popitem(last=False)
            self.dropped += 1
        self._grown.unpark()

    def clear(self) -> None:
        """Forget what waits."""
        self._items.clear()

    async def work(self) -> None:
        """Carry out items until cancelled."""
        while True:
            while not self._items:
                await self._grown.park()
            _, item = self._items.popitem(last=self._newest_first)
            await self._carry_out(item)
