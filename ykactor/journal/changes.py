"""The changes of records: texts in the table ``change`` with each transaction, later merged into the table ``record``.

To write a row of ``record`` costs as much as all the rest of a transaction for an ask, and most rows soon change again: an ask
gets its node, and an allocation ends. So ``record`` may be behind, and ``change`` has what is newer. Of what has changed several
times only the newest is written there.
"""

from collections.abc import Iterable, Iterator
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
_CHANGES = "SELECT number, texts, crc FROM change ORDER BY number"
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
    for row in connection.execute(_CHANGES):
        try:
            texts = packed_texts(*row)
        except ValueError as error:
            raise damaged(path, str(error)) from None
        for text in texts:
            found.update(changed_records(text))
    return found


class Merge:
    """All changes that there are when it begins, on their way to ``record``; those that come meanwhile wait for the next one.

    Until all of them are there ``change`` keeps them: who reads both gets the newest, however far the merge has come.
    """

    def __init__(self, connection: Connection, path: Path, last: int) -> None:
        """Read the changes; ``last`` is the newest transaction. Raises:  as ``changed``."""
        self._connection = connection
        self._last = last
        self._left = list(changed(connection, path).items())

    def write(self, most: int) -> None:
        """Write some of the records that are left. In a transaction of the caller. Raises:  sqlite3.Error."""
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
