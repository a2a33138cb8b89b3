"""The changes of records: texts in the table ``change`` with each transaction, later merged into the table ``record``.

To write a row of ``record`` costs as much as all the rest of a transaction for an ask, and most rows soon change again: an ask
gets its node, and an allocation ends. So ``record`` may be behind, and ``change`` has what is newer. Of what has changed several
times only the newest is written there.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice, repeat
from pathlib import Path
from sqlite3 import Connection

import msgspec

from ykactor.journal.errors import damaged
from ykactor.journal.transaction import changed_records, crc_of, record_crc

#: Records by key; None for one that is no more.
Records = dict[bytes, bytes | None]

# One statement for many rows: the global lock of Python is released once, and not for each row, after each of which a busy
# daemon would let it wait for 5 ms. Texts are bound as such: to cast them in SQLite takes twice as long as all the rest.
_PUT = "INSERT OR REPLACE INTO record(key, data, crc) SELECT * FROM (VALUES %s) WHERE column1 IS NOT NULL"
#: Rows in one statement, a power of two; SQLite lets a statement have 32,766 variables.
PUT_ROWS = 2_048
_DELETE = "DELETE FROM record WHERE key IN (SELECT value FROM json_each(CAST(? AS TEXT)))"
_CHANGES = "SELECT number, texts, crc FROM change WHERE number > ? AND number <= ? ORDER BY number"
_NUMBER_MAX = 2**63 - 1
_CHANGED_BYTES = "SELECT ifnull(sum(length(texts)), 0) FROM change"
_MERGED = "DELETE FROM change WHERE number <= ?"


def changed_bytes(connection: Connection) -> int:
    """The size of all changes. Raises:  sqlite3.Error."""
    ((size,),) = connection.execute(_CHANGED_BYTES)
    return int(size)


def packed_texts(number: int, packed: object, crc: int) -> list[bytes]:
    """The texts in a row of the table. Raises:  ValueError if it is not as it was written."""
    if not isinstance(packed, bytes) or crc_of(number, packed) != crc:
        raise ValueError(f"the changes of transaction {number} are not as they were written")
    return msgspec.msgpack.decode(packed, type=list[bytes])


def changed(connection: Connection, path: Path) -> Records:
    """The newest of all records in ``change``. Raises:  JournalError if a row is not as it was written, sqlite3.Error."""
    found: Records = {}
    for row in connection.execute(_CHANGES, (0, _NUMBER_MAX)):
        found.update(_changed_in(row, path))
    return found


def _changed_in(row: tuple[int, object, int], path: Path) -> list[tuple[bytes, bytes | None]]:
    try:
        texts = packed_texts(*row)
    except ValueError as error:
        raise damaged(path, str(error)) from None
    return list(chain.from_iterable(map(changed_records, texts)))


class Merge:
    """All changes that there are when it begins, on their way to ``record``; those that come meanwhile wait for the next one.

    First all are read, then all are written. Until they are written ``change`` keeps them: who reads both gets the newest,
    however far the merge has come.
    """

    def __init__(self, connection: Connection, path: Path, last: int) -> None:
        """``last`` is the newest transaction."""
        self._connection = connection
        self._path = path
        self._last = last
        #: The newest transaction whose changes were read, whether it was the last one, and what was found.
        self._read, self._has_all = 0, False
        self._found: Records = {}
        #: The records that are not written yet.
        self._left: list[tuple[bytes, bytes | None]] = []

    def read(self, most: int) -> bool:
        """Read transactions until they have so many changes; whether all are read. Raises:  as ``changed``."""
        if self._has_all:
            return True
        with closing(self._connection.execute(_CHANGES, (self._read, self._last))) as rows:
            for row in rows:
                records = _changed_in(row, self._path)
                self._found.update(records)
                self._read, most = row[0], most - len(records)
                if most <= 0:
                    return False
        self._left, self._found, self._has_all = list(self._found.items()), {}, True
        return True

    def write(self, most: int) -> None:
        """Write some of the records that are left, when all are read. In a transaction of the caller. Raises:  sqlite3.Error."""
        assert self._has_all, "what was not read would be lost"
        part = self._left[-most:]
        gone = [key for key, data in part if data is None]
        if gone:
            self._connection.execute(_DELETE, (b"[%b]" % b",".join(gone),))
        for statement, values in puts({key: data for key, data in part if data is not None}):
            self._connection.execute(statement, values)
        if len(part) == len(self._left):
            self._connection.execute(_MERGED, (self._last,))

    def written(self, most: int) -> bool:
        """Note that the transaction with ``write`` is committed; whether nothing is left."""
        del self._left[-most:]
        return not self._left


def puts(records: dict[bytes, bytes]) -> Iterator[tuple[str, list[object]]]:
    """Statements that write these records in the order of their keys, so that each page is written once, with their variables.

    Each is filled up with rows without a key to a power of two. So there are few different statements, which stay prepared: to
    prepare takes half as long as to execute, and a prepared statement has 300 bytes for each row.
    """
    sorted_keys = iter(sorted(records))
    while keys := list(islice(sorted_keys, PUT_ROWS)):
        data = [records[key] for key in keys]
        columns = zip(map(bytes.decode, keys), map(bytes.decode, data), map(record_crc, keys, data), strict=True)
        rows = 1 << (len(keys) - 1).bit_length()
        values = [*chain.from_iterable(columns), *repeat(None, 3 * (rows - len(keys)))]
        yield _PUT % ",".join(["(?,?,?)"] * rows), values


def updated(records: Iterable[tuple[bytes, bytes]], newer: Records) -> Iterator[tuple[bytes, bytes]]:
    """The records after newer changes."""
    yield from ((key, data) for key, data in records if key not in newer)
    yield from ((key, data) for key, data in newer.items() if data is not None)
