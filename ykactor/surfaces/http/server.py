"""Serves HTTP on the doors of the daemon."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import trio
from starlette.types import Scope

from ykactor.access.model import Role
from ykactor.surfaces.admission.admission import REFUSED_LINES, Admission
from ykactor.surfaces.admission.slots import Slot
from ykactor.surfaces.http.admission import ConnectionSlots, Paces, RequestAdmission
from ykactor.surfaces.http.arrivals import Arrivals
from ykactor.surfaces.http.connections import Application, Connection, Receive, Send, linger
from ykactor.surfaces.http.exchange import SEND_S
from ykactor.surfaces.http.sending import Sending
from ykactor.surfaces.log.logs import LimitedLog, raised_at
from ykactor.surfaces.net.descriptors import NO_ROOM, is_reserved
from ykactor.surfaces.net.doors import Door, DoorKind, Origin
from ykactor.surfaces.net.refusals import RefusedError
from ykactor.surfaces.net.transports import TlsError, Transport, transport_of

logger = logging.getLogger(__name__)

#: How long a connection may take for the handshake of TLS.
HANDSHAKE_S = 10
#: When the daemon stops, requests have this long.
STOP_S = 2
#: How often connections are looked at that have taken too long.
LATE_S = 1.0
#: How long a peer that has vanished is asked whether it is there, after as long without a byte.
KEEPALIVE_S = 60


async def serve_http(
    doors: Sequence[Door],
    app: Application,
    admission: Admission,
    *,
    stopping: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set.

    Error handling: an error in a connection ends that connection only, and is logged.
    """
    server = _Server(app, admission, stopping)
    async with trio.open_nursery() as minding:
        minding.start_soon(server.mind)
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                for door in doors:
                    serve = partial(trio.serve_listeners, partial(server.on_connection, door), [door.listener])
                    accepting.start_soon(partial(serve, handler_nursery=connections))
                task_status.started()
                await stopping.wait()
                accepting.cancel_scope.cancel()
            connections.cancel_scope.deadline = trio.current_time() + STOP_S
            server.stop_waiting()
        minding.cancel_scope.cancel()


class _Server:
    """Serves each connection."""

    def __init__(self, app: Application, admission: Admission, stopping: trio.Event) -> None:
        self._app = app
        self._paces = Paces.new()
        self._sending = Sending()
        self._arrivals = Arrivals()
        self._admission = admission
        self._stopping = stopping
        self._slots = ConnectionSlots.new()
        self._connections: set[Connection] = set()
        self._refused_log = LimitedLog(logger, logging.INFO, "handshake_failed", lines=REFUSED_LINES, within_s=1.0)
        self._requests_log = LimitedLog(logger, logging.INFO, "request_refused", lines=REFUSED_LINES, within_s=1.0)
        self._no_slot_log = LimitedLog(logger, logging.WARNING, "connection_refused", lines=1, within_s=60.0)
        self._failed_log = LimitedLog(logger, logging.ERROR, "connection_failed", lines=1, within_s=60.0)

    async def mind(self) -> None:
        """Let connections go on when something has arrived, and end those that take too long; until cancelled."""
        async with trio.open_nursery() as nursery:
            for run in (self._arrivals.run, self._sending.turns.run, *(pace.run for pace in self._paces)):
                nursery.start_soon(run)
            while True:
                await trio.sleep(LATE_S)
                now_s = trio.current_time()
                for connection in self._connections:
                    connection.end_if_late(now_s)

    def stop_waiting(self) -> None:
        """End the connections that wait for a request."""
        for connection in self._connections:
            connection.stop_waiting()

    async def on_connection(self, door: Door, stream: trio.SocketStream) -> None:
        """Serve one connection to its end."""
        origin, has_no_room = door.origin(stream), is_reserved(stream.socket.fileno())
        if refusal := NO_ROOM if has_no_room else self._slots.unproven.make_room(origin.holder):
            self._no_slot_log.log(peer=origin.text, reason=refusal)
            self._admission.refused_nobody(Role.READER, origin, "connection", refusal)
        if has_no_room:
            if door.tls is None:
                await self._refuse(stream, refusal)
            return
        if door.kind is not DoorKind.UNIX:
            _notice_its_end(stream)
        transport = transport_of(door, stream)
        try:
            with trio.CancelScope() as serving, self._slots.unproven.take(origin.holder, serving.cancel) as slot:
                if await self._is_open(transport, origin):
                    await self._serve(door, origin, transport, slot)
        except trio.BrokenResourceError:
            pass
        except Exception as error:  # a client must not end the daemon, whatever was not thought of
            self._failed_log.log(peer=origin.text, reason=raised_at(error))

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application. Its errors are logged without what they quote, and not as often as a client likes."""
        try:
            await self._app(scope, receive, send)
        except* trio.BrokenResourceError:
            pass
        except* Exception as errors:
            scope["state"]["admission"].failed(errors)
        finally:
            if "caller" in scope:
                scope["caller"].release()

    async def _refuse(self, stream: trio.SocketStream, reason: str) -> None:
        transport = Transport(stream)
        with trio.move_on_after(SEND_S), suppress(trio.BrokenResourceError):  # it has gone
            await transport.send_all(RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, reason).response())
            await linger(transport)

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

    async def _serve(self, door: Door, origin: Origin, transport: Transport, slot: Slot) -> None:
        admission = RequestAdmission(
            self._admission,
            self._requests_log,
            self._failed_log,
            door,
            origin,
            transport.credentials,
            self._slots,
            slot,
            self._paces,
        )

        async def send_large(length: int, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
            await self._sending.send(slot.holder, length, send)

        scheme = "http" if door.tls is None else "https"
        state = {"admission": admission, "sending": self._sending}
        connection = Connection(transport, self._call, scheme, state, self._arrivals.wait, self._stopping, send_large)
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)


def _notice_its_end(stream: trio.SocketStream) -> None:
    """Let the system ask a peer that sends nothing whether it is there: what waits for an event for hours could not tell."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S // 6)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
