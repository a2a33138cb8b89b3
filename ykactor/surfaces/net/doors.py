"""Doors: where the daemon listens, and who connects by each when no access file says so."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio
from msgspec import Struct

from ykactor.access.model import ANYBODY, OVERFLOW_UID, Identity, local_reader
from ykactor.journal.errors import may_pass
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.net.peer_user import UnknownUserError, tcp_uid, unix_uid
from ykactor.surfaces.net.systemd import listen_fds
from ykactor.wire.sockets import UNIX, is_loopback

if TYPE_CHECKING:  # needs libraries that take 0.1 s to load
    from ykactor.surfaces.files.tls_files import TlsFiles

log = get_logger(__name__)

#: What is served: websockets, and the REST API. Also the names of systemd's sockets, of options and of schemes.
WS, HTTP = "ws", "http"


class DoorError(Exception):
    """The daemon cannot listen where it should; later it may be able to."""


class RefusedDoorError(DoorError):
    """The daemon must not listen where it should; the next start would be refused too."""


class TcpAddress(NamedTuple):
    """A name or address of this machine; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(NamedTuple):
    """The path of a Unix socket."""

    path: str

    def __str__(self) -> str:
        return UNIX + self.path


Address = TcpAddress | UnixAddress


class DoorOptions(Struct, frozen=True):
    """The command that listens, and its options for what a door can lack."""

    command: str = "serve"
    tls: str = "--tls-cert and --tls-key"
    access: str = "--access"
    insecure: str = "--insecure"


class DoorSettings(Struct, frozen=True):
    """The addresses to listen on, and how.

    Attributes:
        addresses, http: for each service; not used if systemd passes sockets with its name.
        mode: of the file of a Unix socket.
        group: the number of the group of that file; None: that of the daemon.
        has_access: whether there is an access file.
        is_insecure: whether the daemon may listen on a network without TLS and an access file.
        tls: for all TCP sockets.
        options: how errors name them.
    """

    addresses: tuple[Address, ...]
    mode: int = 0o660
    group: int | None = None
    has_access: bool = False
    is_insecure: bool = False
    http: tuple[Address, ...] = ()
    tls: TlsFiles | None = None
    options: DoorOptions = DoorOptions()


class DoorKind(StrEnum):
    """The reach of a listener: all users of this machine, those who may open a file, or other machines."""

    LOOPBACK = "loopback"
    UNIX = "unix"
    NETWORK = "network"


class Origin(NamedTuple):
    """The origin of a connection.

    Attributes:
        text: the address, or the user of a Unix socket: ``127.0.0.1:50312``, ``unix uid 1000``.
        uid: the user at the other end; None if it is on another machine, or the kernel does not say who it is.
        why_unknown: why the kernel does not say who it is.
        is_here: whether the other end is on this machine.
    """

    text: str
    uid: int | None = None
    why_unknown: str = ""
    is_here: bool = False

    @property
    def holder(self) -> str:
        """The holder of the slots of a connection that has shown nothing: its user, if known, or its address block."""
        return network_of(self.text) if self.uid is None else f"user {self.uid}"


