"""The acts of an operator on a journal: look at it, check it, export it, make it smaller, copy it, and restore a copy.

Only ``compact`` and ``restore`` need the daemon to be stopped.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import BinaryIO

import msgspec
from msgspec import Struct

from ykactor.journal import schema
from ykactor.journal.changes import packed_texts
from ykactor.journal.errors import JournalError, explained, is_full, one_line, write_error
from ykactor.journal.files import Seen, locked, sync
from ykactor.journal.reading import Reader, base_bytes
from ykactor.journal.transaction import LogRow, changed_records, crc_of, record_crc

#: Damages that SQLite names at most.
FOUND_MAX = 20
_BASES = "SELECT number, position, state, crc FROM base ORDER BY number, position"
_MENTIONS = "SELECT number, names, crc FROM mention ORDER BY number"
_TERMS = "SELECT number, first_transaction, first_event, first_message, nonce, crc FROM term"


class Info(Struct, frozen=True, rename="camel"):
    """A summary of a journal.

    Attributes:
        term: that of the last start; "" of a version that had none.
        first, last: the oldest and the newest transaction; 1 and 0 if there is none.
        first_ns, last_ns: their times (Unix); None if there is none.
        history_bytes: the size of the history with its bases, compressed.
        file_bytes, wal_bytes: the sizes of the database and of its write-ahead log.
        free_bytes: the part of the database that is used again, or given back by ``compact``.
        has_witness: whether it is known that no transaction came after the last one; False of a backup.
    """

    path: str
    version: int
    term: str
    created_ns: int
    records: int
    first: int
    last: int
    first_ns: int | None
    last_ns: int | None
    history_bytes: int
    file_bytes: int
    wal_bytes: int
    free_bytes: int
    has_witness: bool


def info(source: Path) -> Info:
    """Looks at the journal in a directory, or at a backup. Raises:  JournalError."""
    with Reader.open(source) as reader, explained(reader.path):
        terms = [str(beginning.term) for beginning in reader.beginnings()]
        first, last = reader.numbers()
        oldest, newest = next(reader.rows(first), None), next(reader.rows_backwards(), None)
        ((free_pages,),) = reader.connection.execute("PRAGMA freelist_count")
        ((page_bytes,),) = reader.connection.execute("PRAGMA page_size")
        return Info(
            path=str(reader.path),
            version=reader.version,
            term=terms[-1] if terms else "",
            created_ns=schema.created_ns(reader.connection, reader.path),
            records=sum(1 for _ in reader.records()),
            first=first,
            last=last,
            first_ns=None if oldest is None else oldest.at_ns,
            last_ns=None if newest is None else newest.at_ns,
            history_bytes=_history_bytes(reader, oldest, newest),
            file_bytes=_size(reader.path),
            wal_bytes=_size(reader.path.with_name(f"{reader.path.name}-wal")),
            free_bytes=free_pages * page_bytes,
            has_witness=not _seen(source).is_missing,
        )


def _history_bytes(reader: Reader, oldest: LogRow | None, newest: LogRow | None) -> int:
    if oldest is None or newest is None:
        return 0
    return newest.end_byte - oldest.first_byte + (base_bytes(reader.connection, newest.number) if reader.has_bases else 0)


def verify(source: Path) -> Iterator[str]:
    """Reads the whole journal in a directory, or a backup, and says all that is wrong, a sentence each.

    That there is no witness is not wrong: a backup has none.

    Raises:  JournalError if the journal cannot be opened at all.
    """
    seen = _seen(source)
    checks: dict[str, Callable[[sqlite3.Connection], Iterator[str]]]
    checks = {"pages": _pages, "records": _records, "history": _history}
    with Reader.open(source) as reader:
        if reader.has_bases:
            checks["bases"] = partial(_by_crc, _BASES, "a base of transaction {} is not as it was written")
            checks["names"] = partial(_by_crc, _MENTIONS, "the names of transaction {} are not as they were written")
        if reader.has_changes:
            checks["changes"] = _changes
        if reader.has_terms:
            checks["terms"] = partial(_by_crc, _TERMS, "term {} is not as it was written")
        for part, check in checks.items():
            try:
                yield from check(reader.connection)
            except sqlite3.Error as error:
                yield f"the {part} cannot be read: {one_line(str(error))}"
        with suppress(JournalError):  # that the history cannot be read was said above
            loss = seen.loss(reader.numbers()[1], [beginning.term for beginning in reader.beginnings()])
            if loss and not seen.is_missing:
                yield loss


def export_history(directory: Path, output: BinaryIO) -> None:
    """Writes a line of JSON for each turn: ``{"transaction": number, "turn": ...}``. Raises:  JournalError, OSError."""
    with Reader.open(directory) as reader:
        for row in reader.rows():
            for turn in row.turns():
                output.write(b'{"transaction":%d,"turn":%b}\n' % (row.number, turn))


def export_records(directory: Path, output: BinaryIO) -> None:
    """Writes a line of JSON for each record: ``{"key": [...], "data": {...}}``. Raises:  JournalError, OSError."""
    with tempfile.TemporaryFile() as copy:
        with Reader.open(directory) as reader:
            for key, data in reader.records():
                copy.write(b'{"key":%b,"data":%b}\n' % (key, data))
        copy.seek(0)
        shutil.copyfileobj(copy, output)  # which may be slow: while records are read, a daemon cannot empty its write-ahead log


def compact(directory: Path) -> tuple[int, int]:
    """Writes the database anew without free pages; needs as much room again. Returns its size before and after.

    Raises:  JournalError, also if a daemon runs.
    """
    path = directory / schema.NAME
    Reader.open(directory).close()  # a directory without a journal stays as it is
    with explained(path), locked(directory), closing(schema.connect(path, "rw")) as connection:
        schema.recognise(connection, path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        before = _size(path)
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return before, _size(path)


def backup(directory: Path, target: Path) -> None:
    """Copies the journal, as it is at one moment, to a new file, for ``restore``. The daemon may go on meanwhile.

    Raises:  JournalError, OSError if the file exists or cannot be created.
    """
    with Reader.open(directory) as reader:
        _copy_to(target, reader)
    sync(target.parent)


def restore(source: Path, directory: Path) -> Info:
    """Makes a backup the journal of a new state directory, or of an empty one, and returns what it holds.

    A daemon that starts there has all that the backup has, and begins another term.

    Raises:  JournalError if the backup is damaged, or there is a journal, or a daemon, in the directory; OSError.
    """
    path = directory / schema.NAME
    with Reader.open(source) as reader:
        problem = next(verify(source), "")
        if problem:
            raise JournalError(f"{source}: found damage: {problem}; 'ykactor journal verify {source}' lists all of it")
        with locked(directory):
            for file in (path, path.with_name(f"{path.name}-wal"), Seen.of(directory).path):
                if file.exists():
                    raise JournalError(f"{file}: found a journal, expected a new or an empty directory; move the journal away")
            new = path.with_name(f"{path.name}.new")
            new.unlink(missing_ok=True)
            _copy_to(new, reader)
            new.rename(path)
            sync(directory)
        return info(source)


def _copy_to(target: Path, reader: Reader) -> None:
    """Copies a journal to a new file, which is on the disk when the call returns, or is not there after an error."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with explained(reader.path), closing(schema.connect(target, "rw")) as copy:
            _copy(reader.connection, copy, target)
        sync(target)
    except BaseException:
        target.unlink()
        raise


