"""``ykactor journal``: what an operator does with a journal, mostly while the daemon runs."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from journals import S_NS, batch, compact_json, copied, numbered, opened, records_of, states, turns_of

from ykactor.journal import maintenance
from ykactor.journal.errors import JournalError
from ykactor.journal.schema import VERSION
from ykactor.journal.store import Store
from ykactor.journal.transaction import Batch, change_text, record_crc
from ykactor.surfaces.cli.journal import command

LAST = 30


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(directory: Path) -> Iterator[Store]:
    """A running daemon's, with transactions 1 to LAST; some are still in the write-ahead log."""
    store = opened(directory)
    for number in range(1, LAST + 1):
        store.commit(numbered(number))
        if number == LAST // 2:
            store.merge()
            store.checkpoint()
    yield store
    store.close()


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner().invoke(command, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


def changed(directory: Path, *statements: str) -> None:
    """Somebody changes a stopped journal."""
    with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_readers_change_nothing(store: Store, directory: Path, tmp_path: Path) -> None:
    """All that only reads leaves the files of a dead daemon, byte for byte, as they were."""
    died = copied(directory, tmp_path / "died")
    before = {path.name: path.read_bytes() for path in died.iterdir()}
    for name in ("info", "verify", "export"):
        assert run(name, died)[0] == 0
    assert run("backup", died, tmp_path / "copy.db")[0] == 0
    assert {path.name: path.read_bytes() for path in died.iterdir() if not path.name.endswith("-shm")} == before


def test_only_an_existing_directory(tmp_path: Path) -> None:
    """A directory that is missing is a wrong command line; one without a journal stays empty."""
    empty = tmp_path / "empty"
    empty.mkdir()
    for name, *more in (["info"], ["verify"], ["export"], ["compact"], ["backup", tmp_path / "copy.db"]):
        code, out, err = run(name, tmp_path / "none", *more)
        assert (code, out) == (2, "")
        assert f"'{tmp_path}/none' does not exist." in err
        assert run(name, empty, *more) == (
            1,
            "",
            f"Error: {empty}: found no journal.db, expected the state directory of a daemon\n",
        )
    assert list(tmp_path.rglob("*")) == [empty]


# ---- info


def test_info(store: Store, directory: Path) -> None:
    """``info`` prints the measures of a journal as one JSON document, or one line for each value."""
    code, out, err = run("info", directory, "-o", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["historyBytes"] == store._end_byte
    assert found["fileBytes"] == (directory / "journal.db").stat().st_size
    assert found["walBytes"] == (directory / "journal.db-wal").stat().st_size
    assert found["records"] == len(states(LAST)[LAST])
    assert found == found | {"path": f"{directory}/journal.db", "version": VERSION, "createdNs": 0}
    assert found["term"] == str(store.terms.present)
    assert found == found | {"first": 1, "last": LAST, "firstNs": S_NS, "lastNs": LAST * S_NS}
    lines = dict(line.split(maxsplit=1) for line in run("info", directory)[1].splitlines())
    assert (lines["created"], lines["newest"]) == ("1970-01-01T00:00:00Z", "1970-01-01T00:00:30Z")
    assert lines["history"] == f"transactions 1 to {LAST}, {store._end_byte} bytes"


def test_info_on_an_empty_journal(directory: Path) -> None:
    """An empty journal has no times."""
    opened(directory).close()
    found = json.loads(run("info", directory, "-o", "json")[1])
    assert found == found | {"records": 0, "first": 1, "last": 0, "firstNs": None, "lastNs": None, "historyBytes": 0}
    assert "newest    -\n" in run("info", directory)[1]


# ---- verify


def test_verify(store: Store, directory: Path) -> None:
    """A whole journal is ok, also while it is written, and after old history was deleted."""
    store.trim(10**9, 0, now_ns=5 * S_NS)
    assert run("verify", directory) == (
        0,
        f"{directory}/journal.db: ok, {len(states(LAST)[LAST])} records, {LAST - 4} transactions\n",
        "",
    )


@pytest.mark.parametrize(
    ("statements", "problems"),
    [
        (["UPDATE record SET crc = 1 WHERE key = (SELECT min(key) FROM record)"], ["the record {key} is not as it was written"]),
        (
            [f"UPDATE change SET texts = x'90' WHERE number = {LAST}"],
            [f"the changes of transaction {LAST} are not as they were written"],
        ),
        (
            ["UPDATE log SET at_ns = 7 WHERE number IN (2, 4)"],
            [f"transaction {number} is not as it was written" for number in (2, 4)],
        ),
        (["UPDATE base SET position = 1 WHERE number = 3"], ["a base of transaction 3 is not as it was written"]),
        (["UPDATE mention SET names = x'00' WHERE number = 3"], ["the names of transaction 3 are not as they were written"]),
        (["DELETE FROM log WHERE number BETWEEN 5 AND 9"], ["transactions 5 to 9 are missing"]),
        (
            [f"DELETE FROM log WHERE number > {LAST - 1}"],
            [f"transactions {LAST} to {LAST} were committed, but are not in the journal any more"],
        ),
    ],
)
def test_verify_names_what_is_wrong(store: Store, directory: Path, statements: list[str], problems: list[str]) -> None:
    """Every problem is a line, and the exit code is 1."""
    store.close()
    changed(directory, *statements)
    code, out, err = run("verify", directory)
    assert code == 1
    assert out.splitlines() == [problem.format(key=min(states(LAST // 2)[LAST // 2]).decode()) for problem in problems]
    assert err.startswith(f"Error: {directory}: found damage; restore a backup ")


@pytest.mark.parametrize(("key", "data"), [(b"[1", b"{}"), (b"[1]", b"{"), (b"{}", b"{}"), (b"[1]", b"1")])
def test_verify_parses_records(directory: Path, key: bytes, data: bytes) -> None:
    """A key is a JSON array, and data are a JSON object or array."""
    opened(directory).close()
    crc = record_crc(key, data)
    changed(directory, f"INSERT INTO record VALUES('{key.decode()}', '{data.decode()}', {crc})")
    assert list(maintenance.verify(directory)) == [f"the record {key.decode()} is no JSON"]


@pytest.mark.parametrize(("key", "data"), [(b"[1", b"{}"), (b"[1]", b"{"), (b"{}", None), (b"[1]", b"1")])
def test_verify_parses_changes(directory: Path, key: bytes, data: bytes | None) -> None:
    """A changed record is like any other, or null."""
    store = opened(directory)
    store.commit(Batch(1, 1, changes=[change_text(b"[0]", None), change_text(key, data)]))
    store.close()
    assert list(maintenance.verify(directory)) == [f"the record {key.decode()} of transaction 1 is no JSON"]


def test_verify_parses_turns(directory: Path) -> None:
    """A turn is a JSON object."""
    store = opened(directory)
    store.commit(batch(1, turns=[b"{}", b"{"]))
    store.close()
    assert list(maintenance.verify(directory)) == ["transaction 1 has a turn that is no JSON"]


def test_verify_goes_on_after_a_damaged_page(store: Store, directory: Path) -> None:
    """Unreadable pages are reported, and then the other faults; other tables are still checked."""
    store.close()
    with closing(sqlite3.connect(directory / "journal.db")) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'record'")
    with (directory / "journal.db").open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)
    changed(directory, "DELETE FROM log WHERE number = 9")
    assert list(maintenance.verify(directory)) == [
        "the pages cannot be read: database disk image is malformed",
        "the records cannot be read: database disk image is malformed",
        "transactions 9 to 9 are missing",
    ]


def test_verify_of_a_history_that_cannot_be_read(store: Store, directory: Path) -> None:
    """The error does not send whoever has called ``verify`` to ``verify``."""
    store.close()
    with closing(sqlite3.connect(directory / "journal.db")) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'log'")
    with (directory / "journal.db").open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)
    code, out, err = run("verify", directory)
    assert code == 1
    assert "the history cannot be read: database disk image is malformed" in out.splitlines()
    assert err.startswith(f"Error: {directory}: found damage; restore a backup into an empty directory")


def test_verify_finds_damaged_pages(store: Store, directory: Path) -> None:
    """Faults that SQLite finds are reported in its words."""
    store.close()
    with (directory / "journal.db").open("r+b") as file:
        file.seek(36)
        file.write(b"\x00\x00\x00\x09")  # the number of free pages
    (found,) = maintenance.verify(directory)
    assert "Main freelist: size is" in found
    assert "\n" not in found


# ---- export


def test_export(store: Store, directory: Path, tmp_path: Path) -> None:
    """JSON Lines of the turns, or of the records, to a file or standard output."""
    expected = [{"transaction": number, "turn": json.loads(numbered(number).turns[0])} for number in range(1, LAST + 1)]
    code, out, err = run("export", directory)
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == expected
    file = tmp_path / "out.jsonl"
    assert run("export", directory, "--records", "-o", file) == (0, "", "")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {compact_json(line["key"]): compact_json(line["data"]) for line in lines} == states(LAST)[LAST]


# ---- compact


def test_compact(store: Store, directory: Path) -> None:
    """Deleted transactions no longer take room; everything else is as before."""
    while store.trim(0, 0, now_ns=(LAST - 2) * S_NS):
        pass
    store.close()
    turns = turns_of(directory)
    before = (directory / "journal.db").stat().st_size
    code, out, err = run("compact", directory)
    after = (directory / "journal.db").stat().st_size
    assert (code, out, err) == (0, f"{directory}: {before} bytes before, {after} bytes now\n", "")
    assert after < before / 2
    assert (records_of(directory), turns_of(directory)) == (states(LAST)[LAST], turns)
    again = opened(directory)
    assert not again.loss
    assert not again.terms.missing("message", LAST, str(store.terms.present))
    again.close()


def test_compact_while_the_daemon_runs(store: Store, directory: Path) -> None:
    """Is refused with the process to end."""
    code, out, err = run("compact", directory)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {directory}: found it in use by process ")
    store.commit(numbered(LAST + 1))


# ---- backup


def test_backup(store: Store, directory: Path, tmp_path: Path) -> None:
    """A copy of one moment, for the owner's eyes only; the daemon goes on."""
    copy = tmp_path / "copy.db"
    code, out, err = run("backup", directory, copy)
    assert (code, out, err) == (0, f"{copy}: {copy.stat().st_size} bytes\n", "")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["copy.db"]
    assert copy.stat().st_mode & 0o777 == 0o600
    store.commit(numbered(LAST + 1))
    restored = tmp_path / "restored"
    restored.mkdir()
    shutil.copy(copy, restored / "journal.db")
    unknown = f"no witness, so this is a backup: what came after transaction {LAST} is not known"
    for source, path in ((restored, restored / "journal.db"), (restored / "journal.db", restored / "journal.db"), (copy, copy)):
        code, out, err = run("verify", source)
        assert (code, out, err) == (0, f"{path}: ok, {len(states(LAST)[LAST])} records, {LAST} transactions; {unknown}\n", "")
        assert f"\nwitness   {unknown}\n" in run("info", source)[1]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["copy.db"]
    again = opened(restored)
    assert (again.number, records_of(restored)) == (LAST, states(LAST)[LAST])
    assert again.terms.missing("message", LAST + 1, str(store.terms.present))  # it is something else in the copy
    again.close()


def test_restore(store: Store, directory: Path, tmp_path: Path) -> None:
    """A backup is the journal of a new directory; what came after it is not known, and it says as of when it is."""
    copy, restored = tmp_path / "copy.db", tmp_path / "restored"
    run("backup", directory, copy)
    store.commit(numbered(LAST + 1))
    code, out, err = run("restore", copy, restored)
    records = len(states(LAST)[LAST])
    assert (code, out, err) == (0, f"{restored}: {records} records, as of 1970-01-01T00:00:{LAST:02}Z (transaction {LAST})\n", "")
    assert {path.name for path in restored.iterdir()} == {"journal.db", "lock"}
    assert (restored / "journal.db").stat().st_mode & 0o777 == 0o600
    again = opened(restored)
    assert (again.number, records_of(restored), turns_of(restored)) == (LAST, states(LAST)[LAST], turns_of(copy))
    assert again.loss == f"no witness, so this is a backup: what came after transaction {LAST} is not known"
    again.close()


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "witness"])
def test_restore_overwrites_nothing(store: Store, directory: Path, tmp_path: Path, name: str) -> None:
    """A directory with any part of a journal is refused, and stays as it is; so is one that a daemon holds."""
    copy, other = tmp_path / "copy.db", tmp_path / "other"
    run("backup", directory, copy)
    other.mkdir()
    (other / name).write_text("mine")
    code, out, err = run("restore", copy, other)
    assert (code, out) == (1, "")
    assert err == f"Error: {other / name}: found a journal, expected a new or an empty directory; move the journal away\n"
    assert (other / name).read_text() == "mine"
    code, _, err = run("restore", copy, directory)
    assert (code, "found it in use by process" in err) == (1, True)


def test_a_damaged_backup_is_not_restored(store: Store, directory: Path, tmp_path: Path) -> None:
    """Nothing of it is."""
    copy, restored = tmp_path / "copy.db", tmp_path / "restored"
    run("backup", directory, copy)
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    code, out, err = run("restore", copy, restored)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {copy}: found damage: ")
    assert not restored.exists()


def test_backup_overwrites_nothing(store: Store, directory: Path, tmp_path: Path) -> None:
    """An existing file is kept."""
    copy = tmp_path / "copy.db"
    copy.write_text("mine")
    with pytest.raises(FileExistsError):
        maintenance.backup(directory, copy)
    assert copy.read_text() == "mine"


def test_backup_of_a_damaged_journal(store: Store, directory: Path, tmp_path: Path) -> None:
    """Leaves no half of a copy."""
    store.close()
    with (directory / "journal.db").open("r+b") as file:
        file.truncate(8192)
    with pytest.raises(JournalError):
        maintenance.backup(directory, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
