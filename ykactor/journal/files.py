"""The files of a state directory beside the tables: its lock, the witness, and the database as the writer has left it.

The witness says how far the journal has come, and in which term. SQLite recovers up to the last transaction that it can read, and
drops what follows a damaged one without a word. Only a number that is kept elsewhere shows that there was more. It is written
without fsync: it survives the death of the process, and after a power failure it may be behind, never ahead of what was promised.
"""

import fcntl
import os
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from ykactor.journal.errors import JournalError, NotWrittenError
from ykactor.journal.terms import Term

#: Who writes to a journal: a daemon what it decides, a standby what a daemon has written.
Holder = Literal["daemon", "standby"]


@contextmanager
def locked(directory: Path, holder: Holder = "daemon") -> Iterator[None]:
    """Hold the directory for one process; it is created with mode 0700 if it is missing.

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
            number, _, other = os.pread(file, 40, 0).decode(errors="replace").partition("\n")
            kind = "a standby, " if other.startswith("standby") else ""
            raise NotWrittenError(
                f"{directory}: found it in use by {kind}process {number.strip()}, expected one daemon for each state directory; "
                "end that process, or use another directory"
            ) from None
        os.pwrite(file, _holding(holder), 0)
        yield
    finally:
        os.close(file)


def note_daemon(directory: Path) -> None:
    """Note that this process, which holds a directory as a standby, is the daemon from now on. Raises:  OSError."""
    with (directory / "lock").open("r+b") as file:
        file.write(_holding("daemon"))


def _holding(holder: Holder) -> bytes:
    return b"%-19d\n%-9s\n" % (os.getpid(), holder.encode())


def _refuse_foreign(directory: Path) -> None:
    owner = directory.stat().st_uid
    if owner != os.geteuid():
        raise JournalError(
            f"{directory}: found a directory of user {owner}, expected one of user {os.geteuid()}, who runs this program; "
            "run it as the owner, or change the owner of the directory and its files"
        )


# ---- that the history goes on elsewhere

_SUPERSEDED = "superseded"


def write_superseded(directory: Path, since: str) -> None:
    """Note that the history of a directory goes on elsewhere, and since when: no daemon begins there. Raises:  OSError."""
    path = directory / _SUPERSEDED
    path.write_text(f"{since}\n")
    sync(path)
    sync(directory)


def read_superseded(directory: Path) -> str:
    """The reason for which no daemon may begin in a directory; "" if it may. Raises:  OSError."""
    path = directory / _SUPERSEDED
    if not path.exists():
        return ""
    return (
        f"{path}: found that this history goes on elsewhere, in {path.read_text().strip()}; make the directory a standby of "
        "the daemon there with 'ykactor serve --standby-of URL', or remove the file to go on here all the same"
    )


def forget_superseded(directory: Path) -> None:
    """Forget it: the directory follows the history again, or takes it over. Raises:  OSError."""
    (directory / _SUPERSEDED).unlink(missing_ok=True)


# ---- that the history comes from elsewhere

_FOLLOWS = "follows"


def note_following(directory: Path) -> None:
    """Note that a directory follows the history of another one, and has had all of it, so that it may take it over.

    Raises:  OSError.
    """
    path = directory / _FOLLOWS
    if not path.exists():
        path.touch()
        sync(directory)


def is_following(directory: Path) -> bool:
    """True if the directory follows another one, of which it has had everything, and has begun no term since."""
    return (directory / _FOLLOWS).exists()


def follows_nobody(directory: Path) -> str:
    """The sentence that says why a directory cannot take over for which ``is_following`` is not true."""
    return f"{directory}: found a journal that follows no daemon, or has not had everything from it, expected one of a standby"


def may_follow(directory: Path) -> bool:
    """True if a directory with a journal follows another one, or its history goes on elsewhere. Raises:  OSError."""
    return is_following(directory) or (directory / _SUPERSEDED).exists()


def forget_following(directory: Path) -> None:
    """Forget it: the directory has a history of its own from now on. Raises:  OSError."""
    (directory / _FOLLOWS).unlink(missing_ok=True)


#: The time at which a transaction is on the disk: before it is acknowledged; at the next checkpoint; whenever the system likes.
Durability = Literal["full", "normal", "off"]

_NAME = "witness"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Instead of a boot: all that was committed is on the disk; or the system does not say which boot it is (``ProcSubset=pid`` of
#: systemd hides it), so that every later one may be another.
_ON_DISK, _HIDDEN = "-", "?"


class Seen(Struct, frozen=True):
    """The content of the witness of a directory.

    Attributes:
        is_missing: whether there is no witness: the journal is new, or a backup.
        number: the newest transaction; 0 if the file is missing or damaged.
        term: in which it was committed; None if that is not known.
        boot: of the system whose memory may still hold some of what was committed; "-" if all is on the disk, "?" if the
            system does not say which boot it is, "" if the file does not.
    """

    path: Path
    is_missing: bool
    number: int = 0
    boot: str = ""
    term: Term | None = None

    @classmethod
    def of(cls, directory: Path) -> "Seen":
        """Reads the witness. Raises:  OSError."""
        path = directory / _NAME
        if not path.exists():
            return cls(path, True)
        first, _, rest = path.read_bytes().partition(b"\n")
        progress, term = _checked(first), _checked(rest.partition(b"\n")[0])
        if not progress:
            return cls(path, False)
        number, boot = progress.split()
        return cls(path, False, int(number), boot.decode(), Term.parse(term.decode()) if term else None)

    def loss(self, number: int, terms: Container[Term]) -> str:
        """The loss of the database, as a sentence; "" if it has all that was committed.

        Args:
            number: the newest transaction in the database, 0 if there is none; read after the witness.
            terms: those that the database remembers.
        """
        if self.number > number:
            return f"transactions {number + 1} to {self.number} were committed, but are not in the journal any more"
        if self.term is not None and self.term not in terms:
            return f"transaction {self.number} of term {self.term} was committed, and is not in this journal: it is another copy"
        if number and self.is_missing:
            return unknown_after(number)
        if number and not self.boot:
            return f"it is not known whether transactions after {number} were committed: {self.path} is damaged"
        if self.boot not in ("", _ON_DISK) and not (self.boot == _boot_id() != _HIDDEN):
            return f"transactions after {number} may be lost: not all was on the disk when the system ended"
        return ""


def unknown_after(number: int) -> str:
    """The state of a journal without a witness, whose newest transaction is ``number``."""
    return f"no witness, so this is a backup: what came after transaction {number} is not known"


class Witness:
    """Writes the witness: a line with number, boot and CRC-32, and one with term and CRC-32. Raises:  OSError."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self._directory = directory
        path = directory / _NAME
        #: None while there is none: it is made with its first content, so that it is never empty.
        self._file = os.open(path, os.O_WRONLY) if path.exists() else None
        self._durability = durability
        self._boot = _ON_DISK if durability == "full" else _boot_id()
        self._is_synced = False

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            os.close(self._file)

    def note(self, number: int, term: Term | None) -> None:
        """The transaction ``number`` is committed in the term, whatever becomes of this call; 0 and None: there is none yet.

        The first call syncs the file, so that it exists and names the boot in any case.
        """
        file = self._write(number, self._boot, term)
        if not self._is_synced:
            os.fsync(file)
            sync(self._directory)
            self._is_synced = True

    def note_end(self, number: int, term: Term | None) -> None:
        """All transactions up to ``number`` have been copied into the database, and no other follows."""
        if self._durability == "normal":
            self._write(number, _ON_DISK, term)

    def _write(self, number: int, boot: str, term: Term | None) -> int:
        """Write the content; returns the file."""
        lines = [f"{number:020} {boot}".encode(), *([] if term is None else [str(term).encode()])]
        content = b"".join(b"%b %b\n" % (line, _crc(line)) for line in lines)
        if self._file is None:
            self._file = self._made(content)
        else:
            os.pwrite(self._file, content, 0)
        return self._file

    def _made(self, content: bytes) -> int:
        new = self._directory / f"{_NAME}.new"
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.pwrite(file, content, 0)
            os.fsync(file)
            new.rename(self._directory / _NAME)
        except OSError:
            os.close(file)
            raise
        return file


