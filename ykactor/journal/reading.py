"""Readers of a journal: for recovery, replay, stories and the commands; also while a daemon writes, in any process.

Memory does not grow with the history. Everything is checked as it is read: what is returned is what was written.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Self

from ykactor.journal import schema
from ykactor.journal.changes import changed, updated
from ykactor.journal.errors import JournalError, damaged, explained
from ykactor.journal.terms import Beginning, read_beginnings
from ykactor.journal.transaction import LogRow, crc_of, packed_name, record_crc

#: Rows of the history that one transaction reads. A writer cannot empty its write-ahead log while a reader is in a transaction.
PAGE_ROWS = 64

# Two statements in one: SQLite finds a single minimum or maximum at once, but reads the whole table for both together.
_NUMBERS = "SELECT ifnull((SELECT min(number) FROM log), 1), ifnull((SELECT max(number) FROM log), 0)"
_BASES = "SELECT number, position, state, crc FROM base WHERE number = ? ORDER BY position"
_BASE_NUMBERS = "SELECT DISTINCT number FROM base ORDER BY number"
_BASE_POSITIONS = "SELECT position FROM base WHERE number = ?"
_BASE_BYTES = "SELECT ifnull(sum(length(state)), 0) FROM base WHERE number = ?"
_MENTIONS = "SELECT number FROM mention WHERE number >= ? AND instr(names, ?) ORDER BY number"
_RECORDS = "SELECT key, data, crc FROM record WHERE key >= CAST(? AS TEXT) AND key < CAST(? AS TEXT)"
_TIME = "SELECT at_ns FROM log WHERE number >= ? ORDER BY number LIMIT 1"
_EVENT = "SELECT first_event FROM log WHERE number >= ? ORDER BY number LIMIT 1"


def base_bytes(connection: sqlite3.Connection, number: int) -> int:
    """The size of the bases of a transaction, compressed. Raises:  sqlite3.Error."""
    ((size,),) = connection.execute(_BASE_BYTES, (number,))
    return int(size)


def _after(prefix: bytes) -> bytes:
    """The first key after all that begin with ``prefix``."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


