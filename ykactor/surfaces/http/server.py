"""Serves HTTP with hypercorn, on the doors of the daemon."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Event
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from msgspec import structs
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.model import Role
from ykactor.core.messages.kinds import Act
from ykactor.surfaces.http.replies import RefusedError
from ykactor.surfaces.server import handshake
from ykactor.surfaces.server.audit import UNKNOWN, Audit
from ykactor.surfaces.server.caller import Admit, Caller, admit_anybody
from ykactor.surfaces.server.descriptors import is_reserved
from ykactor.surfaces.server.doors import Door, DoorKind, Origin
from ykactor.surfaces.server.limited_log import LimitedLog
from ykactor.surfaces.server.tls_transport import TlsError, transport_of
from ykactor.surfaces.server.transports import Transport
from ykactor.surfaces.server.websocket import REFUSED_LINES

logger = logging.getLogger(__name__)

#: Connections at a time; a further one is closed.
CONNECTIONS_MAX = 500
#: How long a connection may take for the handshake of TLS, for a request, wait for the next one, and take what is sent.
HANDSHAKE_S = 10
IDLE_S = 10
SEND_S = 10
#: When the daemon stops, requests have this long.
STOP_S = 2


async def serve_http(
    doors: Sequence[Door],
    app: ASGIApp,
    audit: Audit,
    *,
    stopping: trio.Event,
    host_names: Collection[str] = (),
    admit: Admit = admit_anybody,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set.

    Args:
        audit: learns who is not let in.
        host_names: names of this machine for web pages, as for websockets.
        admit: says who is at the other end.

    Error handling: an error in a connection ends that connection only, and is logged.
    """
    server = _Server(app, audit, host_names, admit)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            for door in doors:
                serve = partial(trio.serve_listeners, partial(server.on_connection, door), [door.listener])
                accepting.start_soon(partial(serve, handler_nursery=connections))
            task_status.started()
            await stopping.wait()
            accepting.cancel_scope.cancel()
        connections.cancel_scope.deadline = trio.current_time() + STOP_S
        await server.context.terminated.set()


class _Server:
    """Serves each connection."""

    def __init__(self, app: ASGIApp, audit: Audit, host_names: Collection[str], admit: Admit) -> None:
        self._app = app
        self._guarded = ASGIWrapper(cast("Any", self._call))
        self._audit = audit
        self._host_names = handshake.own_names(host_names)
        self._admit = admit
        self._config = _config()
        self._count = 0
        self._refused_log = LimitedLog(logger, logging.INFO, "handshake_failed", lines=REFUSED_LINES, within_s=1.0)
        self._failed_log = LimitedLog(logger, logging.ERROR, "connection_failed", lines=1, within_s=60.0)
        self.context = WorkerContext(None)

    async def on_connection(self, door: Door, stream: trio.SocketStream) -> None:
        """Serve one connection to its end."""
        if self._count == CONNECTIONS_MAX or is_reserved(stream.socket.fileno()):
            return
        origin, transport = door.origin(stream), transport_of(door, stream)
        self._count += 1
        try:
            if await self._is_open(transport, origin):
                who = partial(self._caller, door, origin, transport.credentials)
                bounded = _Bounded(transport) if door.tls is None else _Encrypted(transport)
                await _Http1(self._guarded, self._config, self.context, ConnectionState({"admit": who}), cast("Any", bounded))
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception as errors:  # of the library: a client must not end the daemon
            self._failed_log.log(peer=origin.text, reason=_places(errors))
        finally:
            self._count -= 1

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, whose errors the library would log with all that they quote, as often as a client likes."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            self._failed_log.log(peer=str(scope["client"]), reason=_places(error))

    async def _is_open(self, transport: Transport, origin: Origin) -> bool:
        """Begin; whether that has succeeded in time."""
        with trio.move_on_after(HANDSHAKE_S), suppress(trio.BrokenResourceError):
            try:
                await transport.open()
            except TlsError as error:
                self._refused_log.log(peer=origin.text, reason=str(error))
                if error.is_certificate:
                    self._audit.refused(Caller(Role.READER, origin.text, UNKNOWN), Act.CONNECT, "certificate", str(error))
            else:
                return True
        return False

    def _caller(self, door: Door, origin: Origin, shown: Credentials, request: Request, role: Role) -> Caller:
        """Who sends a request, which needs a role.

        Raises:
            NotAuthenticatedError, RefusedError
        """
        caller = Caller(role, origin.text, UNKNOWN)
        try:
            if self._admit is admit_anybody:
                self._check_anybody(door, origin, request)
            caller = self._admit(role, structs.replace(shown, bearer=_bearer(request), uid=origin.uid), origin.text)
            if role not in caller.identity.roles:
                raise RefusedError(403, f"{caller.identity.name} does not have the role {role}")
        except (NotAuthenticatedError, RefusedError) as error:
            status = error.status if isinstance(error, RefusedError) else 401
            self._refused_log.log(peer=origin.text, status=status, reason=str(error))
            self._audit.refused(caller, Act.CONNECT, request.url.path, str(error))
            raise
        return caller

    def _check_anybody(self, door: Door, origin: Origin, request: Request) -> None:
        """Refuse who is not let in without an access file. A web page would need no proof then, so it is asked where it is from.

        A page sends no ``Origin`` to read from the host that it comes from. So on loopback that name has to be known, whoever
        calls.
        """
        if not door.admits(origin):
            raise RefusedError(403, "only root and the user of the daemon may connect to this socket")
        try:
            host = handshake.host_of(request.headers.get("host", ""))
        except handshake.RefusedError as error:
            raise RefusedError(error.status, error.reason) from None
        refusal = handshake.page_refusal(request.headers.get("origin"), host, self._host_names)
        if refusal is None and door.kind is DoorKind.LOOPBACK:
            refusal = handshake.host_refusal(host, self._host_names)
        if refusal is not None:
            raise RefusedError(refusal.status, refusal.reason)


