"""The states from which turns can be run again, and the search for what a transaction is about."""

import random
from pathlib import Path

import pytest
from journals import NEVER_NS, batch, opened

from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.transaction import packed_name, packed_names

UNLIMITED = 10**18


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with transactions 1 to 9, of which every third has a base."""
    store = opened(tmp_path)
    for number in range(1, 10):
        store.commit(batch(number))
    return store


def test_bases_come_back(store: Store, tmp_path: Path) -> None:
    """Each is found by its transaction and the position of its turn, whatever its size."""
    big = random.Random(0).randbytes(100_000)
    several = batch(10)
    several.bases = {4: b"", 7: big}
    store.commit(several)
    with Reader.open(tmp_path) as reader:
        assert [reader.bases(number) for number in (2, 3, 10, 11)] == [{}, {0: b"base 3"}, {4: b"", 7: big}, {}]


def test_bases_are_part_of_the_size(store: Store, tmp_path: Path) -> None:
    """A base counts as history, also when the journal was closed after it: it is kept and deleted within the same bounds."""
    big = batch(10)
    big.bases = {0: random.Random(0).randbytes(100_000)}
    before = store._end_byte
    store.commit(big)
    store.close()
    again = opened(tmp_path)
    assert again._end_byte == store._end_byte > before + 100_000
    again.commit(batch(11))
    assert again.trim(200_000, NEVER_NS, now_ns=0) == 0
    assert again.trim(50_000, NEVER_NS, now_ns=0) == 10
    again.close()


def test_bases_and_names_go_with_their_transaction(store: Store, tmp_path: Path) -> None:
    """A base without the turns after it is of no use."""
    assert store.trim(0, NEVER_NS, now_ns=0) == 8
    with Reader.open(tmp_path) as reader:
        assert [number for number in range(10) if reader.bases(number)] == [9]
        assert [number for number in range(10) if reader.mentions(f"name {number}")] == [9]


def test_a_damaged_base(store: Store, tmp_path: Path) -> None:
    """Nothing is made from it."""
    store._connection.execute("UPDATE base SET position = 5 WHERE number = 6")
    with Reader.open(tmp_path) as reader, pytest.raises(JournalError, match="a base of transaction 6 is not as it was written"):
        reader.bases(6)


def test_a_name_is_found(store: Store, tmp_path: Path) -> None:
    """A name is found in all transactions that mention it, from a number on."""
    for number in (10, 11, 12):
        several = batch(number)
        several.names = {"app-1", "ö", *map(str, range(number))} - {"app-1" if number == 11 else ""}
        store.commit(several)
    with Reader.open(tmp_path) as reader:
        assert reader.mentions("app-1") == [10, 12]
        assert reader.mentions("ö", first=11) == [11, 12]
        assert reader.mentions("11") == [12]
        assert reader.mentions("name") == []
        row = reader.row(12)
        assert row is not None
        assert row.number == 12
        assert reader.row(13) is None


def test_names_are_four_bytes_each() -> None:
    """Whatever they are."""
    names = ["", "a", "x" * 5000, "ö"]
    packed = packed_names(names)
    assert len(packed) == 16
    assert all(packed_name(name) in packed for name in names)
