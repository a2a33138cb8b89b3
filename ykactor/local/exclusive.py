"""Locks that end with their process: one local resource manager for a directory, and one of this machine for a daemon.

The lock for a daemon depends neither on the directory nor on the user: a second local resource manager would take the place of
the first, and the machine would be promised twice. It is an abstract Unix socket, which the kernel removes with its process.
"""

import errno
import fcntl
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import trio

from ykactor.client.streams import DEFAULT_PORTS
from ykactor.local.machine import user_name
from ykactor.wire.addresses import UNIX, unix_path
from ykactor.wire.credentials import credentials

_ANSWER_S = 1.0


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
            reason = "found it in use, expected one local resource manager for each directory"
            raise InUse(f"{directory}: {reason}") from None
        yield
    finally:
        os.close(file)


@asynccontextmanager
async def only_for(url: str) -> AsyncIterator[None]:
    """Hold the place of this machine at a daemon.

    Raises:  InUse.
    """
    key = hashlib.sha256((await daemon_of(url)).encode(errors="surrogateescape")).hexdigest()
    name = f"\0ykactor-local-{key}"
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            await lock.bind(name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            holder = await trio.to_thread.run_sync(_holder, name)
            reason = f"found {holder} as the local resource manager of this machine, expected one for each daemon"
            raise InUse(f"{url}: {reason}") from None
        lock.listen(1024)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, _hang_up, [trio.SocketListener(lock)])
            yield
            nursery.cancel_scope.cancel()


async def _hang_up(stream: trio.SocketStream) -> None:
    """Close the connection of a process that wants to know the holder: the kernel has told it."""
    await stream.aclose()


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


async def daemon_of(url: str) -> str:
    """One text for all ways to write the address of a daemon: names, links, and the addresses of this machine."""
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
