"""Files that a job can write, opened and read as those of an enemy.

Opening never waits and follows no link, and only a regular file of the own user is read. So a FIFO, a device, a directory or an
endless file is an error like any other, of this one file.
"""

import os
import stat
from pathlib import Path

#: Bytes of a file that is read as a whole: a number, and a reason.
SMALL = 4096


class Unreadable(Exception):
    """A file is not what the job was given; the message says what was found."""


def open_regular(path: Path, flags: int = os.O_RDONLY, *, mode: int = 0o600) -> int:
    """Open a regular file of the own user; its descriptor.

    Raises:
        FileNotFoundError: there is none. Unreadable: it is something else, or cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, mode)
    except FileNotFoundError:
        raise
    except OSError as error:  # also a link, and a FIFO that is opened for writing
        raise Unreadable(f"{path.name}: found what cannot be opened ({error.strerror}), expected a regular file") from None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    found = f"a file of user {status.st_uid}" if stat.S_ISREG(status.st_mode) else "another kind of file"
    raise Unreadable(f"{path.name}: found {found}, expected a regular file of user {os.geteuid()}")


def open_linked(path: Path) -> int | None:
    """Open a regular file of the own user, or the one to which a link of this user leads; None if that is ``/dev/null``.

    Whatever else is at the end of a link is not opened: who writes to a FIFO would notice.

    Raises:
        FileNotFoundError: there is none. Unreadable: it is something else, or cannot be opened.
    """
    try:
        status = path.lstat()
    except PermissionError as error:
        raise Unreadable(f"{path.name}: {error.strerror}, expected a file of user {os.geteuid()}") from None
    if not stat.S_ISLNK(status.st_mode):
        return open_regular(path)
    if status.st_uid != os.geteuid():
        raise Unreadable(f"{path.name}: found a link of user {status.st_uid}, expected one of user {os.geteuid()}")
    target = os.readlink(path)
    if target == os.devnull:
        return None
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise Unreadable(f"{path.name}: found a link to {target} ({error.strerror}), expected a regular file") from None
    raise Unreadable(f"{path.name}: found a link to {target}, expected a regular file")


def read_small(path: Path) -> bytes | None:
    """The content of a file of at most ``SMALL`` bytes; None if there is none.

    Raises:  Unreadable.
    """
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return None
    try:
        content = os.read(descriptor, SMALL + 1)
    except OSError as error:
        raise Unreadable(f"{path.name}: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(content) > SMALL:
        raise Unreadable(f"{path.name}: found more than {SMALL} bytes")
    return content


def is_there(path: Path) -> bool:
    """True if the path exists, also as what cannot be read."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
