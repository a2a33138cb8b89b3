"""A bounded inbox: a trio memory channel that one actor drains in batches, with statistics.

There are two ways to send (``flow.py`` lists which message uses which). ``put`` may wait; in sessions this causes TCP back
pressure. ``put_nowait`` never waits: room is reserved, so an overflow is a program error.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class MailboxOverflow(Exception):
    """No room for a message that may not wait: a program error, a bound or the flow table is wrong."""


class Mailbox(Generic[T]):
    """The inbox of one actor.

    Args:
        name: used in error messages and statistics.
        capacity: number of messages that may wait; ``put`` waits while the inbox is full.
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
        """Send a message for which room is reserved.

        Raises:
            MailboxOverflow: the inbox is full.
        """
        try:
            self._send.send_nowait(message)
        except trio.WouldBlock:
            raise MailboxOverflow(f"{self.name}: more than {self.capacity} messages wait") from None

    async def take_batch(self, messages_max: int) -> list[T]:
        """Wait for one message, then take it and all others that are there, at most ``messages_max``."""
        batch = [await self._receive.receive()]
        return self._drain(batch, messages_max)

    def take_nowait(self, messages_max: int) -> list[T]:
        """Take the messages that are there, at most ``messages_max``; may be empty."""
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
        """Accept no more messages.

        Senders get ``trio.ClosedResourceError``; the owner gets the remaining messages, then ``trio.EndOfChannel``.
        """
        self._send.close()

    def statistics(self) -> trio.MemoryChannelStatistics:
        """How many messages wait, and the capacity."""
        return self._receive.statistics()
