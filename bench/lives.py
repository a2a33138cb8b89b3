"""Lives of a daemon on virtual time, one after the other with the same journal, without sockets.

Everything is the daemon's own but for the connections, which are inside this process, and the thread that writes the journal:
trio's ``MockClock`` would jump to the next deadline while a thread works.
"""

from __future__ import annotations

import gc
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import trio
from msgspec import Struct
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage

from ykactor.access.limits import Limits as AccessLimits
from ykactor.access.model import Role
from ykactor.actors.clock import Clock
from ykactor.actors.journal import BlockingStore
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.inspection.invariants import violations
from ykactor.journal.transaction import Batch
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.session_limits import InputMemory, SessionLimits
from ykactor.surfaces.copies.computing import Computing
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.files.state_dir import StateSettings, open_state_dir
from ykactor.surfaces.metrics.instruments import SessionCounts
from ykactor.surfaces.net.doors import Door
from ykactor.surfaces.net.frames import Frames
from ykactor.surfaces.net.systemd import Notifier
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.connection import ConnectionClosedError, Received
from ykactor.surfaces.sessions.feed_session import FeedSession, event_formats
from ykactor.surfaces.sessions.peer import Limits, Peer
from ykactor.surfaces.sessions.rm_session import ResourceManagerSession
from ykactor.wire.si.codec import MSGPACK

#: What the daemon may have sent to a client that does not read.
_UNREAD_BYTES = 2**18


class Line:
    """A connection inside this process. The daemon's end is what a ``Peer`` expects of a socket and of the websocket library.

    Args:
        on_message: called with each message to the client, but not with frames.

    Attributes:
        closed: the code and the reason if the daemon has closed it.
        has_ended: whether either side has.
    """

    def __init__(self, on_message: Callable[[bytes], None] = lambda _: None) -> None:
        self.closed: tuple[int, str | None] | None = None
        self.has_ended = False
        self.on_end: Callable[[], None] = lambda: None
        self._on_message = on_message
        self._client = Connection(ConnectionType.CLIENT)
        self._to_daemon, self._requests = trio.open_memory_channel[bytes](math.inf)
        #: Set while the client reads.
        self._reads = trio.Event()
        self._reads.set()
        self._unread: list[Frames] = []

    # ---- the client's end

    def send(self, message: Struct) -> None:
        """Send a message."""
        self._to_daemon.send_nowait(MSGPACK.encode(message))

    def stop_reading(self) -> None:
        """Let the daemon wait."""
        self._reads = trio.Event()

    def read_on(self) -> None:
        """Read what was sent meanwhile, and go on."""
        self._reads.set()

    def hang_up(self) -> None:
        """End the connection."""
        self.has_ended = True
        self._to_daemon.close()
        self._reads.set()
        self.on_end()

    # ---- the daemon's end: the websocket

    @property
    def is_closing(self) -> bool:
        """True if nothing more can be sent."""
        return self.closed is not None

    async def get_messages(self, _: int) -> tuple[list[Received], int]:
        """The next message of the client."""
        try:
            message = await self._requests.receive()
            return [Received(message, len(message))], len(message)
        except trio.EndOfChannel:
            raise ConnectionClosedError from None

    def send_now(self, _: bytes) -> int:
        """Send nothing without waiting: the client may have stopped reading."""
        return 0

    def answered(self) -> None:
        """Change nothing: messages are read when they come."""

    async def send_frames(self, frames: bytes) -> None:
        """Send whole messages to the client."""
        await self.send_all(b"")
        self._client.receive_data(frames)
        for event in self._client.events():
            assert isinstance(event, BytesMessage)
            self._on_message(bytes(event.data))

    async def aclose(self, code: int = 1000, reason: str | None = None) -> None:
        """End the connection."""
        if not self.has_ended:
            self.closed = code, reason
            self.hang_up()
        await trio.lowlevel.checkpoint()

    # ---- the daemon's end: the stream below

    def write(self, frames: Frames) -> bool:
        """Keep frames; whether there is room for more."""
        self._unread.append(frames)
        return sum(part.size for part in self._unread) < _UNREAD_BYTES

    def flush(self) -> bool:
        """True if the client has read everything."""
        if self._reads.is_set() and not self.has_ended:
            self._unread.clear()
        return not self._unread

    async def send_all(self, _: bytes) -> None:
        """Wait until the client has read everything."""
        await self._reads.wait()
        if self.has_ended:
            raise ConnectionClosedError
        self._unread.clear()
        await trio.lowlevel.checkpoint()

    def peer(self, caller: Caller, audit: Audit) -> Peer:
        """The daemon's end."""
        limits, end = Limits(), cast("Any", self)
        return Peer(
            end,
            end,
            MSGPACK,
            SessionLimits(caller, audit, "", SessionCounts()),
            limits,
        )


