"""Files that somebody changes under the writer: nothing is acknowledged any more (DU-11), and what is whole is found (DU-12)."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from journals import compact_json, copied, key_of, numbered, opened, records_of, states, texts, turns_of
from seeds import seeds

from ykactor.journal.errors import DiskError
from ykactor.journal.store import Store

LAST = 24
STATES = states(LAST)


def cut(size: int) -> Callable[[Path], None]:
    """Cut a file off, at a number of bytes from its end if that is below 0."""

    def act(path: Path) -> None:
        with path.open("r+b") as file:
            file.truncate(size if size >= 0 else path.stat().st_size + size)

    return act


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    """Replace a file by a copy with its own content."""
    content = path.read_bytes()
    path.rename(path.with_name("mine"))
    path.write_bytes(content)


CHANGES = {
    "removed": remove,
    "replaced": replace,
    "emptied": cut(0),
    "cut short": cut(-100),
    "cut": cut(-5000),
    "halved": cut(9000),
}


def committed(store: Store, first: int, last: int) -> None:
    for number in range(first, last + 1):
        store.commit(numbered(number))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
def test_nothing_is_acknowledged_after_a_change(tmp_path: Path, name: str, change: str) -> None:
    """The next commit fails, and every later one; the next start has all that is whole, or refuses, and says what is lost."""
    store = opened(tmp_path)
    committed(store, 1, 8)
    store.checkpoint()
    committed(store, 9, 12)
    CHANGES[change](tmp_path / name)
    found = rf"^{tmp_path / name}: found it (removed|replaced|removed or replaced|cut off .*) under"
    for _ in range(2):
        with pytest.raises(DiskError, match=found):
            store.commit(numbered(13))
    with pytest.raises(DiskError):
        store.checkpoint()
    store.close()
    if name == "journal.db":
        return  # damaged, or missing: refused as ever
    again = opened(tmp_path)
    assert 8 <= again.number <= 13
    assert records_of(tmp_path) == STATES[again.number]
    lost = f"transactions {again.number + 1} to 12 were committed, but are not in the journal any more"
    assert again.number >= 12 or again.loss == lost
    again.close()


@pytest.mark.parametrize("at", ["begin", "commit"])
@pytest.mark.parametrize("change", ["removed", "replaced", "emptied", "cut short", "halved"])
def test_a_change_in_the_middle_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, at: str) -> None:
    """The transaction is not acknowledged if the log changes before it is written, or before what was written is checked."""
    store = opened(tmp_path)
    committed(store, 1, 6)
    connection = store._connection

    class Changing:
        """Changes the log at this statement."""

        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            done = connection.execute(sql, *values)
            if sql.lower().startswith(at):
                CHANGES[change](tmp_path / "journal.db-wal")
            return done

        def __getattr__(self, name: str) -> object:
            return getattr(connection, name)

    monkeypatch.setattr(store, "_connection", Changing())
    with pytest.raises(DiskError, match="under the daemon that writes to it"):
        store.commit(numbered(7))
    monkeypatch.undo()
    store.close()
    again = opened(tmp_path)
    assert records_of(tmp_path) == STATES[again.number]
    again.close()


@pytest.mark.parametrize("seed", seeds(3))
def test_what_the_writer_does_itself_is_no_change(tmp_path: Path, seed: int) -> None:
    """Checkpoints, also while somebody reads, transactions that find no room, deletions, and the logs of killed daemons."""
    rng = random.Random(seed)
    store = opened(tmp_path / "0")
    readers: list[sqlite3.Connection] = []
    ((room,),) = store._connection.execute("PRAGMA max_page_count")
    number = 0
    for step in range(120):
        match rng.randrange(9):
            case 0:
                store.checkpoint()
            case 1:
                reader = sqlite3.connect(f"file:{store._path}?mode=ro", uri=True, isolation_level=None)
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM log").fetchall()
                readers.append(reader)
            case 2:
                while readers:
                    readers.pop().close()
            case 3:
                store.trim(20_000, 10**18, 0)
            case 4:  # a part of it is written to the log before there is no room
                ((pages,),) = store._connection.execute("PRAGMA page_count")
                store._connection.execute(f"PRAGMA max_page_count={pages + 40}")
                batch = numbered(number + 1)
                batch.changes = texts({key_of(f"{name}"): compact_json({"text": "x" * 3000}) for name in range(1000)})
                with suppress(Exception):
                    store.commit(batch)
                store._connection.execute(f"PRAGMA max_page_count={room}")
                assert store.number == number
            case 5 if step % 3 == 0:
                while readers:
                    readers.pop().close()
                died = copied(store._path.parent, tmp_path / str(step + 1))
                store.close()
                with (died / "journal.db-wal").open("ab") as file:
                    file.write(rng.randbytes(rng.randint(0, 9000)))  # of a transaction that was not committed
                store = opened(died)
                assert store.loss == ""
            case _:
                number = store.commit(numbered(number + 1))
    while readers:
        readers.pop().close()
    store.close()
    assert turns_of(store._path.parent)[-1] == (number, numbered(number).turns)


def test_a_failed_writer_leaves_its_files(tmp_path: Path) -> None:
    """SQLite copies the log into the database when it is closed: with a gap in it that would damage the database."""
    store = opened(tmp_path)
    committed(store, 1, 8)
    store.checkpoint()
    committed(store, 9, LAST)
    cut(6000)(tmp_path / "journal.db-wal")
    with pytest.raises(DiskError):
        store.commit(numbered(LAST))
    before = (tmp_path / "journal.db").read_bytes()
    store.close()
    assert (tmp_path / "journal.db").read_bytes() == before
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
