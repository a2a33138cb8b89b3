"""Copies of the rest of a history, for standbys: all records, and the history after a transaction (DU-20).

Such a copy is a database with the tables of a journal. It is made while the daemon commits, and is the rest of the history as it
is at one moment.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ykactor.journal import schema
from ykactor.journal.errors import explained

#: The tables of which a standby has the beginning, and those that it takes over as they are.
_HISTORY = ("log", "base", "mention")
_STATE = ("record", "term")


def attach(connection: sqlite3.Connection, path: Path, name: str) -> None:
    """Let statements read another database, by a name. Raises:  sqlite3.Error."""
    connection.execute(f"ATTACH ? AS {name}", (f"file:{quote(os.fsencode(path))}?mode=ro",))


def copy_rest(directory: Path, target: Path, number: int) -> int:
    """Copy the history of the journal in a directory after a transaction, with all records, to a new file.

    Returns the newest transaction.

    Cost: as much room as all of this has.  Raises:  JournalError.
    """
    with explained(target):
        schema.create(target, 0)
        with closing(schema.connect(target, "rw")) as connection:
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
