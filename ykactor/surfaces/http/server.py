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
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from starlette.requests import Request
from starlette.types import ASGIApp

from ykactor.access.model import Role
from ykactor.surfaces.http.admission import REFUSED_LINES, Admission
from ykactor.surfaces.http.connections import Bounded, Connection, Encrypted
from ykactor.surfaces.server.caller import Caller
from ykactor.surfaces.server.descriptors import is_reserved
from ykactor.surfaces.server.doors import Door, Origin
from ykactor.surfaces.server.limited_log import LimitedLog
from ykactor.surfaces.server.tls_transport import TlsError, transport_of
from ykactor.surfaces.server.transports import Transport

logger = logging.getLogger(__name__)

#: Connections at a time; a further one is refused.
CONNECTIONS_MAX = 500
#: How long a connection may take for the handshake of TLS, for a request, and to wait for the next one.
HANDSHAKE_S = 10
IDLE_S = 10
#: When the daemon stops, requests have this long.
STOP_S = 2
#: Bytes of the headers of a request.
HEAD_BYTES_MAX = 16 * 2**10
#: Requests in a second, of all connections; more have to wait. So many may come at once.
REQUESTS_PER_S = 500
BURST = 100
_NO_ROOM = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


async def serve_http(
    doors: Sequence[Door],
    app: ASGIApp,
    admission: Admission,
    *,
    stopping: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set."""
    server = _Server(app, admission)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            for door in doors:
                serve = partial(trio.serve_listeners, partial(server.on_connection, door), [door.listener])
                accepting.start_soon(partial(serve, handler_nursery=connections))
            task_status.started()
            await stopping.wait()
            accepting.cancel_scope.cancel()
        connections.cancel_scope.deadline = trio.current_time() + STOP_S
        server.stop()
        await server.context.terminated.set()


class _Server:
    """Serves each connection."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app = ASGIWrapper(cast("Any", partial(_paced, app, _Pacer())))
        self._admission = admission
        self._config = _config()
        self._count = 0
        self._sends: set[trio.CancelScope] = set()
        self._refused_log = LimitedLog(logger, logging.INFO, "handshake_failed", lines=REFUSED_LINES, within_s=1.0)
        self.context = WorkerContext(None)

    def stop(self) -> None:
        """Let what is being sent take little more time: the library shields it."""
        for sending in self._sends:
            sending.deadline = min(sending.deadline, trio.current_time() + STOP_S)

    async def on_connection(self, door: Door, stream: trio.SocketStream) -> None:
        """Serve one connection to its end."""
        if self._count >= CONNECTIONS_MAX or is_reserved(stream.socket.fileno()):
            if door.tls is None:
                await self._refuse(stream)
            return
        origin, transport = door.origin(stream), transport_of(door, stream)
        self._count += 1
        try:
            if await self._is_open(transport, origin):
                await self._serve(door, origin, transport)
        except* Exception:  # an error of the library, for example about a frame of HTTP/2, must not end the daemon
            logger.exception("connection_failed")
        finally:
            self._count -= 1

    async def _refuse(self, stream: trio.SocketStream) -> None:
        bounded = Bounded(Transport(stream), self._sends)
        with suppress(trio.BrokenResourceError):  # it has gone
            await bounded.send_all(_NO_ROOM)
        await bounded.aclose()

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

    async def _serve(self, door: Door, origin: Origin, transport: Transport) -> None:
        def admit(request: Request, role: Role, other_role: Role | None) -> Caller:
            return self._admission.caller(request, (role, other_role or role), door, origin, transport.credentials)

        state = ConnectionState({"admit": admit, "refused": self._admission.refused})
        bounded = Bounded(transport, self._sends) if door.tls is None else Encrypted(transport, self._sends)
        await Connection(self._app, self._config, self.context, state, cast("Any", bounded))


class _Pacer:
    """Lets requests through in their order, ``REQUESTS_PER_S`` of them: each takes 0.3 ms of the loop."""

    def __init__(self) -> None:
        self._next_s = 0.0

    async def wait(self) -> None:
        """Until it is the turn of this request."""
        self._next_s = max(self._next_s, trio.current_time() - BURST / REQUESTS_PER_S) + 1 / REQUESTS_PER_S
        if self._next_s > trio.current_time():
            await trio.sleep_until(self._next_s)


async def _paced(app: ASGIApp, pacer: _Pacer, scope: Any, receive: Any, send: Any) -> None:
    await pacer.wait()
    await app(scope, receive, send)


def _config() -> Config:
    config = Config()
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    config.h11_max_incomplete_size = HEAD_BYTES_MAX
    config.h2_max_concurrent_streams = 1  # one request at a time, as with HTTP/1.1
    config.accesslog = None
    config.errorlog = logger
    config.websocket_max_message_size = 0
    return config
