"""The session of a follower: it subscribes to the feed and gets the events of its subscription, and it may ask questions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import trio
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from ykactor.access.model import normal_queue
from ykactor.access.view import View, view_of
from ykactor.actors.feed import SnapshotError
from ykactor.actors.gateway import Point, ReadGateway
from ykactor.actors.journal import Resumed, Stalled
from ykactor.actors.selection import Batch, EventFilter, Format
from ykactor.actors.subscription import Message, Missed, Reached, Subscription, Unread
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.inspection.process_status import StandbysStatus, UnconfirmedStatus
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.copies.computing import Computing
from ykactor.surfaces.net.frames import PART_BYTES, Frames, FrameStore
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.peer import Peer, error_response, journal_status
from ykactor.surfaces.sessions.questions import Question, explained, read_usage
from ykactor.wire.compression import compressed
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, Encoding
from ykactor.wire.si.kinds import EVENT_KINDS
from ykactor.wire.si.protocol_error import ProtocolError

#: Existing queues that a refusal names.
_EXAMPLES_MAX = 20
#: The size of a part of a snapshot: a browser decodes one in about a millisecond.
MESSAGE_BYTES = 2**16
#: What a limited follower is told, whatever the reason is, which may name other partitions.
_NO_SNAPSHOT = "the state could not be read in time"


class _EncodedEvents(Struct, tag_field="type", tag="Events"):
    """``si.Events`` with events that are already encoded."""

    events: list[Raw]


#: By encoding, and by whether messages are compressed: how events are written to followers.
Formats = Mapping[tuple[str, bool], Format]


def event_formats() -> Formats:
    """Formats that write ``Events`` messages in frames."""
    store = FrameStore()
    return {
        (name, is_compressed): Format(encoding.encode_each, partial(_pack, store, encoding, is_compressed))
        for name, encoding in ENCODINGS.items()
        for is_compressed in (False, True)
    }


def _pack(store: FrameStore, encoding: Encoding, is_compressed: bool, events: Sequence[bytes]) -> Frames:
    message = encoding.encode(_EncodedEvents([Raw(event) for event in events]))
    payload = compressed(message) if is_compressed else message
    return store.put(payload, is_text=encoding is JSON, is_compressed=is_compressed)


class FeedSession:
    """Sends what a subscription yields; another ``Subscribe`` replaces the one before.

    Args:
        form: the same for all sessions with this encoding (``event_formats``).
        computing: of answers from copies of partitions.
    """

    def __init__(
        self, peer: Peer, gateway: ReadGateway, form: Format, caller: Caller, audit: AuditLog, computing: Computing
    ) -> None:
        self.peer = peer
        self._caller = caller
        self._audit = audit
        self._format = form
        self._computing = computing
        self._gateway = gateway
        self._feed = gateway.feed
        self._requests_in, self._requests = trio.open_memory_channel[si.FeedRequest | ProtocolError](1)
        self._is_stopping = False
        #: Around waiting for events; cancelled when a message of the peer has arrived.
        self._listening = trio.CancelScope()
        #: Around waiting for a snapshot or an answer. ``stop`` cancels both.
        self._beginning = trio.CancelScope()

    @property
    def _view(self) -> View | None:
        """The part of the state that the follower may see; None: everything."""
        return view_of(self._caller.identity)

    def stop(self) -> None:
        """Take no more subscriptions; ``run`` sends what the last one has and ends."""
        self._is_stopping = True
        self._listening.cancel()
        self._beginning.cancel()

    async def run(self) -> None:
        """Serve the follower until the connection ends or ``stop`` is called."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, nursery.cancel_scope)
            with suppress(ConnectionClosedError):  # the task that receives gets the same exception
                await self._serve()
            nursery.cancel_scope.cancel()

    async def _listen(self, session: trio.CancelScope) -> None:
        with suppress(ConnectionClosedError):
            while True:
                await self._on_message(await self.peer.receive())
        session.cancel()

    async def _on_message(self, message: str | bytes) -> None:
        request: si.FeedRequest | ProtocolError
        try:
            request = self.peer.encoding.decode_feed_request(message)
        except ProtocolError as error:
            request = error
        await self._requests_in.send(request)
        self._listening.cancel()

    async def _serve(self) -> None:
        subscription: Subscription | None = None
        while not self._is_stopping:
            try:
                request = self._requests.receive_nowait()
            except trio.WouldBlock:
                await self._send_next(subscription)
                continue
            try:
                if isinstance(request, ProtocolError):
                    raise request
                self._caller.check(request)
                with self.peer.working():
                    await self._reach(request)
                    if isinstance(request, si.Subscribe):
                        subscription = await self._subscribe(request)
                    else:
                        await self._answer(request)
                if subscription is not None:
                    self.peer.settle()
            except ProtocolError as error:
                if not isinstance(request, ProtocolError):
                    self._audit.not_permitted(self._caller, request, error)
                await self.peer.send(error_response(error))
        while subscription is not None and (message := subscription.next_nowait()) is not None:
            await self._send(message)

    async def _send_next(self, subscription: Subscription | None) -> None:
        message: Message | None = None
        with trio.CancelScope() as self._listening:
            if subscription is None:
                await trio.sleep_forever()
            else:
                message = await subscription.next(self.peer)
        if message is not None:
            await self._send(message)

    async def _send(self, message: Message) -> None:
        match message:
            case Batch(packed=packed):
                await self.peer.send_packed(packed)
            case Unread():
                await self.peer.send_rest()
            case Missed(first, last):
                await self.peer.send(si.Lagged(from_=first, to=last))
            case Stalled() | Resumed():
                status = journal_status(message)  # its reason may have paths of this machine (SE-85)
                await self.peer.send(status if self._view is None else structs.replace(status, reason=""))
            case Reached(sequence):
                await self.peer.send(self._bookmark(sequence))

    async def _reach(self, request: si.FeedRequest) -> None:
        """Wait until what the request reads is as new as it asks for.

        Raises:
            ProtocolError: it is not there in time, or the turns are of another history.
        """
        view = self._view
        asked = {name: number for name, number in request.turns.items() if view is None or view.shows_partition(name)}
        if not asked:
            return
        is_subscription, outcome = isinstance(request, si.Subscribe), "there"
        with trio.CancelScope() as self._beginning:
            outcome = await self._gateway.reach(Point(request.term, turns=asked, is_beside=not is_subscription))
        if outcome == "late":
            raise ProtocolError("UNAVAILABLE", "these turns have not come here yet, try again", "turns")
        goes_on = isinstance(request, si.Subscribe) and isinstance(request.from_, int)  # who does gets a snapshot instead
        if outcome == "elsewhere" and not goes_on:
            why = "found turns of a term that this history does not have"
            raise ProtocolError("RESYNC_REQUIRED", why, "term")

    async def _answer(self, request: Question) -> None:
        with trio.CancelScope() as self._beginning:
            answer = await self._answer_to(request)
        if self._beginning.cancelled_caught:
            return
        self._caller.check(request)  # it may have taken long
        await self._send_in_parts(answer)

    async def _answer_to(self, request: Question) -> Struct:
        match request:
            case si.ReadConfiguration():
                config = self._gateway.config
                return si.Configuration(config=config.text, checksum=config.checksum, unconfirmed=self._unconfirmed())
            case si.CheckHealth():
                checks = await self._gateway.health.checks()
                shown = [si.HealthCheck(check.name, check.description, check.problem) for check in checks]
                is_healthy = not any(check.problem for check in checks)
                answer = si.Health(healthy=is_healthy, checks=shown, resource_manager=self._resource_manager())
                return structs.replace(answer, standbys=self._standbys())
            case si.Explain():
                return await explained(self._gateway, self._view, request, self._computing)
        return await read_usage(self._gateway, self._view, request, self.peer.encoding.encode)

    async def _subscribe(self, request: si.Subscribe) -> Subscription | None:
        queues = tuple(map(normal_queue, request.queues))
        _check_kinds(request.kinds)
        missing = _missing(queues, self._known_queues()) if queues else []
        names = {name.lower(): name for name in self._gateway.partitions}  # compared without case (CF-64)
        wanted = EventFilter(
            frozenset(names.get(name.lower(), name) for name in request.partitions),
            queues,
            frozenset(request.applications),
            frozenset(request.kinds),
        )
        with trio.CancelScope() as self._beginning:
            begin = await self._begin(request)
        if self._beginning.cancelled_caught:
            return None
        # It begins with the term that is told now, so another one that begins while this is sent is told too.
        subscription = Subscription(self._feed, self._format, wanted, begin.sequence, self._view)
        self._caller.check(request)  # a snapshot may take long
        # Sent first: it confirms the subscription and has the number from which to resume.
        begin = structs.replace(begin, missing_queues=missing)
        if isinstance(begin, si.Bookmark):
            await self.peer.send(begin)
        else:
            await self._send_in_parts(await self._send_entries(begin) if request.in_parts else begin)
        return subscription

    def _known_queues(self) -> dict[str, None]:
        """The paths of all queues of the partitions that the follower may see."""
        view = self._view
        seen = [name for name in self._gateway.partitions if view is None or view.shows_partition(name)]
        return dict.fromkeys(path for name in seen for path in self._gateway.queue_paths(name))

    async def _send_in_parts(self, message: Struct) -> None:
        """Send a message that can be large."""
        encoding = self.peer.encoding
        await trio.lowlevel.checkpoint()
        data = encoding.encode(message)
        await trio.lowlevel.checkpoint()
        for frames in FrameStore().put_in_parts(data, is_text=encoding is JSON):
            await self.peer.send_packed(frames)

    async def _send_entries(self, snapshot: si.Snapshot) -> si.Snapshot:
        """Send what the partitions of a snapshot have in messages of their own; the snapshot without it."""
        rest = list[PartitionStatus]()
        for state in snapshot.partitions:
            for part in _parts(state):
                await self._send_in_parts(part)
            rest.append(structs.replace(state, **{section: {} for section in _sections(state)}))
        return structs.replace(snapshot, partitions=rest)

    async def _begin(self, request: si.Subscribe) -> si.Snapshot | si.Bookmark:
        """The message with the sequence number after which events follow: a snapshot or a bookmark."""
        if isinstance(request.from_, int):
            await self._gateway.reach(Point(request.term or request.instance, request.from_))
        match request.from_:
            case "now":
                return self._bookmark(self._feed.ring.durable)
            case "snapshot":
                return await self._snapshot(request.pending_asks)
            case int(number) if reason := self._missing(number, request.term or request.instance):
                if request.term:
                    return structs.replace(await self._snapshot(request.pending_asks), reason=reason)
                path = "instance" if request.instance else "from"
                raise ProtocolError("RESYNC_REQUIRED", f"{reason}: subscribe to a snapshot instead", path)
            case int(number):
                return self._bookmark(min(number, self._feed.ring.durable))
        raise ProtocolError("UNKNOWN_NAME", f"found {request.from_!r}, expected now, snapshot or a sequence number", "from")

    def _missing(self, number: int, term: str) -> str:
        """The reason for which events cannot follow this number of this term; "" if they can. Without a term any history does."""
        reason = self._gateway.terms.missing("event", number, term) if term else ""
        newest = self._feed.ring.durable
        # The event to come is asked for by who takes ``from`` for the first event that is sent: it is the first one.
        return reason or ("" if 0 <= number <= newest + 1 else f"found {number}, expected 0 to {newest}")

    async def _snapshot(self, every_ask: bool) -> si.Snapshot:
        view = self._view
        if why := next(filter(None, map(self._gateway.unavailable, self._gateway.partitions)), ""):
            raise ProtocolError("UNAVAILABLE", why if view is None else _NO_SNAPSHOT, "from")
        try:
            snapshot = await self._feed.snapshot(every_ask=every_ask)
        except SnapshotError as error:
            raise ProtocolError("UNAVAILABLE", str(error) if view is None else _NO_SNAPSHOT, "from") from None
        states = snapshot.partitions if view is None else await snapshot.seen_by(view)
        if not every_ask and snapshot.has_every_ask:
            states = [structs.replace(state, pending_asks=UNSET) for state in states]
        partitions = [await _encoded(state, self.peer.encoding, is_shared=snapshot.is_shared) for state in states]
        term = str(self._gateway.terms.present)
        shown = si.Snapshot(sequence=snapshot.sequence, term=term, instance=term, partitions=partitions)
        if view is not None:
            return shown
        manager, standbys = self._resource_manager(), self._standbys()
        known = structs.replace(shown, cycles=snapshot.cycles, resource_manager=manager)
        return structs.replace(known, standbys=standbys, unconfirmed=self._unconfirmed())

    def _unconfirmed(self) -> UnconfirmedStatus | UnsetType:
        """The configuration that awaits confirmation; ``UNSET`` if none does."""
        found = self._gateway.unconfirmed
        return UNSET if found is None else found

    def _standbys(self) -> StandbysStatus | UnsetType:
        """The standbys of the daemon at present; ``UNSET`` if there can be none."""
        found = self._gateway.standbys_status
        return UNSET if found is None else found

    def _resource_manager(self) -> si.RegisteredResourceManager | None:
        """The resource manager that is registered at present; None if there is none."""
        found = self._gateway.registration
        if found is None:
            return None
        return si.RegisteredResourceManager(rm_id=found.rm_id, connected=found.is_connected, since=found.since_ns)

    def _bookmark(self, sequence: int) -> si.Bookmark:
        term = str(self._gateway.terms.present)
        return si.Bookmark(sequence=sequence, term=term, instance=term)


