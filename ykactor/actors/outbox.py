"""The messages to a resource manager: numbered, kept for a while, and read by at most one session at a time; and its epochs.

The feed posts the decisions of partitions, sessions post acknowledgements and errors; the attached session takes messages out, as
soon as they are durable.
Without a session an outbox keeps its messages, so that a resource manager can reconnect and resume (section "Delivery" of the
protocol).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count, islice
from typing import Any, Generic, Protocol, TypeVar

import trio
from msgspec import Struct, structs

from ykactor.actors.commands import NOBODY, Intake, PartitionCommand
from ykactor.actors.journal import Journal, Notices, Resumed, Stalled
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.receipts import Accepted
from ykactor.core.inspection.process_status import Registration
from ykactor.core.values.names import ANY, Names

#: Epochs that are remembered of registrations that serve the same partitions.
EPOCHS_MAX = 100


class Epochs:
    """The highest epochs above 0 with which resource managers have registered.

    An epoch keeps out only registrations that serve no partition beyond those that it was registered for: a resource manager that
    is limited to partitions cannot keep out the one that serves more.

    Attributes:
        highest: by ``rmID`` and partitions, in the order of the last registrations.
    """

    def __init__(self) -> None:
        self.highest: dict[tuple[str, Names], int] = {}

    def lowest(self, rm_id: str, partitions: Names) -> int:
        """The lowest epoch that may register for these partitions."""
        found = (number for (known, served), number in self.highest.items() if known == rm_id and served.includes(partitions))
        return max(found, default=0)

    def highest_within(self, rm_id: str, partitions: Names) -> int:
        """The highest epoch of registrations that served none but these partitions; 0 if there is none."""
        return max((self.highest[key] for key in self._within(rm_id, partitions)), default=0)

    def forget(self, rm_id: str, partitions: Names) -> None:
        """Forget the epochs of registrations that served none but these partitions."""
        for key in self._within(rm_id, partitions):
            del self.highest[key]

    def _within(self, rm_id: str, partitions: Names) -> list[tuple[str, Names]]:
        return [key for key in self.highest if key[0] == rm_id and partitions.includes(key[1])]

    def raise_to(self, number: int, rm_id: str, partitions: Names) -> bool:
        """Remember an epoch that may register; returns whether anything has changed."""
        key = rm_id, partitions
        if not number or next(reversed(self.highest.items()), None) == (key, number):
            return False
        self.highest.pop(key, None)
        self.highest[key] = number  # as the last one
        alike = [other for other in self.highest if other[1] == partitions]
        if len(alike) > EPOCHS_MAX:
            del self.highest[alike[0]]
        return True


#: Messages kept for a session that resumes, and their bytes.
KEPT_MAX = 10_000
KEPT_BYTES_MAX = 2**26
#: Entries of what a resource manager has told of itself that are shown.
BUILD_INFO_MAX = 64
#: Messages that a session takes at once.
TAKE_MAX = 256


class MessageEncoding(Protocol):
    """The encoding of messages."""

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """Encodes one message."""


E = TypeVar("E", bound=MessageEncoding)


class MessagesLostError(Exception):
    """The messages after this sequence number are no longer kept, or do not exist: the resource manager must register anew."""


class SessionReplacedError(Exception):
    """A newer session of the same resource manager has taken over."""


class RegistrationEndedError(Exception):
    """Somebody else has ended the registration."""


class Outbox(Generic[E]):
    """The messages to one registered resource manager, each encoded once: bytes need a tenth of the memory of the message.

    Args:
        rm_id: the resource manager.
        encoding: of all messages, that of the session that registered; one that resumes may use another.
        sequence: the number before that of the first message.
        partitions: those that the registration serves.
        kept_max, bytes_max: number of messages kept, and their bytes; those that are not durable are kept in any case.
        journal: gets each message; it may be read when it is durable. None: at once.
    """

    def __init__(
        self,
        rm_id: str,
        encoding: E,
        sequence: int = 0,
        *,
        partitions: Names = ANY,
        kept_max: int = KEPT_MAX,
        bytes_max: int = KEPT_BYTES_MAX,
        journal: Journal | None = None,
    ) -> None:
        self.rm_id = rm_id
        self.encoding = encoding
        self.partitions = partitions
        #: That of the last session.
        self.epoch = 0
        #: The number of the newest message, and of the newest one that may be read.
        self.sequence = self.durable = sequence
        #: The number of the first message.
        self.first = sequence + 1
        #: The number of the newest message that a session has taken since this daemon was started; 0 if none has.
        self.taken = 0
        #: Whether its messages can still be asked for after a restart.
        self.is_registered = True
        #: The session that reads, if any.
        self.reader: OutboxReader[E] | None = None
        #: The Unix time at which this session began, or without one, at which the last one ended; set by the sessions.
        self.since_ns = 0
        #: What the resource manager has told of itself; set by the sessions.
        self.build_info: Mapping[str, str] = {}
        self.grown = trio.lowlevel.ParkingLot()
        self._kept_max = kept_max
        self._bytes_max = bytes_max
        self.journal = journal
        self._kept: deque[bytes] = deque()
        #: Why no session may read any more; None if one may.
        self.ended: RegistrationEndedError | None = None
        self._bytes = 0

    def post(self, *messages: Struct) -> None:
        """Number the messages and keep them; the session gets them when they are durable. Never waits.

        Cost: 0.6 us for each entry of a message.
        """
        if not messages:
            return
        encode, first = self.encoding.encode, self.sequence + 1
        encoded = [encode(structs.replace(message, sequence=number)) for number, message in enumerate(messages, first)]
        self.sequence += len(encoded)
        self._kept += encoded
        self._bytes += sum(map(len, encoded))
        if self.journal is None:
            self.raise_durable(self.sequence)
        elif self.is_registered:
            self.journal.post(self, first, encoded)
        else:
            self.journal.follow(self, self.sequence)

    def restore(self, messages: list[bytes], last: int) -> None:
        """Take over messages that are durable; the last one has the number ``last``."""
        self._kept.extend(messages)
        self._bytes += sum(map(len, messages))
        self.sequence = last
        self.raise_durable(last)

    def raise_durable(self, number: int) -> None:
        """The messages up to this number may be read (``journal.Reader``); drop the oldest if there are too many."""
        self.durable = number
        while self.sequence - len(self._kept) < number and (len(self._kept) > self._kept_max or self._bytes > self._bytes_max):
            self._bytes -= len(self._kept.popleft())
        self.grown.unpark_all()

    def after(self, sequence: int, messages_max: int = TAKE_MAX) -> list[bytes]:
        """The durable messages after this number, the oldest first.

        Raises:
            MessagesLostError: the next message is no longer kept, or the number is higher than the newest durable one.
        """
        behind, hidden = self.durable - sequence, self.sequence - self.durable
        if not 0 <= behind <= len(self._kept) - hidden:
            kept = len(self._kept) - hidden
            raise MessagesLostError(f"messages after {sequence} are not kept: there are {kept} up to {self.durable}")
        # Indexed from the right: sessions usually read the newest messages, and a deque is fast at its ends.
        return [self._kept[-n] for n in range(hidden + behind, hidden + max(behind - messages_max, 0), -1)]

    def attach(self, after: int) -> OutboxReader[E]:
        """Attach a session that reads from the message after this number; a session attached before is replaced.

        Raises:
            MessagesLostError: as ``after``; nothing has changed.
        """
        self.after(after, 0)
        self.reader = OutboxReader(self, after)
        self.grown.unpark_all()
        return self.reader

    def expel(self, reason: str) -> None:
        """Detach the session that reads, if any; it is told that the registration has ended."""
        self.ended = RegistrationEndedError(reason)
        self.detach()

    def detach(self) -> None:
        """Detach the session that reads, if any."""
        self.reader = None
        self.grown.unpark_all()


class OutboxReader(Generic[E]):
    """The cursor of a session in an outbox."""

    def __init__(self, outbox: Outbox[E], after: int) -> None:
        self.outbox = outbox
        self._cursor = after
        #: What the session is told of the journal.
        self.notices = Notices(outbox.journal)
        self._is_finishing = False

    @property
    def attached(self) -> bool:
        """True if no other session has replaced this one."""
        return self.outbox.reader is self

    @property
    def is_behind(self) -> bool:
        """True if the session has not taken all messages, because they are not durable or it has not come to it."""
        return self.outbox.sequence > self._cursor

    def finish(self) -> None:
        """``take`` returns the messages that are left, when they are durable, and then []."""
        self._is_finishing = True
        self.outbox.grown.unpark_all()

    async def take(self) -> list[bytes] | Stalled | Resumed:
        """Wait for messages, or a notice about the journal; returns [] only after ``finish``.

        Raises:
            SessionReplacedError: a newer session is attached.
            RegistrationEndedError: the session was expelled.
            MessagesLostError: the session was too slow, and the next message is no longer kept.
        """
        while self.attached:
            notice = self.notices.next()
            if notice is not None:
                return notice
            messages = self.outbox.after(self._cursor)
            if messages or (self._is_finishing and self.outbox.durable == self.outbox.sequence):
                self._cursor += len(messages)
                self.outbox.taken = max(self.outbox.taken, self._cursor)
                return messages
            await self.outbox.grown.park()
        if self.outbox.ended is not None:
            raise self.outbox.ended
        raise SessionReplacedError(f"a newer session of {self.outbox.rm_id} has registered")


def _ignore(*_: object) -> None:
    """Nothing is kept."""


class Requests:
    """The requests that have no answer yet.

    Args:
        journal: keeps receipts; None: nothing is kept.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self._numbers = count(1)
        #: By number: the session that accepted the request.
        self._open: dict[int, object] = {}
        self._fewer = trio.lowlevel.ParkingLot()

    def accept(self, request_id: str, session: object) -> Accepted:
        """A session has accepted a request and will answer it."""
        accepted = Accepted(next(self._numbers), request_id)
        self._open[accepted.number] = session
        return accepted

    @property
    def are_open(self) -> bool:
        """True if a request has no answer yet."""
        return bool(self._open)

    def answered(self, requests: Iterable[Accepted]) -> None:
        """The answers to these requests have just been posted; all become durable together."""
        keys: list[bytes] = []
        for accepted in requests:
            self._open.pop(accepted.number, None)
            keys += accepted.keys()
        self._fewer.unpark_all()
        self.forget(keys)

    def leave(self, session: object) -> None:
        """The session answers no more requests."""
        self._open = {number: other for number, other in self._open.items() if other is not session}
        self._fewer.unpark_all()

    def forget(self, keys: Iterable[bytes]) -> None:
        """Delete receipts."""
        if self._journal is not None:
            self._journal.delete(keys)

    async def all_answered(self) -> None:
        """Wait until each accepted request is answered, or will never be."""
        while self._open:
            await self._fewer.park()


