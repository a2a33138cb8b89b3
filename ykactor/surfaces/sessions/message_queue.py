"""The messages between a connection, which reads all that the socket has, and its session, which handles them in a few steps."""

from collections import deque

import trio

#: With so many messages, or with more bytes, nothing is read until one is left: two large messages may wait at most.
WAITING_MAX, WAITING_BYTES_MAX = 64, 2**16
#: The work of a session before other tasks run, about 2 ms: a message is as much as its bytes and some more.
STEP_WORK, MESSAGE_WORK = 2**14, 2**9


class MessageQueue:
    """The messages of a peer that its session has not taken. One task adds them, one takes them out."""

    def __init__(self) -> None:
        self._messages: deque[tuple[str | bytes, int]] = deque()
        self._bytes = 0
        #: True if no more messages are added.
        self._has_ended = False
        self._filled, self._drained = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        #: The work of the messages taken since other tasks ran.
        self._work = 0

    async def add(self, message: str | bytes, size: int) -> None:
        """Add a message of so many bytes, then wait if too much waits. After the end it is dropped."""
        if self._has_ended:
            return
        self._messages.append((message, size))
        self._bytes += size
        if self._filled:
            self._filled.unpark_all()
        if len(self._messages) >= WAITING_MAX or self._bytes > WAITING_BYTES_MAX:
            await self.drained()

    async def drained(self) -> None:
        """Wait until the session has taken all messages but one, which need not wait for the next."""
        while len(self._messages) > 1 and not self._has_ended:
            await self._drained.park()

    async def take(self) -> tuple[str | bytes, int]:
        """Wait for a message; returns it with its bytes. A checkpoint only if there is none, or enough work was done.

        Raises:
            trio.EndOfChannel: there are no more.
        """
        if self._work > STEP_WORK:
            self._work = 0
            await trio.lowlevel.checkpoint()
        while not self._messages:
            if self._has_ended:
                raise trio.EndOfChannel
            self._work = 0
            await self._filled.park()
        message, size = self._messages.popleft()
        self._bytes -= size
        self._work += MESSAGE_WORK + size
        if self._drained and len(self._messages) <= 1:
            self._drained.unpark_all()
        return message, size

    def end(self) -> None:
        """Let no more messages come; those that wait can be taken."""
        self._has_ended = True
        self._filled.unpark_all()
        self._drained.unpark_all()

    def drop(self) -> None:
        """Take out all messages, and let no more come."""
        self._messages.clear()
        self._bytes = 0
        self.end()
