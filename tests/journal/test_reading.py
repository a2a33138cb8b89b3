"""Readers: forwards, backwards, from a time, and beside a writer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from journals import S_NS, batch, numbered, opened, records_of, states

from ykactor.journal.errors import JournalError
from ykactor.journal.reading import PAGE_ROWS, Reader
from ykactor.journal.store import Store

LAST = 2 * PAGE_ROWS + 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = opened(tmp_path)
    for number in range(1, LAST + 1):
        store.commit(numbered(number))
    yield store
    store.close()


def test_forwards_and_backwards(store: Store, tmp_path: Path) -> None:
    """All rows from any number on, or from the newest back to the oldest, over several pages."""
    with Reader.open(tmp_path) as reader:
        assert [row.number for row in reader.rows()] == list(range(1, LAST + 1))
        assert [row.number for row in reader.rows(LAST - 1)] == [LAST - 1, LAST]
        assert [row.number for row in reader.rows(LAST + 1)] == []
        assert [row.number for row in reader.rows_backwards()] == list(range(LAST, 0, -1))
        assert reader.numbers() == (1, LAST)


def test_an_empty_journal(tmp_path: Path) -> None:
    """An empty journal has nothing to read, and reading it is no error."""
    opened(tmp_path).close()
    with Reader.open(tmp_path) as reader:
        assert [list(reader.records()), list(reader.rows()), list(reader.rows_backwards())] == [[], [], []]
        assert (reader.numbers(), reader.number_at(0)) == ((1, 0), 1)


def test_times(store: Store, tmp_path: Path) -> None:
    """The first transaction at or after a time, also when the oldest are deleted."""
    with Reader.open(tmp_path) as reader:
        assert [reader.number_at(at_ns) for at_ns in (0, S_NS, S_NS + 1, LAST * S_NS, LAST * S_NS + 1)] == [
            1,
            1,
            2,
            LAST,
            LAST + 1,
        ]
        store.trim(bytes_max=10**9, age_max_ns=0, now_ns=10 * S_NS)
        assert [reader.number_at(at_ns) for at_ns in (0, 10 * S_NS, 11 * S_NS)] == [10, 10, 11]


def test_retention_overtakes_a_reader(store: Store, tmp_path: Path) -> None:
    """A reader that is overtaken by the deletion of old rows goes on with the oldest that is kept; one backwards ends.

    What it has read already, a page, it still returns.
    """
    with Reader.open(tmp_path) as reader:
        forwards, backwards = reader.rows(), reader.rows_backwards()
        assert [next(forwards).number, next(backwards).number] == [1, LAST]
        store.trim(bytes_max=10**9, age_max_ns=0, now_ns=(PAGE_ROWS + 10) * S_NS)
        assert [row.number for row in forwards] == [*range(2, PAGE_ROWS + 1), *range(PAGE_ROWS + 10, LAST + 1)]
        assert [row.number for row in backwards] == list(range(LAST - 1, LAST - PAGE_ROWS, -1))


def test_a_reader_beside_the_writer(store: Store, tmp_path: Path) -> None:
    """The records are those of one moment; the history has what is committed while it is read."""
    with Reader.open(tmp_path) as reader:
        records, rows = reader.records(), reader.rows()
        found = [next(records)]
        next(rows)
        store.commit(numbered(LAST + 1))
        store.checkpoint()
        assert dict(found + list(records)) == states(LAST)[LAST]
        assert [row.number for row in rows] == list(range(2, LAST + 2))
    assert records_of(tmp_path) == states(LAST + 1)[LAST + 1]


@pytest.mark.parametrize("number", [2, PAGE_ROWS, PAGE_ROWS + 1, LAST - 1])
def test_a_missing_row(store: Store, tmp_path: Path, number: int) -> None:
    """A hole in the history is an error that names it, in both directions."""
    store._connection.execute("DELETE FROM log WHERE number = ?", (number,))
    with Reader.open(tmp_path) as reader:
        for rows in (reader.rows(), reader.rows_backwards()):
            with pytest.raises(JournalError, match=rf"journal\.db: found damage: transaction {number} is missing; "):
                list(rows)


@pytest.mark.parametrize(
    "change",
    ["number = 1000", "at_ns = 1", "events_count = 3", "turns = messages", "messages = x''", "messages = 1", "crc = crc + 1"],
)
def test_a_changed_row(store: Store, tmp_path: Path, change: str) -> None:
    """A row of which any column has changed is an error that names it."""
    store._connection.execute(f"UPDATE log SET {change} WHERE number = {LAST}")
    with Reader.open(tmp_path) as reader, pytest.raises(JournalError, match=r"transaction \d+ is not as it was written"):
        list(reader.rows(LAST))


@pytest.mark.parametrize("change", ["key = '[1]'", "data = '{}'", "data = 1", "crc = crc + 1"])
def test_a_changed_record(tmp_path: Path, change: str) -> None:
    """A record of which any column has changed is an error that names it."""
    store = opened(tmp_path)
    store.commit(batch(1, {b"[0]": b'{"a":1}'}))
    store.merge()
    store._connection.execute(f"UPDATE record SET {change}")
    store.close()
    with Reader.open(tmp_path) as reader, pytest.raises(JournalError, match=r"the record \[\d\] is not as it was written"):
        list(reader.records())


@pytest.mark.parametrize("change", ["number = 2", "texts = x'90'", "texts = 1", "crc = crc + 1"])
def test_changed_changes(tmp_path: Path, change: str) -> None:
    """So are the changes that are not merged into the records."""
    store = opened(tmp_path)
    store.commit(batch(1, {b"[0]": b'{"a":1}'}))
    store._connection.execute(f"UPDATE change SET {change}")
    store.close()
    with (
        Reader.open(tmp_path) as reader,
        pytest.raises(JournalError, match=r"the changes of transaction \d are not as they were"),
    ):
        list(reader.records())
