"""The store: what was committed is there, in order, and nothing else."""

import os
import stat
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import S_NS, apply, batch, compact_json, copied, key_of, numbered, opened, records_of, states, turns_of
from seeds import scaled

from ykactor.journal import changes as journal_changes
from ykactor.journal.changes import PUT_ROWS, packed_texts, puts
from ykactor.journal.errors import NotWrittenError
from ykactor.journal.reading import Reader
from ykactor.journal.store import CHECKPOINT_BYTES, MERGE_BYTES, MERGE_ROWS, Store

IDENTITIES = st.sampled_from([1, "1", "a.b", "ä\n\"\\'", "\u0000"])
VALUES = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.lists(st.text(), max_size=2))
#: What happens to some keys in one transaction: a new value, or None for a deletion.
CHANGES = st.dictionaries(IDENTITIES, st.none() | st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=5)


@given(st.lists(CHANGES, max_size=8))
@settings(max_examples=scaled(40))
def test_records_are_those_of_a_dictionary(tmp_path_factory: pytest.TempPathFactory, history: list[dict[object, object]]) -> None:
    """Puts, deletes and puts again of the same keys give, byte for byte, what they give in a dictionary; also after a restart."""
    directory = tmp_path_factory.mktemp("journal")
    store = opened(directory)
    expected: dict[bytes, bytes] = {}
    for number, changes in enumerate(history, 1):
        puts = {key_of(identity): compact_json(value) for identity, value in changes.items() if value is not None}
        change = batch(number, puts, {key_of(identity) for identity, value in changes.items() if value is None})
        assert store.commit(change) == number
        if number % 3 == 0:
            store.merge()
        expected = apply(expected, change)
        assert records_of(directory) == expected
    store.close()
    store = opened(directory)
    assert (records_of(directory), store.number, store.loss) == (expected, len(history), "")
    store.close()


def test_there_are_few_different_statements() -> None:
    """SQLite keeps prepared statements, which are as large as their rows: batches of all sizes share a few."""
    records = {key_of(number): b"{}" for number in range(PUT_ROWS + 2)}
    statements = {statement for count in range(len(records)) for statement, _ in puts(dict(islice(records.items(), count)))}
    assert len(statements) == PUT_ROWS.bit_length()


def test_order_of_records_costs_nothing(tmp_path: Path) -> None:
    """However the records of a batch are ordered, the write-ahead log grows by the same pages."""
    puts = {key_of(number): b'{"a":"%b"}' % (b"x" * 200) for number in range(1_000, 2_000)}
    shuffled = dict(sorted(puts.items(), key=lambda item: zlib.crc32(item[0])))
    sizes = []
    for name, changes in (("ordered", puts), ("shuffled", shuffled)):
        store = opened(tmp_path / name)
        store.commit(batch(1, changes))
        store.merge()
        sizes.append((tmp_path / name / "journal.db-wal").stat().st_size)
        store.close()
    assert sizes[0] == sizes[1]


