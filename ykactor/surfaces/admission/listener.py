"""The way in, the same for websockets and for the REST API: connections are accepted, get a slot and are opened."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus

import trio

from ykactor.access.model import Role
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.slots import Slot, Slots
from ykactor.surfaces.log.logs import LimitedLog
from ykactor.surfaces.net.descriptors import NO_ROOM, is_reserved
from ykactor.surfaces.net.doors import HTTP, Door, Origin
from ykactor.surfaces.net.requests import RefusedError
from ykactor.surfaces.net.transports import TlsError, Transport, linger, transport_of

#: Lines about what is refused in the log, in a second.
REFUSED_LINES = 3
#: How long a connection may take to be told that there is no room.
_TURN_AWAY_S = 10


class Listener:
    """Accepts the connections of one service.

    Args:
        slots: which a connection takes before it has shown anything.
        serve: serves a connection to its end; trio closes it afterwards.
        logger: of the service.

    Attributes:
        refused: the log of what is refused before it is served.
    """

    def __init__(
        self, admission: Admission, slots: Slots, serve: Callable[[Arrival], Awaitable[None]], logger: logging.Logger
    ) -> None:
        self.admission = admission
        self.slots = slots
        self._serve = serve
        self.refused = LimitedLog(logger, logging.INFO, "handshake_failed", lines=REFUSED_LINES, within_s=1.0)
        self._no_room = LimitedLog(logger, logging.WARNING, "connection_refused", lines=1, within_s=60.0)

    async def listen(
        self,
        doors: Sequence[Door],
        *,
        stopping: trio.Event,
        stop: Callable[[], None],
        stop_s: float,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections until ``stopping`` is set, and return when the last one has ended.

        Args:
            stop: called when no further connection is accepted.
            stop_s: how long connections have from then on; afterwards they are cancelled.

        Resource handling: takes over the listeners of ``doors`` and closes them.
        """
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                for door in doors:
                    accepted = partial(self._accepted, door)
                    await accepting.start(partial(trio.serve_listeners, accepted, [door.listener], handler_nursery=connections))
                task_status.started()
                await stopping.wait()
                accepting.cancel_scope.cancel()
            connections.cancel_scope.deadline = trio.current_time() + stop_s
            stop()

    async def _accepted(self, door: Door, stream: trio.SocketStream) -> None:
        origin, has_no_room = door.origin(stream), is_reserved(stream.socket.fileno())
        if refusal := NO_ROOM if has_no_room else self.slots.make_room(origin.holder):
            self._no_room.log(peer=origin.text, reason=refusal)
            self.admission.refused_nobody(Role.READER, origin, "connection", refusal)
        if not has_no_room:
            await self._serve(Arrival(self, door, origin, transport_of(door, stream)))
        elif door.service == HTTP and door.tls is None:
            await _turn_away(Transport(stream), refusal)


class Arrival:
    """A new connection.

    Attributes:
        transport: what it goes over.
    """

    def __init__(self, listener: Listener, door: Door, origin: Origin, transport: Transport) -> None:
        self._listener = listener
        self.door = door
        self.origin = origin
        self.transport = transport

    @contextmanager
    def slot(self) -> Iterator[Slot]:
        """The slot of the connection. Another one that needs it while it has shown nothing ends the block."""
        with trio.CancelScope() as scope, self._listener.slots.take(self.origin.holder, scope.cancel) as slot:
            yield slot

    async def open(self) -> bool:
        """True if bytes can be sent and received now, False if the client does not speak TLS as it has to.

        Raises:
            trio.BrokenResourceError: the connection has ended.
        """
        try:
            await self.transport.open()
        except TlsError as error:
            self._listener.refused.log(peer=self.origin.text, reason=str(error))
            if error.is_certificate:
                self._listener.admission.refused_nobody(Role.READER, self.origin, "certificate", str(error))
            return False
        return True

    def log_refused(self, refused: RefusedError) -> None:
        """Tell the log that the connection is refused."""
        self._listener.refused.log(peer=self.origin.text, status=refused.status.value, reason=refused.logged)


async def _turn_away(transport: Transport, reason: str) -> None:
    with trio.move_on_after(_TURN_AWAY_S), suppress(trio.BrokenResourceError):  # it has gone
        await transport.send_all(RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, reason).response())
        await linger(transport)
