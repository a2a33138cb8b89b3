"""One daemon for each state directory: a lock that ends with the process that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ykactor.journal.errors import JournalError, NotWrittenError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds the directory, which is created if it is missing, with mode 0700.

    The lock is the kernel's (``flock``): it cannot be left behind. Its file is never removed, and only tells who holds it.

    Raises:  NotWrittenError if another process holds the directory; JournalError if it belongs to another user; OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_foreign(directory)
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip()
            raise NotWrittenError(
                f"{directory}: found it in use by process {holder}, expected one daemon for each state directory; "
                "end that process, or use another directory"
            ) from None
        os.pwrite(file, b"%-19d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(file)


def _refuse_foreign(directory: Path) -> None:
    owner = directory.stat().st_uid
    if owner != os.geteuid():
        raise JournalError(
            f"{directory}: found a directory of user {owner}, expected one of user {os.geteuid()}, who runs this program; "
            "run it as the owner, or change the owner of the directory and its files"
        )
