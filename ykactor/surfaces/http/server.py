"""Serves HTTP on the doors of the daemon."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import trio
from starlette.types import Scope

from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.listener import REFUSED_LINES, Arrival, Listener
from ykactor.surfaces.admission.slots import Slot
from ykactor.surfaces.http.admission import RequestAdmission
from ykactor.surfaces.http.arrivals import Arrivals
from ykactor.surfaces.http.connections import Application, Connection, Receive, Send
from ykactor.surfaces.http.sending import Sending
from ykactor.surfaces.log.logs import LimitedLog, raised_at
from ykactor.surfaces.net.doors import Door, DoorKind

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
    listener = Listener(admission, admission.slots.unproven, server.serve, logger)
    async with trio.open_nursery() as minding:
        minding.start_soon(server.mind)
        listen = partial(listener.listen, doors, stopping=stopping, stop=server.stop_waiting, stop_s=STOP_S)
        await listen(task_status=task_status)
        minding.cancel_scope.cancel()


class _Server:
    """Serves each connection."""

    def __init__(self, app: Application, admission: Admission, stopping: trio.Event) -> None:
        self._app = app
        self._sending = Sending()
        self._arrivals = Arrivals()
        self._admission = admission
        self._stopping = stopping
        self._connections: set[Connection] = set()
        self._requests_log = LimitedLog(logger, logging.INFO, "request_refused", lines=REFUSED_LINES, within_s=1.0)
        self._failed_log = LimitedLog(logger, logging.ERROR, "connection_failed", lines=1, within_s=60.0)

    async def mind(self) -> None:
        """Let connections go on when something has arrived, and end those that take too long; until cancelled."""
        async with trio.open_nursery() as nursery:
            for run in (self._arrivals.run, self._sending.turns.run, self._admission.paces.run):
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

    async def serve(self, arrival: Arrival) -> None:
        """Serve one connection to its end."""
        if arrival.door.kind is not DoorKind.UNIX:
            _notice_its_end(arrival.transport.socket)
        try:
            with arrival.slot() as slot:
                if await _is_open(arrival):
                    await self._serve(arrival, slot)
        except trio.BrokenResourceError:
            pass
        except Exception as error:  # a client must not end the daemon, whatever was not thought of
            self._failed_log.log(peer=arrival.origin.text, reason=raised_at(error))

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

    async def _serve(self, arrival: Arrival, slot: Slot) -> None:
        admission = RequestAdmission(self._admission, self._requests_log, self._failed_log, arrival, slot)

        async def send_large(length: int, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
            await self._sending.send(slot.holder, length, send)

        scheme = "http" if arrival.door.tls is None else "https"
        state = {"admission": admission, "sending": self._sending}
        connection = Connection(arrival.transport, self._call, scheme, state, self._arrivals.wait, self._stopping, send_large)
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)


async def _is_open(arrival: Arrival) -> bool:
    """True if the connection is open in time."""
    with trio.move_on_after(HANDSHAKE_S), suppress(trio.BrokenResourceError):
        return await arrival.open()
    return False


def _notice_its_end(connected: trio.socket.SocketType) -> None:
    """Let the system ask a peer that sends nothing whether it is there: what waits for an event for hours could not tell."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S // 6)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