def test_a_merge_in_parts(tmp_path: Path) -> None:
    """Changes are merged into the records a part at a time, while others come; whoever reads, or starts, finds the newest."""
    store = opened(tmp_path / "running")
    text = b'{"a":"%b"}' % (b"x" * (2 * MERGE_BYTES // (3 * MERGE_ROWS)))
    records = {key_of(number): text for number in range(2 * MERGE_ROWS + 1)}
    for number, some in enumerate((slice(MERGE_ROWS), slice(MERGE_ROWS, None)), 1):
        assert not store.needs_merge
        store.commit(batch(number, dict([*records.items()][some]), {key_of("a")}))
    later = {key_of(0): b'{"b":1}', key_of("a"): b"{}"}, {key_of(2 * MERGE_ROWS), key_of(1)}
    expected = apply(records, batch(3, *later))
    merges = 0
    while store.needs_merge:
        store.merge()
        merges += 1
        if merges == 1:
            store.commit(batch(3, *later))
        died = copied(tmp_path / "running", tmp_path / "died")
        opened(died).close()
        assert records_of(tmp_path / "running") == records_of(died) == expected
    assert merges == 2 + 3  # reads, writes
    assert store._connection.execute("SELECT number FROM change").fetchall() == [(3,)]
    store.close()


def test_a_merge_reads_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long merge is read in parts: reading all changes takes longer than a part of the records, and the next commit waits."""
    read = list[int]()
    monkeypatch.setattr(journal_changes, "packed_texts", lambda number, *row: read.append(number) or packed_texts(number, *row))
    store, half = opened(tmp_path), MERGE_ROWS // 2
    text = b'{"a":"%b"}' % (b"x" * (MERGE_BYTES // (8 * half)))
    records = {key_of(number): text for number in range(8 * half)}
    for number in range(8):
        store.commit(batch(number + 1, dict(islice(records.items(), number * half, (number + 1) * half))))
    parts = list[list[int]]()
    while store.needs_merge:
        store.merge()
        parts.append(read.copy())
        read.clear()
    assert parts == [[1, 2], [3, 4], [5, 6], [7, 8], [], [], [], []]
    assert records_of(tmp_path) == records
    assert not store._connection.execute("SELECT number FROM change").fetchall()
    store.close()


def test_a_merge_that_does_not_keep_up(tmp_path: Path) -> None:
    """All changes are merged at once when they have twice as many bytes."""
    store = opened(tmp_path)
    text = b'{"a":"%b"}' % (b"x" * (3 * MERGE_BYTES // (2 * MERGE_ROWS)))
    records = {key_of(number): text for number in range(2 * MERGE_ROWS)}
    store.commit(batch(1, records))
    store.merge()
    assert not store.needs_merge
    assert records_of(tmp_path) == records
    store.close()


def test_a_merge_without_room_is_tried_again(tmp_path: Path) -> None:
    """Nothing is written of the part for which there was no room, and nothing is lost."""
    store = opened(tmp_path)
    records = {key_of(number): b'{"a":"%b"}' % (b"x" * 1000) for number in range(100)}
    store.commit(batch(1, records))
    ((pages,),) = store._connection.execute("PRAGMA page_count")
    store._connection.execute(f"PRAGMA max_page_count={pages + 2}").fetchall()
    with pytest.raises(NotWrittenError):
        store.merge()
    store._connection.execute("PRAGMA max_page_count=1000000")
    assert (store.needs_merge, records_of(tmp_path)) == (True, records)
    store.merge()
    assert (store.needs_merge, records_of(tmp_path)) == (False, records)
    store.close()


def test_history(tmp_path: Path) -> None:
    """A row of the history has the numbers of the batch, its turns and its messages as they were given."""
    store = opened(tmp_path)
    store.commit(batch(1, turns=[b'{"a":1}', b'{"b":"\\n"}']))
    store.commit(batch(2, turns=[]))
    with Reader.open(tmp_path) as reader:
        first, second = reader.rows()
    store.close()
    assert (first.number, first.at_ns, first.first_event, first.events_count) == (1, S_NS, 2, 2)
    assert (first.first_message, first.messages_count, first.messages()) == (1, 1, [b"message 1"])
    assert (first.turns(), second.turns()) == ([b'{"a":1}', b'{"b":"\\n"}'], [])
    assert (first.first_byte, second.first_byte) == (0, first.end_byte)


def test_nobody_else_reads(tmp_path: Path) -> None:
    """SE-87: the directory is made with mode 0700, and every file in it has mode 0600."""
    directory = tmp_path / "above" / "state"
    store = opened(directory)
    store.commit(numbered(1))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    store.close()
    assert modes == dict.fromkeys(["journal.db", "journal.db-wal", "journal.db-shm", "witness", "lock"], 0o600)


@pytest.mark.parametrize("name", ["a b", "?mode=ro", "%41#", "ä", os.fsdecode(b"\xff")])
def test_names_of_directories(tmp_path: Path, name: str) -> None:
    """Every name that the system allows."""
    store = opened(tmp_path / name)
    store.commit(numbered(1))
    store.close()
    assert (tmp_path / name / "journal.db").exists()
    assert records_of(tmp_path / name) == states(1)[1]


def test_checkpoint(tmp_path: Path) -> None:
    """A large write-ahead log asks for a checkpoint, which empties it; a reader only puts off that, and only once asks."""
    store = opened(tmp_path)
    large = {key_of(identity): compact_json({"text": "x" * 100_000}) for identity in range(CHECKPOINT_BYTES // 100_000)}
    assert not store.needs_checkpoint
    store.commit(batch(1, large))
    assert store.needs_checkpoint
    with Reader.open(tmp_path) as reader:
        records = reader.records()
        next(records)
        store.commit(numbered(2))
        store.checkpoint()
        assert not store.needs_checkpoint
        records.close()
    store.checkpoint()
    assert (tmp_path / "journal.db-wal").stat().st_size == 0
    expected = apply(large, numbered(2))
    assert records_of(tmp_path) == expected
    store.close()
    assert records_of(tmp_path) == expected


@pytest.mark.parametrize(("durability", "value"), [("full", 2), ("normal", 1), ("off", 0)])
def test_durability(tmp_path: Path, durability: str, value: int) -> None:
    """The three words are SQLite's ``synchronous``; all of them survive the death of the process."""
    store = Store.open(tmp_path / "a", durability, now_ns=0)  # type: ignore[arg-type]
    assert store._connection.execute("PRAGMA synchronous").fetchall() == [(value,)]
    assert store._connection.execute("PRAGMA journal_mode").fetchall() == [(b"wal",)]
    for number in range(1, 4):
        store.commit(numbered(number))
    killed = Store.open(copied(tmp_path / "a", tmp_path / "b"), durability, now_ns=0)  # type: ignore[arg-type]
    assert (killed.number, killed.loss) == (3, "")
    assert records_of(tmp_path / "b") == states(3)[3]
    assert [number for number, _ in turns_of(tmp_path / "b")] == [1, 2, 3]
    killed.close()
    store.close()


def test_closing_twice(tmp_path: Path) -> None:
    """The second time does nothing; the file numbers of the first may be somebody else's by then."""
    store = Store.open(tmp_path / "state", "normal", now_ns=0)
    store.commit(numbered(1))
    store.close()
    with (tmp_path / "other").open("w+b") as first, (tmp_path / "more").open("w+b") as second:
        store.close()
        assert (first.read(), second.read()) == (b"", b"")


def test_any_thread(tmp_path: Path) -> None:
    """The methods may be called in other threads than ``open``."""
    store = opened(tmp_path)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(store.commit, numbered(1)).result() == 1
        thread.submit(store.checkpoint).result()
        thread.submit(store.close).result()
    assert records_of(tmp_path) == states(1)[1]