class Reader:
    """A connection that only reads; use ``open``, and ``with`` or ``close``.

    Attributes:
        connection: for statements that read.
        path: the database.
        version: of the journal.
        has_bases: whether it has bases and names, as from version 2 on.
        has_terms: whether it has terms, as from version 3 on.
        has_changes: whether it has changes of records beside the records, as from version 5 on.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, version: int) -> None:
        self.connection = connection
        self.path = path
        self.version = version
        self.has_bases = version > 1
        self.has_terms = version > 2
        self.has_changes = version > 4

    @classmethod
    def open(cls, source: Path) -> Self:
        """Opens the journal in a directory, or a backup. Raises:  JournalError if there is none, or it cannot be read."""
        path = source if source.is_file() else source / schema.NAME
        if not path.exists():
            raise JournalError(f"{source}: found no {schema.NAME}, expected the state directory of a daemon")
        with explained(path), ExitStack() as stack:
            is_backup = path.name != schema.NAME
            connection = stack.enter_context(closing(schema.connect(path, "ro&immutable=1" if is_backup else "ro")))
            reader = cls(connection, path, schema.recognise(connection, path))
            stack.pop_all()
            return reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()

    def records(self, prefix: bytes = b"[", without: Sequence[bytes] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Key and data of all records whose keys begin with ``prefix``, in no order, as at the first step.

        Memory: all changes that are not in the table of records yet.  Raises:  JournalError if a record is not as it was written.

        Args:
            without: longer prefixes of keys that are left out.
        """
        with explained(self.path), self._moment():
            newer = changed(self.connection, self.path) if self.has_changes else {}
            left_out = tuple(without)
            newer = {key: data for key, data in newer.items() if key.startswith(prefix) and not key.startswith(left_out)}
            yield from updated(self._stored(prefix, sorted(without)), newer)

    @contextmanager
    def _moment(self) -> Iterator[None]:
        """A block that reads everything as of one moment."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("COMMIT")

    def _stored(self, prefix: bytes, without: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The rows of the table of records."""
        ranges = zip([prefix, *map(_after, without)], [*without, _after(prefix)], strict=True)
        for key, data, crc in chain.from_iterable(self.connection.execute(_RECORDS, each) for each in ranges):
            if not isinstance(data, bytes) or record_crc(key, data) != crc:
                raise damaged(self.path, f"the record {key.decode(errors='replace')} is not as it was written")
            yield key, data

    def rows(self, first: int = 1) -> Iterator[LogRow]:
        """The transactions from number ``first`` on, as far as they have not been deleted, up to the newest.

        Raises:  JournalError if a row is missing, or not as it was written.
        """
        while page := self._page("number >= ? ORDER BY number", first):
            for row in page:
                if row.number != first and row.number != self.numbers()[0]:
                    raise damaged(self.path, f"transaction {first} is missing")
                first = row.number + 1
                yield row

    def rows_backwards(self) -> Iterator[LogRow]:
        """The transactions from the newest to the oldest.

        Raises:  JournalError if a row is missing, or not as it was written.
        """
        last = self.numbers()[1]
        while page := self._page("number <= ? ORDER BY number DESC", last):
            for row in page:
                if row.number != last:
                    raise damaged(self.path, f"transaction {last} is missing")
                last -= 1
                yield row

    def bases(self, number: int) -> dict[int, bytes]:
        """The states that a transaction has, each before the turn at a position of its turns.

        Raises:  JournalError if one is not as it was written.
        """
        found: dict[int, bytes] = {}
        if not self.has_bases:
            return found
        with explained(self.path):
            for *columns, crc in self.connection.execute(_BASES, (number,)).fetchall():
                if crc_of(*columns) != crc:
                    raise damaged(self.path, f"a base of transaction {number} is not as it was written")
                found[columns[1]] = zlib.decompress(columns[2])
        return found

    def base_numbers(self) -> list[int]:
        """The transactions that have states, in their order. Raises:  JournalError."""
        with explained(self.path):
            return [number for (number,) in self.connection.execute(_BASE_NUMBERS)] if self.has_bases else []

    def base_positions(self, number: int) -> set[int]:
        """The positions of the turns of a transaction before which it has a state. Raises:  JournalError."""
        with explained(self.path):
            return {position for (position,) in self.connection.execute(_BASE_POSITIONS, (number,))} if self.has_bases else set()

    def mentions(self, name: str, first: int = 1) -> list[int]:
        """The transactions from ``first`` on that are about a name, and seldom another one. Version 1 has none.

        Cost: reads 4 bytes for each name of each transaction.  Raises:  JournalError.
        """
        if not self.has_bases:
            return []
        with explained(self.path):
            return [number for (number,) in self.connection.execute(_MENTIONS, (first, packed_name(name)))]

    def beginnings(self) -> list[Beginning]:
        """The terms that are remembered, the oldest first; versions before 3 have none. Raises:  JournalError."""
        with explained(self.path):
            return read_beginnings(self.connection, self.path) if self.has_terms else []

    def row(self, number: int) -> LogRow | None:
        """One transaction; None if it has been deleted.  Raises:  JournalError if it is not as it was written."""
        return next(iter(self._page("number = ?", number)), None)

    def number_at(self, at_ns: int) -> int:
        """The first transaction at or after a time; one more than the newest if all are earlier. For ``rows``.

        Times do not fall from one transaction to the next.  Cost: O(log n).  Raises:  JournalError.
        """
        return self._first_at(_TIME, at_ns)

    def number_of(self, event: int) -> int:
        """The last transaction that begins with this event or an earlier one; one less than the oldest if none does.

        Cost: O(log n).  Raises:  JournalError.
        """
        return self._first_at(_EVENT, event + 1) - 1

    def _first_at(self, statement: str, least: int) -> int:
        """The first transaction of which a column that never falls is at least so large; one more than the newest if none is."""
        low, high = self.numbers()
        high += 1
        while low < high:
            middle = (low + high) // 2
            with explained(self.path):
                ((found,),) = self.connection.execute(statement, (middle,))
            if found < least:
                low = middle + 1
            else:
                high = middle
        return low

    def numbers(self) -> tuple[int, int]:
        """The oldest and the newest transaction that is kept; (1, 0) if there is none. Raises:  JournalError."""
        with explained(self.path):
            ((oldest, newest),) = self.connection.execute(_NUMBERS)
        return oldest, newest

    def _page(self, which: str, number: int) -> list[LogRow]:
        with explained(self.path):
            page = self.connection.execute(f"SELECT * FROM log WHERE {which} LIMIT {PAGE_ROWS}", (number,)).fetchall()
        try:
            return [LogRow.of(columns) for columns in page]
        except ValueError as error:
            raise damaged(self.path, str(error)) from None
