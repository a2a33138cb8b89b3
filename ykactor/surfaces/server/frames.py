"""Websocket frames that are made once for many followers, and sent from memory that all their sockets share.

The websocket library would build, compress and copy the same frame for each follower. Frames of a server have no mask, and every
message is compressed on its own, so the bytes are the same for all. They are put into a file in memory: the kernel sends its
pages without copying them, which for a thousand followers is a third of the cost of copying.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

#: The size of one file. It is freed when the last of its frames is neither kept nor unsent.
_FILE_BYTES = 16 * 2**20
#: The size of the frames of a long message: other tasks may run between two of them.
PART_BYTES = 2**18

#: The first byte of a frame (RFC 6455, 5.2).
_LAST, _COMPRESSED, _CONTINUED, _TEXT, _BINARY = 0x80, 0x40, 0x00, 0x01, 0x02


class _File:
    """A file in memory that is only appended to, because the kernel may still read what is there."""

    def __init__(self) -> None:
        self.size = 0
        if hasattr(os, "memfd_create"):
            self.descriptor = os.memfd_create("frames")
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        os.close(self.descriptor)


class Frames(NamedTuple):
    """Whole frames, one after the other in a file."""

    file: _File
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start

    def send(self, socket: int) -> int:
        """Send as much as the socket takes and return the number of bytes; ``OSError`` if it takes nothing."""
        return os.sendfile(socket, self.file.descriptor, self.start, self.size)

    def after(self, count: int) -> Frames:
        """What is left when ``count`` bytes were sent."""
        return Frames(self.file, self.start + count, self.end)

    def joined(self, later: Frames) -> Frames | None:
        """Both, if ``later`` follows in the same file."""
        return Frames(self.file, self.start, later.end) if later.file is self.file and later.start == self.end else None

    def read(self) -> bytes:
        """The bytes."""
        return os.pread(self.file.descriptor, self.size, self.start)


class FrameStore:
    """Puts messages into files as frames."""

    def __init__(self) -> None:
        self._file: _File | None = None

    def put(self, payload: bytes, *, is_text: bool, is_compressed: bool = False) -> Frames:
        """A message as one frame; ``is_compressed`` says what the payload is."""
        return self._put(_LAST | (_COMPRESSED if is_compressed else 0) | (_TEXT if is_text else _BINARY), payload)

    def put_in_parts(self, message: bytes, *, is_text: bool) -> Iterator[Frames]:
        """A long message as frames of ``PART_BYTES`` each; a frame is made when it is asked for."""
        kind = _TEXT if is_text else _BINARY
        for start in range(0, len(message), PART_BYTES):
            end = start + PART_BYTES
            yield self._put(kind | (_LAST if end >= len(message) else 0), message[start:end])
            kind = _CONTINUED

    def _put(self, first: int, payload: bytes) -> Frames:
        file = self._file
        if file is None or file.size >= _FILE_BYTES:
            file = self._file = _File()
        start = file.size
        for part in (_header(first, len(payload)), payload):
            file.size += os.pwrite(file.descriptor, part, file.size)
        return Frames(file, start, file.size)


def _header(first: int, length: int) -> bytes:
    if length < 126:
        return bytes((first, length))
    if length < 2**16:
        return bytes((first, 126)) + length.to_bytes(2)
    return bytes((first, 127)) + length.to_bytes(8)
