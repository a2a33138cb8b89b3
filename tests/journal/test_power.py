"""A power failure: of what was written since the last fsync any sectors may be on the disk, and others not (DU-3).

The states of the files before and after a write are known; what the disk may have between them is any mixture of their sectors.
"""

import random
from pathlib import Path

import pytest
from journals import copied, numbered, opened, records_of, states, turns_of
from poweroff import mixture
from seeds import seeds

from ykactor.journal import files
from ykactor.journal.store import Store

LAST = 12
STATES = states(LAST)
TRIES = 4


def check(directory: Path, first: int, last: int) -> Store:
    """The journal opens with the whole transactions up to a number from ``first`` to ``last``."""
    store = opened(directory)
    store.close()
    assert first <= store.number <= last
    assert records_of(directory) == STATES[store.number]
    assert turns_of(directory) == [(number, numbered(number).turns) for number in range(1, store.number + 1)]
    return store


@pytest.mark.parametrize("seed", seeds(2))
def test_in_a_commit(tmp_path: Path, seed: int) -> None:
    """The transactions before it are there; it is there as a whole, or not at all."""
    rng = random.Random(seed)
    store = opened(tmp_path / "state")
    checkpoints = {rng.randint(1, LAST - 1), rng.randint(1, LAST - 1)}
    for number in range(1, LAST + 1):
        before = copied(tmp_path / "state", tmp_path / "before")
        store.commit(numbered(number))
        after = copied(tmp_path / "state", tmp_path / "after")
        for _ in range(TRIES):
            failed = copied(after, tmp_path / "failed")
            (failed / "witness").write_bytes((before / "witness").read_bytes())  # it is written when the commit is on the disk
            mixture(before / "journal.db-wal", failed / "journal.db-wal", rng)
            assert check(failed, number - 1, number).loss == ""
        if number in checkpoints:
            store.checkpoint()
    store.close()


@pytest.mark.parametrize("seed", seeds(2))
def test_in_a_checkpoint(tmp_path: Path, seed: int) -> None:
    """Nothing is lost: the write-ahead log is emptied when the database is on the disk."""
    rng = random.Random(seed)
    store = opened(tmp_path / "state")
    for number in range(1, LAST + 1):
        store.commit(numbered(number))
        if number % 3 == 0:
            before = copied(tmp_path / "state", tmp_path / "before")
            store.checkpoint()
            for _ in range(TRIES):
                failed = copied(before, tmp_path / "failed")
                mixture(tmp_path / "state" / "journal.db", failed / "journal.db", rng)
                assert check(failed, number, number).loss == ""
    store.close()


@pytest.mark.parametrize("seed", seeds(2))
def test_with_less_durability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Commits since the last checkpoint may be lost with ``normal``, in order, and that is said at the next boot."""
    rng = random.Random(seed)
    synced = rng.randint(1, LAST - 1)
    store = Store.open(tmp_path / "state", "normal", now_ns=0)
    for number in range(1, LAST + 1):
        store.commit(numbered(number))
        if number == synced:
            store.checkpoint()
            before = copied(tmp_path / "state", tmp_path / "before")
    after = copied(tmp_path / "state", tmp_path / "after")
    store.close()
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("another\n")
    monkeypatch.setattr(files, "_BOOT_ID", boot_id)
    for _ in range(TRIES):
        failed = copied(after, tmp_path / "failed")
        for name in ("journal.db-wal", "witness"):
            mixture(before / name, failed / name, rng)
        found = check(failed, synced, LAST)
        assert found.loss.startswith((f"transactions {found.number + 1} to ", f"transactions after {found.number} may be lost"))
        assert found.terms.missing("message", found.number + 1, str(store.terms.present))
