"""Locks that end with their process: one local resource manager for a directory, and one of this machine for a daemon.

The lock for a daemon depends neither on the directory nor on the user: a second local resource manager would take the place of
the first, and the machine would be promised twice. It is an abstract Unix socket, which the kernel removes with its process. A
daemon is known by its term (EV-55), which no other daemon has, whatever leads to it: a Unix socket, a port, a proxy. It is told
before the registration. By its address a daemon is known before that: while it is away, and if it does not tell its term.
"""

import errno
import fcntl
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import trio

from ykactor.client.addresses import split_addresses
from ykactor.client.connection import DEFAULT_PORTS
from ykactor.local.machine import user_name
from ykactor.wire.sockets import UNIX, credentials, unix_path

_ANSWER_S = 1.0
#: Bytes of the line with the process that holds a directory.
_PID_MAX = 20


class InUse(Exception):
    """Another local resource manager has the directory or the daemon; the message says which one."""


@contextmanager
def only_in(directory: Path) -> Iterator[None]:
    """Hold the directory.

    Raises:  InUse.
    """
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            number = os.pread(file, _PID_MAX, 0).decode(errors="replace").strip()
            reason = f"found it in use by process {number}, expected one local resource manager for each directory"
            raise InUse(f"{directory}: {reason}; end that process, or use another directory") from None
        os.pwrite(file, b"%-*d\n" % (_PID_MAX - 1, os.getpid()), 0)
        yield
    finally:
        os.close(file)


@asynccontextmanager
async def only_for(url: str) -> AsyncIterator[Callable[[str], None]]:
    """Hold the place of this machine at the daemon of an address.

    Yields:
        A function that also takes the place at the daemon that answers there, by its term, and leaves that at an earlier term.

    Raises:
        InUse: also by what it yields.
    """
    lock = _lock(url, await daemon_of(url))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_hold, lock, trio.CancelScope())
        yield _Terms(url, nursery).take
        nursery.cancel_scope.cancel()


class _Terms:
    """Holds the place at the daemon of one term, the newest that was told."""

    def __init__(self, url: str, nursery: trio.Nursery) -> None:
        self._url = url
        self._nursery = nursery
        self._term = ""
        self._held = trio.CancelScope()

    def take(self, term: str) -> None:
        """Take the place at the daemon of a term; "": it does not tell it, and is known by its address only."""
        if term in ("", self._term):
            return
        lock = _lock(self._url, f"term {term}")
        self._held.cancel()
        self._term, self._held = term, trio.CancelScope()
        self._nursery.start_soon(_hold, lock, self._held)


def _lock(url: str, daemon: str) -> socket.socket:
    """The lock for a daemon. Raises:  InUse, which names the daemon by its URL."""
    name = f"\0ykactor-local-{hashlib.sha256(daemon.encode(errors='surrogateescape')).hexdigest()}"
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(name)
        lock.listen(1024)
    except OSError as error:
        lock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        reason = f"found {_holder(name)} as the local resource manager of this machine, expected one for each daemon"
        raise InUse(f"{url}: {reason}") from None
    return lock


async def _hold(lock: socket.socket, scope: trio.CancelScope) -> None:
    """Keep a lock until the scope is cancelled. A process that connects wants to know the holder: the kernel has told it."""

    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.aclose()

    with scope:
        await trio.serve_listeners(hang_up, [trio.SocketListener(trio.socket.from_stdlib_socket(lock))])


def _holder(name: str) -> str:
    """The process that listens, and its user, as the kernel knows them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_ANSWER_S)
        try:
            probe.connect(name)
        except OSError:  # it begins or ends just now
            return "another process"
        holder = credentials(probe)
    return f"process {holder.pid} of {user_name(holder.uid)}"


async def is_one_daemon(url: str, other: str) -> bool:
    """True if two texts with addresses mean one daemon: they have an address in common, in whatever way it is written."""
    if not set(split_addresses(url)).isdisjoint(split_addresses(other)):
        return True
    found, others = await _daemons_of(url), await _daemons_of(other)
    return not found.isdisjoint(others)


async def daemon_of(url: str) -> str:
    """One text for all ways to write the addresses of a daemon: names, links, and the addresses of this machine."""
    return ",".join(sorted(await _daemons_of(url)))


async def _daemons_of(url: str) -> set[str]:
    """The same for each of the addresses; they are looked up at the same time."""
    found: set[str] = set()

    async def add(address: str) -> None:
        found.add(await _text_of(address))

    async with trio.open_nursery() as nursery:
        for address in split_addresses(url):
            nursery.start_soon(add, address)
    return found


async def _text_of(url: str) -> str:
    if url.startswith(UNIX):
        return UNIX + await trio.to_thread.run_sync(os.path.realpath, unix_path(url))
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:  # the name is unknown, at least now
        return f"{host}:{port}"
    hosts = sorted({str(address[0]) for *_, address in found})
    return f"{'this machine' if any(map(_is_here, hosts)) else ','.join(hosts)}:{port}"


def _is_here(host: str) -> bool:
    """True if the IP address is one of this machine: only such a one can be bound."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True
