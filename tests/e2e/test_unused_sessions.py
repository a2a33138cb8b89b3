"""Sessions that are not used for what they are there for, in simulated time, over connections in memory."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from doubles import FakeDaemon, accept_all
from wsproto.frame_protocol import FrameProtocol

from ykactor.access.limits import Limits as AccessLimits
from ykactor.access.model import Role
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.session_limits import InputMemory, SessionLimits
from ykactor.surfaces.admission.slots import FEED_PATH, OPERATOR_PATH, RM_PATH, SESSION_ROLES
from ykactor.surfaces.copies.computing import Computing
from ykactor.surfaces.metrics.instruments import SessionCounts
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.connection import ConnectionClosedError, Received
from ykactor.surfaces.sessions.feed_session import FeedSession, event_formats
from ykactor.surfaces.sessions.operator_session import OperatorSession
from ykactor.surfaces.sessions.peer import Limits, Peer
from ykactor.surfaces.sessions.rm_session import ResourceManagerSession
from ykactor.wire.si.codec import JSON

RM, FEED, OPERATOR = RM_PATH, FEED_PATH, OPERATOR_PATH
REGISTER = {"type": "RegisterResourceManagerRequest", "id": "r", "rmID": "rm-1"}
OTHER = {**REGISTER, "rmID": "rm-2"}
SUBSCRIBE = {"type": "Subscribe", "from": "now"}
QUESTION = {"type": "ReadConfiguration"}
CONFIGURE = {"type": "UpdateConfigurationRequest", "id": "c", "config": "text"}
WRONG = {**CONFIGURE, "config": "bad"}
JUNK = {"type": "Nonsense"}
#: How long a session is watched that should not end, in seconds.
HOUR = 3600.0


class Connection:
    """The end of a connection that a session has, in place of the websocket and of the stream below it.

    Attributes:
        ended: when the session closed it, of trio's clock, with code and reason; None: it is open.
    """

    has_ended = False
    is_closing = False

    def __init__(self) -> None:
        self.ended: tuple[float, int, str | None] | None = None
        self.sent: list[dict[str, Any]] = []
        self._to_session, self._messages = trio.open_memory_channel[str](math.inf)

    def say(self, message: dict[str, Any]) -> None:
        self._to_session.send_nowait(msgspec.json.encode(message).decode())

    async def get_messages(self, _: int) -> tuple[list[Received], int]:
        try:
            message = await self._messages.receive()
            return [Received(message, len(message))], len(message)
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise ConnectionClosedError from None

    def send_now(self, frames: bytes) -> int:
        protocol = FrameProtocol(client=True, extensions=[])
        protocol.receive_bytes(frames)
        self.sent += [msgspec.json.decode(received.payload) for received in protocol.received_frames()]
        return len(frames)

    def answered(self) -> None:
        pass

    def write(self, _: object) -> bool:
        return True

    def flush(self) -> bool:
        return True

    async def send_all(self, _: object) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self, code: int, reason: str | None) -> None:
        if self.ended is None:
            self.ended = trio.current_time(), code, reason
            self._messages.close()


class World:
    """A daemon, and sessions of it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.daemon = FakeDaemon(("default",), accept_all, 1000, manual=False)
        self._nursery = nursery
        self._configs = ConfigUpdates(self.daemon, self.daemon.audit)
        self._formats = event_formats()
        for run in (self.daemon.feed.run, self.daemon.audit.run, self.daemon.doubles["default"].run, self._configs.run):
            nursery.start_soon(run)

    def open(self, path: str) -> Connection:
        connection: Any = Connection()
        caller, daemon, limits = Caller(SESSION_ROLES[path], "memory"), self.daemon, Limits()
        sends = SessionLimits(caller, daemon.audit, path, SessionCounts())
        peer = Peer(
            connection,
            connection,
            JSON,
            sends,
            limits,
        )
        memory = InputMemory(AccessLimits)
        session: Any = {
            Role.RM: lambda: ResourceManagerSession(peer, daemon, self._nursery, self._configs, memory, caller, daemon.audit),
            Role.READER: lambda: FeedSession(peer, daemon, self._formats[JSON.name, False], caller, daemon.audit, Computing()),
            Role.OPERATOR: lambda: OperatorSession(peer, daemon, self._configs, caller, daemon.audit),
        }[SESSION_ROLES[path]]()
        self._nursery.start_soon(partial(_serve, session))
        return connection