class Life:
    """A running daemon.

    Attributes:
        dies: whether it ends without saying good-bye.
    """

    def __init__(self, daemon: Daemon, nursery: trio.Nursery) -> None:
        self.daemon = daemon
        self.dies = False
        self._nursery = nursery
        self._configs = ConfigUpdates(daemon, daemon.audit)
        self._formats = event_formats()
        nursery.start_soon(self._configs.run)

    def serve_manager(self, line: Line) -> None:
        """The client at the other end is a resource manager."""
        daemon, caller = self.daemon, Caller(Role.RM, "memory")
        peer, memory = line.peer(caller, daemon.audit), InputMemory(AccessLimits)
        session = ResourceManagerSession(peer, daemon, self._nursery, self._configs, memory, caller, daemon.audit)
        self._nursery.start_soon(_serve, session)

    def serve_follower(self, line: Line) -> None:
        """The client at the other end is a follower."""
        form, caller = self._formats[MSGPACK.name, True], Caller(Role.READER, "bench")
        peer = line.peer(caller, self.daemon.audit)
        self._nursery.start_soon(_serve, FeedSession(peer, self.daemon, form, caller, self.daemon.audit, Computing()))

    async def violations(self) -> list[str]:
        """All violated invariants of all partitions, between two cycles."""
        while not self.daemon._is_idle():
            await trio.lowlevel.checkpoint()
        actors = self.daemon._partitions.actors.values()
        return [found for actor in actors for found in violations(actor.core, actor.scheduler_core)]


async def _serve(session: ResourceManagerSession | FeedSession) -> None:
    try:
        await session.run()
        await session.peer.close()
    except* ConnectionClosedError:
        pass


class _Inline:
    """Writes without a thread (``batch.Store``)."""

    def __init__(self, store: BlockingStore) -> None:
        self._store = store

    async def commit(self, batch: Batch) -> None:
        self._store.commit(batch)

    async def tidy(self) -> bool:
        if not self._store.needs_tidying:
            return False
        self._store.tidy()
        return True

    async def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return self._store.rows(prefix)


@asynccontextmanager
async def living(settings: StateSettings, config: SchedulerConfig, clock: Clock) -> AsyncIterator[Life]:
    """A daemon that goes on where the one before it ended."""
    with open_state_dir(settings, reserves=True) as state:
        journal = state.journal(clock.now_ns, _Inline)
        daemon = Daemon(config, Settings(), clock, journal=journal, recovered=state.take_recovered(), terms=state.terms)
        async with trio.open_nursery() as nursery:
            unused = [Door.of(listener) for listener in await trio.open_tcp_listeners(0, host="127.0.0.1")]
            await nursery.start(daemon.run, unused, Notifier(None))
            life = Life(daemon, nursery)
            yield life
            if not life.dies:
                daemon.stop()
                await daemon.stopped.wait()
            nursery.cancel_scope.cancel()
    gc.unfreeze()  # the daemon has excluded its objects from collections, for as long as it lives
