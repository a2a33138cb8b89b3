"""The stream of turns: what a copy of the partitions elsewhere needs to run the same turns, as far as it is durable.

The feed adds each turn beside the journal, in the order of the journal. Readers join at a base: a partition is made anew for them
from its own rows, and from the turn after that they get its turns (DU-19). The daemon never waits for a reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

import trio

from ykactor.actors.commands import UNHEARD, PartitionCommand, Quiesce, TurnRecord
from ykactor.actors.journal import Journal
from ykactor.actors.mailbox import Mailbox
from ykactor.core.values.ids import PartitionName

#: A reader that has not taken so many bytes of turns is dropped; bases do not count.
UNREAD_BYTES_MAX = 2**26
#: Bases are made at most this often, for all who wait for one.
BASES_APART_S = 60.0


class TurnFormat(Protocol):
    """Encodes the messages of the stream (``wire.turns``)."""

    def base(self, partition: PartitionName, base: bytes, /) -> bytes:
        """Encode the state of a partition before its next turn."""

    def renewed(self, partition: PartitionName, /) -> bytes:
        """Encode that a partition was made anew from its own rows before its next turn."""

    def turn(self, partition: PartitionName, turn: TurnRecord, facts: list[bytes], /) -> bytes:
        """Encode a turn without its facts, but with their checksum."""


class Dropped(Exception):
    """The reader has not read for so long that what it lacks is not kept any more."""


class TurnReader:
    """One reader of the stream: what it has not taken yet."""

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._bytes = 0
        self._known: set[PartitionName] = set()
        self._is_dropped = False
        self._grown = trio.Event()

    def add(self, entry: _Entry, form: TurnFormat) -> None:
        """Add a turn, unless the reader has no base of its partition yet."""
        name, is_first, base, message = entry
        if is_first:
            self._known.discard(name)  # of an earlier partition with this name
        if base is not None and name in self._known:
            self._put(form.renewed(name))
        elif base is not None:
            self._put(form.base(name, base), size=0)  # there is one for each partition, however large they are
            self._known.add(name)
        if name in self._known:
            self._put(message)

    def _put(self, message: bytes, size: int | None = None) -> None:
        """Keep a message, which counts as ``size`` bytes, by default as its own."""
        self._bytes += len(message) if size is None else size
        if self._bytes > UNREAD_BYTES_MAX:
            self._is_dropped = True
            self._messages.clear()
        if not self._is_dropped:
            self._messages.append(message)
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
        return messages


class _Entry(NamedTuple):
    """A turn of a partition, which may be its first one; ``base`` as in ``TurnRecord``."""

    partition: PartitionName
    is_first: bool
    base: bytes | None
    message: bytes


class TurnStream:
    """The turns of a daemon with a journal; a reader of the journal (``journal.Reader``).

    Args:
        partitions: the inbox of every partition.
    """

    def __init__(self, journal: Journal, partitions: Mapping[PartitionName, Mailbox[PartitionCommand]], form: TurnFormat) -> None:
        self._journal = journal
        self._partitions = partitions
        self._form = form
        self._readers: set[TurnReader] = set()
        #: The entries that are not durable yet, with their numbers.
        self._waiting: deque[tuple[int, _Entry]] = deque()
        self._last = 0
        self._next_bases_s = 0.0

    def add(self, name: PartitionName, turn: TurnRecord, facts: list[bytes]) -> None:
        """Add a turn, which the journal has got just before, with its ``facts`` as there. Costs nothing while nobody reads."""
        if not self._readers:
            return
        self._last += 1
        entry = _Entry(name, turn.number == 1, turn.base, self._form.turn(name, turn, facts))
        self._waiting.append((self._last, entry))
        self._journal.follow(self, self._last)

    def raise_durable(self, number: int) -> None:
        """Give the readers what is durable (``journal.Reader``)."""
        while self._waiting and self._waiting[0][0] <= number:
            _, entry = self._waiting.popleft()
            for reader in self._readers:
                reader.add(entry, self._form)

    def join(self) -> TurnReader:
        """A new reader; it gets each partition from its next base on (``make_bases``)."""
        reader = TurnReader()
        self._readers.add(reader)
        return reader

    def leave(self, reader: TurnReader) -> None:
        """Forget a reader. Without one no turn is added, so a later one must get nothing of before."""
        self._readers.discard(reader)
        if not self._readers:
            self._waiting.clear()

    async def make_bases(self) -> None:
        """Have all partitions made anew soon, at most every ``BASES_APART_S``."""
        wait_s = self._next_bases_s - trio.current_time()
        if wait_s > 0:
            await trio.sleep(wait_s)
            if trio.current_time() < self._next_bases_s:
                return  # another reader has asked for them meanwhile, for all
        self._next_bases_s = trio.current_time() + BASES_APART_S
        self._journal.history.ask_for_bases()
        for inbox in list(self._partitions.values()):
            with suppress(trio.ClosedResourceError):
                await inbox.give(Quiesce(UNHEARD))  # wakes a partition that has nothing to do