class Door(Struct, frozen=True, eq=False):
    """A listener.

    Attributes:
        url: what clients connect to.
        service: what is served.
        tls: what its connections are encrypted with; None: they are not.
    """

    listener: trio.SocketListener
    kind: DoorKind
    url: str
    service: str = WS
    tls: TlsFiles | None = None

    @classmethod
    def of(cls, listener: trio.SocketListener, service: str = WS, url: str = "", tls: TlsFiles | None = None) -> Door:
        """The door of a listener, by the address that it is bound to.

        Args:
            url: of a Unix socket that was renamed; it still has the name that it was bound to.
            tls: of a TCP socket.
        """
        name = listener.socket.getsockname()
        if listener.socket.family == socket.AF_UNIX:
            return cls(listener, DoorKind.UNIX, url or f"{UNIX}{os.fsdecode(name).replace(chr(0), '@', 1)}", service)
        kind = DoorKind.LOOPBACK if is_loopback(name[0]) else DoorKind.NETWORK
        scheme = service if tls is None else f"{service}s"
        return cls(listener, kind, f"{scheme}://{TcpAddress(*name[:2])}", service, tls)

    def origin(self, stream: trio.SocketStream) -> Origin:
        """The origin of a new connection."""
        if self.kind is DoorKind.UNIX:
            uid = unix_uid(stream.socket)
            return Origin(f"unix uid {uid}", uid, is_here=True)
        try:
            address = TcpAddress(*stream.socket.getpeername()[:2])
        except OSError:  # it has gone
            return Origin("unknown")
        if self.kind is DoorKind.NETWORK:
            return Origin(str(address))
        try:
            return Origin(str(address), tcp_uid(stream.socket), is_here=True)
        except UnknownUserError as error:
            return Origin(str(address), None, str(error), is_loopback(address.host))

    def identity(self, origin: Origin) -> Identity | None:
        """The identity of a peer without any proof, where no access file is in force (SE-52, SE-53, SE-54); None: nobody."""
        if self.kind is DoorKind.NETWORK:
            return ANYBODY
        if origin.uid in (0, os.geteuid()) and origin.uid != OVERFLOW_UID:
            return ANYBODY
        return local_reader(origin.uid) if origin.is_here else None


@asynccontextmanager
async def open_doors(settings: DoorSettings) -> AsyncIterator[list[Door]]:
    """Listen for each service on the sockets of systemd with its name, else on its addresses; all are closed at the end (SE-50).

    Raises:
        DoorError
    """
    with ExitStack() as held:
        doors = _passed(settings, held)
        passed = {door.service for door in doors}
        for service, addresses in ((WS, settings.addresses), (HTTP, settings.http)):
            for address in () if service in passed else addresses:
                doors += await _opened(address, service, settings, held)
        doors.sort(key=lambda door: door.service == HTTP)
        _check(doors, settings)
        yield doors


def _passed(settings: DoorSettings, held: ExitStack) -> list[Door]:
    """The sockets of systemd. It has made their files and keeps them."""
    doors, passed = [], listen_fds()
    for _, sock in passed:
        held.callback(sock.close)
    for service, sock in passed:
        if service not in (WS, HTTP):
            raise RefusedDoorError(f"systemd passes a socket {service}, expected FileDescriptorName={WS} or {HTTP}")
        is_listening = sock.type == socket.SOCK_STREAM and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if sock.family not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6) or not is_listening:
            raise RefusedDoorError(f"systemd passes another kind of socket {service}, expected ListenStream= of TCP or Unix")
        doors.append(Door.of(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), service, tls=settings.tls))
    return doors


async def _opened(address: Address, service: str, settings: DoorSettings, held: ExitStack) -> list[Door]:
    """New listeners; several for a name that has several addresses."""
    try:
        if isinstance(address, UnixAddress):
            sock = held.enter_context(listening(address.path, settings.mode, settings.group))
            return [Door.of(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), service, str(address))]
        listeners = await trio.open_tcp_listeners(address.port, host=address.host)
    except SocketFileError as error:
        raise RefusedDoorError(f"{address}: {error}") from None
    except SocketInUseError:
        raise DoorError(f"{address}: a daemon listens there already: choose another path with --{service} unix:PATH") from None
    except OSError as error:
        raise _problem(address, service, error) from None
    for listener in listeners:
        held.callback(listener.socket.close)
    return [Door.of(listener, service, tls=settings.tls) for listener in listeners]


def _problem(address: Address, service: str, error: OSError) -> DoorError:
    if isinstance(address, UnixAddress):
        kind = DoorError if may_pass(error) else RefusedDoorError
        return kind(f"{address}: the socket cannot be made: {error.strerror}")
    kind = RefusedDoorError if isinstance(error, PermissionError) else DoorError
    return kind(f"{address}: {error.strerror or error}: choose another address with --{service} HOST:PORT")


