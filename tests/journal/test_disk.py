"""A disk that is full, and goes on when there is room; a disk that fails, and is never written again."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from journals import ENVIRONMENT, PYTHON, batch, compact_json, copied, key_of, numbered, opened, records_of, states, turns_of

from ykactor.journal.errors import DiskError, NotWrittenError
from ykactor.journal.store import Store

LARGE = {key_of(0): compact_json({"text": "x" * 1_000_000})}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A journal with three transactions."""
    store = opened(tmp_path)
    for number in range(1, 4):
        store.commit(numbered(number))
    yield store
    store.close()


@contextmanager
def replaced(path: Path, device: str, flags: int) -> Iterator[None]:
    """Meanwhile what this process writes to an open file goes to a device."""
    files = [int(link.name) for link in Path("/proc/self/fd").iterdir() if link.exists() and link.resolve() == path]
    kept, other = {file: os.dup(file) for file in files}, os.open(device, flags)
    for file in files:
        os.dup2(other, file)
    yield
    for file, copy in kept.items():
        os.dup2(copy, file)
        os.close(copy)
    os.close(other)


def check(directory: Path, last: int) -> None:
    """The journal holds ``numbered`` 1 to ``last``, and nothing of what failed."""
    assert records_of(directory) == states(last)[last]
    assert turns_of(directory) == [(number, numbered(number).turns) for number in range(1, last + 1)]


def test_a_lock_of_another_program(store: Store, tmp_path: Path) -> None:
    """Nothing is written while it is held, and the same batch is when it is not: nothing is wrong with the disk."""
    store._connection.execute("PRAGMA busy_timeout=10")
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(NotWrittenError, match="another program that writes to it"):
            store.commit(numbered(4))
        check(tmp_path, 3)
    store.commit(numbered(4))
    check(tmp_path, 4)


def test_a_full_database(store: Store, tmp_path: Path) -> None:
    """Nothing of the batch is written, it may be tried again, and numbers have no gap."""
    ((pages,),) = store._connection.execute("PRAGMA page_count")
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    large = batch(4, LARGE)
    for _ in range(3):
        with pytest.raises(NotWrittenError, match=r"journal\.db: found no room on the disk .*; free some, nothing is lost"):
            store.commit(large)
        check(tmp_path, 3)
    store._connection.execute("PRAGMA max_page_count=1000000")
    assert store.commit(large) == 4
    assert records_of(tmp_path)[key_of(0)] == LARGE[key_of(0)]


def test_a_full_device(store: Store, tmp_path: Path) -> None:
    """The same if the system says that there is no room, in the middle of a commit or of a checkpoint."""
    with replaced(tmp_path / "journal.db-wal", "/dev/full", os.O_RDWR), pytest.raises(NotWrittenError):
        store.commit(numbered(4))
    assert store.commit(numbered(4)) == 4
    with replaced(tmp_path / "journal.db", "/dev/full", os.O_RDWR):
        with pytest.raises(NotWrittenError):
            store.checkpoint()
        assert store.commit(numbered(5)) == 5  # there is still room in the write-ahead log
    store.checkpoint()
    check(tmp_path, 5)


def test_a_witness_that_cannot_be_written(store: Store, tmp_path: Path) -> None:
    """A transaction whose witness cannot be written is durable all the same: it must not be tried again."""
    with replaced(tmp_path / "witness", "/dev/full", os.O_RDWR):
        assert store.commit(numbered(4)) == 4
    check(tmp_path, 4)
    store.close()
    again = opened(tmp_path)
    assert (again.number, again.loss) == (4, "")
    again.close()


FILL = """
import resource, sys, pathlib, journals
from ykactor.journal.errors import NotWrittenError
store = journals.opened(pathlib.Path(sys.argv[1]))
def commit_until_full():
    while True:
        try:
            store.commit(journals.numbered(store.number + 1))
        except NotWrittenError as error:
            print(store.number, flush=True)
            return
for limit in (150_000, 150_000, 300_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
    commit_until_full()
"""


def test_files_of_limited_size(tmp_path: Path) -> None:
    """A limit of the system for a file (or a quota) is like a full disk: it goes on when there is room."""
    child = subprocess.run([PYTHON, "-c", FILL, tmp_path], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    first, second, third = map(int, child.stdout.split())
    assert 3 < first == second < third
    check(tmp_path, third)
    store = opened(tmp_path)
    assert (store.number, store.loss) == (third, "")
    store.close()


def test_a_failing_disk(store: Store, tmp_path: Path) -> None:
    """After an error that is not for want of room nothing is written any more: it is not known what the disk has."""
    with replaced(tmp_path / "journal.db-wal", "/dev/null", os.O_RDONLY), pytest.raises(DiskError, match="SQLITE_IOERR_WRITE"):
        store.commit(numbered(4))
    for write in (lambda: store.commit(numbered(4)), store.checkpoint, lambda: store.trim(0, 0, 0)):
        with pytest.raises(DiskError, match=r"journal\.db: found a disk that fails .*; check it, then start again"):
            write()
    again = opened(copied(tmp_path, tmp_path.with_name("again")))
    assert (again.number, again.loss) == (3, "")
    again.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_taken_away(store: Store, tmp_path: Path, is_replaced: bool) -> None:
    """Writes to a file that was taken away would be lost: the daemon ends before it acknowledges anything."""
    path = tmp_path / "journal.db"
    path.rename(tmp_path / "mine")
    if is_replaced:
        path.write_bytes((tmp_path / "mine").read_bytes())
    for _ in range(2):
        with pytest.raises(DiskError, match=rf"^{path}: found it removed or replaced under the daemon .*, then start again$"):
            store.commit(numbered(4))


def test_a_failing_checkpoint(store: Store, tmp_path: Path) -> None:
    """Committed transactions stay in the write-ahead log, whatever happens to the database."""
    with replaced(tmp_path / "journal.db", "/dev/null", os.O_RDONLY), pytest.raises(DiskError):
        store.checkpoint()
    check(copied(tmp_path, tmp_path.with_name("again")), 3)


BACK_UP = """
import resource, sys, pathlib
from ykactor.journal import maintenance
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, -1))
maintenance.backup(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
"""


def test_no_room_for_a_backup(store: Store, tmp_path: Path) -> None:
    """The error is about the copy, of which nothing is left."""
    store.commit(batch(4, LARGE))
    copy = tmp_path / "copy.db"
    child = subprocess.run([PYTHON, "-c", BACK_UP, tmp_path, copy], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert f"NotWrittenError: {copy}: found no room on the disk" in child.stderr
    assert not copy.exists()
