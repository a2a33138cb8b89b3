"""The stream of turns: what a copy of the partitions elsewhere needs to run the same turns, as far as it is durable.

The feed adds each publication beside the journal, in its order; without a journal what is published counts as durable. Readers
join at a base: a partition is made anew for them from its own rows, and from the turn after that they get its turns (DU-19);
before, they get the facts of its turns, so that they have all events from the moment on in which they join. One that has copies
already, and has missed turns that are kept elsewhere, goes on with them (``TurnReader.resume``). The daemon never waits for a
reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple, Protocol

import trio

from ykactor.actors.commands import UNHEARD, PartitionCommand, Publication, Quiesce, TurnRecord
from ykactor.actors.journal import History, Journal
from ykactor.actors.mailbox import Mailbox
from ykactor.core.messages.facts import Fact
from ykactor.core.values.ids import PartitionName

#: A reader that has not taken so many bytes of turns is dropped; bases do not count.
UNREAD_BYTES_MAX = 2**26
#: How long after the last ones bases are made again, for all who wait for one: for each byte of those, so that they take 0.5 % of
#: the time, about a minute for 20,000 rows; and at least.
BASES_APART_S_EACH = 1e-5
BASES_APART_S_MIN = 1.0


class TurnFormat(Protocol):
    """Encodes the messages of the stream (``wire.turns``)."""

    def encode(self, facts: Sequence[Fact], /) -> bytes:
        """Encode facts as a JSON array."""

    def base(self, partition: PartitionName, base: bytes, /) -> bytes:
        """Encode the state of a partition before its next turn."""

    def renewed(self, partition: PartitionName, /) -> bytes:
        """Encode that a partition was made anew from its own rows before its next turn."""

    def turn(self, partition: PartitionName, turn: TurnRecord, facts: list[bytes], first_event: int, /) -> bytes:
        """Encode a turn without its facts, but with their checksum."""

    def facts(self, partition: PartitionName, turn: TurnRecord | None, facts: list[bytes], first_event: int, /) -> bytes:
        """Encode the facts themselves."""


class Dropped(Exception):
    """The reader has not read for so long that what it lacks is not kept any more."""


#: The Unix time and the number of a turn, which follow those of the turn before.
Moment = tuple[int, int]


class _Unread(NamedTuple):
    """A message that was not taken yet: of a turn of a partition, or of none."""

    message: bytes
    partition: PartitionName
    at: Moment | None


class TurnReader:
    """One reader of the stream: what it has not taken yet.

    Args:
        known: the partitions of which it has a copy.
    """

    def __init__(self, known: Iterable[PartitionName] = ()) -> None:
        self._messages: list[_Unread] = []
        self._bytes = 0
        self._known = set(known)
        self._is_dropped = False
        self._grown = trio.Event()

    def add(self, entry: _Entry, form: TurnFormat) -> None:
        """Add a turn, or its facts if the reader has no base of its partition yet, or facts of no turn."""
        name, turn = entry.partition, entry.turn
        if turn is not None and turn.number == 1:
            self.forget(name)  # an earlier partition with this name
        if turn is not None and turn.base is not None:
            if name in self._known:
                self._put(form.renewed(name), entry)
            else:
                self._put(form.base(name, turn.base), entry, size=0)  # there is one for each partition, however large they are
                self._known.add(name)
        if entry.message is not None and name in self._known:
            self._put(entry.message, entry)
        elif entry.facts:
            self._put(form.facts(name, turn, entry.facts, entry.first_event), entry)

    def forget(self, partition: PartitionName) -> None:
        """The reader has no copy of the partition: it needs another base."""
        self._known.discard(partition)

    def lacks(self, partitions: Iterable[PartitionName]) -> bool:
        """True if the reader has no copy of one of the partitions."""
        return not self._known.issuperset(partitions)

    def resume(self, last: Mapping[PartitionName, Moment]) -> None:
        """Leave out the turns that the reader has elsewhere: of each of these partitions all up to a moment."""
        unread = [each for each in self._messages if each.at is None or each.at > last.get(each.partition, (0, 0))]
        self._messages, self._bytes = unread, sum(len(each.message) for each in unread)

    def _put(self, message: bytes, entry: _Entry, size: int | None = None) -> None:
        """Keep a message, which counts as ``size`` bytes, by default as its own."""
        self._bytes += len(message) if size is None else size
        if self._bytes > UNREAD_BYTES_MAX:
            self._is_dropped = True
            self._messages.clear()
        if not self._is_dropped:
            at = None if entry.turn is None else (entry.turn.now_ns, entry.turn.number)
            self._messages.append(_Unread(message, entry.partition, at))
        self._grown.set()

    async def next(self) -> list[bytes]:
        """Wait for messages, and take all there are.

        Raises:
            Dropped: the reader was too slow.
        """
        await self._grown.wait()
        self._grown = trio.Event()
        if self._is_dropped:
            raise Dropped(f"more than {UNREAD_BYTES_MAX} bytes were not read")
        messages, self._messages, self._bytes = self._messages, [], 0
        return [each.message for each in messages]


class _Entry(NamedTuple):
    """A publication; ``message`` is its encoded turn, if it has one."""

    partition: PartitionName
    turn: TurnRecord | None
    message: bytes | None
    facts: list[bytes]
    first_event: int


class TurnStream:
    """The publications of a daemon, as far as its journal has them; a reader of the journal (``journal.Reader``).

    Args:
        journal: None: readers get them at once.
        partitions: the inbox of every partition.

    Attributes:
        history: the one of which partitions record bases.
        encode: makes a JSON array of facts.
        resuming: of the thread that reads what readers have missed: with several the event loop would wait for each of them.
    """

    def __init__(
        self, journal: Journal | None, partitions: Mapping[PartitionName, Mailbox[PartitionCommand]], form: TurnFormat
    ) -> None:
        self.history = History() if journal is None else journal.history
        self.encode = form.encode
        self.resuming = trio.CapacityLimiter(1)
        self._journal = journal
        self._partitions = partitions
        self._form = form
        self._readers: set[TurnReader] = set()
        #: The entries that are not durable yet, with their numbers.
        self._waiting: deque[tuple[int, _Entry]] = deque()
        self._last = 0
        #: When bases were asked for the last time, and the bytes of those that were made since.
        self._asked_s = -inf
        self._bases_bytes = 0

    def add(self, publication: Publication, facts: list[bytes], first_event: int) -> None:
        """Add a publication, which the journal, if there is one, has got just before. Costs nothing while nobody reads.

        Args:
            facts: those of the publication, as the journal has them.
            first_event: the number of its first event.
        """
        name, turn = publication.partition, publication.turn
        if turn is not None and turn.base is not None:
            self._bases_bytes += len(turn.base)  # also if who has asked for it has left
        if not self._readers:
            return
        self._last += 1
        message = None if turn is None else self._form.turn(name, turn, facts, first_event)
        self._waiting.append((self._last, _Entry(name, turn, message, facts, first_event)))
        if self._journal is None:
            self.raise_durable(self._last)
        else:
            self._journal.follow(self, self._last)

    @property
    def is_read(self) -> bool:
        """True if there is a reader."""
        return bool(self._readers)

    def raise_durable(self, number: int) -> None:
        """Give the readers what is durable (``journal.Reader``)."""
        while self._waiting and self._waiting[0][0] <= number:
            _, entry = self._waiting.popleft()
            for reader in self._readers:
                reader.add(entry, self._form)

    def join(self, known: Iterable[PartitionName] = ()) -> TurnReader:
        """A new reader; it gets all events from now on, and each partition from its next base on (``make_bases``).

        Args:
            known: the partitions of which it has a copy; it is told what that has missed elsewhere.
        """
        reader = TurnReader(known)
        self._readers.add(reader)
        return reader

    def leave(self, reader: TurnReader) -> None:
        """Forget a reader. Without one no turn is added, so a later one must get nothing of before."""
        self._readers.discard(reader)
        if not self._readers:
            self._waiting.clear()

    async def make_bases(self) -> None:
        """Have all partitions made anew soon, but not too often."""
        since_s = self._asked_s
        await trio.sleep_until(since_s + max(BASES_APART_S_MIN, BASES_APART_S_EACH * self._bases_bytes))
        if self._asked_s > since_s:
            return  # another reader has asked for them meanwhile, for all
        self._asked_s, self._bases_bytes = trio.current_time(), 0
        self.history.ask_for_bases()
        for inbox in list(self._partitions.values()):
            with suppress(trio.ClosedResourceError):
                await inbox.give(Quiesce(UNHEARD))  # wakes a partition that has nothing to do