def _bearer(request: Request) -> str | None:
    found = request.headers.getlist("authorization")
    if not found:
        return None
    scheme, _, credentials = found[0].partition(" ")
    if len(found) > 1 or scheme.lower() != "bearer":
        raise NotAuthenticatedError("another header Authorization than one with Bearer")
    return credentials.strip()


def _places(errors: BaseException) -> str:
    """Where errors were raised. Their texts may quote the request, which has credentials."""
    if isinstance(errors, BaseExceptionGroup):
        return ", ".join(map(_places, errors.exceptions))
    *_, place = traceback.extract_tb(errors.__traceback__)
    return f"{type(errors).__name__} in {place.name}, line {place.lineno} of {place.filename}"


def _config() -> Config:
    config = Config()
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    config.accesslog = None
    config.errorlog = logger
    config.websocket_max_message_size = 0
    return config


class _Http1(TCPServer):
    """Ends a connection that turns to HTTP/2: there a client can hold back answers for ever, and all that they need."""

    async def protocol_send(self, event: Event) -> None:
        """As of the library."""
        if isinstance(self.protocol.protocol, H2Protocol):
            raise trio.BrokenResourceError("HTTP/2 is not served")
        await super().protocol_send(event)


class _Bounded(trio.abc.HalfCloseableStream):
    """A connection whose peer must take what is sent: the library would wait for ever, whatever is cancelled.

    The library also closes it while it sends. So each waits for the other.
    """

    def __init__(self, transport: Transport) -> None:
        self._stream = transport
        self._sending = trio.Lock()
        self.socket = transport.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As of the socket, within a time."""
        with trio.move_on_after(SEND_S) as sending:
            async with self._sending:
                await self._stream.send_all(data)
        if sending.cancelled_caught:
            raise trio.BrokenResourceError("the peer does not read")

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of the socket."""
        return await self._stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        """As of the socket."""
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """As of the socket, within a time."""
        with trio.move_on_after(SEND_S):
            async with self._sending:
                await self._stream.send_eof()

    async def aclose(self) -> None:
        """As of the socket."""
        await self._stream.aclose()


class _Encrypted(_Bounded):
    """The same with what the library knows TLS by: then its URLs begin with ``https``."""

    @property
    def transport_stream(self) -> _Encrypted:
        """What has the socket."""
        return self

    async def do_handshake(self) -> None:
        """It is done."""

    def selected_alpn_protocol(self) -> str:
        """The protocol that is spoken."""
        return "http/1.1"