async def _serve(session: Any) -> None:
    await session.run()
    await session.peer.close()


#: What is said when, in seconds; then when the session ends, with its code and reason, None: it does not.
CASES = [
    (RM, {}, (30, 4003, "no registration came within 30 s")),
    (RM, {29: JUNK}, (30, 4003, "no registration came within 30 s")),
    (RM, dict.fromkeys(range(29), CONFIGURE), (30, 4003, "no registration came within 30 s")),
    (RM, {5: OTHER}, (5, 4007, "the registration was refused")),
    (RM, {5: {**REGISTER, "resumeFrom": 7}}, (5, 4007, "the registration was refused")),
    (RM, {5: {**REGISTER, "config": "bad"}}, (5, 4007, "the registration was refused")),
    (RM, {29: REGISTER}, None),
    (FEED, {}, (30, 4003, "no subscription came within 30 s")),
    (FEED, {29: JUNK}, (30, 4003, "no subscription came within 30 s")),
    (FEED, dict.fromkeys(range(0, 60, 5), QUESTION), (30, 4003, "no subscription came within 30 s")),
    (FEED, {29: {**SUBSCRIBE, "from": 7}}, (30, 4003, "no subscription came within 30 s")),
    (FEED, {28: {**SUBSCRIBE, "from": 7}, 29: SUBSCRIBE}, None),
    (FEED, {29: SUBSCRIBE, 40: {**SUBSCRIBE, "from": 7}, 80: QUESTION}, None),
    (OPERATOR, {}, (30, 4003, "no request that may be carried out came within 30 s")),
    (OPERATOR, {29: JUNK}, (30, 4003, "no request that may be carried out came within 30 s")),
    (OPERATOR, dict.fromkeys(range(29), WRONG), (30, 4003, "no request that may be carried out came within 30 s")),
    (OPERATOR, {29: CONFIGURE}, None),
]


@pytest.mark.parametrize(("path", "says", "expected"), CASES)
async def test_what_is_not_used_ends(
    autojump_clock: object, path: str, says: dict[int, dict[str, Any]], expected: tuple[float, int, str] | None
) -> None:
    """SE-91: 30 s after it was opened, whatever it says meanwhile; a refused registration ends its session at once."""
    async with trio.open_nursery() as nursery:
        world = World(nursery)
        holder = world.open(RM)
        if path == RM and OTHER in says.values():
            holder.say(REGISTER)
            await trio.sleep(1)
        since_s = trio.current_time()
        connection = world.open(path)
        for at_s, message in says.items():
            await trio.sleep_until(since_s + at_s)
            if connection.ended is None:
                connection.say(message)
        await trio.sleep(HOUR)
        ended = connection.ended and (connection.ended[0] - since_s, *connection.ended[1:])
        assert ended == (expected and (pytest.approx(expected[0], abs=0.01), *expected[1:]))
        nursery.cancel_scope.cancel()


async def test_what_takes_long_is_no_silence(autojump_clock: object) -> None:
    """SE-91: a configuration that is read for minutes, and a snapshot that is slow, end no session."""
    async with trio.open_nursery() as nursery:
        world = World(nursery)
        manager = world.open(RM)
        async with world.daemon.reading:
            manager.say({**REGISTER, "config": "text"})
            await trio.sleep(300)
        await trio.sleep(1)
        assert manager.ended is None
        assert [message["type"] for message in manager.sent] == ["RegisterResourceManagerResponse", "Ack"]
        follower = world.open(FEED)
        await trio.sleep(29)
        world.daemon.doubles["default"].resume = trio.Event()
        follower.say({"type": "Subscribe", "from": "snapshot"})
        await trio.sleep(3)
        assert follower.ended is None
        world.daemon.doubles["default"].resume.set()
        await trio.sleep(HOUR)
        assert follower.ended is None
        nursery.cancel_scope.cancel()
