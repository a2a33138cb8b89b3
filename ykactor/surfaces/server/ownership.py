"""Refuses files that decide who is let in and that others could change (SE-36)."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Collection, Iterator
from pathlib import Path

#: The number of links that Linux follows.
_LINKS_MAX = 40


class UnsafeFileError(OSError):
    """Somebody else could change the file."""


def check_ownership(path: Path, owners: Collection[int]) -> None:
    """Refuse a file that somebody else than its owners could change, replace or, while it is missing, create.

    Each directory and link on the way is checked, as sshd does: whoever may rename one of them may put another file there.

    Args:
        owners: the numbers of the users that may own all of these.
    Raises:
        UnsafeFileError
        OSError: a directory on the way cannot be searched.
    """
    try:
        for step in _way(path):
            _check(step, step.lstat(), owners)
    except FileNotFoundError:
        pass  # all that is there was checked; what is missing is for who reads it


def _check(step: Path, found: os.stat_result, owners: Collection[int]) -> None:
    if found.st_uid not in owners:
        expected = " or ".join(str(uid) for uid in sorted(owners))
        raise UnsafeFileError(f"{step}: found the owner {found.st_uid}, who could let anybody in, expected {expected}")
    # Others may make new entries where the sticky bit is set, as in /tmp, but neither remove nor rename those of the owners.
    is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & 0o022 and not (is_sticky or stat.S_ISLNK(found.st_mode)):
        mode = stat.S_IMODE(found.st_mode)
        raise UnsafeFileError(f"{step}: found the mode {mode:04o}, by which others could let anybody in: chmod go-w {step}")


def _way(path: Path) -> Iterator[Path]:
    """The directories and links that lead to a file, then the file."""
    at, rest = Path("/"), deque(path.absolute().parts[1:])
    links = 0
    yield at
    while rest:
        name = rest.popleft()
        if name == "..":
            at = at.parent
            continue
        yield (entry := at / name)
        if not entry.is_symlink():
            at = entry
            continue
        if (links := links + 1) > _LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = entry.readlink()
        at = Path("/") if target.is_absolute() else at
        rest.extendleft(reversed(target.parts[target.is_absolute() :]))
