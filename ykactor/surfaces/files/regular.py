"""Files: reading a configuration that somebody else writes (only regular files, only so much, never waiting for a writer), and
writing what only the user of the daemon may read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from ykactor.wire.si.lengths import CONFIG_MAX


class UnsuitableFileError(OSError):
    """The file is no regular file, or too large."""


def read_regular(path: Path, bytes_max: int = CONFIG_MAX) -> bytes:
    """The content of a regular file.

    Opened without blocking, so that a FIFO without a writer keeps nobody; what is no regular file is not read at all, because
    ``/dev/zero`` has no end.

    Raises:
        UnsuitableFileError: it is no regular file, or larger than ``bytes_max``.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnsuitableFileError(f"{path}: found something that is no regular file, expected a text file")
        with open(descriptor, "rb", closefd=False) as file:
            return read_stream(file, str(path), bytes_max)
    finally:
        os.close(descriptor)


def read_stream(stream: IO[bytes], name: str, bytes_max: int = CONFIG_MAX) -> bytes:
    """The rest of a stream, for example of a pipe to a command.

    Raises:
        UnsuitableFileError: it has more than ``bytes_max``.
        OSError: it cannot be read.
    """
    content = stream.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise UnsuitableFileError(f"{name}: found more than {bytes_max} bytes, expected at most that")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Write a new file as a whole or not at all, for this user only: state has names of users, and what they run."""
    with written_private(path, content):
        pass


@contextmanager
def written_private(path: Path, content: bytes) -> Iterator[None]:
    """Write a private file before the block, and give it its name at the end, unless the block fails."""
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        unfinished.unlink(missing_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        yield
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write to, which has its name at the end of the block: there is never a half one.

    The one before stays until then, and if the block fails. What is there and is no regular file, such as a device or a pipe, is
    written as it comes.

    Args:  mode: of a new file, as far as the umask allows.

    Raises:
        OSError: it cannot be written; the error names the file.
    """
    target = path.resolve()
    is_special = target.exists() and not target.is_file()
    unfinished = target if is_special else target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if not is_special:
            unfinished.unlink(missing_ok=True)  # also a link that another user has put there, which is not followed
        with open(unfinished, "wb" if is_special else "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
        if not is_special:
            unfinished.rename(target)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename not in (None, str(unfinished)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if not is_special:
            unfinished.unlink(missing_ok=True)


# ---- files that belong together, so that a change of any of them is seen

#: Bytes of each file.
FILE_MAX = 16 * 2**20

#: The content, or why it could not be read.
Found = bytes | OSError


class FilesTogether:
    """Files that are loaded together."""

    def __init__(self) -> None:
        #: Of all files, when they were loaded the last time.
        self._found: Mapping[Path, Found] = {}

    def owners(self, path: Path) -> Collection[int] | None:
        """The numbers of the users that may own a file (``check_ownership``); None: anybody."""
        raise NotImplementedError

    @property
    def content(self) -> bytes:
        """The content of the files when they were loaded the last time; never the same for others."""
        return _together(self._found.items())

    def read(self) -> bytes:
        """The present content of these files, to be compared with ``content``; no error. Blocks."""
        return _together((path, self._found_at(path)) for path in self._found)

    def directories(self) -> set[Path]:
        """The directories of these files, and those to which links lead."""
        return {path.parent for file in self._found for path in (file, file.resolve())}

    def _found_at(self, path: Path) -> Found:
        try:
            if (owners := self.owners(path)) is not None:
                check_ownership(path, owners)
            return read_regular(path, FILE_MAX)
        except OSError as error:
            return error


def _together(found: Iterable[tuple[Path, Found]]) -> bytes:
    return b"".join(
        b"%s: %d\n%s" % (str(path).encode(), len(content), content) if isinstance(content, bytes) else str(content).encode()
        for path, content in found
    )


# ---- files that decide who is let in, and that others must not be able to change (SE-36)

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
