"""Files: reading a configuration that somebody else writes (only regular files, only so much, never waiting for a writer), and
writing what only the user of the daemon may read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
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
