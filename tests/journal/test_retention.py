"""Retention: the oldest transactions of the history go, by size or by age; records never do (DU-14)."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from journals import NEVER_NS, S_NS, batch, compact_json, key_of, opened, records_of, turns_of

from ykactor.journal.reading import Reader
from ykactor.journal.store import TRIM_BYTES_MAX, TRIM_ROWS_MAX, Store

UNLIMITED = 10**18


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = opened(tmp_path)
    yield store
    store.close()


def fill(store: Store, count: int, turn_bytes: int) -> None:
    """Transactions, each with a turn that cannot be compressed, and a record of its own."""
    rng = random.Random(store.number)
    for number in range(store.number + 1, store.number + count + 1):
        store.commit(batch(number, {key_of(number): compact_json({})}, turns=[rng.randbytes(turn_bytes)]))


def kept(directory: Path) -> tuple[int, int]:
    with Reader.open(directory) as reader:
        return reader.numbers()


def history_bytes(directory: Path) -> int:
    with Reader.open(directory) as reader:
        return sum(len(row.packed_turns) + len(row.packed_messages) for row in reader.rows())


def test_by_age(store: Store, tmp_path: Path) -> None:
    """Transactions older than the maximum go; one that is exactly as old stays."""
    fill(store, 10, 100)
    assert store.trim(UNLIMITED, age_max_ns=5 * S_NS, now_ns=10 * S_NS) == 4
    assert kept(tmp_path) == (5, 10)
    assert store.trim(UNLIMITED, age_max_ns=5 * S_NS, now_ns=10 * S_NS) == 0


@pytest.mark.parametrize("bytes_max", [5_500, 5_000, 500])
def test_by_size(store: Store, tmp_path: Path, bytes_max: int) -> None:
    """The newest transactions stay as far as there is room for them, and always the newest one."""
    fill(store, 10, 1000)
    with Reader.open(tmp_path) as reader:
        sizes = {row.number: row.end_byte - row.first_byte for row in reader.rows()}
    store.trim(bytes_max, NEVER_NS, now_ns=0)
    fits = [number for number in sizes if sum(size for other, size in sizes.items() if other >= number) <= bytes_max]
    assert kept(tmp_path) == (min(fits, default=10), 10)


def test_records_stay(store: Store, tmp_path: Path) -> None:
    """All records are there when nearly all of the history is gone, and numbers go on where they were."""
    fill(store, 10, 100)
    assert store.trim(0, 0, now_ns=NEVER_NS) == 9
    assert len(records_of(tmp_path)) == 10
    store.close()
    again = opened(tmp_path)
    assert (again.number, again.loss) == (10, "")
    fill(again, 1, 100)
    assert [number for number, _ in turns_of(tmp_path)] == [10, 11]
    assert history_bytes(tmp_path) == again._end_byte - next(Reader.open(tmp_path).rows()).first_byte
    again.close()


def test_an_empty_history(store: Store) -> None:
    """An empty history has nothing to delete."""
    assert store.trim(0, 0, now_ns=NEVER_NS) == 0


@pytest.mark.parametrize(
    ("count", "turn_bytes", "most"), [(TRIM_ROWS_MAX + 50, 10, TRIM_ROWS_MAX), (20, 500_000, TRIM_BYTES_MAX // 500_000 + 1)]
)
def test_in_pieces(store: Store, tmp_path: Path, count: int, turn_bytes: int, most: int) -> None:
    """One call deletes a limited number of rows and bytes, so that commits do not wait for long."""
    fill(store, count, turn_bytes)
    assert store.trim(0, NEVER_NS, now_ns=0) == most
    while store.trim(0, NEVER_NS, now_ns=0):
        pass
    assert kept(tmp_path) == (count, count)


def test_the_file_does_not_grow(store: Store, tmp_path: Path) -> None:
    """Free pages are used again: the file stays near the size of what it holds, and so does the write-ahead log."""
    bytes_max = 1_000_000
    sizes = []
    for _ in range(8):
        fill(store, 50, 20_000)
        while store.trim(bytes_max, NEVER_NS, now_ns=0):
            pass
        store.checkpoint()
        sizes.append((tmp_path / "journal.db").stat().st_size)
    assert history_bytes(tmp_path) <= bytes_max
    assert sizes[-1] < 1.05 * sizes[2] < 3 * bytes_max
