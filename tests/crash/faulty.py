"""``ykactor`` with a fault: ``faulty.py POINT NUMBER MARK ARGUMENT...``.

It kills itself when the point is reached for the n-th time, and makes the file MARK before.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from ykactor.journal import store
from ykactor.journal.files import Witness
from ykactor.journal.store import Store
from ykactor.surfaces.cli.main import main

#: Places around a commit: before anything is written, in the transaction, committed without anybody knowing, and known to the
#: writer but not yet to the daemon; before and after some changes are merged into the records, and the write-ahead log is copied
#: into the database.
POINTS = ("before", "written", "committed", "returned", "merge", "merged", "checkpoint", "checkpointed")
#: At this point, which is "returned", the power fails. Beside MARK are then two directories with the files of the journal: as
#: they were at the last fsync, and as they are.
POWER = "power"
SYNCED, WRITTEN = "synced", "written"
#: What ``PRAGMA synchronous`` says if each commit is synced.
FULL = 2


class Fuse:
    """Ends the process when it is reached at the point for the n-th time."""

    def __init__(self, point: str, number: int, mark: Path) -> None:
        self.point = point
        self.left = number
        self.mark = mark

    def reach(self, point: str) -> None:
        """Here it may end."""
        self.left -= point == self.point
        if self.left <= 0:
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def install(fuse: Fuse) -> None:
    """Put the fuse into the store."""
    if fuse.point == POWER:
        _install_disk(fuse)
    Store.write = _around(fuse, Store.write, "before", "returned")  # type: ignore[method-assign]
    Store.merge = _around(fuse, Store.merge, "merge", "merged")  # type: ignore[method-assign]
    Store.checkpoint = _around(fuse, Store.checkpoint, "checkpoint", "checkpointed")  # type: ignore[method-assign]
    transaction: Callable[[Store], AbstractContextManager[None]] = Store._transaction

    @contextmanager
    def faulty(store: Store) -> Iterator[None]:
        with transaction(store):
            yield
            fuse.reach("written")
        fuse.reach("committed")

    Store._transaction = faulty  # type: ignore[assignment, method-assign]


def _around(fuse: Fuse, call: Callable[..., Any], before: str, after: str) -> Callable[..., Any]:
    def faulty(*arguments: Any) -> Any:
        fuse.reach(before)
        result = call(*arguments)
        fuse.reach(after)
        return result

    return faulty


def _install_disk(fuse: Fuse) -> None:
    """Keep what was synced: at first everything, then all at a checkpoint, and at each commit if SQLite has been told so."""
    write, checkpoint, note, synced = Store.write, Store.checkpoint, Witness.note, fuse.mark.with_name(SYNCED)
    shutil.rmtree(synced, ignore_errors=True)

    def copying_write(store: Store, *arguments: Any) -> int:
        is_last = fuse.left == 1
        ((synchronous,),) = store._connection.execute("PRAGMA synchronous")
        if not synced.exists() or (is_last and synchronous == FULL):
            _copy(store, synced)
        number = write(store, *arguments)
        if is_last:
            _copy(store, fuse.mark.with_name(WRITTEN))
        fuse.reach(POWER)
        return number

    def copying_checkpoint(store: Store) -> None:
        checkpoint(store)
        _copy(store, synced)

    def copying_note(witness: Witness, *arguments: Any) -> None:
        is_synced_now = not witness._is_synced
        note(witness, *arguments)
        if is_synced_now and synced.exists() and witness._durability != "full":  # else this commit counts as under way
            shutil.copy(witness._directory / "witness", synced)

    Witness.note = copying_note  # type: ignore[method-assign]
    Store.write = copying_write  # type: ignore[method-assign]
    Store.checkpoint = copying_checkpoint  # type: ignore[method-assign]


def _copy(store: Store, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store._path.parent, target, ignore=shutil.ignore_patterns("*-shm"))


if __name__ == "__main__":
    point, number, mark, *sys.argv[1:] = sys.argv[1:]
    install(Fuse(point, int(number), Path(mark)))
    store.CHECKPOINT_BYTES = 1 << 18  # so that the write-ahead log is copied often
    store.MERGE_BYTES, store.MERGE_ROWS = 1 << 14, 16
    main()
