"""Websocket frames that are made once for many followers, and sent from memory that all their sockets share.

``wsproto`` would build, compress and copy the same frame for each follower. Frames of a server have no mask, and every
message is compressed on its own, so the bytes are the same for all. They are put into a file in memory: the kernel sends its
pages without copying them, which for a thousand followers is a third of the cost of copying. While there are too few descriptors
for files, frames are copied to each socket.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from ykactor.surfaces.net.descriptors import is_reserved

#: The size of one file. It is freed when the last of its frames is neither kept nor unsent.
_FILE_BYTES = 16 * 2**20
#: The size of the frames of a long message: other tasks may run between two of them.
PART_BYTES = 2**18

#: The first byte of a frame (RFC 6455, 5.2).
_LAST, _COMPRESSED, _CONTINUED, _TEXT, _BINARY = 0x80, 0x40, 0x00, 0x01, 0x02


class _File:
    """A file in memory that is only appended to, because the kernel may still read what is there."""

    def __init__(self, descriptor: int) -> None:
        self.size = 0
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def append(self, data: bytes) -> None:
        self.size += os.pwrite(self._descriptor, data, self.size)

    def send(self, socket: int, start: int, count: int) -> int:
        return os.sendfile(socket, self._descriptor, start, count)

    def read(self, start: int, count: int) -> bytes:
        return os.pread(self._descriptor, count, start)


class _Copied:
    """A ``_File`` in the memory of the daemon."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def size(self) -> int:
        return len(self._data)

    def append(self, data: bytes) -> None:
        self._data += data

    def send(self, socket: int, start: int, count: int) -> int:
        return os.write(socket, memoryview(self._data)[start : start + count])

    def read(self, start: int, count: int) -> bytes:
        return bytes(self._data[start : start + count])


def _open_file() -> int:
    """The descriptor of a new file in memory; ``OSError`` if only those are left that the daemon needs for itself."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("frames")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    if is_reserved(descriptor):
        os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptor


class Frames(NamedTuple):
    """Whole frames, one after the other in a file."""

    file: _File | _Copied
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start

    def send(self, socket: int) -> int:
        """Send as much as the socket takes and return the number of bytes; ``OSError`` if it takes nothing."""
        return self.file.send(socket, self.start, self.size)

    def after(self, count: int) -> Frames:
        """The frames that are left when ``count`` bytes were sent."""
        return Frames(self.file, self.start + count, self.end)

    def joined(self, later: Frames) -> Frames | None:
        """Both, if ``later`` follows in the same file."""
        return Frames(self.file, self.start, later.end) if later.file is self.file and later.start == self.end else None

    def read(self, count_max: int | None = None) -> bytes:
        """The bytes, or the first of them."""
        return self.file.read(self.start, self.size if count_max is None else min(self.size, count_max))


def frame(payload: bytes, *, is_text: bool) -> bytes:
    """A message as one frame, for a single peer."""
    return _header(_LAST | (_TEXT if is_text else _BINARY), len(payload)) + payload


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
        header = _header(first, len(payload))
        try:
            if self._file is None or self._file.size >= _FILE_BYTES:
                self._file = _File(_open_file())
            return _appended(self._file, header, payload)
        except OSError:  # no descriptor, or no memory for files; the next frames may have a file again
            return _appended(_Copied(), header, payload)


def _appended(file: _File | _Copied, header: bytes, payload: bytes) -> Frames:
    start = file.size
    file.append(header)
    file.append(payload)
    return Frames(file, start, file.size)


def _header(first: int, length: int) -> bytes:
    if length < 126:
        return bytes((first, length))
    if length < 2**16:
        return bytes((first, 126)) + length.to_bytes(2)
    return bytes((first, 127)) + length.to_bytes(8)
