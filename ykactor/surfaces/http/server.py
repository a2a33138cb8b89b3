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
from hypercorn.events import Event, Updated
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from starlette.requests import Request
from starlette.types import ASGIApp

from ykactor.access.model import Role
from ykactor.surfaces.http.admission import Admission
from ykactor.surfaces.server.caller import Caller
from ykactor.surfaces.server.descriptors import is_reserved
from ykactor.surfaces.server.doors import Door, Origin

logger = logging.getLogger(__name__)

#: Connections at a time; a further one is refused.
CONNECTIONS_MAX = 500
#: How long a connection may take for a request, wait for the next one, and take a part of what is sent.
IDLE_S = 10
SEND_S = 10
#: How long a connection is read after its last answer.
LINGER_S = 1
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
        self.context = WorkerContext(None)

    def stop(self) -> None:
        """Let what is being sent take little more time: the library shields it."""
        for sending in self._sends:
            sending.deadline = min(sending.deadline, trio.current_time() + STOP_S)

    async def on_connection(self, door: Door, stream: trio.SocketStream) -> None:
        """Serve one connection to its end."""
        bounded = _Bounded(stream, self._sends)
        if self._count >= CONNECTIONS_MAX or is_reserved(stream.socket.fileno()):
            await _refuse(bounded)
            return
        state = {"admit": partial(self._admit, door, door.origin(stream)), "refused": self._admission.refused}
        self._count += 1
        try:
            await _Connection(self._app, self._config, self.context, ConnectionState(state), cast("Any", bounded))
        except* Exception:  # an error of the library, for example about a frame of HTTP/2, must not end the daemon
            logger.exception("connection_failed")
        finally:
            self._count -= 1

    def _admit(self, door: Door, origin: Origin, request: Request, role: Role) -> Caller:
        return self._admission.caller(request, role, door, origin)


class _Connection(TCPServer):
    """Ends when its peer has ended it. The library would keep it until it has been idle for long enough."""

    _has_ended = False

    async def _read_data(self) -> None:
        await super()._read_data()
        self._has_ended = True
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """As of the library, but for the timer of an idle connection."""
        if not (self._has_ended and isinstance(event, Updated)):
            await super().protocol_send(event)


async def _refuse(stream: _Bounded) -> None:
    with suppress(trio.BrokenResourceError):  # it has gone
        await stream.send_all(_NO_ROOM)
    await stream.aclose()


class _Pacer:
    """Lets requests through in their order, ``REQUESTS_PER_S`` of them: each takes 0.3 ms of the loop."""

    def __init__(self) -> None:
        self._next_s = 0.0

    async def wait(self) -> None:
        """Until it is the turn of this request."""
        self._next_s = max(self._next_s, trio.current_time() - BURST / REQUESTS_PER_S) + 1 / REQUESTS_PER_S
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


class _Bounded(trio.abc.HalfCloseableStream):
    """A connection whose peer must take what is sent: the library would wait for ever, whatever is cancelled.

    Args:
        sends: gets the scopes of what is being sent.
    """

    def __init__(self, stream: trio.SocketStream, sends: set[trio.CancelScope]) -> None:
        self._stream = stream
        self._sends = sends
        self.socket = stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As of the socket, within a time; after it the connection is closed."""
        with trio.move_on_after(SEND_S) as sending:
            self._sends.add(sending)
            try:
                await self._stream.send_all(data)
            finally:
                self._sends.discard(sending)
        if sending.cancelled_caught:
            await trio.aclose_forcefully(self._stream)  # else the library would go on to read
            raise trio.BrokenResourceError("the peer does not read")

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of the socket."""
        return await self._stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        """As of the socket."""
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """As of the socket."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """As of the socket. Before, what still comes is read: unread bytes would reset it and lose the last answer."""
        errors = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)
        with trio.move_on_after(LINGER_S, shield=True), suppress(*errors):
            await self._stream.send_eof()
            while await self._stream.receive_some(2**16):
                pass
        await self._stream.aclose()
