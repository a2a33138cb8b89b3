"""Addresses of sockets, as a daemon and its clients write them, and the process at the other end of a Unix socket."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple, Protocol

#: The prefix of the address of a Unix socket; its path follows.
UNIX = "unix:"
#: The longest path of a Unix socket, in bytes: the kernel has room for 108 with the end.
UNIX_PATH_MAX = 107


def unix_path(address: str) -> str:
    """The path of ``unix:PATH``.

    Raises:
        ValueError: there is none, or it cannot be one of a socket.
    """
    path = address.removeprefix(UNIX)
    if not path or path.startswith("@"):  # an abstract socket has no owner and no mode
        raise ValueError(f"found {address!r}, expected unix:PATH with the path of a file such as unix:/run/ykactor/ws.sock")
    size = len(path.encode(errors="surrogateescape"))
    if size > UNIX_PATH_MAX:
        raise ValueError(f"found a path of {size} bytes, expected at most {UNIX_PATH_MAX} for a Unix socket: {path}")
    return path


def is_loopback(address: str) -> bool:
    """True if an IP address is a loopback address, also an IPv4 address that is written as IPv6."""
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found.is_loopback


#: ``struct ucred``: process, user and group.
_UCRED = struct.Struct("iII")
#: The number of SO_PEERGROUPS, and the most bytes of an answer that Python takes.
_PEERGROUPS, _ANSWER_MAX = 59, 1024


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


def groups(connected: _Socket) -> frozenset[int]:
    """The groups of the other end, as it had them when it has connected; none if it is in more than 256, or the kernel is old."""
    try:
        found = connected.getsockopt(socket.SOL_SOCKET, _PEERGROUPS, _ANSWER_MAX)
    except OSError:
        return frozenset()
    return frozenset([credentials(connected).gid, *(gid for (gid,) in struct.iter_unpack("I", found))])
