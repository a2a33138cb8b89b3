"""The connection of a replica to its daemon: it runs the turns that come, and gives their events to the feed."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Container, Sequence

import trio

from ykactor.actors.clock import system_ns
from ykactor.actors.commands import PastEvents, Publication
from ykactor.actors.mailbox import Held
from ykactor.actors.pauses import checkpoint, drive
from ykactor.client.connection import SealedStream, open_connection
from ykactor.client.errors import Disconnected
from ykactor.client.login import Login
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import S_NS
from ykactor.sim.replica import MismatchError, copied
from ykactor.surfaces.admission.slots import TURNS_PATH
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.replica.replica import Lost, Replica
from ykactor.wire.history import decode_facts
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.turns import (
    Base,
    Configuration,
    Facts,
    Hello,
    LastTurn,
    Past,
    Process,
    Renewed,
    Resumed,
    Turn,
    TurnMessage,
    Wanted,
    encode,
    unpacked,
)

log = get_logger(__name__)

#: So many mismatches within so many seconds are the end: another one would say nothing new.
MISMATCHES_MAX = 3
WITHIN_S = 3600.0
#: The first and the longest pause before another attempt to connect.
PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 10.0
#: Turns are run for so long before other tasks run, each of which may take some ms, and for so long before copies may be read.
REST_S = 0.01
SLICE_S = 0.05
#: Frames with more bytes are decompressed in a thread.
_LARGE_BYTES = 2**16
#: Frames that have come are handled together, up to so many bytes.
_TAKEN_BYTES = 2**20
#: Of a mismatch, characters in the log.
_REASON_MAX = 20_000


class MismatchesError(Exception):
    """Turns were decided otherwise again and again."""


class Following:
    """Follows a daemon.

    Attributes:
        is_connected: whether there is a connection that the daemon has begun to use.
        turns, facts: how many were run, and how many of what was decided were the same.
        mismatches: how many turns were decided otherwise.
        lag_s: how long after the daemon the last turn was run, in seconds; None before the first one.
    """

    def __init__(self, replica: Replica, login: Login) -> None:
        self.is_connected = False
        self.turns = self.facts = self.mismatches = 0
        self.lag_s: float | None = None
        self._replica = replica
        self._copies = replica.copies
        self._feed = replica.feed
        self._login = login
        #: The one of the addresses of the daemon that has answered.
        self._address = replica.url
        #: Whether there was ever a connection: without one the address may be wrong.
        self._has_met = False
        #: The copies of which the daemon has not said yet whether they go on; None when it has.
        self._offered: dict[PartitionName, LastTurn] | None = None
        #: The times of the newest mismatches.
        self._mismatched: deque[float] = deque(maxlen=MISMATCHES_MAX)
        self._pause_s = PAUSE_FIRST_S

    @property
    def partitions(self) -> list[PartitionName]:
        """The names of the partitions of which there is a copy."""
        return [*self._copies.of]

    async def run(self) -> None:
        """Follow the daemon until cancelled.

        Raises:
            Disconnected: there was no connection yet. RequestRefused: the daemon does not let this one in, or no longer.
            OtherBuildError, OtherHistoryError, MismatchesError: see there.
            UnreadableTurnsError, UnreadableCauseError, HistoryError, UnreadableRowError, DamagedStateError: what comes is
                damaged, or of a later version.
        """
        while True:
            try:
                await self._follow()
            except Disconnected as lost:
                if not self._has_met:
                    raise
                self._lose(str(lost))
            await trio.sleep(self._pause_s * random.uniform(0.5, 1))
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    def _lose(self, reason: str) -> None:
        if self.is_connected:
            log_event(log, logging.WARNING, "replica_disconnected", reason=reason)
            self._replica.lost = Lost(system_ns(), reason)
        self.is_connected = False

    async def _follow(self) -> None:
        """Follow the daemon over one connection."""
        async with open_connection(self._replica.url, TURNS_PATH, login=self._login, subprotocols=[MSGPACK.name]) as connection:
            self._address, stream = connection.url, SealedStream(connection)
            while True:
                messages = list[TurnMessage]()
                for data in await stream.receive_all(_TAKEN_BYTES):
                    is_large = len(data) > _LARGE_BYTES
                    messages += await trio.to_thread.run_sync(unpacked, data) if is_large else unpacked(data)
                await self.handle(messages, stream)
                await self._replica.refusals.send(stream)  # something comes each second

    async def handle(self, messages: Sequence[TurnMessage], stream: SealedStream) -> None:
        """Handle what has come, in slices, between which copies may be read."""
        left = deque(messages)
        while left:
            if isinstance(base := left[0], Base):
                left.popleft()
                await self._begin(base)
                continue
            async with Held(self._feed.still), Held(self._copies.reading):
                rests_s, ends_s = trio.current_time() + REST_S, trio.current_time() + SLICE_S
                while left and not isinstance(left[0], Base) and trio.current_time() < ends_s:
                    await self._handle(left.popleft(), stream)
                    if trio.current_time() >= rests_s:
                        await checkpoint()
                        rests_s = trio.current_time() + REST_S
        await self._newest_event()  # the feed takes a large turn in parts
        self._replica.grown.unpark_all()

    async def _begin(self, base: Base) -> None:
        """Make a copy, which nobody reads before it is there."""
        copy = await drive(copied(base))
        async with self._feed.still:
            self._copies.add(copy)
        log_event(log, logging.INFO, "partition_copied", partition=base.partition, turn=copy.turns, bytes=len(base.state))

    async def _handle(self, message: TurnMessage, stream: SealedStream) -> None:
        match message:
            case Turn():
                await self._run(message, stream)
            case Facts(partition=name, facts=facts, first_event=first):
                if message.turn:  # the daemon knows of no copy here; one that there is lacks this turn
                    self._copies.lose(name)
                await self._feed.inbox.give(Publication(name, decode_facts(facts), first_event=first))
            case Renewed(partition=name):
                if (copy := self._copies.of.get(name)) is not None:
                    await drive(copy.renew())
            case Resumed():
                self._keep(self._offered or ())
            case Past(first_event=first, events=events):
                self._keep(())
                await self._feed.inbox.give(PastEvents(first, events))
            case Process() | Configuration():
                self._replica.show(message)
            case Hello():
                await self._greet(message, stream)

    async def _greet(self, hello: Hello, stream: SealedStream) -> None:
        hello.check_build(self._address)
        newest = await self._newest_event()
        self._replica.greet(hello)
        self.is_connected, self._has_met, self._pause_s = True, True, PAUSE_FIRST_S
        log_event(log, logging.INFO, "replica_connected", daemon=self._address, term=hello.terms[-1][0])
        self._offered = self._copies.last_turns()
        await stream.send(encode(Wanted(newest, copies=self._offered)))

    def _keep(self, names: Container[PartitionName]) -> None:
        """The first answer of the daemon: these copies go on, and others begin anew."""
        if self._offered is not None:
            self._copies.keep(names)
            self._offered = None
            self._replica.go_on()

    async def _run(self, turn: Turn, stream: SealedStream) -> None:
        """Run a turn. One of a partition without a copy is of before the copy was lost: its events come again."""
        name = turn.partition
        copy = self._copies.of.get(name)
        if copy is None:
            return
        try:
            decided = await drive(copy.run(turn))
        except MismatchError as mismatch:
            await self._on_mismatch(name, str(mismatch), stream)
            return
        except BaseException:  # it was cancelled in the middle of the turn
            self._copies.lose(name)
            raise
        self.turns += 1
        self.facts += len(decided.facts)
        self.lag_s = (system_ns() - turn.now_ns) / S_NS
        if decided.facts:
            await self._feed.inbox.give(Publication(name, decided.facts, first_event=turn.first_event))
        if decided.is_last:
            self._copies.end(name)

    async def _on_mismatch(self, name: PartitionName, reason: str, stream: SealedStream) -> None:
        """Ask for another base, and for the events of the turn.

        Raises:
            MismatchesError: there were too many.
        """
        log_event(log, logging.ERROR, "turn_differed", partition=name, reason=reason[:_REASON_MAX])
        self._copies.lose(name)
        self.mismatches += 1
        self._mismatched.append(trio.current_time())
        if len(self._mismatched) == MISMATCHES_MAX and trio.current_time() - self._mismatched[0] < WITHIN_S:
            raise MismatchesError(f"{MISMATCHES_MAX} turns were decided otherwise within {WITHIN_S:g} s")
        await stream.send(encode(Wanted(await self._newest_event(), name)))

    async def _newest_event(self) -> int:
        """The number of the newest event, when the feed has what it was given."""
        await self._feed.published(PartitionName(""))
        return self._feed.ring.sequence