async def _encoded(state: PartitionStatus, encoding: Encoding, *, is_shared: bool) -> PartitionStatus:
    """A partition's state with encoded entries, a part at a time: encoding or freeing all of it at once takes long."""
    encode: Callable[[Any], bytes] = encoding.encode
    shown, size = dict[str, dict[str, Raw]](), 0
    for section, entries in _sections(state).items():
        shown[section] = encoded = {}
        for name in list(entries):
            data = encode(entries[name] if is_shared else entries.pop(name))
            encoded[name] = Raw(data)
            size += len(data)
            if size >= PART_BYTES:
                await trio.lowlevel.checkpoint()
                size = 0
    return structs.replace(state, **shown)


def _sections(state: PartitionStatus) -> dict[str, dict[str, Any]]:
    """The entries of a partition of each kind, by name: queues, applications and so on."""
    return {section: entries for section, entries in structs.asdict(state).items() if isinstance(entries, dict)}


def _parts(state: PartitionStatus) -> Iterator[si.SnapshotPart]:
    """The encoded entries of a partition, in messages of about ``MESSAGE_BYTES``."""
    part, size = dict[str, dict[str, Any]](), 0
    for section, entries in _sections(state).items():
        for name, entry in entries.items():
            part.setdefault(section, {})[name] = entry
            size += len(memoryview(entry))
            if size >= MESSAGE_BYTES:
                yield si.SnapshotPart(partition=state.name, **part)
                part, size = {}, 0
    if part:
        yield si.SnapshotPart(partition=state.name, **part)


