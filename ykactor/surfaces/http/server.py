"""Serves HTTP with hypercorn, on the doors of the daemon."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from msgspec import structs
from starlette.requests import Request
from starlette.types import ASGIApp

from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.model import Role
from ykactor.surfaces.http.replies import RefusedError
from ykactor.surfaces.server.caller import Admit, Caller, admit_anybody
from ykactor.surfaces.server.descriptors import is_reserved
from ykactor.surfaces.server.doors import Door, Origin
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
    *,
    stopping: trio.Event,
    admit: Admit = admit_anybody,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set.

    Args:
        admit: says who is at the other end.
    """
    server = _Server(app, admit)
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

    def __init__(self, app: ASGIApp, admit: Admit) -> None:
        self._app = ASGIWrapper(cast("Any", app))
        self._admit = admit
        self._config = _config()
        self._count = 0
        self._refused_log = LimitedLog(logger, logging.INFO, "handshake_failed", lines=REFUSED_LINES, within_s=1.0)
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
                await TCPServer(self._app, self._config, self.context, ConnectionState({"admit": who}), cast("Any", bounded))
        finally:
            self._count -= 1

    async def _is_open(self, transport: Transport, origin: Origin) -> bool:
        """Begin; whether that has succeeded in time."""
        with trio.move_on_after(HANDSHAKE_S), suppress(trio.BrokenResourceError):
            try:
                await transport.open()
            except TlsError as error:
                self._refused_log.log(peer=origin.text, reason=str(error))
            else:
                return True
        return False

    def _caller(self, door: Door, origin: Origin, shown: Credentials, request: Request, role: Role) -> Caller:
        """Who sends a request, which needs a role.

        Raises:
            NotAuthenticatedError, RefusedError
        """
        if self._admit is admit_anybody and not door.admits(origin):
            raise RefusedError(403, "only root and the user of the daemon may connect to this socket")
        caller = self._admit(role, structs.replace(shown, bearer=_bearer(request), uid=origin.uid), origin.text)
        if role not in caller.identity.roles:
            raise RefusedError(403, f"{caller.identity.name} does not have the role {role}")
        return caller


def _bearer(request: Request) -> str | None:
    found = request.headers.getlist("authorization")
    if not found:
        return None
    scheme, _, credentials = found[0].partition(" ")
    if len(found) > 1 or scheme.lower() != "bearer":
        raise NotAuthenticatedError("another header Authorization than one with Bearer")
    return credentials.strip()


def _config() -> Config:
    config = Config()
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    config.accesslog = None
    config.errorlog = logger
    config.websocket_max_message_size = 0
    return config


class _Bounded(trio.abc.HalfCloseableStream):
    """A connection whose peer must take what is sent: the library would wait for ever, whatever is cancelled."""

    def __init__(self, transport: Transport) -> None:
        self._stream = transport
        self.socket = transport.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As of the socket, within a time."""
        with trio.move_on_after(SEND_S) as sending:
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
