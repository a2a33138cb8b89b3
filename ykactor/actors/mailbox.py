"""A bounded inbox: a trio memory channel that one actor drains in batches and that says how full it is.

Three kinds of sends (``flow.py`` says which edge is which): ``put`` may wait and is for the edge only, where waiting
becomes TCP back pressure; ``put_nowait`` never waits, and overflowing it is our mistake because the room was
reserved.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class MailboxOverflow(Exception):
    """A message that may not wait found no room: a bound or the flow table is wrong."""


class Mailbox(Generic[T]):
    """The inbox of one actor.

    Args:
        name: for messages and statistics.
        capacity: messages that may wait; a sender of commands waits when they are exceeded.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self._send, self._receive = trio.open_memory_channel[T](capacity)
        #: Wait for room; a checkpoint. ``trio.ClosedResourceError`` or ``BrokenResourceError`` when the owner is gone.
        self.put: Callable[[T], Awaitable[None]] = self._send.send
        #: Wait for the next message.
        self.get: Callable[[], Awaitable[T]] = self._receive.receive

    def put_nowait(self, message: T) -> None:
        """Leave a message for which room was reserved.

        Raises:
            MailboxOverflow: there was none.
        """
        try:
            self._send.send_nowait(message)
        except trio.WouldBlock:
            raise MailboxOverflow(f"{self.name}: more than {self.capacity} messages wait") from None

    async def take_batch(self, messages_max: int) -> list[T]:
        """Wait for one message, then take what else is there, at most ``messages_max`` together."""
        batch = [await self._receive.receive()]
        return self._drain(batch, messages_max)

    def take_nowait(self, messages_max: int) -> list[T]:
        """Take what is there, at most ``messages_max``; may be empty."""
        return self._drain([], messages_max)

    def _drain(self, batch: list[T], messages_max: int) -> list[T]:
        try:
            while len(batch) < messages_max:
                batch.append(self._receive.receive_nowait())
        except trio.WouldBlock:
            pass
        except trio.EndOfChannel:
            if not batch:
                raise
        return batch

    def close(self) -> None:
        """No more messages: senders get ``trio.ClosedResourceError``, the owner what is left and then ``trio.EndOfChannel``."""
        self._send.close()

    def statistics(self) -> trio.MemoryChannelStatistics:
        """How many messages wait, of how many that may."""
        return self._receive.statistics()
