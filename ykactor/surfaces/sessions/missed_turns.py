"""The turns that a replica has missed while it had no connection, read from the history of the journal (DU-19).

A replica has run a beginning of the history: all turns up to its newest event, and some without events after that. Its copies go
on if that is a beginning of this history, all that follows is still kept, and it is not more than a base would be worth.
"""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.actors.turn_stream import Moment
from ykactor.core.values.ids import PartitionName
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import LogRow
from ykactor.wire.history import RecordedTurn, decode_facts, decode_turn
from ykactor.wire.si.events import events
from ykactor.wire.turns import Facts, LastTurn, Renewed, Resumed, Turn, Wanted, checksum_of, encode

#: A replica that has missed more of the history, compressed, gets bases: 8 MiB are the turns of some 150,000 placements, which a
#: replica needs a few seconds to run.
MISSED_BYTES_MAX = 2**23
#: Bytes of messages that are sent together.
PART_BYTES = 2**20


class NotKeptError(Exception):
    """The copies cannot go on: what they have missed is not kept any more, or they are of another history."""


class MissedTurns:
    """The turns after those that a replica has run. Every call blocks, in any thread.

    Args:
        newest: the newest transaction whose turns others may be told.

    Attributes:
        last: the last turn of each copy, when all parts were taken.
    """

    def __init__(self, reader: Reader, newest: int, wanted: Wanted) -> None:
        self.last: dict[PartitionName, Moment] = {name: (last.now_ns, last.number) for name, last in wanted.copies.items()}
        self._reader = reader
        self._newest = newest
        self._after_event = wanted.after_event
        self._copies = wanted.copies

    def parts(self) -> Iterator[list[bytes]]:
        """The messages, in parts; the first one is ``Resumed``.

        Raises:
            NotKeptError: see there; after the first part only because history is being deleted.
            JournalError, HistoryError: the journal cannot be read.
        """
        first = self._first()
        self._check(first)
        messages, size = [encode(Resumed())], 0
        for row in self._rows(first):
            for message in self._messages(row):
                messages.append(message)
                size += len(message)
            if size >= PART_BYTES:
                yield messages
                messages, size = [], 0
        yield messages

    # ---- whether the copies go on

    def _first(self) -> int:
        """The transaction that has the newest event of the replica at its end; the first one if it has no event."""
        oldest, newest = self._reader.numbers()
        first = self._reader.number_of(self._after_event) if self._after_event else 1
        row, last = self._reader.row(max(first, 1)), self._reader.row(newest)
        if row is None or last is None or first < oldest or newest < self._newest:
            raise NotKeptError(f"found transactions {oldest} to {newest}, expected that with event {self._after_event}")
        if self._after_event and row.first_event + row.events_count - 1 != self._after_event:
            raise NotKeptError(f"event {self._after_event} is not the last one of transaction {first}")
        if last.end_byte - row.first_byte > MISSED_BYTES_MAX:
            raise NotKeptError(f"more than {MISSED_BYTES_MAX} bytes of history have come after event {self._after_event}")
        return first

    def _check(self, first: int) -> None:
        """Check that each copy has run a beginning of this history: what the replica has events of, and no more that has some."""
        found = set[PartitionName]()
        for row in self._rows(first):
            for turn in map(decode_turn, row.turns()):
                copy = self._copies.get(turn.partition)
                if copy is not None and turn.number is not None and self._is_last(row, turn, copy):
                    found.add(turn.partition)
        for name, copy in self._copies.items():
            if name not in found and copy.first_event > self._after_event:
                raise NotKeptError(f"turn {copy.number} of partition {name} is not in this history")

    def _is_last(self, row: LogRow, turn: RecordedTurn, copy: LastTurn) -> bool:
        """True if this is the last turn of the copy. Raises:  NotKeptError if the copy does not fit to it."""
        number, facts, is_known = turn.number or 0, bytes(turn.facts), self._is_known(row)
        is_other = number == copy.number and (turn.now_ns, checksum_of([facts])) != (copy.now_ns, copy.checksum)
        is_new = number == 1 and not is_known  # of another partition with this name
        is_apart = row.events_count > 0 and facts != b"[]" and (number <= copy.number) != is_known
        if is_other or is_new or is_apart:
            raise NotKeptError(f"the copy of partition {turn.partition} after turn {copy.number} does not fit to turn {number}")
        return number == copy.number

    # ---- what it has missed

    def _rows(self, first: int) -> Iterator[LogRow]:
        """The transactions from this one on, up to the newest."""
        for expected, row in enumerate(self._reader.rows(first), first):
            if row.number != expected:
                raise NotKeptError(f"found transaction {row.number}, expected {expected}")
            if row.number > self._newest:
                return
            yield row

    def _is_known(self, row: LogRow) -> bool:
        """True if the replica has the events of the transaction, and of all before it."""
        return row.events_count > 0 and row.first_event <= self._after_event

    def _messages(self, row: LogRow) -> Iterator[bytes]:
        """The messages about a transaction, without turns that a copy has run, and facts of which the replica has the events."""
        bases, event, is_known = self._reader.base_positions(row.number), row.first_event, self._is_known(row)
        turns = [decode_turn(text) for text in row.turns()]
        for position, turn in enumerate(turns):
            yield from self._told(turn, event, has_base=position in bases, is_known=is_known)
            if position + 1 < len(turns):  # to count events takes longer than all the rest
                event += sum(len(events(fact, turn.partition, event)) for fact in decode_facts(turn.facts))

    def _told(self, turn: RecordedTurn, event: int, *, has_base: bool, is_known: bool) -> Iterator[bytes]:
        name, facts = turn.partition, bytes(turn.facts)
        if turn.number is not None and name in self._copies:
            at = (turn.now_ns, turn.number)
            if at <= self.last[name]:
                return
            self.last[name] = at
            if has_base:
                yield encode(Renewed(name))
            yield encode(Turn(name, turn.number, turn.now_ns, bytes(turn.cause), checksum_of([facts]), event))
        elif facts != b"[]" and not is_known:
            yield encode(Facts(name, facts, event, turn.number or 0))