def _copy(source: sqlite3.Connection, copy: sqlite3.Connection, target: Path) -> None:
    try:
        source.backup(copy)
    except sqlite3.Error as error:
        raise write_error(error, target) if is_full(error, target) else error from None


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    for (verdict,) in connection.execute(f"PRAGMA integrity_check({FOUND_MAX})"):
        if verdict != b"ok":
            yield one_line(verdict.decode(errors="replace"))


def _records(connection: sqlite3.Connection) -> Iterator[str]:
    for key, data, crc in connection.execute("SELECT key, data, crc FROM record"):
        name = key.decode(errors="replace")
        if not isinstance(data, bytes) or record_crc(key, data) != crc:
            yield f"the record {name} is not as it was written"
        elif not (_is_json(key, list) and _is_json(data, dict | list)):
            yield f"the record {name} is no JSON"


def _changes(connection: sqlite3.Connection) -> Iterator[str]:
    for number, packed, crc in connection.execute("SELECT number, texts, crc FROM change ORDER BY number"):
        try:
            texts = packed_texts(number, packed, crc)
        except ValueError as error:
            yield str(error)
        else:
            for key, data in chain.from_iterable(map(changed_records, texts)):
                if not (_is_json(key, list) and (data is None or _is_json(data, dict | list))):
                    yield f"the record {key.decode(errors='replace')} of transaction {number} is no JSON"


def _history(connection: sqlite3.Connection) -> Iterator[str]:
    expected = None
    for columns in connection.execute("SELECT * FROM log ORDER BY number"):
        try:
            row = LogRow.of(columns)
        except ValueError as error:
            yield str(error)
        else:
            if not all(_is_json(turn, dict) for turn in row.turns()):
                yield f"transaction {row.number} has a turn that is no JSON"
        number = columns[0]
        if expected not in (None, number):
            yield f"transactions {expected} to {number - 1} are missing"
        expected = number + 1


def _by_crc(select: str, wrong: str, connection: sqlite3.Connection) -> Iterator[str]:
    """Check rows whose last column is the CRC of those before; ``wrong`` says with its first column that one is not."""
    for *columns, crc in connection.execute(select):
        if not isinstance(columns[-1], bytes) or crc_of(*columns) != crc:
            yield wrong.format(columns[0])


def _is_json(text: bytes, kind: type | UnionType) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), kind)
    except msgspec.DecodeError:
        return False


def _seen(source: Path) -> Seen:
    """The witness of a journal; a backup has none."""
    if source.is_dir():
        return Seen.of(source)
    return Seen.of(source.parent) if source.name == schema.NAME else Seen(source, True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
