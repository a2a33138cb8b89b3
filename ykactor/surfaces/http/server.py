"""Serves HTTP with hypercorn, on the doors of the daemon."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from starlette.types import ASGIApp, Receive, Scope, Send

from ykactor.access.model import Role
from ykactor.surfaces.http.admission import RequestAdmission
from ykactor.surfaces.http.connection_places import ConnectionPlace, ConnectionPlaces
from ykactor.surfaces.http.connections import Bounded, Connection, Encrypted
from ykactor.surfaces.server.admission import REFUSED_LINES, Admission
from ykactor.surfaces.server.descriptors import NO_ROOM, is_reserved
from ykactor.surfaces.server.doors import Door, Origin
from ykactor.surfaces.server.limited_log import LimitedLog
from ykactor.surfaces.server.refusals import RefusedError
from ykactor.surfaces.server.tls_transport import TlsError, transport_of
from ykactor.surfaces.server.transports import Transport

logger = logging.getLogger(__name__)

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


async def serve_http(
    doors: Sequence[Door],
    app: ASGIApp,
    admission: Admission,
    *,
    stopping: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set.

    Error handling: an error in a connection ends that connection only, and is logged.
    """
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
        self._app = app
        self._pacer = _Pacer()
        self._wrapped = ASGIWrapper(cast("Any", self._call))
        self._admission = admission
        self._config = _config()
        self._places = ConnectionPlaces()
        self._sends: set[trio.CancelScope] = set()
        self._refused_log = LimitedLog(logger, logging.INFO, "handshake_failed", lines=REFUSED_LINES, within_s=1.0)
        self._requests_log = LimitedLog(logger, logging.INFO, "request_refused", lines=REFUSED_LINES, within_s=1.0)
        self._no_place_log = LimitedLog(logger, logging.WARNING, "connection_refused", lines=1, within_s=60.0)
        self._failed_log = LimitedLog(logger, logging.ERROR, "connection_failed", lines=1, within_s=60.0)
        self.context = WorkerContext(None)

    def stop(self) -> None:
        """Let what is being sent take little more time: the library shields it."""
        for sending in self._sends:
            sending.deadline = min(sending.deadline, trio.current_time() + STOP_S)

    async def on_connection(self, door: Door, stream: trio.SocketStream) -> None:
        """Serve one connection to its end."""
        origin = door.origin(stream)
        if refusal := self._no_place(origin, stream):
            if door.tls is None:
                await self._refuse(stream, refusal)
            return
        transport = transport_of(door, stream)
        try:
            with self._places.taken(origin) as place:
                if await self._is_open(transport, origin):
                    await self._serve(door, origin, transport, place)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception as errors:  # of the library: a client must not end the daemon
            self._failed_log.log(peer=origin.text, reason=_places(errors))

    def _no_place(self, origin: Origin, stream: trio.SocketStream) -> str:
        """Why there is no place for a new connection; "" if there is. Told to log and audit."""
        refusal = NO_ROOM if is_reserved(stream.socket.fileno()) else self._places.refusal(origin)
        if refusal:
            self._no_place_log.log(peer=origin.text, reason=refusal)
            self._admission.refused_nobody(Role.READER, origin, "connection", refusal)
        return refusal

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, whose errors the library would log with all that they quote, as often as a client likes."""
        await self._pacer.wait()
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            self._failed_log.log(peer=str(scope["client"]), reason=_places(error))
        finally:
            if "caller" in scope:
                scope["caller"].release()

    async def _refuse(self, stream: trio.SocketStream, reason: str) -> None:
        bounded = Bounded(Transport(stream), self._sends)
        with suppress(trio.BrokenResourceError):  # it has gone
            await bounded.send_all(RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, reason).response())
        await bounded.aclose()

    async def _is_open(self, transport: Transport, origin: Origin) -> bool:
        """Begin; whether that has succeeded in time."""
        with trio.move_on_after(HANDSHAKE_S), suppress(trio.BrokenResourceError):
            try:
                await transport.open()
            except TlsError as error:
                self._refused_log.log(peer=origin.text, reason=str(error))
                if error.is_certificate:
                    self._admission.refused_nobody(Role.READER, origin, "certificate", str(error))
            else:
                return True
        return False

    async def _serve(self, door: Door, origin: Origin, transport: Transport, place: ConnectionPlace) -> None:
        admission = RequestAdmission(self._admission, self._requests_log, door, origin, transport.credentials, place)
        bounded = Bounded(transport, self._sends) if door.tls is None else Encrypted(transport, self._sends)
        await Connection(
            self._wrapped, self._config, self.context, ConnectionState({"admission": admission}), cast("Any", bounded)
        )


class _Pacer:
    """Lets requests through in their order, ``REQUESTS_PER_S`` of them: each takes 0.3 ms of the loop."""

    def __init__(self) -> None:
        self._next_s = 0.0

    async def wait(self) -> None:
        """Until it is the turn of this request."""
        self._next_s = max(self._next_s, trio.current_time() - BURST / REQUESTS_PER_S) + 1 / REQUESTS_PER_S
        if self._next_s > trio.current_time():
            await trio.sleep_until(self._next_s)


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
    config.h11_max_incomplete_size = HEAD_BYTES_MAX
    config.accesslog = None
    config.errorlog = logger
    config.websocket_max_message_size = 0
    return config
