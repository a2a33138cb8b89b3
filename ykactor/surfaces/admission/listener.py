"""The life of a connection, the same for websockets and for the REST API: it is accepted, gets a slot, is served, and ends."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus

import trio

from ykactor.access.model import Role
from ykactor.surfaces.admission.admission import SHOW_PROOF, Admission, Asked
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.slots import Slot, Slots
from ykactor.surfaces.log.logs import LimitedLog, raised_at
from ykactor.surfaces.net.descriptors import NO_ROOM, is_reserved
from ykactor.surfaces.net.doors import HTTP, Door, Origin
from ykactor.surfaces.net.requests import HEAD_BYTES_MAX, RefusedError
from ykactor.surfaces.net.transports import TlsError, Transport, linger, transport_of

#: Lines about what is refused in the log, in a second.
REFUSED_LINES = 3
#: The header of an answer that ends its connection.
CLOSES = {"Connection": "close"}
#: The only path that is answered while nobody is let in: the process runs, and need not be started again.
LIVE_PATH = "/livez"
_LIVE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
#: How long a connection may take to be told that there is no room.
_TURN_AWAY_S = 10
#: How many of them are told at a time while there is no daemon; and how soon others are accepted after an error.
_TURNED_AWAY_MAX = 100
_ACCEPT_AGAIN_S = 0.1


class Listener:
    """Accepts the connections of one service.

    Args:
        slots: which a connection takes before it has shown anything.
        serve: serves a connection until nothing more is to be sent; its errors are logged.
        logger: of the service.
        refused: the event of a request that is refused.

    Attributes:
        handshakes, refused: the logs of TLS that fails, and of requests that are refused.
        failed: the log of errors of the daemon, without what they quote, and not as often as a client likes.
    """

    def __init__(
        self,
        admission: Admission,
        slots: Slots,
        serve: Callable[[AcceptedConnection], Awaitable[None]],
        logger: logging.Logger,
        refused: str,
    ) -> None:
        self.admission = admission
        self.slots = slots
        self._serve = serve
        self.handshakes = LimitedLog(logger, logging.INFO, "handshake_failed", lines=REFUSED_LINES, within_s=1.0)
        self.refused = LimitedLog(logger, logging.INFO, refused, lines=REFUSED_LINES, within_s=1.0)
        self.failed = LimitedLog(logger, logging.ERROR, "connection_failed", lines=1, within_s=60.0)
        self._no_room = LimitedLog(logger, logging.WARNING, "connection_refused", lines=1, within_s=60.0)
        #: True if no further connection is accepted.
        self._is_stopping = False
        #: The functions that end what connections are doing.
        self._endings: set[Callable[[], None]] = set()

    async def listen(
        self,
        doors: Sequence[Door],
        *,
        stopping: trio.Event,
        stop_s: float,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections until ``stopping`` is set, and return when the last one has ended.

        Args:
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
            self._is_stopping = True
            for end in self._endings:
                end()

    @contextmanager
    def ended_by_stop(self, end: Callable[[], None]) -> Iterator[None]:
        """The end of the listener calls ``end`` during this block; if it has come before, ``end`` is called at once."""
        if self._is_stopping:
            end()
        self._endings.add(end)
        try:
            yield
        finally:
            self._endings.discard(end)

    async def _accepted(self, door: Door, stream: trio.SocketStream) -> None:
        origin, has_no_room = door.origin(stream), is_reserved(stream.socket.fileno())
        if refusal := NO_ROOM if has_no_room else self.slots.make_room(origin.holder):
            self._no_room.log(peer=origin.text, reason=refusal)
            self.admission.refused_nobody(Role.READER, origin, "connection", refusal)
        if not has_no_room:
            await self._live(door, origin, transport_of(door, stream))
        elif door.service == HTTP and door.tls is None:
            await _turn_away(Transport(stream), refusal)

    async def _live(self, door: Door, origin: Origin, transport: Transport) -> None:
        """Serve a connection to its end. Another one that needs its slot while it has shown nothing ends it too."""
        try:
            with trio.CancelScope() as scope, self.slots.take(origin.holder, scope.cancel) as slot:
                await self._serve(AcceptedConnection(self, door, origin, transport, slot))
                await linger(transport)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception as errors:  # a client must not end the daemon, whatever was not thought of
            self.failed.log(peer=origin.text, reason=raised_at(errors))


class AcceptedConnection:
    """A connection that was accepted.

    Attributes:
        admission: of the daemon.
        listener: that has accepted it.
        transport: what it goes over.
        slot: that it has.
    """

    def __init__(self, listener: Listener, door: Door, origin: Origin, transport: Transport, slot: Slot) -> None:
        self.admission = listener.admission
        self.door = door
        self.origin = origin
        self.transport = transport
        self.slot = slot
        self.listener = listener

    async def open(self) -> bool:
        """True if bytes can be sent and received now, False if the client does not speak TLS as it has to.

        Raises:
            trio.BrokenResourceError: the connection has ended.
        """
        try:
            await self.transport.open()
        except TlsError as error:
            self.listener.handshakes.log(peer=self.origin.text, reason=str(error))
            if error.is_certificate:
                self.admission.refused_nobody(Role.READER, self.origin, "certificate", str(error))
            return False
        return True

    def admit(self, asked: Asked, claim: Callable[[Caller], str]) -> Caller:
        """Let a request in (``Admission.admit``)."""
        return self.admission.admit(self.door, self.origin, self.transport.credentials, asked, claim)

    async def turn(self, caller: Caller | None) -> None:
        """Wait until a request may be answered, of a caller that was let in or of anybody.

        Raises:
            RefusedError: the caller is let in no longer.
        """
        await self.admission.slots.wait_for_request(self.slot)
        if caller is not None:
            caller.review()
            if caller.revoked:
                raise RefusedError(HTTPStatus.UNAUTHORIZED, caller.revoked, {**SHOW_PROOF, **CLOSES})

    def log_refused(self, refused: RefusedError) -> None:
        """Tell the log that a request is refused."""
        self.listener.refused.log(peer=self.origin.text, status=refused.status.value, reason=refused.logged)

    def log_failed(self, errors: BaseException) -> None:
        """Tell the log of an error of the daemon."""
        self.listener.failed.log(peer=self.origin.text, reason=raised_at(errors))


async def _turn_away(transport: Transport, reason: str) -> None:
    with trio.move_on_after(_TURN_AWAY_S), suppress(trio.BrokenResourceError):  # it has gone
        await transport.send_all(RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, reason).response())
        await linger(transport)


# ---- while there is no daemon yet


async def turn_away(doors: Sequence[Door], reason: str) -> None:
    """Refuse all requests with 503 but for ``LIVE_PATH``, until cancelled: who connects later waits in the queue of the socket.

    Connections with TLS are closed.
    """
    async with trio.open_nursery() as nursery:
        for door in doors:
            nursery.start_soon(_turn_away_all, door, reason)


async def _turn_away_all(door: Door, reason: str) -> None:
    async with trio.open_nursery() as nursery:
        while True:
            try:
                stream = await door.listener.accept()
            except OSError:  # too many files are open, or it has gone
                await trio.sleep(_ACCEPT_AGAIN_S)
                continue
            if door.tls is None and len(nursery.child_tasks) < _TURNED_AWAY_MAX:
                nursery.start_soon(_answer_or_turn_away, Transport(stream), reason)
            else:
                stream.socket.close()


async def _answer_or_turn_away(transport: Transport, reason: str) -> None:
    async with transport:
        with trio.move_on_after(_TURN_AWAY_S), suppress(trio.BrokenResourceError):  # it has gone
            head = await transport.receive_some(HEAD_BYTES_MAX)
            if head.startswith(f"GET {LIVE_PATH} ".encode()):
                await transport.send_all(_LIVE)
                await linger(transport)
            elif head:
                await _turn_away(transport, reason)
