"""The state directory of a daemon: what its end has to wait for, and what a start refuses."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from ykactor.journal import store as store_module
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.transaction import Batch, change_text
from ykactor.surfaces.files import state_dir
from ykactor.surfaces.files.daemon_rows import CONFIG
from ykactor.surfaces.files.state_dir import StateSettings, open_state_dir


def settings(directory: Path) -> StateSettings:
    return StateSettings(directory, "full", 2**20, 10**18)


@pytest.mark.parametrize("patience_s", [5.0, 0.05])
def test_the_journal_is_not_closed_under_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float) -> None:
    """The thread of a commit outlives the daemon if the disk is slow; SQLite must not lose its database meanwhile."""
    monkeypatch.setattr(state_dir, "CLOSE_S", patience_s)
    begun, answers, done, closed = threading.Event(), threading.Event(), threading.Event(), list[bool]()
    write, close = Store.write, Store.close

    def slow(self: Store, transaction: object) -> int:
        begun.set()
        answers.wait(5)
        number = write(self, transaction)  # type: ignore[arg-type]
        done.set()
        return number

    monkeypatch.setattr(Store, "write", slow)
    monkeypatch.setattr(Store, "close", lambda self: (closed.append(done.is_set()), close(self)))
    with open_state_dir(settings(tmp_path), reserves=True) as state:
        writing = threading.Thread(
            target=state.store.commit, args=(Batch(1, 1, changes=[change_text(b'["","x"]', b"{}")]),), daemon=True
        )
        writing.start()
        begun.wait(5)
        if patience_s > 1:
            threading.Timer(0.1, answers.set).start()
    assert closed == ([True] if patience_s > 1 else [])
    answers.set()
    writing.join(5)


@pytest.mark.parametrize(
    ("key", "data"),
    [(b'["default","planet","x"]', b"{}"), (b'["default","node","n1"]', b"{}"), (b'["default","partition"]', b"{}")],
)
def test_rows_that_cannot_be_read_are_refused(tmp_path: Path, key: bytes, data: bytes) -> None:
    """DU-12: they are of a newer version, or damaged in a way that no checksum shows."""
    config = b'{"partitions":[],"checksum":"","text":""}'
    with open_state_dir(settings(tmp_path), reserves=True) as state:
        state.store.commit(Batch(1, 1, changes=[change_text(CONFIG, config), change_text(key, data)]))
    with pytest.raises(JournalError, match="the state cannot be read"), open_state_dir(settings(tmp_path), reserves=True):
        raise NotImplementedError
    with Reader.open(tmp_path) as reader:  # the refusal has let go of the directory
        assert dict(reader.records())[key] == data


def test_history_does_not_outgrow_its_bound_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DU-14: when more comes between two looks than one call of ``trim`` deletes, the next commits delete the rest."""
    monkeypatch.setattr(store_module, "TRIM_ROWS_MAX", 8)
    rng = random.Random(1)
    with open_state_dir(StateSettings(tmp_path, "off", 50_000, 10**18), reserves=True) as state:
        for number in range(1, 401):
            state.store.commit(Batch(number, 1, number, turns=[b'"%b"' % rng.randbytes(1000).hex().encode()]))
            if state.store.needs_tidying:
                state.store.tidy()
    with Reader.open(tmp_path) as reader:
        oldest, newest = reader.numbers()
    assert newest == 400
    assert newest - oldest < 50 + 2 * state_dir.TRIM_EVERY
