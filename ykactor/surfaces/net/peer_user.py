"""The user at the other end of a connection within this machine: the kernel is asked, by SO_PEERCRED or sock_diag(7)."""

from __future__ import annotations

import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, Protocol

from ykactor.wire.sockets import credentials

#: ``struct nlmsghdr``, with which each message begins: its length, type, flags, number and sender.
_HEADER = struct.Struct("=IHHII")
#: ``struct inet_diag_req_v2`` without its end: the family, the protocol, the states, and the ports and addresses of the socket.
_REQUEST = struct.Struct("=BBxxI 2s2s16s16s")
#: Its end: any interface, and no cookie.
_ANY_SOCKET = struct.pack("=I8s", 0, b"\xff" * 8)
#: ``struct inet_diag_msg``: the state, then the user and the inode.
_ANSWER = struct.Struct("=xBxx 48x 12x II")
_ERROR = struct.Struct("=i")
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, _NLMSG_ERROR = 4, 20, 1, 2
_ANSWER_BYTES_MAX = 4096
_ALL_STATES = 2**32 - 1
_ESTABLISHED = 1

#: An address and a port.
_End = tuple[IPv4Address | IPv6Address, int]


class UnknownUserError(Exception):
    """The kernel does not say which user it is; the message says why."""


class Connected(Protocol):
    """A connected socket."""

    def fileno(self) -> int: ...
    def getsockname(self) -> tuple[str, int]: ...
    def getpeername(self) -> tuple[str, int]: ...
    def getsockopt(self, level: int, name: int, size: int) -> bytes: ...


class _Found(NamedTuple):
    """A TCP socket of this network namespace."""

    state: int
    uid: int
    inode: int


def unix_uid(connected: Connected) -> int:
    """The user that the process at the other end of a Unix socket had when it connected."""
    return credentials(connected).uid


def tcp_uid(connected: Connected) -> int:
    """The user that made the socket at the other end of a TCP connection, which has to be in this network namespace too.

    Cost: 30 us. The kernel answers before ``send`` returns, so this never waits.
    Raises:
        UnknownUserError
    """
    try:
        here, there = _end(connected.getsockname()), _end(connected.getpeername())
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_SOCK_DIAG) as kernel:
            ours, other = _find(kernel, here, there), _find(kernel, there, here)
        is_ours = ours is not None and ours.inode == os.fstat(connected.fileno()).st_ino
    except OSError as error:
        raise UnknownUserError(f"the kernel was asked with sock_diag and says: {error.strerror}") from None
    if not is_ours:  # the same addresses there may be those of somebody else
        raise UnknownUserError("the listener is of another network namespace than the daemon")
    # The kernel shows a socket that its process has closed, and what is left of it, as one of root without an inode.
    if other is None or other.state != _ESTABLISHED or not other.inode:
        raise UnknownUserError("the other end is of another network namespace, or was closed already")
    return other.uid


def _end(name: tuple[str, int]) -> _End:
    """An IPv4 address that is written as IPv6 is one: the kernel finds the socket by it."""
    address = ip_address(name[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address, name[1]


def _find(kernel: socket.socket, end: _End, other: _End) -> _Found | None:
    """The TCP socket with these ends; None if there is none. It may be one that listens at the first end."""
    kernel.send(_question(end, other))
    answer = kernel.recv(_ANSWER_BYTES_MAX)
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind == _SOCK_DIAG_BY_FAMILY:
        return _Found(*_ANSWER.unpack_from(answer, _HEADER.size))
    number = -_ERROR.unpack_from(answer, _HEADER.size)[0] if kind == _NLMSG_ERROR else errno.EPROTO
    if number == errno.ENOENT:
        return None
    raise OSError(number, os.strerror(number))


def _question(end: _End, other: _End) -> bytes:
    (address, port), (other_address, other_port) = end, other
    request = _REQUEST.pack(
        socket.AF_INET if address.version == 4 else socket.AF_INET6,
        socket.IPPROTO_TCP,
        _ALL_STATES,
        port.to_bytes(2, "big"),
        other_port.to_bytes(2, "big"),
        address.packed,
        other_address.packed,
    )
    size = _HEADER.size + len(request) + len(_ANY_SOCKET)
    return _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + request + _ANY_SOCKET