def _check_kinds(kinds: Sequence[str]) -> None:
    """Refuse kinds that no event has (EV-2)."""
    details = sorted({detail for of_type in EVENT_KINDS.values() for detail in of_type})
    for number, kind in enumerate(kinds):
        if kind not in EVENT_KINDS and kind not in details:
            expected = f"a type ({', '.join(EVENT_KINDS)}) or a detail ({', '.join(details)})"
            raise ProtocolError("UNKNOWN_NAME", f"found {kind!r}, expected {expected}", f"kinds[{number}]")


def _missing(queues: Sequence[str], known: Collection[str]) -> list[str]:
    """The queues that do not exist yet. Refuses a path that is below no known queue, if there is one: it never has events."""
    for number, path in enumerate(queues):
        if known and path.partition(".")[0] not in known:  # with a queue all its ancestors are known
            examples = ", ".join(islice(known, _EXAMPLES_MAX))
            more = f" and {len(known) - _EXAMPLES_MAX} more" if len(known) > _EXAMPLES_MAX else ""
            below = "it" if len(known) == 1 else "one of them"
            expected = f"{examples}{more} or a queue below {below}"
            raise ProtocolError("UNKNOWN_NAME", f"found {path!r}, expected {expected}", f"queues[{number}]")
    return [path for path in queues if path not in known]
