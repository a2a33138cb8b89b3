"""Torn and changed files: a journal gives all that was committed, or a beginning of it and says so, or refuses (DU-12)."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from journals import copied, numbered, opened, records_of, states, turns_of
from seeds import scaled

from ykactor.journal import files, maintenance
from ykactor.journal.errors import JournalError
from ykactor.journal.files import Durability, Seen, Witness
from ykactor.journal.store import Store

LAST = 24
STATES = states(LAST)
#: A place in a file, as a fraction of its size, and a bit.
PLACES = st.floats(0, 1, exclude_max=True)
BITS = st.integers(0, 7)
#: Some in the first bytes of the file, where each has a meaning of its own.
FLIPS = st.tuples(PLACES | st.integers(0, 200), BITS)


@pytest.fixture(scope="module")
def unclean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a process that died; a third of its transactions are in the database, the others in the write-ahead log."""
    directory = tmp_path_factory.mktemp("running")
    store = opened(directory)
    for number in range(1, LAST + 1):
        store.commit(numbered(number))
        if number == LAST // 3:
            store.merge()
            store.checkpoint()
    died = copied(directory, directory.with_name("died"))
    store.close()
    return died


@pytest.fixture(scope="module")
def clean(unclean: Path) -> Path:
    """The same after a clean stop."""
    directory = copied(unclean, unclean.with_name("clean"))
    opened(directory).close()
    return directory


def found(directory: Path) -> int:
    """The last transaction that a damaged journal gives; -1 if it refuses. Checks that it is told what is missing."""
    try:
        store = opened(directory)
    except JournalError:
        return -1
    store.close()
    if store.number < LAST:
        assert store.loss == f"transactions {store.number + 1} to {LAST} were committed, but are not in the journal any more"
    try:
        records, turns = records_of(directory), turns_of(directory)
    except JournalError:
        return -1
    assert records == STATES[store.number]
    assert turns == [(number, numbered(number).turns) for number in range(1, store.number + 1)]
    return store.number


def flipped(path: Path, flip: tuple[float, int]) -> None:
    place, bit = flip
    content = bytearray(path.read_bytes())
    content[place if isinstance(place, int) else int(place * len(content))] ^= 1 << bit
    path.write_bytes(content)


@given(PLACES)
@example(0)
@settings(max_examples=scaled(60))
def test_a_torn_write_ahead_log(unclean: Path, tmp_path_factory: pytest.TempPathFactory, place: float) -> None:
    """Recovered up to the last whole transaction; what was cut off is named. What the database has is never lost."""
    directory = copied(unclean, tmp_path_factory.mktemp("torn") / "state")
    wal = directory / "journal.db-wal"
    with wal.open("r+b") as file:
        file.truncate(int(place * wal.stat().st_size))
    assert LAST // 3 <= found(directory) < LAST


@given(FLIPS)
@settings(max_examples=scaled(100))
def test_a_changed_write_ahead_log(unclean: Path, tmp_path_factory: pytest.TempPathFactory, flip: tuple[float, int]) -> None:
    """A changed write-ahead log is treated as a torn one; a changed bit that nothing reads may also change nothing."""
    directory = copied(unclean, tmp_path_factory.mktemp("changed") / "state")
    flipped(directory / "journal.db-wal", flip)
    assert found(directory) >= LAST // 3


@given(FLIPS)
@settings(max_examples=scaled(200))
def test_a_changed_database(clean: Path, tmp_path_factory: pytest.TempPathFactory, flip: tuple[float, int]) -> None:
    """All that was committed, or a refusal."""
    directory = copied(clean, tmp_path_factory.mktemp("changed") / "state")
    flipped(directory / "journal.db", flip)
    assert found(directory) in (-1, LAST)


