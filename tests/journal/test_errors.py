"""Errors for want of room may be tried again, and no others."""

import errno
import sqlite3
import tempfile
from pathlib import Path

import pytest

from ykactor.journal.errors import DiskError, NotWrittenError, write_error


def error_of(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorcode, error.sqlite_errorname = code, "NAME"
    return error


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE])
@pytest.mark.parametrize(
    ("system", "kind"),
    [
        (errno.ENOSPC, NotWrittenError),
        (errno.EDQUOT, NotWrittenError),
        (errno.EFBIG, NotWrittenError),
        (errno.EIO, DiskError),
        (errno.EROFS, DiskError),
    ],
)
def test_what_sqlite_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, system: int, kind: type[Exception]
) -> None:
    """Another write tells why a write has failed if SQLite does not. (The index of the log grows on a disk that gets full.)"""

    def fail(**_: object) -> None:
        raise OSError(system, "words of the system")

    assert type(write_error(error_of(code), tmp_path / "journal.db")) is DiskError
    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    assert type(write_error(error_of(code), tmp_path / "journal.db")) is kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, NotWrittenError),
        (sqlite3.SQLITE_IOERR_FSYNC, DiskError),
        (sqlite3.SQLITE_IOERR_READ, DiskError),
        (sqlite3.SQLITE_CORRUPT, DiskError),
        (sqlite3.SQLITE_READONLY, DiskError),
    ],
)
def test_what_sqlite_tells(tmp_path: Path, code: int, kind: type[Exception]) -> None:
    """After a failed fsync above all nothing is tried again, even on a full disk: nobody knows what the disk has."""
    error = write_error(error_of(code), tmp_path / "journal.db")
    assert type(error) is kind
    assert "words of SQLite" in str(error)