def _check(doors: list[Door], settings: DoorSettings) -> None:
    """Refuse a door that other machines reach and that lacks TLS or an access file, unless it is wanted so (SE-54)."""
    wanted = settings.options
    for door in doors:
        lacking = [("TLS", wanted.tls)] if door.tls is None else []
        if not settings.has_access:
            lacking.append(("access file", wanted.access))
        if door.kind is not DoorKind.NETWORK or not lacking:
            continue
        what = f"other machines can reach it, and it has no {' and no '.join(name for name, _ in lacking)}"
        if not settings.is_insecure:
            options = " and ".join(options for _, options in lacking)
            instead = f"or listen on 127.0.0.1 or unix:PATH, or allow it with {wanted.command} {wanted.insecure}"
            raise RefusedDoorError(f"{door.url}: {what}: use {wanted.command} with {options}, {instead}")
        log_event(log, logging.WARNING, "listens_insecurely", address=door.url, reason=what)


# ---- addresses that probably are of one client, and count together


def network_of(origin: str) -> str:
    """The network of /24 or /64 that an origin is in; one that is no address is alone."""
    host = origin.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return origin
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(ip_network((address, 24 if isinstance(address, IPv4Address) else 64), strict=False))


# ---- Unix sockets in the file system: how one gets its name, and when it loses it


class SocketFileError(Exception):
    """A socket with this name cannot be made, as long as nobody changes what is there."""


class SocketInUseError(Exception):
    """Another process listens on the socket."""


@contextmanager
def listening(path: str, mode: int, group: int | None) -> Iterator[socket.socket]:
    """A Unix socket that listens, with its file; at the end both are removed, the file only if it is still this one (SE-51).

    It gets its name when owner and mode are as they should be, so nobody can connect before. The file of a daemon that was killed
    is replaced.

    Args:
        group: the number of the group of the file; None: that of the daemon.

    Raises:
        SocketFileError: something else has the name.
        SocketInUseError
        OSError: the directory, the mode or the group does not allow it.
    """
    name = Path(path).name
    directory = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check_free(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            identity = _bind(sock, directory, name, mode, group)
            try:
                yield sock
            finally:
                sock.close()  # first: who finds the file without a daemon may take it over
                if _identity(directory, name) == identity:
                    os.unlink(name, dir_fd=directory)
    finally:
        os.close(directory)


def _bind(sock: socket.socket, directory: int, name: str, mode: int, group: int | None) -> tuple[int, int] | None:
    """Give the socket its file, and let it listen; the identity of the file."""
    unfinished = f".ykactor-{secrets.token_hex(4)}"
    # Through the directory: the path of a socket has a limit, which the temporary name must not make smaller.
    sock.bind(f"/proc/self/fd/{directory}/{unfinished}")
    try:
        if group is not None:
            os.chown(unfinished, -1, group, dir_fd=directory, follow_symlinks=False)
        os.chmod(unfinished, mode, dir_fd=directory)
        sock.listen(socket.SOMAXCONN)
        identity = _identity(directory, unfinished)
        os.rename(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(unfinished, dir_fd=directory)
        raise
    return identity


def _identity(directory: int, name: str) -> tuple[int, int] | None:
    """The file that has the name now, if any."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _check_free(path: str) -> None:
    """Refuse a name that is taken, but for that of a socket of this user on which nobody listens."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketFileError("found something that is no socket, expected nothing or the socket of a daemon that has ended")
    if found.st_uid != os.geteuid():
        raise SocketFileError(f"found a socket of another user (uid {found.st_uid}), expected nothing or one of this user")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return
        except OSError:
            pass  # it has too many connections that wait, or is one of another type: somebody has it open
    raise SocketInUseError
