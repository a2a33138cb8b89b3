"""Directories and files that cannot be used: each refusal says what was found, where, and what to do."""

import os
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from journals import ENVIRONMENT, PYTHON, copied, numbered, opened, records_of, states

from ykactor.journal import schema
from ykactor.journal.errors import JournalError, NotWrittenError
from ykactor.journal.reading import Reader

OPEN = "import sys, pathlib, journals; journals.opened(pathlib.Path(sys.argv[1]))"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A journal with two transactions."""
    store = opened(tmp_path / "state")
    for number in (1, 2):
        store.commit(numbered(number))
    store.close()
    return tmp_path / "state"


def refusal(directory: Path) -> str:
    with pytest.raises(JournalError) as refused:
        opened(directory)
    return str(refused.value)


# ---- the directory


def test_another_daemon(directory: Path) -> None:
    """The second daemon is told the process of the first; when the first has ended it may start."""
    store = opened(directory)
    child = subprocess.run([PYTHON, "-c", OPEN, directory], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    expected = (
        f"{directory}: found it in use by process {os.getpid()}, expected one daemon for each state directory; "
        "end that process, or use another directory"
    )
    assert child.stderr.splitlines()[-1] == f"ykactor.journal.errors.NotWrittenError: {expected}"
    assert refusal(directory) == expected  # also in the same process
    store.close()
    opened(directory).close()


def test_a_killed_daemon_does_not_hold_the_directory(directory: Path) -> None:
    """The lock ends with its process, whatever its file says."""
    subprocess.run([PYTHON, "-c", f"{OPEN}; import os; os.kill(os.getpid(), 9)", directory], env=ENVIRONMENT, check=False)
    opened(directory).close()


def test_another_user(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of another user is refused, also for root: what root writes there its owner cannot read."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert refusal(directory) == (
        f"{directory}: found a directory of user {directory.stat().st_uid}, expected one of user 12345, who runs this program; "
        "run it as the owner, or change the owner of the directory and its files"
    )


def test_no_directory(tmp_path: Path) -> None:
    """A file is no state directory, and nothing is made below it."""
    file = tmp_path / "file"
    file.write_text("mine")
    expected = "expected a directory and files that this user may read and write"
    assert refusal(file) == f"{file}: File exists; {expected}"
    assert refusal(file / "state") == f"{file}/state: Not a directory; {expected}"
    assert file.read_text() == "mine"


READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def test_a_read_only_disk(directory: Path) -> None:
    """Is refused at once, not at the first commit."""
    command = [PYTHON, "-c", OPEN, str(directory)]
    if os.geteuid() == 0:
        command = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", str(directory), *command]
    else:
        directory.chmod(0o500)
    child = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    directory.chmod(0o700)
    assert re.search(rf"JournalError: {directory}/lock: (Read-only file system|Permission denied); expected", child.stderr)


def test_a_full_disk(tmp_path: Path) -> None:
    """A new journal without room is a refusal that the caller can tell from others."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))"
    child = subprocess.run(
        [PYTHON, "-c", f"{limited}; {OPEN}", tmp_path], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert f"{NotWrittenError.__name__}: {tmp_path}/journal.db: found no room on the disk" in child.stderr
    opened(tmp_path).close()


# ---- the files


def test_a_database_of_another_program(directory: Path) -> None:
    """Is refused by its application id, and not changed."""
    path = directory / "journal.db"
    path.unlink()
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE mine(a)")
    before = path.read_bytes()
    assert refusal(directory) == (
        f"{path}: found a database of another program (application id 0), expected a journal of ykactor (1500201315); "
        "move the file away, or use another directory"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"mine\n" * 1000])
def test_no_database(directory: Path, content: bytes) -> None:
    """A file that is no database is refused, and not changed."""
    path = directory / "journal.db"
    path.write_bytes(content)
    assert refusal(directory).startswith(f"{path}: found ")
    assert path.read_bytes() == content


def test_a_newer_version(directory: Path) -> None:
    """A journal of a newer program is refused with both versions."""
    path = directory / "journal.db"
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version={schema.VERSION + 1}")
    assert refusal(directory) == (
        f"{path}: found version {schema.VERSION + 1} of the journal, expected at most {schema.VERSION}; "
        "start the newer program that wrote it, or use another directory"
    )


@pytest.mark.parametrize(
    "statement", ["DROP TABLE log", "CREATE TABLE more(a)", "CREATE INDEX i ON log(at_ns)", "PRAGMA user_version=0"]
)
def test_other_tables(directory: Path, statement: str) -> None:
    """Tables that are not those of the version are damage."""
    with closing(sqlite3.connect(directory / "journal.db")) as changed:
        changed.execute(statement)
    assert "journal.db: found damage: the tables are not those of version " in refusal(directory)


@pytest.mark.parametrize("statement", ["DELETE FROM meta", "UPDATE meta SET value = 'x y'", "UPDATE meta SET key = 'x' || key"])
def test_a_damaged_table_of_meta(directory: Path, statement: str) -> None:
    """An instance or a time that is missing or unreadable is damage."""
    with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as changed:
        changed.execute(statement)
    assert "journal.db: found damage: the table meta is not as it was written; " in refusal(directory)


def test_damage_says_what_to_do(directory: Path) -> None:
    """A database with a damaged page is refused with a command that says more, and with ways to go on."""
    path = directory / "journal.db"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    text = refusal(directory)
    assert "\n" not in text
    assert text.startswith(f"{path}: found damage: ")
    assert text.endswith(
        f"; 'ykactor journal verify {path}' lists all of it; "
        "restore a backup into an empty directory with 'ykactor journal restore', or begin with an empty one"
    )


def test_a_write_ahead_log_without_its_database(directory: Path, tmp_path: Path) -> None:
    """A log without its database may hold the newest transactions, and would damage a new database: refused, and kept."""
    store = opened(directory)
    store.commit(numbered(3))
    died = copied(directory, tmp_path / "died")
    store.close()
    (died / "journal.db").rename(tmp_path / "journal.db")
    wal = died / "journal.db-wal"
    assert refusal(died) == f"{wal}: found without journal.db, expected both or none; put journal.db back, or remove the other"
    (tmp_path / "journal.db").rename(died / "journal.db")
    opened(died).close()
    assert records_of(died) == states(3)[3]


def test_a_half_made_journal(tmp_path: Path) -> None:
    """A half-made journal, left by a process that died while it made it, is made anew."""
    (tmp_path / "journal.db.new").write_bytes(b"half")
    (tmp_path / "journal.db.new-journal").write_bytes(b"half")
    opened(tmp_path).close()
    assert {path.name for path in tmp_path.iterdir()} == {"journal.db", "witness", "lock"}


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: None])
def test_a_reader_needs_a_journal(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A reader makes nothing."""
    directory = tmp_path / "state"
    make(directory)
    before = list(tmp_path.rglob("*"))
    with pytest.raises(JournalError, match=rf"^{directory}: found no journal\.db, expected the state directory of a daemon$"):
        Reader.open(directory)
    assert list(tmp_path.rglob("*")) == before


def test_a_refusal_lets_go(directory: Path) -> None:
    """A refusal does not hold the directory."""
    path = directory / "journal.db"
    good = path.read_bytes()
    path.write_bytes(b"")
    refusal(directory)
    path.write_bytes(good)
    opened(directory).close()
