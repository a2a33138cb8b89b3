"""What a resource manager is told: numbered, kept for a while, and read by at most one session at a time.

The feed posts what partitions decided, sessions post acknowledgements and errors; the attached session takes messages out.
Without a session an outbox just keeps, so that a resource manager can come back and resume (section "Delivery" of the protocol).
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

import trio
from msgspec import Struct, structs

M = TypeVar("M", bound=Struct)

#: Messages kept for a session that resumes.
KEPT_MAX = 10_000
#: Messages that a session takes at once.
TAKE_MAX = 256


class MessagesLostError(Exception):
    """The messages behind this sequence number are no longer, or not yet, known: the resource manager must register afresh."""


class SessionReplacedError(Exception):
    """A newer session of the same resource manager has taken over."""


class Outbox(Generic[M]):
    """The messages to one registered resource manager.

    Args:
        rm_id: who it is.
        sequence: the number before the first message.
        kept_max: messages kept.
    """

    def __init__(self, rm_id: str, sequence: int = 0, kept_max: int = KEPT_MAX) -> None:
        self.rm_id = rm_id
        #: The number of the newest message.
        self.sequence = sequence
        #: The session that reads, if any.
        self.reader: OutboxReader[M] | None = None
        self.grown = trio.lowlevel.ParkingLot()
        self._kept: deque[M] = deque(maxlen=kept_max)

    def post(self, message: M) -> None:
        """Give the message its ``sequence``, keep it and wake the session. Never waits."""
        self.sequence += 1
        self._kept.append(structs.replace(message, sequence=self.sequence))
        self.grown.unpark_all()

    def after(self, sequence: int, messages_max: int = TAKE_MAX) -> list[M]:
        """The messages that follow this number, the oldest first.

        Raises:
            MessagesLostError: the next one is no longer kept, or the number is from the future.
        """
        behind = self.sequence - sequence
        if not 0 <= behind <= len(self._kept):
            raise MessagesLostError(f"messages after {sequence} are not kept: there are {len(self._kept)} up to {self.sequence}")
        # Counted from the right, where a deque is indexed fast and where sessions usually are.
        return [self._kept[-n] for n in range(behind, max(behind - messages_max, 0), -1)]

    def attach(self, after: int) -> "OutboxReader[M]":
        """Become the one session that reads, from the message after this number; the session before is told to leave.

        Raises:
            MessagesLostError: as ``after``; then nothing has changed.
        """
        self.after(after, 0)
        self.reader = OutboxReader(self, after)
        self.grown.unpark_all()
        return self.reader

    def detach(self) -> None:
        """Tell the session that reads to leave."""
        self.reader = None
        self.grown.unpark_all()


class OutboxReader(Generic[M]):
    """A session's place in an outbox."""

    def __init__(self, outbox: Outbox[M], after: int) -> None:
        self.outbox = outbox
        self._cursor = after
        self._is_finishing = False

    @property
    def attached(self) -> bool:
        """Whether this session is still the one that reads."""
        return self.outbox.reader is self

    def finish(self) -> None:
        """Wait no more: ``take`` gives what is there, and then nothing."""
        self._is_finishing = True
        self.outbox.grown.unpark_all()

    async def take(self) -> list[M]:
        """Wait for messages; none only after ``finish``.

        Raises:
            SessionReplacedError: by a newer session.
            MessagesLostError: the session was so slow that the next message is no longer kept.
        """
        while self.attached:
            messages = self.outbox.after(self._cursor)
            if messages or self._is_finishing:
                self._cursor += len(messages)
                return messages
            await self.outbox.grown.park()
        raise SessionReplacedError(f"a newer session of {self.outbox.rm_id} has registered")


class OutboxRegistry(Generic[M]):
    """The outbox of the one resource manager that is registered, if any (SC-142)."""

    def __init__(self) -> None:
        self.current: Outbox[M] | None = None
        #: Held while a session registers or handles one request: a request and a fresh registration do not mix.
        self.turn = trio.Lock()

    def renew(self, rm_id: str) -> Outbox[M]:
        """A fresh registration: a new outbox that goes on counting; what is left of the old one reaches nobody (SC-141)."""
        old = self.current
        if old is not None:
            old.detach()
        self.current = Outbox(rm_id, old.sequence if old is not None else 0)
        return self.current

    def deliver(self, messages: Iterable[M]) -> None:
        """Post messages to whoever is registered; without anybody they are dropped."""
        if self.current is not None:
            for message in messages:
                self.current.post(message)