class OutboxRegistry(Generic[E]):
    """The outbox of the registered resource manager, if any; there is at most one (SC-142).

    Args:
        journal: as in ``Outbox``.
        changing: called with the present outbox, and whether partitions are about to be reset for another registration.
        raising: called with ``epochs`` when they have changed.
    """

    def __init__(
        self,
        journal: Journal | None = None,
        changing: Callable[[Any, bool], None] = _ignore,
        raising: Callable[[Epochs], None] = _ignore,
    ) -> None:
        self._changing = changing
        self._raising = raising
        self.epochs = Epochs()
        #: Set before partitions are told.
        self.connected = NOBODY
        #: The number of the newest message before those of the present registration.
        self._sequence = 0
        self.current: Outbox[E] | None = None
        #: What is not answered yet.
        self.requests = Requests(journal)
        self._journal = journal
        if journal is not None:
            journal.watch(self._wake_session)
        #: Held while a session registers or handles one request, so that a request and a new registration do not interleave.
        self.turn = trio.Lock()

    @property
    def registration(self) -> Registration | None:
        """The registered resource manager, as it is shown; None if there is none."""
        current = self.current
        if current is None:
            return None
        shown = dict(islice(current.build_info.items(), BUILD_INFO_MAX))
        return Registration(current.rm_id, shown, current.reader is not None, current.since_ns)

    def renew(self, rm_id: str, encoding: E, partitions: Names = ANY) -> Outbox[E]:
        """Register anew: a new outbox that continues the numbering; unread messages of the old one are dropped (SC-141)."""
        old = self.current
        if old is not None:
            old.detach()
            old.is_registered = False
            self._sequence = old.sequence
        self.current = Outbox(rm_id, encoding, self._sequence, partitions=partitions, journal=self._journal)
        self.end_change()
        return self.current

    def serve(self, partitions: Names, epoch: int) -> None:
        """A session of the present registration may act in these partitions, which include those that it serves.

        Args:
            epoch: of the session, one that may register (``Epochs``).
        """
        current = self.current
        assert current is not None, "a session has registered"
        current.epoch = epoch
        if current.partitions != partitions:
            current.partitions = partitions
            self.end_change()
        if epoch and self.epochs.raise_to(epoch, current.rm_id, partitions):
            self._raising(self.epochs)

    def begin_change(self) -> None:
        """Partitions are about to be reset, because the registration changes or ends."""
        self._changing(self.current, True)

    def end_change(self) -> None:
        """The present registration is valid."""
        self._changing(self.current, False)

    def welcome(self, inbox: Mailbox[PartitionCommand]) -> None:
        """Tell a new partition, whose inbox is empty, who is connected."""
        if self.connected != NOBODY:
            inbox.offer(Intake(self.connected.submissions()))

    def forget_epochs(self, rm_id: str, partitions: Names) -> None:
        """Let a process with any epoch register as this resource manager for these partitions."""
        self.epochs.forget(rm_id, partitions)
        self._raising(self.epochs)

    def restore(self, sequence: int, epochs: Epochs, registration: Outbox[E] | None) -> None:
        """Take over what the journal has: the number of the newest message of all registrations, and the last of these."""
        self._sequence, self.epochs, self.current = sequence, epochs, registration

    def release(self) -> None:
        """End the registration; the session still takes the messages that are left (SC-142)."""
        if self.current is not None:
            self.current.is_registered = False
            self._sequence = self.current.sequence
        self.current = None
        self.end_change()

    async def room(self) -> None:
        """Wait until more messages may be caused; at once without a journal."""
        if self._journal is not None:
            await self._journal.room()

    def notices(self) -> Notices:
        """The notices of the journal for a session that is not registered yet."""
        return Notices(self._journal)

    def _wake_session(self) -> None:
        if self.current is not None:
            self.current.grown.unpark_all()

    def deliver(self, messages: Iterable[Struct]) -> None:
        """Post messages to the registered resource manager; dropped if there is none."""
        if self.current is not None:
            self.current.post(*messages)
