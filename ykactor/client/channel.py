"""A channel between tasks of trio or asyncio."""

from typing import Generic, TypeVar

from anyio import Event
from anyio.lowlevel import checkpoint_if_cancelled

T = TypeVar("T")


class Channel(Generic[T]):
    """Hands items from task to task. A task that is cancelled, also by asyncio, loses none: that is why it is not anyio's.

    Parameters
    ----------
    waiting_max : int
        The number of items for which `put` does not wait until they are taken.

    Attributes
    ----------
    error
        What `put` raises, and `take` when nothing is left; None while the channel is open.
    """

    def __init__(self, waiting_max: int = 0) -> None:
        self.error: Exception | None = None
        self._waiting_max = waiting_max
        #: By number.
        self._items: dict[int, T] = {}
        self._count = 0
        #: What tasks wait for.
        self._change: Event | None = None

    async def put(self, item: T) -> None:
        await checkpoint_if_cancelled()
        self.check()
        number = self._count = self._count + 1
        self._items[number] = item
        self._wake()
        try:
            while len(self._items) > self._waiting_max and number in self._items:
                await self._changed()
                self.check()
        except BaseException:
            self._items.pop(number, None)
            raise

    async def take(self) -> T:
        await self._filled()
        item = self._items.pop(next(iter(self._items)))
        self._wake()
        return item

    async def take_all(self) -> list[T]:
        """Take what is there, at least one item."""
        await self._filled()
        items = list(self._items.values())
        self._items.clear()
        self._wake()
        return items

    def check(self) -> None:
        """Raise the error with which the channel was closed, if it was."""
        if self.error is not None:
            raise self.error

    def close(self, error: Exception) -> None:
        """Close the channel; without effect if it is closed."""
        if self.error is None:
            self.error = error
            self._wake()

    async def _filled(self) -> None:
        await checkpoint_if_cancelled()
        while not self._items:
            self.check()
            await self._changed()

    async def _changed(self) -> None:
        self._change = self._change or Event()
        await self._change.wait()

    def _wake(self) -> None:
        if self._change is not None:
            self._change.set()
            self._change = None
