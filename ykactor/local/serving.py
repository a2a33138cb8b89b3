"""The server side of the control socket: who is connected, for how long, and with how much.

A connection is for one request. Clients may be enemies of each other: what one user sends slowly, in halves, too often, or does
not read, takes the connections, the memory and the turn of this user alone.
"""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import trio
from msgspec import Struct, field

from ykactor.local import control
from ykactor.local.control import NAME, Answer, Refused, Request
from ykactor.local.private import opened
from ykactor.wire.sockets import credentials, groups

#: Bytes of a request: environment, arguments and script have at most 1.25 MiB, and JSON makes a third more of them.
LINE_MAX = 2 * 2**20
#: Bytes of a request that a connection has without the turn of its user: then it is a whole one, or one that submits.
START_MAX = 2**14
#: Connections of all users, and of one; so many of all are for root and operators alone.
CONNECTIONS_MAX, CONNECTIONS_EACH, CONNECTIONS_KEPT = 4096, 256, 256
#: Seconds for a request to come, and for its answer to be read.
LINE_S, ANSWER_S = 10.0, 30.0

_decode = msgspec.json.Decoder(Request).decode


class Caller(Struct, frozen=True):
    """The process that has connected, as the kernel has told it; its ``pid`` is for messages, as it may have ended.

    Attributes:
        groups: the numbers of its groups.
    """

    uid: int
    pid: int
    groups: frozenset[int] = frozenset()


class Gate(Protocol):
    """Decides who is served."""

    def refusal(self, caller: Caller) -> str:
        """The reason for which a caller is not served; "" if it is."""

    def comes_first(self, caller: Caller) -> bool:
        """True if connections are kept for a caller."""


class Handler(Protocol):
    """Answers requests."""

    async def ready(self, request: Request) -> None:
        """Wait until there is what a request wants to wait for."""

    async def answer(self, caller: Caller, request: Request) -> Answer:
        """Answer a request; of each user one at a time."""


@asynccontextmanager
async def listening(directory: Path, mode: int = 0o600, group: int = -1) -> AsyncIterator[trio.SocketListener]:
    """The socket in a state directory, which the caller has checked and locked: one that is there was left behind.

    Args:
        mode, group: of the socket; -1 is the group of this process.
    """
    path = directory / NAME
    path.unlink(missing_ok=True)
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unbound:
        with opened(directory) as descriptor:  # the kernel takes 107 bytes of a path, however long that of the directory is
            await unbound.bind(f"/proc/self/fd/{descriptor}/{NAME}")
        os.chown(path, -1, group)
        path.chmod(mode)
        unbound.listen(1024)
        try:
            yield trio.SocketListener(unbound)
        finally:
            path.unlink(missing_ok=True)


async def serve(listener: trio.SocketListener, handler: Handler, gate: Gate) -> None:
    """Answer clients until cancelled."""
    await trio.serve_listeners(_Clients(handler, gate).serve, [listener])


class _User(Struct):
    """A user with connections; the turn is held by the one whose request is read, answered or sent."""

    connections: int = 0
    turn: trio.Lock = field(default_factory=trio.Lock)


class _Clients:
    def __init__(self, handler: Handler, gate: Gate) -> None:
        self._handler = handler
        self._gate = gate
        self._users: dict[int, _User] = {}
        self._connections = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve a connection."""
        found = credentials(stream.socket)
        caller = Caller(found.uid, found.pid, groups(stream.socket))
        async with stream:
            if reason := self._gate.refusal(caller) or self._no_room(caller):
                await _tell(stream, Refused(reason))
                return
            with self._counted(caller.uid) as turn, suppress(trio.BrokenResourceError):  # the client has gone
                await self._converse(stream, caller, turn)

    def _no_room(self, caller: Caller) -> str:
        """The reason for which a user can have no further connection; "" if there is none.

        A user has at most as many as are left for the others: so each one of them finds some.
        """
        user = self._users.get(caller.uid)
        own = 0 if user is None else user.connections
        if own >= CONNECTIONS_EACH:
            return f"found {own} connections of this user, expected at most {CONNECTIONS_EACH}"
        left = CONNECTIONS_MAX - self._connections - (0 if self._gate.comes_first(caller) else CONNECTIONS_KEPT)
        if own >= left:
            return f"found {own} connections of this user, expected less than the {max(0, left)} that are left for all: try again"
        return ""

    @contextmanager
    def _counted(self, uid: int) -> Iterator[trio.Lock]:
        user = self._users.setdefault(uid, _User())
        user.connections += 1
        self._connections += 1
        try:
            yield user.turn
        finally:
            self._connections -= 1
            user.connections -= 1
            if not user.connections:
                del self._users[uid]

    async def _converse(self, stream: trio.SocketStream, caller: Caller, turn: trio.Lock) -> None:
        with trio.move_on_after(LINE_S) as limit:
            start = await control.read_line(stream, START_MAX)
        if limit.cancelled_caught:
            await _tell(stream, Refused(f"found no request within {LINE_S:g} s"))
        elif start.endswith(b"\n"):
            async with _while_connected(stream):
                await self._answer_small(stream, caller, turn, start)
        elif start:
            async with turn:
                await self._answer_large(stream, caller, start)

    async def _answer_small(self, stream: trio.SocketStream, caller: Caller, turn: trio.Lock, line: bytes) -> None:
        request = _request(line)
        if not isinstance(request, Refused):
            await self._handler.ready(request)
        async with turn:
            await _tell(stream, request if isinstance(request, Refused) else await self._handler.answer(caller, request))

    async def _answer_large(self, stream: trio.SocketStream, caller: Caller, start: bytes) -> None:
        with trio.move_on_after(LINE_S) as limit:
            line = await control.read_line(stream, LINE_MAX, start, discards=True)
        if limit.cancelled_caught:
            await _tell(stream, Refused(f"found no whole request within {LINE_S:g} s"))
        elif len(line) > LINE_MAX:
            await _tell(stream, Refused(f"found a request of more than {LINE_MAX} bytes: is the environment so large?"))
        elif line:
            request = _request(line)
            await _tell(stream, request if isinstance(request, Refused) else await self._handler.answer(caller, request))


def _request(line: bytes) -> Request | Refused:
    try:
        request: Request = _decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return Refused(f"found no request: {error}")
    return request


@asynccontextmanager
async def _while_connected(stream: trio.SocketStream) -> AsyncIterator[None]:
    """Leave the block if the client goes: it may have asked for something that takes days."""
    async with trio.open_nursery() as nursery:

        async def cancel_at_the_end() -> None:
            with suppress(trio.BrokenResourceError):
                await stream.receive_some(1)  # a client sends nothing while it waits
            nursery.cancel_scope.cancel()

        nursery.start_soon(cancel_at_the_end)
        yield
        nursery.cancel_scope.cancel()


async def _tell(stream: trio.SocketStream, answer: Answer) -> None:
    """Send an answer, unless the client has gone, or does not read it in time."""
    with trio.move_on_after(ANSWER_S), suppress(trio.BrokenResourceError):
        await control.send(stream, answer)
