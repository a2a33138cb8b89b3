"""The directories and processes that are trusted with jobs: those of the own user, and of root.

Each end checks the directory of the socket, and the user of the other end, before anything is read or sent: whoever could enter
the directory of a user would get the environments of jobs, and whoever could replace the socket would get those to come.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ykactor.local.machine import user_name

#: The rights that only the owner may have in a directory for one user, and in one for all.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


class NotPrivate(Exception):
    """A directory, or the process behind its socket, is of somebody else, or open to others; the message says what was found."""


@contextmanager
def private_directory(directory: Path) -> Iterator[int]:
    """A directory of the own user that nobody else can enter or replace; its descriptor.

    Raises:
        NotPrivate. OSError: it cannot be entered.
    """
    with opened(directory) as descriptor:
        _check(directory, os.fstat(descriptor), os.geteuid(), _OTHERS)
        yield descriptor


@contextmanager
def shared_directory(directory: Path) -> Iterator[int]:
    """A directory of root that all users may enter, and only root can change; its descriptor.

    Raises:
        NotPrivate. OSError: it cannot be entered.
    """
    with opened(directory) as descriptor:
        status = os.fstat(descriptor)
        _check(directory, status, _ROOT, _OTHERS_WRITE)
        if not status.st_mode & stat.S_IXOTH:
            raise NotPrivate(f"{directory}: found the mode {stat.S_IMODE(status.st_mode):o}, expected 755: all users enter it")
        yield descriptor


@contextmanager
def trusted_directory(directory: Path) -> Iterator[tuple[int, int]]:
    """The directory of a local resource manager, of the own user or of root: its descriptor, and the uid of its owner.

    Raises:
        NotPrivate. OSError: it cannot be entered.
    """
    with opened(directory) as descriptor:
        status = os.fstat(descriptor)
        is_shared = status.st_uid == _ROOT and (os.geteuid() != _ROOT or bool(status.st_mode & stat.S_IXOTH))
        owner = _ROOT if is_shared else os.geteuid()
        _check(directory, status, owner, _OTHERS_WRITE if is_shared else _OTHERS)
        yield descriptor, owner


@contextmanager
def opened(directory: Path) -> Iterator[int]:
    """The descriptor of a directory, as a path that does not change. Raises:  OSError."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check(directory: Path, status: os.stat_result, owner: int, forbidden: int) -> None:
    """Check that a directory is of a user, that others have none of the forbidden rights, and cannot replace it.

    Raises:  NotPrivate.
    """
    if status.st_uid != owner:
        raise NotPrivate(f"{directory}: found a directory of {user_name(status.st_uid)}, expected one of {user_name(owner)}")
    if status.st_mode & forbidden:
        found, expected = f"{stat.S_IMODE(status.st_mode):o}", "700" if forbidden == _OTHERS else "755"
        why = "because jobs have secrets" if forbidden == _OTHERS else "because all users trust what is there"
        raise NotPrivate(f"{directory}: found the mode {found}, expected {expected}, {why}: chmod {expected} makes it so")
    for parent in directory.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise NotPrivate(f"{directory}: found that everybody may replace what is in {parent}, expected the mode 755 there")


def stranger(pid: int, uid: int, owner: int) -> str:
    """A sentence about the process at the other end of a socket if it is of another user than the owner; "" if it is not."""
    if uid == owner:
        return ""
    return f"found process {pid} of {user_name(uid)} at the other end, expected one of {user_name(owner)}"
