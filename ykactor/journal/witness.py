"""The witness: how far the journal has come, outside of the database.

SQLite recovers up to the last transaction that it can read, and drops what follows a damaged one without a word. Only a number
that is kept elsewhere shows that there was more. It is written without fsync: it survives the death of the process, and after a
power failure it may be behind, never ahead of what was promised.
"""

import os
import zlib
from pathlib import Path
from typing import Literal

from msgspec import Struct

#: When a transaction is on the disk: before it is acknowledged; at the next checkpoint; whenever the system likes.
Durability = Literal["full", "normal", "off"]

_NAME = "witness"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Instead of a boot: all that was committed is on the disk.
_ON_DISK = "-"


class Seen(Struct, frozen=True):
    """What the witness of a directory says.

    Attributes:
        is_missing: whether there is no witness: the journal is new, or a backup.
        number: the newest transaction; 0 if the file is missing or damaged.
        boot: of the system whose memory may still hold some of what was committed; "-" if all is on the disk, "" if unknown.
    """

    path: Path
    is_missing: bool
    number: int = 0
    boot: str = ""

    @classmethod
    def of(cls, directory: Path) -> "Seen":
        """Reads the witness. Raises:  OSError."""
        path = directory / _NAME
        if not path.exists():
            return cls(path, True)
        text, _, crc = path.read_bytes().partition(b"\n")[0].rpartition(b" ")
        if not text or crc != _crc(text):
            return cls(path, False)
        number, boot = text.split()
        return cls(path, False, int(number), boot.decode())

    def loss(self, number: int) -> str:
        """What the database has lost, as a sentence; "" if it has all that was committed.

        Args:  number: the newest transaction in the database, 0 if there is none; read after the witness.
        """
        if self.number > number:
            return f"transactions {number + 1} to {self.number} were committed, but are not in the journal any more"
        if number and self.is_missing:
            return unknown_after(number)
        if number and not self.boot:
            return f"it is not known whether transactions after {number} were committed: {self.path} is damaged"
        if self.boot not in ("", _ON_DISK, _boot_id()):
            return f"transactions after {number} may be lost: not all was on the disk when the system ended"
        return ""


def unknown_after(number: int) -> str:
    """What a journal without a witness is, whose newest transaction is ``number``."""
    return f"no witness, so this is a backup: what came after transaction {number} is not known"


class Witness:
    """Writes the witness, which is one line: number, boot, CRC-32. Raises:  OSError."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self._directory = directory
        self._file = os.open(directory / _NAME, os.O_WRONLY | os.O_CREAT, 0o600)
        self._durability = durability
        self._boot = _ON_DISK if durability == "full" else _boot_id()
        self._is_synced = False

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def note(self, number: int) -> None:
        """The transaction ``number`` is committed, whatever becomes of this call.

        The first call syncs the file, so that it exists and names the boot in any case.
        """
        self._write(number, self._boot)
        if not self._is_synced:
            os.fsync(self._file)
            sync(self._directory)
            self._is_synced = True

    def note_end(self, number: int) -> None:
        """All transactions up to ``number`` have been copied into the database, and no other follows."""
        if self._durability == "normal":
            self._write(number, _ON_DISK)

    def _write(self, number: int, boot: str) -> None:
        text = f"{number:020} {boot}".encode()
        os.pwrite(self._file, b"%b %b\n" % (text, _crc(text)), 0)


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
    return _BOOT_ID.read_text().strip()
