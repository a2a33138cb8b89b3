"""The HTTP server of the REST API: connections, their requests, and what has to run for them."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import trio
from starlette.routing import BaseRoute, Mount
from starlette.types import Scope
from trio.lowlevel import Abort, RaiseCancelT, Task

from ykactor.access.model import Role
from ykactor.actors.gateway import Gateway, ReadGateway
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.listener import AcceptedConnection, Listener
from ykactor.surfaces.http.app import application
from ykactor.surfaces.http.connections import Application, Connection, Receive, Send
from ykactor.surfaces.http.documents import document_routes
from ykactor.surfaces.http.load import LoopLoad, Sending
from ykactor.surfaces.http.page import WebRoot, page_routes
from ykactor.surfaces.http.routes import Services, routes
from ykactor.surfaces.http.session import Websockets
from ykactor.surfaces.metrics.scrape import Sources
from ykactor.surfaces.net.doors import HTTP, WS, Door, DoorKind

logger = logging.getLogger(__name__)

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
    server = _Server(app, stopping)
    listener = Listener(admission, admission.slots.unproven, server.serve, logger, "request_refused")
    async with trio.open_nursery() as minding:
        minding.start_soon(server.mind)
        await listener.listen(doors, stopping=stopping, stop_s=STOP_S, task_status=task_status)
        minding.cancel_scope.cancel()


class _Server:
    """Serves each connection."""

    def __init__(self, app: Application, stopping: trio.Event) -> None:
        self._app = app
        self._sending = Sending()
        self._readiness = ReadinessBatch()
        self._stopping = stopping
        self._connections: set[Connection] = set()

    async def mind(self) -> None:
        """Let connections go on when something has arrived, and end those that take too long; until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._readiness.run)
            while True:
                await trio.sleep(LATE_S)
                now_s = trio.current_time()
                for connection in self._connections:
                    connection.end_if_late(now_s)

    async def serve(self, accepted: AcceptedConnection) -> None:
        """Answer the requests of one connection."""
        if accepted.door.kind is not DoorKind.UNIX:
            _notice_its_end(accepted.transport.socket)
        with trio.move_on_after(accepted.admission.in_force().handshake_seconds) as deadline:
            is_open = await accepted.open()
        if deadline.cancelled_caught or not is_open:
            return

        async def send_large(length: int, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
            await self._sending.send(accepted.slot.holder, length, send)

        scheme = "http" if accepted.door.tls is None else "https"
        state = {"connection": accepted, "sending": self._sending}
        connection = Connection(accepted.transport, self._call, scheme, state, self._readiness.wait, self._stopping, send_large)
        self._connections.add(connection)
        try:
            with accepted.listener.ended_by_stop(connection.stop_waiting):
                await connection.serve()
        finally:
            self._connections.discard(connection)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application. Its errors are logged without what they quote, and not as often as a client likes."""
        try:
            await self._app(scope, receive, send)
        except* trio.BrokenResourceError:
            pass
        except* Exception as errors:
            scope["state"]["connection"].log_failed(errors)
        finally:
            if "caller" in scope:
                scope["caller"].release()


def _notice_its_end(connected: trio.socket.SocketType) -> None:
    """Let the system ask a peer that sends nothing whether it is there: what waits for an event for hours could not tell."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S // 6)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)


# ---- connections that go on together

#: How often connections go on while the loop is busy, how many at once, and how much later the next ones.
TOGETHER_S = 0.2
GROUP_MAX, GROUP_S = 10, 0.005


class ReadinessBatch:
    """While the loop is busy, connections on which something has arrived go on together.

    One alone finds nothing of what it needs in the processor's caches: it takes three times as long, and the scheduler
    afterwards finds less of its own. And trio would wake each for itself only to let it wait for the others, so all their
    sockets are in one ``epoll`` here, which a single task waits for.
    """

    def __init__(self) -> None:
        self._loop = LoopLoad()
        self._sockets = select.epoll()
        #: By the number of the descriptor.
        self._waiting: dict[int, Task] = {}

    async def wait(self, socket: trio.socket.SocketType) -> None:
        """Wait until the socket seems to have something to read, and ``run`` lets it go on. One task may wait for a socket."""
        descriptor = socket.fileno()
        self._sockets.register(descriptor, select.EPOLLIN)
        self._waiting[descriptor] = trio.lowlevel.current_task()

        def give_up(_: RaiseCancelT) -> Abort:
            self._forget(descriptor)
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    def _forget(self, descriptor: int) -> Task:
        self._sockets.unregister(descriptor)
        return self._waiting.pop(descriptor)

    async def run(self) -> None:
        """Let connections go on, until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._sockets)
            is_busy = self._loop.is_busy()
            if is_busy:
                await trio.sleep_until((trio.current_time() // TOGETHER_S + 1) * TOGETHER_S)
            arrived = [descriptor for descriptor, _ in self._sockets.poll(0)]
            for start in range(0, len(arrived), GROUP_MAX):
                for descriptor in arrived[start : start + GROUP_MAX]:
                    if descriptor in self._waiting:  # or it has given up meanwhile
                        trio.lowlevel.reschedule(self._forget(descriptor))
                await trio.sleep(GROUP_S if is_busy else 0)


# ---- the REST API: its routes, and what has to run for them


async def serve_rest(
    doors: Sequence[Door],
    gateway: ReadGateway,
    admission: Admission,
    sources: Sources,
    *,
    acting: Gateway | str,
    stopping: trio.Event,
    web_root: Path | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set.

    Args:
        doors: all of the daemon; those of the REST API are served.
        sources: of metrics.
        acting: at a replica, which only answers readers, the address of its daemon.
        web_root: a directory with the files of a web UI for ``/``, where our page is otherwise.
    """
    roles = frozenset(Role) if sources.following is None else frozenset((Role.READER, Role.METRICS))
    websockets = Websockets([door.url for door in doors if door.service == WS], roles)
    services = Services(gateway, sources, stopping, websockets, acting)
    files: Sequence[BaseRoute] = [*document_routes(), *page_routes(websockets, "/", "/ui", "/ui/")]
    if web_root is not None:  # the UI there shares the login of our page (SE-98)
        files = [*document_routes(), *page_routes(websockets, "/ui", "/ui/"), Mount("/", WebRoot(web_root, websockets))]
    app, http = application(routes(services), files, lambda: gateway.waits), [door for door in doors if door.service == HTTP]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(services.history.run, name="history")
        nursery.start_soon(sources.instruments.loop.run, name="loop holds")
        await serve_http(http, app, admission, stopping=stopping, task_status=task_status)
        nursery.cancel_scope.cancel()
