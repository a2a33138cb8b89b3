"""Watch the files that the writer has open: whether the next start will find there what was committed.

SQLite goes on writing to a file that was removed, and behind the gap of one that was cut off. Nobody would know before the next
start.
"""

import os
from pathlib import Path
from typing import NamedTuple

#: Bytes of the headers of the write-ahead log (sqlite.org/fileformat2.html) and of each frame, which a page follows.
_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
#: In a frame: the size of the database, which only the last frame of a transaction has.
_COMMITTED = slice(4, 8)


class _File(NamedTuple):
    """The file that a path leads to, and its size; all 0 without one."""

    device: int = 0
    inode: int = 0
    size: int = 0

    @classmethod
    def of(cls, found: os.stat_result) -> "_File":
        return cls(found.st_dev, found.st_ino, found.st_size)

    def is_same(self, other: "_File") -> bool:
        return self[:2] == other[:2]


class _Tail(NamedTuple):
    """The last frame of a transaction, and where it is."""

    offset: int
    frame: bytes


class WatchedFiles:
    """The database and its write-ahead log, as the writer has left them.

    Args:
        path, wal: of the two.
        page_bytes: the size of a page.
    """

    def __init__(self, path: Path, wal: Path, page_bytes: int) -> None:
        self._path, self._wal = path, wal
        self._frame_bytes = _FRAME_HEADER_BYTES + page_bytes
        self._database = self._log = _File()
        #: The last frame; None if there is none, or it is not known where it is.
        self._tail: _Tail | None = None
        #: True if the log only grows: it was empty, and every transaction since then has been committed.
        self._only_grows = False
        self.note()

    def note(self) -> None:
        """The files are as the writer wants them. To be called after what changes them otherwise than a transaction."""
        self._database, self._log, self._tail = _stat(self._path), _stat(self._wal), None
        self._only_grows = not self._log.size

    def note_failure(self) -> None:
        """A transaction was not committed: the log may end with a part of it, which the next one overwrites."""
        self._only_grows, self._tail = False, None

    def changed(self) -> str:
        """The change that another process has made to the files, as a sentence; "" if none. Cost: 10 us."""
        return self._changed_database() or self._changed_log()

    def _changed_database(self) -> str:
        found = _stat(self._path)
        if not found.is_same(self._database):
            return f"{self._path}: found it removed or replaced"
        if found.size < self._database.size:
            return f"{self._path}: found it cut off at {found.size} of {self._database.size} bytes"
        return ""

    def _changed_log(self) -> str:
        try:
            file = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return f"{self._wal}: found it removed" if self._log.inode else ""
        try:
            return self._changed_open_log(file)
        finally:
            os.close(file)

    def _changed_open_log(self, file: int) -> str:
        found = _File.of(os.fstat(file))
        if self._log.inode and not found.is_same(self._log):
            return f"{self._wal}: found it replaced"
        if found.size < self._log.size:
            return f"{self._wal}: found it cut off at {found.size} of {self._log.size} bytes"
        if self._tail is not None and self._frame(file, self._tail.offset) != self._tail.frame:
            return f"{self._wal}: found it cut off before byte {self._tail.offset + self._frame_bytes}, or overwritten"
        if self._only_grows and found.size:
            offset = found.size - self._frame_bytes
            frame = self._frame(file, offset)
            if (offset - _HEADER_BYTES) % self._frame_bytes or not any(frame[_COMMITTED]):
                return f"{self._wal}: found it cut off at {found.size} bytes, in the middle of a transaction"
            self._tail = _Tail(offset, frame)
        self._log = found
        return ""

    def _frame(self, file: int, offset: int) -> bytes:
        return os.pread(file, self._frame_bytes, offset)


def _stat(path: Path) -> _File:
    try:
        return _File.of(os.stat(path))
    except FileNotFoundError:
        return _File()
