"""Asks a standby to take over: by a Unix socket in its state directory, a request and an answer in JSON.

Who may write to the directory may ask. Who asks waits for the answer; if the process dies, the connection ends without one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

#: The socket in the state directory.
NAME = "take-over"
#: Bytes that are read at once; a request is shorter.
READ_BYTES = 2**16


class TakeOver(Struct, frozen=True):
    """The standby is to take over; ``hands_over``: when the daemon has ended in good order."""

    hands_over: bool


class Answer(Struct, frozen=True):
    """The outcome.

    Attributes:
        failure: why nothing was taken over; "" if it was.
        term: which has begun, after ``transaction``.
        notes: about the daemon before, and what was not in memory.
    """

    failure: str = ""
    term: str = ""
    transaction: int = 0
    notes: list[str] = []


@contextmanager
def _connected(directory: Path) -> Iterator[socket.socket]:
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(f"/proc/self/fd/{folder}/{NAME}")  # the path of a socket has a limit
            yield sock
    finally:
        os.close(folder)


def ask(directory: Path, request: TakeOver) -> Answer:
    """Ask the standby in a directory, and wait for its answer. Blocks. Raises:  OSError if there is none, or it has died."""
    with _connected(directory) as sock:
        sock.sendall(msgspec.json.encode(request))
        sock.shutdown(socket.SHUT_WR)
        data = b""
        while part := sock.recv(READ_BYTES):
            data += part
    if not data:
        raise ConnectionResetError(f"{directory}: the standby has ended without an answer, which its log explains")
    return msgspec.json.decode(data, type=Answer)
