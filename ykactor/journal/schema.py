"""The database of a journal: how it is made, recognised, and brought from an older version to the present one."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from ykactor.journal.errors import JournalError, damaged
from ykactor.journal.files import sync

#: In the header of the file, so that a database of another program is recognised: "YkAc".
APPLICATION_ID = 0x596B4163
#: The name of the database in its directory.
NAME = "journal.db"

#: The time that a statement waits for the lock of another program.
BUSY_MS = 5000

#: The n-th entry makes version n of version n - 1; the first makes it of an empty file. What was released never changes.
#: The version is also that of what rows, facts and causes say: a program refuses a journal of a later version, because it would
#: drop what it does not know. So a version that keeps something new has an entry, if need be an empty one.
#: ``crc`` is the CRC-32 of the other columns (``transaction.py``): SQLite has none. ``first_byte`` counts the bytes of both blobs
#: and of bases from the first row ever written on, so that the size of the history is a difference.
VERSIONS = (
    (
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE record(key TEXT PRIMARY KEY, data TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID",
        (
            "CREATE TABLE log(number INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, first_event INTEGER NOT NULL, "
            "events_count INTEGER NOT NULL, first_message INTEGER NOT NULL, messages_count INTEGER NOT NULL, "
            "first_byte INTEGER NOT NULL, turns BLOB NOT NULL, messages BLOB NOT NULL, crc INTEGER NOT NULL)"
        ),
    ),
    (
        (
            "CREATE TABLE base(number INTEGER NOT NULL, position INTEGER NOT NULL, state BLOB NOT NULL, crc INTEGER NOT NULL, "
            "PRIMARY KEY(number, position)) WITHOUT ROWID"
        ),
        "CREATE TABLE mention(number INTEGER PRIMARY KEY, names BLOB NOT NULL, crc INTEGER NOT NULL)",
    ),
    (
        (
            "CREATE TABLE term(number INTEGER PRIMARY KEY, first_transaction INTEGER NOT NULL, first_event INTEGER NOT NULL, "
            "first_message INTEGER NOT NULL, nonce TEXT NOT NULL, crc INTEGER NOT NULL)"
        ),
        "ALTER TABLE log ADD COLUMN term INTEGER NOT NULL DEFAULT 0",
        "DELETE FROM meta WHERE key = 'instance'",
    ),
    (),  # an ask in a row or a fact has its stamps itself
    ("CREATE TABLE change(number INTEGER PRIMARY KEY, texts BLOB NOT NULL, crc INTEGER NOT NULL)",),
)
VERSION = len(VERSIONS)


def connect(path: Path, mode: Literal["ro", "rw", "ro&immutable=1"]) -> sqlite3.Connection:
    """A connection to an existing database; texts are bytes. Transactions are begun and ended by hand.

    Args:  mode: immutable is for a file that nobody writes: SQLite then puts no files beside it.
    """
    uri = f"file:{quote(os.fsencode(path))}?mode={mode}"
    connection = sqlite3.connect(uri, timeout=BUSY_MS / 1000, uri=True, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes
    return connection


def refuse_rest(path: Path) -> None:
    """Raises ``JournalError`` if there is a write-ahead log of a database that is missing."""
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists():
        raise JournalError(f"{wal}: found without {path.name}, expected both or none; put {path.name} back, or remove the other")


def create(path: Path, now_ns: int) -> None:
    """Makes an empty journal. It has its name when it is complete, so no half of one is ever found.

    Raises:  sqlite3.Error, OSError.
    """
    new = path.with_name(f"{path.name}.new")
    for rest in path.parent.glob(f"{new.name}*"):
        rest.unlink()
    os.close(os.open(new, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite gives its other files the same mode
    with closing(connect(new, "rw")) as connection:
        connection.execute("PRAGMA synchronous=OFF")  # it is synced as a whole
        _upgrade(connection, 0)
        connection.execute("INSERT INTO meta VALUES('created_ns', ?)", (str(now_ns),))
        connection.execute("PRAGMA journal_mode=WAL")
    sync(new)
    new.rename(path)
    sync(path.parent)


def recognise(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the database, which is not changed.

    Raises:  JournalError if it is no journal, or one of a newer program; sqlite3.Error.
    """
    ((application_id,),) = connection.execute("PRAGMA application_id")
    if application_id != APPLICATION_ID:
        raise JournalError(
            f"{path}: found a database of another program (application id {application_id}), expected a journal of ykactor "
            f"({APPLICATION_ID}); move the file away, or use another directory"
        )
    ((version,),) = connection.execute("PRAGMA user_version")
    if version > VERSION:
        raise JournalError(
            f"{path}: found version {version} of the journal, expected at most {VERSION}; start the newer program that wrote it, "
            "or use another directory"
        )
    if version < 1 or _tables(connection) != _tables_of(version):
        raise damaged(path, f"the tables are not those of version {version}")
    return int(version)


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Brings a database to the present version, in one transaction. Raises:  JournalError, sqlite3.Error."""
    version = recognise(connection, path)
    if version < VERSION:
        _upgrade(connection, version)


def created_ns(connection: sqlite3.Connection, path: Path) -> int:
    """The Unix time at which the journal was made. Raises:  JournalError if it is damaged, sqlite3.Error."""
    found = dict(connection.execute("SELECT key, value FROM meta")).get(b"created_ns", b"")
    if not found.isdigit():
        raise damaged(path, "the table meta is not as it was written")
    return int(found)


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statements in VERSIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("COMMIT")


def _tables_of(version: int) -> list[bytes]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.text_factory = bytes
        for statements in VERSIONS[:version]:
            for statement in statements:
                connection.execute(statement)
        return _tables(connection)


def _tables(connection: sqlite3.Connection) -> list[bytes]:
    return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema ORDER BY name")]