def _checked(line: bytes) -> bytes:
    """The text before the CRC of a line; empty if the line is damaged."""
    text, _, crc = line.rpartition(b" ")
    return text if crc == _crc(text) else b""


def sync(path: Path) -> None:
    """Puts on the disk what was written to a file, or the names of new files in a directory. Raises:  OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _crc(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return _HIDDEN


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
    """The database and its write-ahead log, as the writer has left them: whether the next start will find what was committed.

    SQLite goes on writing to a file that was removed, and behind the gap of one that was cut off. Nobody would know before the
    next start.

    Args:
        path, wal: of the two.
        page_bytes: the size of a page.
    """

    def __init__(self, path: Path, wal: Path, page_bytes: int) -> None:
        self._path, self._wal = str(path), str(wal)
        self._frame_bytes = _FRAME_HEADER_BYTES + page_bytes
        self._database = self._log = _File()
        #: The last frame; None if there is none, or it is not known where it is.
        self._tail: _Tail | None = None
        #: True if the log only grows: it was empty, and every transaction since then has been committed.
        self._only_grows = False
        self.note()

    @property
    def log_bytes(self) -> int:
        """The size of the write-ahead log after the last transaction."""
        return self._log.size

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


def _stat(path: str) -> _File:
    try:
        return _File.of(os.stat(path))
    except FileNotFoundError:
        return _File()
