"""Copies of the rest of a history, for standbys: all records, and the history after a transaction (DU-20).

Such a copy is a database with the tables of a journal. It is made while the daemon commits, and is the rest of the history as it
is at one moment.
"""

import os
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import quote

from ykactor.journal import schema
from ykactor.journal.errors import NotWrittenError, explained

#: The room on the disk that a copy leaves to the journal, in bytes, and how many steps of SQLite are between two looks at it.
LEFT_BYTES = 2**26
_STEPS = 10_000
#: The tables of which a standby has the beginning, and those that it takes over as they are.
_HISTORY = ("log", "base", "mention")
_STATE = ("record", "change", "term")


def attach(connection: sqlite3.Connection, path: Path, name: str) -> None:
    """Let statements read another database, by a name. Raises:  sqlite3.Error."""
    connection.execute(f"ATTACH ? AS {name}", (f"file:{quote(os.fsencode(path))}?mode=ro",))


def copy_rest(directory: Path, target: Path, number: int) -> int:
    """Copy the history of the journal in a directory after a transaction, with all records, to a new file.

    Returns the newest transaction.

    Cost: as much room as all of this has.

    Raises:  NotWrittenError if the disk has no such room beside what the journal needs; JournalError.
    """
    _check_room(directory)
    with explained(target):
        schema.create(target, 0)
        with closing(schema.connect(target, "rw")) as connection:
            connection.set_progress_handler(partial(_has_too_little, directory), _STEPS)
            connection.execute("PRAGMA journal_mode=OFF").fetchall()
            connection.execute("PRAGMA synchronous=OFF")
            attach(connection, directory / schema.NAME, "source")
            connection.execute("BEGIN")
            for table in _STATE:
                connection.execute(f"DELETE FROM main.{table}")
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM source.{table}")
            for table in _HISTORY:
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM source.{table} WHERE number > ?", (number,))
            ((newest,),) = connection.execute("SELECT ifnull(max(number), ?) FROM main.log", (number,))
            connection.execute("COMMIT")
            return int(newest)


def _check_room(directory: Path) -> None:
    """Refuse to begin a copy that might fill the disk. Raises:  NotWrittenError."""
    needed = sum(file.stat().st_size for file in directory.glob(f"{schema.NAME}*")) + LEFT_BYTES
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise NotWrittenError(f"found {free} bytes free for a copy, expected {needed}")


def _has_too_little(directory: Path) -> bool:
    """True if the disk has filled meanwhile; SQLite then ends the copy, whose file goes."""
    return shutil.disk_usage(directory).free < LEFT_BYTES


def take_over(connection: sqlite3.Connection) -> None:
    """Take over the attached database ``copy``. In a transaction of the caller. Raises:  sqlite3.Error.

    History that is older than a gap is deleted: the daemon has deleted it too.
    """
    for table in _STATE:
        connection.execute(f"DELETE FROM main.{table}")
        connection.execute(f"INSERT INTO main.{table} SELECT * FROM copy.{table}")
    ((first,),) = connection.execute("SELECT min(number) FROM copy.log")
    ((last,),) = connection.execute("SELECT max(number) FROM main.log")
    for table in _HISTORY:
        if first is not None and last is not None and first > last + 1:
            connection.execute(f"DELETE FROM main.{table}")
        connection.execute(f"INSERT INTO main.{table} SELECT * FROM copy.{table}")
