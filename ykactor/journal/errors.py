"""The errors of a journal, in sentences: what was found, where, and what to do.

SQLite's errors are translated here, and nowhere else.
"""

import errno
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Errors of something that the process or the machine lacks for a while.
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
#: The codes of SQLite for a write that failed for a reason that it does not tell: to a file, or to the index of the log.
_UNTOLD = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE})
#: Another program has a lock on the database.
_HELD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
#: With less room than this, in bytes, a write is taken to have failed for want of it.
ROOM_BYTES = 1 << 20


class JournalError(Exception):
    """The journal cannot be opened, read or written; the text is for the operator."""


class NotWrittenError(JournalError):
    """The journal was not written for want of room, or because another program holds it. The same may be tried again."""


class DiskError(JournalError):
    """The disk has failed. Nothing may be written to this journal any more, because it is not known what the disk has."""


def damaged(path: Path, what: str) -> JournalError:
    """The error for a file whose content is not what was written."""
    return JournalError(
        f"{path}: found damage: {one_line(what)}; 'ykactor journal verify {path}' lists all of it; "
        "restore a backup into an empty directory with 'ykactor journal restore', or begin with an empty one"
    )


def one_line(text: str) -> str:
    """The same on one line: SQLite tells damage on several, under a heading."""
    return "; ".join(line.strip() for line in text.splitlines() if not line.startswith("***"))


def is_no_room(error: OSError) -> bool:
    """True if there is no room: on the disk, in a quota, or for a file of this size."""
    return error.errno in _NO_ROOM


def may_pass(error: OSError) -> bool:
    """True if something is lacking that may be there later: room on the disk, memory or file descriptors."""
    return is_no_room(error) or error.errno in _SHORTAGES


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raises errors of SQLite and of the system as ``JournalError``.

    Args:  path: the database.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _explanation(error, path) from error
    except UnicodeDecodeError as error:  # SQLite has quoted damaged text, which Python cannot make an error of
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise _refusal(error, path) from error


def write_error(error: sqlite3.Error, path: Path) -> NotWrittenError | DiskError:
    """The error to raise for an error in a transaction: it says whether the next one may succeed.

    A write for which there was no room, or no turn, has changed nothing, and may be tried again. After any other error, of fsync
    above all, the system may have dropped what it could not write, and a second try would succeed without it.
    """
    if _code(error) & 0xFF in _HELD:
        return NotWrittenError(f"{path}: found another program that writes to it ({error}); end it, nothing is lost")
    if is_full(error, path):
        return NotWrittenError(f"{path}: found no room on the disk ({error}); free some, nothing is lost")
    return DiskError(f"{path}: found a disk that fails ({_named(error)}), expected that it writes; check it, then start again")


def is_full(error: sqlite3.Error, path: Path) -> bool:
    """True if SQLite could not write for want of room.

    SQLite has a code of its own for a full disk, but not for a quota and for files of limited size, and does not tell the
    system's error. So something is written to a temporary file, at a place as far from its beginning as the failed write.
    """
    code = _code(error)
    if code not in _UNTOLD:
        return code & 0xFF == sqlite3.SQLITE_FULL
    end = max((file.stat().st_size for file in path.parent.glob(f"{path.name}*")), default=0)
    try:
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as file:
            file.seek(end)
            return file.write(bytes(ROOM_BYTES)) < ROOM_BYTES
    except OSError as problem:
        return is_no_room(problem)


def _explanation(error: sqlite3.Error, path: Path) -> JournalError:
    if is_full(error, path):
        return write_error(error, path)
    match _code(error) & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
            return damaged(path, str(error))
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return JournalError(f"{path}: cannot be opened ({error}), expected a file that this user may read and write")
        case sqlite3.SQLITE_INTERRUPT:  # by a copy, of itself
            return NotWrittenError(f"{path}: found too little room left on the disk for it; free some, nothing is lost")
        case held if held in _HELD:
            return NotWrittenError(f"{path}: found in use by another program ({error}); end it")
        case _:
            return DiskError(f"{path}: cannot be read ({_named(error)}); check the disk")


def _refusal(error: OSError, path: Path) -> JournalError:
    where = error.filename or path
    if is_no_room(error):
        return NotWrittenError(f"{where}: found no room on the disk ({error.strerror}); free some, nothing is lost")
    if may_pass(error):
        return NotWrittenError(f"{where}: {error.strerror}; nothing is lost")
    return JournalError(f"{where}: {error.strerror}; expected a directory and files that this user may read and write")


def _code(error: sqlite3.Error) -> int:
    """SQLite's extended code; that of a general error if Python has found the mistake."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


def _named(error: sqlite3.Error) -> str:
    return f"{getattr(error, 'sqlite_errorname', type(error).__name__)}: {error}"