@given(PLACES)
@example(0)
@settings(max_examples=scaled(30))
def test_a_torn_database(clean: Path, tmp_path_factory: pytest.TempPathFactory, place: float) -> None:
    """All that was committed, if only free pages are cut off, or a refusal."""
    directory = copied(clean, tmp_path_factory.mktemp("torn") / "state")
    path = directory / "journal.db"
    with path.open("r+b") as file:
        file.truncate(int(place * path.stat().st_size))
    assert found(directory) in (-1, LAST)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"00000000000000000024 - 00000000\n"])
def test_a_damaged_witness(clean: Path, tmp_path: Path, content: bytes) -> None:
    """A damaged high-water mark hides whether something is missing, and that is said; the journal is as it was."""
    directory = copied(clean, tmp_path / "state")
    path = directory / "witness"
    path.write_bytes(content)
    expected = f"it is not known whether transactions after {LAST} were committed: {path} is damaged"
    assert list(maintenance.verify(directory)) == [expected]
    store = opened(directory)
    store.close()
    assert store.loss == expected
    assert records_of(directory) == STATES[LAST]


def test_a_witness_is_never_empty(tmp_path: Path) -> None:
    """A process that ends before it has written one leaves none, as a backup has none: not one that is damaged."""
    witness = Witness(tmp_path, "full")
    assert Seen.of(tmp_path).is_missing
    witness.note(3, None)
    witness.close()
    assert (Seen.of(tmp_path).is_missing, Seen.of(tmp_path).number) == (False, 3)


def test_a_missing_witness(clean: Path, tmp_path: Path) -> None:
    """This is how a backup is put back; the start says that there may have been more."""
    directory = copied(clean, tmp_path / "state")
    (directory / "witness").unlink()
    store = opened(directory)
    store.close()
    assert store.loss == f"no witness, so this is a backup: what came after transaction {LAST} is not known"
    assert records_of(directory) == STATES[LAST]


def test_a_loss_is_said_until_something_is_committed(clean: Path, tmp_path: Path) -> None:
    """A daemon that ends before its first transaction has told nobody of it."""
    directory = copied(clean, tmp_path / "state")
    (directory / "witness").unlink()
    for _ in range(2):
        store = opened(directory)
        store.close()
        assert store.loss
    store = opened(directory)
    store.commit(numbered(LAST + 1))
    store.close()
    again = opened(directory)
    again.close()
    assert not again.loss


def test_a_missing_database(clean: Path, tmp_path: Path) -> None:
    """A directory whose database was removed is refused: to begin with nothing would end all that runs."""
    directory = copied(clean, tmp_path / "state")
    path, witness_path = directory / "journal.db", directory / "witness"
    path.unlink()
    for _ in range(2):
        with pytest.raises(JournalError) as refused:
            opened(directory)
        assert str(refused.value) == (
            f"{path}: found no journal, although {witness_path} says that it had {LAST} transactions; "
            f"put a backup there, or remove {witness_path} to begin with nothing"
        )
    witness_path.unlink()
    store = opened(directory)
    store.close()
    assert (store.number, store.loss) == (0, "")


@pytest.mark.parametrize("boot", ["another", None])
@pytest.mark.parametrize(
    ("durability", "is_clean", "is_lost"),
    [("full", False, False), ("normal", False, True), ("off", False, True), ("normal", True, False), ("off", True, True)],
)
def test_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability, is_clean: bool, is_lost: bool, boot: str | None
) -> None:
    """After another boot, or where nobody knows which it is, transactions may be missing if they were not on the disk when the
    system ended, and that is said.
    """
    boot_id = tmp_path / "boot_id"
    monkeypatch.setattr(files, "_BOOT_ID", boot_id)
    if boot is not None:
        boot_id.write_text("first\n")
    store = Store.open(tmp_path / "state", durability, now_ns=0)
    store.commit(numbered(1))
    died = copied(tmp_path / "state", tmp_path / "died")
    store.close()
    if boot is not None:
        boot_id.write_text(f"{boot}\n")
    again = opened(tmp_path / "state" if is_clean else died)
    again.close()
    assert again.loss == ("transactions after 1 may be lost: not all was on the disk when the system ended" if is_lost else "")
