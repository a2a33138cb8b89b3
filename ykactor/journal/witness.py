"""The witness: how far the journal has come, and in which term, outside of the database.

SQLite recovers up to the last transaction that it can read, and drops what follows a damaged one without a word. Only a number
that is kept elsewhere shows that there was more. It is written without fsync: it survives the death of the process, and after a
power failure it may be behind, never ahead of what was promised.
"""

import os
import zlib
from collections.abc import Container
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ykactor.journal.terms import Term

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
        self._file = os.open(directory / _NAME, os.O_WRONLY | os.O_CREAT, 0o600)
        self._durability = durability
        self._boot = _ON_DISK if durability == "full" else _boot_id()
        self._is_synced = False

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def note(self, number: int, term: Term | None) -> None:
        """The transaction ``number`` is committed in the term, whatever becomes of this call; 0 and None: there is none yet.

        The first call syncs the file, so that it exists and names the boot in any case.
        """
        self._write(number, self._boot, term)
        if not self._is_synced:
            os.fsync(self._file)
            sync(self._directory)
            self._is_synced = True

    def note_end(self, number: int, term: Term | None) -> None:
        """All transactions up to ``number`` have been copied into the database, and no other follows."""
        if self._durability == "normal":
            self._write(number, _ON_DISK, term)

    def _write(self, number: int, boot: str, term: Term | None) -> None:
        lines = [f"{number:020} {boot}".encode(), *([] if term is None else [str(term).encode()])]
        os.pwrite(self._file, b"".join(b"%b %b\n" % (line, _crc(line)) for line in lines), 0)


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
