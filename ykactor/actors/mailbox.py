"""A bounded memory channel that one actor drains in batches, and a lock; neither has needless checkpoints.

It does what ``trio.open_memory_channel`` does for many senders and one receiver, with fewer steps for each message: a placement
wakes a node and a queue, so what a message costs limits how many asks are placed in a second.

There are two ways to send. ``put`` may wait; in sessions this causes TCP back pressure; ``give`` does the same with fewer steps.
``put_nowait`` never waits: room is reserved, so an overflow is a program error.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator
from typing import Generic, TypeVar

import outcome
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, current_task, reschedule, wait_task_rescheduled

T = TypeVar("T")
R = TypeVar("R")


class _Nothing(outcome.Outcome[None]):
    """The outcome that wakes a receiver. One object serves all: to make one for each message takes a tenth of its cost."""

    def unwrap(self) -> None:
        """Return None; other outcomes can be unwrapped only once."""

    def send(self, gen: Generator[R, None, object]) -> R:
        """Resume a generator."""
        return gen.send(None)

    async def asend(self, agen: AsyncGenerator[R, None]) -> R:
        """Resume an asynchronous generator."""
        return await agen.asend(None)


_NOTHING = _Nothing()


class MailboxOverflow(Exception):
    """An inbox has no room for a message that may not wait: a program error, a bound is wrong, or its sender had to wait."""


class Mailbox(Generic[T]):
    """The inbox of one actor.

    Args:
        name: used in error messages.
        capacity: number of messages that may wait; ``put`` waits while the inbox is full.
    """

    __slots__ = ("_is_closed", "_messages", "_receiver", "_senders", "capacity", "name")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        #: A list, because there are few messages but many mailboxes: an empty deque takes ten times as much memory.
        self._messages: list[T] = []
        self._receiver: Task | None = None
        #: The tasks that wait for room, in order, with their messages.
        self._senders: OrderedDict[Task, T] = OrderedDict()
        self._is_closed = False

    def messages_waiting(self) -> int:
        """The number of messages that are not taken yet."""
        return len(self._messages)

    def senders_waiting(self) -> int:
        """The number of tasks that wait for room."""
        return len(self._senders)

    # ---- sending

    async def put(self, message: T) -> None:
        """Send a message, when there is room. A checkpoint.

        Raises:
            trio.ClosedResourceError: the inbox is closed, or was closed while the message waited for room.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_closed:
            raise trio.ClosedResourceError
        if len(self._messages) < self.capacity:
            self._messages.append(message)
            self._wake_receiver()
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            await self._put_when_there_is_room(message)

    async def give(self, message: T) -> None:
        """Send a message like ``put``, but with a checkpoint only if there is no room: the sender has one elsewhere.

        Raises:
            trio.ClosedResourceError: as ``put``.
        """
        if not self.offer(message):
            await self._put_when_there_is_room(message)

    async def _put_when_there_is_room(self, message: T) -> None:
        task = current_task()
        self._senders[task] = message

        def give_up(_: RaiseCancelT) -> Abort:
            del self._senders[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(give_up)
        if task in self._senders:
            del self._senders[task]
            raise trio.ClosedResourceError

    def offer(self, message: T) -> bool:
        """Send a message if there is room; whether there was. Without a checkpoint, which the sender needs elsewhere.

        Raises:
            trio.ClosedResourceError: the inbox is closed.
        """
        if self._is_closed:
            raise trio.ClosedResourceError
        has_room = len(self._messages) < self.capacity
        if has_room:
            self._messages.append(message)
            self._wake_receiver()
        return has_room

    def put_nowait(self, message: T) -> None:
        """Send a message for which room is reserved.

        Raises:
            MailboxOverflow: the inbox is full.
            trio.ClosedResourceError: the inbox is closed.
        """
        messages = self._messages
        if self._is_closed:
            raise trio.ClosedResourceError
        if len(messages) >= self.capacity:
            raise MailboxOverflow(f"{self.name}: more than {self.capacity} messages wait")
        messages.append(message)
        if self._receiver is not None:
            self._wake_receiver()

    def _wake_receiver(self) -> None:
        if self._receiver is not None:
            reschedule(self._receiver, _NOTHING)
            self._receiver = None

    def close(self) -> None:
        """Accept no more messages.

        Senders get ``trio.ClosedResourceError``; the owner gets the remaining messages, then ``trio.EndOfChannel``.
        """
        self._is_closed = True
        for task in self._senders:
            reschedule(task)
        self._wake_receiver()

    # ---- receiving

    async def get(self) -> T:
        """Wait for the next message. A checkpoint.

        Raises:
            trio.EndOfChannel: the inbox is closed, and all messages were taken.
        """
        if self._messages:
            await trio.lowlevel.checkpoint()
        else:
            if self._is_closed:
                raise trio.EndOfChannel
            assert self._receiver is None, f"{self.name}: two tasks read"
            self._receiver = current_task()
            await wait_task_rescheduled(self._stop_waiting)
            if not self._messages:
                raise trio.EndOfChannel
        message = self._messages.pop(0)
        if self._senders:
            self._admit()
        return message

    async def take_batch(self, messages_max: int) -> list[T]:
        """Wait for one message, then take it and all others that are there, at most ``messages_max``. A checkpoint.

        Raises:
            trio.EndOfChannel: as ``get``.
        """
        first = await self.get()
        return [first, *self.take_nowait(messages_max - 1)] if self._messages else [first]

    def take_nowait(self, messages_max: int) -> list[T]:
        """Take the messages that are there, at most ``messages_max``; may be empty.

        Raises:
            trio.EndOfChannel: as ``get``.
        """
        messages = self._messages
        if self._is_closed and not messages:
            raise trio.EndOfChannel
        batch = messages[:messages_max]
        del messages[:messages_max]
        if self._senders:
            self._admit()
        return batch

    def _stop_waiting(self, _: RaiseCancelT) -> Abort:
        self._receiver = None
        return Abort.SUCCEEDED

    def _admit(self) -> None:
        """Put in the messages of waiting senders for which there is room."""
        while self._senders and len(self._messages) < self.capacity and not self._is_closed:
            task, message = self._senders.popitem(last=False)
            self._messages.append(message)
            reschedule(task)


class Held:
    """Holds a lock during an ``async with`` block; to take it is a checkpoint only if another task holds it."""

    __slots__ = ("_lock",)

    def __init__(self, lock: trio.Lock | trio.StrictFIFOLock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        """Take the lock."""
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        """Let it go."""
        self._lock.release()
