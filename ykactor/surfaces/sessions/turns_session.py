"""The sessions of copies of partitions.

A replica gets all events, and the turns of each partition from a base on, or from those on that it has missed, as far as they are
durable; a what-if only the bases.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import cast

import trio
from msgspec import structs

from ykactor.actors.bases import durable_base
from ykactor.actors.gateway import Gateway, ReadGateway, turns_of
from ykactor.actors.turn_stream import Dropped, TurnReader, TurnStream
from ykactor.core.messages.facts import Audited
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import PART_MAX
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.pacing import FairQueue, TokenBucket
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.missed_turns import MissedTurns, NotKeptError
from ykactor.surfaces.sessions.peer import STALLED, Peer
from ykactor.surfaces.sessions.sealed import INVALID, SealedPeer
from ykactor.wire.build import BUILD
from ykactor.wire.history import HistoryError
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.si.messages import EventRecord
from ykactor.wire.turns import (
    Base,
    Configuration,
    Hello,
    Past,
    Process,
    Refused,
    UnreadableTurnsError,
    Wanted,
    decode_of_replica,
    encode,
    packed,
)

log = get_logger(__name__)

#: Messages that have more bytes are compressed in a thread.
_LARGE_BYTES = 2**18
#: How often a replica is told what the daemon shows beside its partitions, of which some changes are told at once.
LOOK_S = 1.0
#: So many refusals of a replica are audited in a second, after a pause as many as in so many seconds.
REFUSALS_RATE = 10.0
REFUSALS_BURST_S = 10.0
#: Bytes of bases that are made for what-ifs in a second, about 0.5 % of the time; after a pause as many as in so many seconds.
BASES_RATE = 100_000.0
BASES_BURST_S = 600.0
#: The close code when a what-if may try it again later.
_LATER = 1013


class TurnsSession:
    """Sends turns, whatever the subprotocol is, in the form of ``wire.turns``.

    Args:
        caller: the replica.
        audit: is told what it has refused.
    """

    def __init__(self, peer: Peer, gateway: Gateway, caller: Caller, audit: Audit) -> None:
        self.peer = peer
        self._sealed = SealedPeer(peer)
        self._caller = caller
        self._audit = audit
        self._pace = TokenBucket(lambda: REFUSALS_RATE, REFUSALS_BURST_S)
        self._gateway = gateway
        #: Held while a message is sent.
        self._sending = trio.Lock()
        #: Set when the replica wants a base.
        self._wants_base = trio.Event()
        #: Around everything; cancelled by ``stop``.
        self._serving = trio.CancelScope()

    def stop(self) -> None:
        """Send no more turns."""
        self._serving.cancel()

    async def run(self) -> None:
        """Serve the replica until the connection ends or ``stop`` is called."""
        turns = self._gateway.turns
        with self._serving:
            await self._greet()
            if not isinstance(wanted := await self._message(), Wanted):
                raise await self._dropped("found Refused, expected Wanted first")
            self.peer.settle()
            reader = turns.join(wanted.copies)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._make_bases, turns)
                    await self._resume(reader, wanted)
                    for work in (self._listen, self._serve):
                        nursery.start_soon(work, reader)
                    nursery.start_soon(self._look)
            finally:
                turns.leave(reader)

    async def _greet(self) -> None:
        hello = structs.replace(_hello(self._gateway), turns_before=self._gateway.turns_before)
        await self._send([encode(hello)])

    # ---- what the replica wants

    async def _listen(self, reader: TurnReader) -> None:
        while True:
            message = await self._message()
            if isinstance(message, Wanted):
                await self._begin(reader, message)
            else:
                await self._audited(message)

    async def _message(self) -> Wanted | Refused:
        try:
            return decode_of_replica(await self._sealed.receive())
        except UnreadableTurnsError as error:
            raise await self._dropped(str(error)) from None

    async def _dropped(self, reason: str) -> ConnectionClosedError:
        await self.peer.drop(INVALID, reason)
        return ConnectionClosedError()

    async def _audited(self, told: Refused) -> None:
        """Audit what was refused there. Many at once wait: they must not fill the journal."""
        await self._pace.wait(1)
        self._pace.take(1)
        place = f"at the replica {self._caller.identity.name} from {self._caller.origin}"
        await self._audit.refused_elsewhere(place, Audited(0, **structs.asdict(told)))

    async def _resume(self, reader: TurnReader, wanted: Wanted) -> None:
        """Send what the copies of the replica have missed; if that is not kept, begin with bases."""
        if wanted.copies and await self._send_missed(reader, wanted):
            if reader.lacks(self._gateway.partitions):
                self._wants_base.set()
            return
        for name in wanted.copies:
            reader.forget(name)
        await self._begin(reader, wanted)

    async def _send_missed(self, reader: TurnReader, wanted: Wanted) -> bool:
        """Send the turns that the replica lacks up to those that ``reader`` has. False if its copies cannot go on."""
        standbys = self._gateway.standbys
        if standbys is None:  # the journal has no files
            return False
        await self._flushed()
        newest, is_begun = standbys.number, False  # the thread that commits has not ended another transaction since then
        in_thread = partial(trio.to_thread.run_sync, limiter=self._gateway.turns.resuming)
        try:
            with await in_thread(Reader.open, standbys.directory) as journal:
                missed = MissedTurns(journal, newest, wanted)
                parts = missed.parts()
                while (part := await in_thread(next, parts, None)) is not None:
                    await self._send(part)
                    is_begun = True
        except (NotKeptError, JournalError, HistoryError) as reason:
            log_event(log, logging.INFO, "replica_begins_anew", reason=str(reason))
            if is_begun:
                await self.peer.drop(_LATER, str(reason))
                raise ConnectionClosedError from None
            return False
        reader.resume(missed.last)
        return True

    async def _flushed(self) -> None:
        """Wait until all that was published before is durable."""
        feed = self._gateway.feed
        with self.peer.connected():
            await feed.published(next(iter(self._gateway.partitions)))
            if feed.journal is not None:
                await feed.journal.flushed()

    async def _begin(self, reader: TurnReader, wanted: Wanted) -> None:
        """Send the events that the replica lacks, and then bases of what it has no copy of; nothing else comes between."""
        async with self._sending:
            reader.forget(PartitionName(wanted.lost))
            await self._send_past(wanted.after_event)
        self._wants_base.set()

    async def _make_bases(self, turns: TurnStream) -> None:
        while True:
            await self._wants_base.wait()
            self._wants_base = trio.Event()
            await turns.make_bases()

    async def _send_past(self, after: int) -> None:
        """Send the events up to those that come with turns: what was numbered before the replica has joined is durable then."""
        feed = self._gateway.feed
        await self._flushed()
        following, newest = after + 1, feed.ring.durable
        while True:
            first = min(max(following, feed.ring.lowest), newest + 1)
            numbers = range(first, min(newest + 1, first + PART_MAX))
            events = [cast("EventRecord", feed.ring.event(number)) for number in numbers]
            await self._send_now([encode(Past(first, events))])
            following = first + len(events)
            if following > newest:
                return

    # ---- what it is sent

    async def _serve(self, reader: TurnReader) -> None:
        try:
            while True:
                await self._send(await reader.next())
        except Dropped as dropped:
            await self.peer.drop(STALLED, str(dropped))
            raise ConnectionClosedError from None

    async def _look(self) -> None:
        """Send what readers are shown beside partitions: of the configuration only what is new."""
        checksum: str | None = None
        turns: dict[str, int] = {}
        while True:
            gateway = self._gateway
            if gateway.config.checksum != checksum:
                checksum = gateway.config.checksum
                await self._send([encode(Configuration(gateway.config.text, checksum))])
            if not gateway.is_switching:
                turns = turns_of(gateway)
            shown = structs.replace(_process(gateway), turns=turns, cycles=gateway.cycles(), measured=gateway.measured())
            await self._send([encode(shown)])
            with trio.move_on_after(LOOK_S):
                await gateway.changed.park()

    async def _send(self, messages: list[bytes]) -> None:
        async with self._sending:
            await self._send_now(messages)

    async def _send_now(self, messages: list[bytes]) -> None:
        await self._sealed.send(await _packed(messages))


class BasesSession:
    """Sends the state of each partition once, between two of its turns, and ends (SE-100).

    Args:
        holder: of its slot.
        queue: of those that are sent bases, one at a time: a base may have 40 MB (``bases_queue``).
    """

    def __init__(self, peer: Peer, gateway: ReadGateway, holder: str, queue: FairQueue) -> None:
        self.peer = peer
        self._gateway = gateway
        self._holder = holder
        self._queue = queue
        #: Around everything; cancelled by ``stop``.
        self._serving = trio.CancelScope()
        peer.encoding = MSGPACK
        peer.settle()

    def stop(self) -> None:
        """Send no more bases."""
        self._serving.cancel()

    async def run(self) -> None:
        """Send what there is, until the connection ends or ``stop`` is called."""
        with self._serving, suppress(ConnectionClosedError):
            process = _process(self._gateway)
            await _send(self.peer, [encode(_hello(self._gateway)), encode(process)])
            for name in process.partitions:
                try:
                    with self.peer.connected():
                        async with self._queue.entry(self._holder), self._queue.first():
                            await self._send_base(PartitionName(name))
                except (trio.ClosedResourceError, trio.BrokenResourceError):
                    await self.peer.drop(_LATER, f"partition {name} does not run at the moment")

    async def _send_base(self, name: PartitionName) -> None:
        """Send the state of a partition, when all that has led to it is durable.

        Raises:
            trio.ClosedResourceError, trio.BrokenResourceError: it does not run.
        """
        if name not in self._gateway.partitions:
            raise trio.ClosedResourceError
        base = await durable_base(self._gateway, name)
        self._queue.bucket.take(len(base))
        await _send(self.peer, [encode(Base(name, base))])


def bases_queue() -> FairQueue:
    """The queue of all that are sent bases: these take 0.5 % of the time of the daemon, and more after a pause."""
    return FairQueue(TokenBucket(lambda: BASES_RATE, BASES_BURST_S))


def _hello(gateway: ReadGateway) -> Hello:
    return Hello(BUILD, gateway.terms.first_events(), gateway.started_ns, gateway.now_ns())


def _process(gateway: ReadGateway) -> Process:
    standings = {name: gateway.standing(name) for name in gateway.partitions}
    shown = {name: (standing.state, standing.since_ns) for name, standing in standings.items()}
    stalled = None if gateway.feed.stalling is None else gateway.feed.stalling.stalled
    return Process(
        shown,
        gateway.registration,
        [*gateway.health.problems()],
        None if stalled is None else (stalled.since_ns, stalled.reason),
        [(check.name, check.description, check.problem) for check in gateway.health.surroundings()],
        gateway.standbys_status,
        gateway.unconfirmed,
    )


async def _send(peer: Peer, messages: list[bytes]) -> None:
    await peer.send_encoded([await _packed(messages)], MSGPACK)


async def _packed(messages: list[bytes]) -> bytes:
    is_large = sum(map(len, messages)) > _LARGE_BYTES
    return await trio.to_thread.run_sync(packed, messages) if is_large else packed(messages)
