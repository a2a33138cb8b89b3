"""The process at the other end of a Unix socket, as the kernel knows it."""

import socket
import struct
from typing import NamedTuple, Protocol

#: ``struct ucred``: process, user and group.
_UCRED = struct.Struct("iII")


class Credentials(NamedTuple):
    """The credentials of the process that has connected, or that listens."""

    pid: int
    uid: int
    gid: int


class _Socket(Protocol):
    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...


def credentials(connected: _Socket) -> Credentials:
    """The other end of a connected Unix socket (SO_PEERCRED)."""
    return Credentials(*_UCRED.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))
