"""The websocket server: resource managers on ``/v1/rm``, followers of the event feed on ``/v1/feed``.

A connection becomes a ``Peer`` when its handshake is fine; then a session talks with it until either side ends. Sessions are
the edge: they may wait for a partition's inbox, which becomes TCP back pressure, and nothing that a peer does reaches further
than its own session. All messages to one peer are sent by one task at a time.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import trio
from msgspec import Raw, Struct
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest, wrap_server_stream
from wsproto.utilities import LocalProtocolError

from ykactor.actors.commands import Intake, Publication
from ykactor.actors.feed import Batch, EventFilter, FeedActor, Missed, Reached, SnapshotError, Subscription
from ykactor.actors.gateway import Gateway
from ykactor.actors.outbox import MessagesLostError, Outbox, OutboxReader, SessionReplacedError
from ykactor.core.ids import PartitionName
from ykactor.core.messages import Reset
from ykactor.surfaces.logs import log_event
from ykactor.wire import si, translate
from ykactor.wire.codec import ENCODINGS, JSON, Encoding, ProtocolError

logger = logging.getLogger(__name__)

RM_PATH = "/v1/rm"
FEED_PATH = "/v1/feed"

#: Close codes of our own (RFC 6455 leaves 4000 to 4999 to applications).
CLOSED_REPLACED = 4001
CLOSED_FELL_BEHIND = 4002

#: Requests of one session that may wait for their ``Ack``; further ones are not read.
UNACKNOWLEDGED_MAX = 1024


class Limits(Struct, frozen=True):
    """Bounds of the server."""

    sessions_max: int = 1000
    message_bytes_max: int = 16 * 2**20
    #: For the HTTP upgrade; for one message to leave; for the closing handshake.
    handshake_s: float = 10.0
    send_s: float = 10.0
    close_s: float = 2.0


async def serve_websockets(
    listeners: list[trio.SocketListener],
    gateway: Gateway,
    *,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled.

    Resource handling: takes over ``listeners`` and closes them.
    Error handling: whatever happens in a session ends that session and is logged; nothing but cancellation ends the server.
    """
    async with trio.open_nursery() as nursery:
        server = _Server(gateway, limits or Limits(), nursery)
        await trio.serve_listeners(server.on_connection, listeners, task_status=task_status)


class _Server:
    """Makes sessions of connections; ``nursery`` is for what outlives a session."""

    def __init__(self, gateway: Gateway, limits: Limits, nursery: trio.Nursery) -> None:
        self._gateway = gateway
        self._limits = limits
        self._nursery = nursery
        self._connections = 0

    async def on_connection(self, stream: trio.SocketStream) -> None:
        """Run one connection from its first byte to its last; trio closes the stream afterwards."""
        self._connections += 1
        session: ResourceManagerSession | FeedSession | None = None
        try:
            async with trio.open_nursery() as nursery:
                session = await self._shake_hands(nursery, stream)
                if session is not None:
                    await session.run()
                    await session.peer.close()
                nursery.cancel_scope.cancel()
        except* (ConnectionClosed, LocalProtocolError):
            pass  # the second: the library answers pings that come while it closes, and its protocol forbids that
        except* Exception as errors:
            if session is None:  # bytes too strange for the websocket library
                log_event(logger, logging.INFO, "handshake_failed", reason=repr(errors.exceptions[0]))
            else:
                logger.exception("session_failed")
        finally:
            self._connections -= 1
        # Closing a socket with unread bytes resets it, and the peer might never read why: let it finish speaking.
        with trio.move_on_after(self._limits.close_s), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.send_eof()
            while await stream.receive_some(2**16):
                pass

    async def _shake_hands(
        self, nursery: trio.Nursery, stream: trio.SocketStream
    ) -> "ResourceManagerSession | FeedSession | None":
        # The library waits for ever on a plain HTTP request, hence the deadline.
        with trio.move_on_after(self._limits.handshake_s):
            request = await wrap_server_stream(
                nursery, stream, max_message_size=self._limits.message_bytes_max, receive_buffer_size=2**16
            )
            refusal = self._refusal(request)
            if refusal is not None:
                status, sentence = refusal
                await request.reject(status, body=sentence.encode())
                return None
            encoding = next((ENCODINGS[name] for name in request.proposed_subprotocols if name in ENCODINGS), None)
            connection = await request.accept(subprotocol=encoding.name if encoding is not None else None)
            peer = Peer(stream, connection, encoding or JSON, self._limits)
            if _path_of(request) == RM_PATH:
                return ResourceManagerSession(peer, self._gateway, self._nursery)
            return FeedSession(peer, self._gateway.feed)
        return None

    def _refusal(self, request: WebSocketRequest) -> tuple[int, str] | None:
        """HTTP status and sentence for a handshake that we do not accept."""
        if _path_of(request) not in (RM_PATH, FEED_PATH):
            return 404, f"found {_path_of(request)}, expected {RM_PATH} or {FEED_PATH}\n"
        if not _same_host(request):
            return 403, "pages of another host may not connect\n"
        if request.proposed_subprotocols and ENCODINGS.keys().isdisjoint(request.proposed_subprotocols):
            return 400, f"found no known subprotocol, expected {' or '.join(ENCODINGS)}\n"
        if self._connections > self._limits.sessions_max:
            return 503, f"{self._limits.sessions_max} sessions are open, no more are allowed\n"
        return None


def _path_of(request: WebSocketRequest) -> str:
    return request.path.partition("?")[0]


def _same_host(request: WebSocketRequest) -> bool:
    """Programs send no ``Origin``; browsers name the page's host, which must be ours. Ports may differ: pages have their own."""
    origin = next((value for name, value in request.headers if name == b"origin"), None)
    if origin is None:
        return True
    # The library takes the Host header out of the public headers.
    host: str = request._event.host
    try:
        return urlsplit(origin.decode("ascii")).hostname == urlsplit(f"//{host}").hostname is not None
    except ValueError:
        return False


class Peer:
    """The other end of an accepted connection: whole messages in its encoding, with a deadline on every send."""

    def __init__(
        self, stream: trio.abc.Stream, connection: WebSocketConnection, encoding: Encoding, limits: Limits
    ) -> None:
        self.encoding = encoding
        self._stream = stream
        self._connection = connection
        self._limits = limits

    async def receive(self) -> str | bytes:
        """Wait for a message; ``ConnectionClosed`` when there will be none."""
        return await self._connection.get_message()

    async def send(self, message: Struct) -> None:
        """Send one message; ``ConnectionClosed`` when the peer is gone or does not read for ``send_s``."""
        data = self.encoding.encode(message)
        with trio.move_on_after(self._limits.send_s) as deadline:
            await self._connection.send_message(data.decode() if self.encoding is JSON else data)
        if deadline.cancelled_caught:
            # Half a frame may have left: nothing can follow it, not even a closing handshake.
            await trio.aclose_forcefully(self._stream)
            raise ConnectionClosed(None)

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Close with a reason, as far as the peer plays along."""
        with trio.move_on_after(self._limits.close_s):
            await self._connection.aclose(code, reason)


def _error_response(error: ProtocolError, request_id: str = "") -> si.ErrorResponse:
    return si.ErrorResponse(code=error.code, message=error.message, path=error.path, id=error.request_id or request_id)


# ---- resource managers


class _Pending:
    """A request that partitions work on."""

    def __init__(self, request_id: str, partitions: Iterable[PartitionName], working: Iterable[PartitionName]) -> None:
        self.request_id = request_id
        #: Whose publications must be out before the ``Ack``.
        self.partitions = list(partitions)
        self.done = trio.Event()
        self._working = set(working)
        self._check()

    def on_done(self, partition: PartitionName) -> None:
        """Called from the partition's task (``Intake.done``)."""
        self._working.discard(partition)
        self._check()

    def _check(self) -> None:
        if not self._working:
            self.done.set()


class ResourceManagerSession:
    """Registers a resource manager, takes its requests and sends what its outbox holds.

    Acknowledgements are a task of ``nursery``, which outlives the session: a later one that resumes is told what was accepted.
    """

    def __init__(self, peer: Peer, gateway: Gateway, nursery: trio.Nursery) -> None:
        self.peer = peer
        self._gateway = gateway
        self._nursery = nursery

    async def run(self) -> None:
        """Talk until the connection ends or a newer session takes over."""
        reader = await self._register()
        acknowledge, pending = trio.open_memory_channel[_Pending](UNACKNOWLEDGED_MAX)
        self._nursery.start_soon(self._send_acks, pending, reader.outbox)
        async with acknowledge:
            try:
                await self._converse(reader, acknowledge)
            finally:
                if reader.attached:
                    reader.outbox.detach()

    # ---- registration (section 15 of SC)

    async def _register(self) -> OutboxReader[Any]:
        while True:
            message = await self.peer.receive()
            request_id = ""
            try:
                request = self.peer.encoding.decode_request(message)
                request_id = request.id
                if not isinstance(request, si.RegisterResourceManagerRequest):
                    found = type(request).__name__
                    raise ProtocolError("NOT_REGISTERED", f"found {found}, expected RegisterResourceManagerRequest", "type")
                async with self._gateway.outboxes.turn:
                    return await self._on_register(request)
            except ProtocolError as error:
                await self.peer.send(_error_response(error, request_id))

    async def _on_register(self, request: si.RegisterResourceManagerRequest) -> OutboxReader[Any]:
        outboxes = self._gateway.outboxes
        current = outboxes.current
        if current is not None and current.rm_id != request.rm_id:  # SC-142
            count = len(self._gateway.partitions)
            raise ProtocolError(
                "ALREADY_REGISTERED",
                f"RM {request.rm_id} has been registered before, active partitions {count}",
                "rmID",
            )
        if isinstance(request.resume_from, int):
            _check_resumable(current, request.resume_from)
        if request.config:
            await self._apply_config(request.config, "registration of RM failed")  # SC-140
        if current is not None and isinstance(request.resume_from, int):
            reader = current.attach(request.resume_from)
        else:
            await self._reset_partitions()  # SC-141
            outbox = outboxes.renew(request.rm_id)
            reader = outbox.attach(outbox.sequence)
        reader.outbox.post(si.RegisterResourceManagerResponse())
        if request.id:
            reader.outbox.post(si.Ack(id=request.id))
        return reader

    async def _reset_partitions(self) -> None:
        """Let every partition forget, and wait until nothing older can reach the new outbox."""
        partitions = list(self._gateway.partitions)
        pending = _Pending("", partitions, partitions)
        for name in partitions:
            await self._put(name, Intake([Reset()], pending.on_done))
        await pending.done.wait()
        for name in partitions:
            await self._gateway.feed.published(name)

    # ---- requests

    async def _converse(self, reader: OutboxReader[Any], acknowledge: trio.MemorySendChannel[_Pending]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_messages, reader)
            with suppress(ConnectionClosed):
                while reader.attached:
                    await self._on_message(await self.peer.receive(), reader, acknowledge)
            if reader.attached:
                nursery.cancel_scope.cancel()

    async def _on_message(
        self, message: str | bytes, reader: OutboxReader[Any], acknowledge: trio.MemorySendChannel[_Pending]
    ) -> None:
        request_id = ""
        try:
            request = self.peer.encoding.decode_request(message)
            request_id = request.id
            async with self._gateway.outboxes.turn:
                if not reader.attached:
                    return
                pending = await self._on_request(request)
            if request_id:
                await acknowledge.send(pending)
        except ProtocolError as error:
            reader.outbox.post(_error_response(error, request_id))

    async def _on_request(self, request: si.Request) -> _Pending:
        match request:
            case si.RegisterResourceManagerRequest():
                raise ProtocolError("ALREADY_REGISTERED", "this session is registered: open another one to begin afresh")
            case si.TerminateApplication() | si.MoveApplication():
                raise ProtocolError("UNSUPPORTED", f"{type(request).__name__} is not supported by this release", "type")
            case si.UpdateConfigurationRequest():
                await self._apply_config(request.config, "update of configuration failed", request.if_checksum)
            case si.ScheduleRequest():
                if not self._gateway.manual:
                    raise ProtocolError("NOT_MANUAL", "the daemon schedules by itself, it was not started with --manual")
                if request.steps < 1:
                    raise ProtocolError("OUT_OF_RANGE", f"found {request.steps}, expected 1 or more", "steps")
                await self._gateway.run_steps(request.steps)
            case _:
                return await self._submit(request)
        return _Pending(request.id, self._gateway.partitions, ())

    async def _submit(self, request: translate.PartitionRequest) -> _Pending:
        work = translate.submissions(request)
        known = [name for name in work if name in self._gateway.partitions]
        pending = _Pending(request.id, work, known)
        for name, submissions in work.items():
            if name in known:
                await self._put(name, Intake(submissions, pending.on_done))
            else:
                at_ns = self._gateway.now_ns()
                refusals = [translate.unknown_partition(submission, name, at_ns) for submission in submissions]
                facts = [fact for fact in refusals if fact is not None]
                # Refused by nobody's partition, but told in the one order like everything else.
                await self._gateway.feed.inbox.put(Publication(name, facts))
        return pending

    async def _put(self, name: PartitionName, intake: Intake) -> None:
        try:
            await self._gateway.partitions[name].put(intake)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise ProtocolError("UNAVAILABLE", f"partition {name} does not run now, try again later") from None

    async def _apply_config(self, text: str, failure: str, if_checksum: str = "") -> None:
        try:
            await self._gateway.apply_config(text, if_checksum)
        except ProtocolError as error:
            raise ProtocolError(error.code, f"{failure}: {error.message}", error.path) from None

    # ---- answers

    async def _send_messages(self, reader: OutboxReader[Any]) -> None:
        try:
            while True:
                for message in await reader.take():
                    await self.peer.send(message)
        except ConnectionClosed:
            pass  # whoever waits for a request is told the same
        except SessionReplacedError as reason:
            await self.peer.close(CLOSED_REPLACED, str(reason))
        except MessagesLostError as reason:
            await self.peer.close(CLOSED_FELL_BEHIND, str(reason))

    async def _send_acks(self, pending: trio.MemoryReceiveChannel[_Pending], outbox: Outbox[Any]) -> None:
        """Post an ``Ack`` for each request, in the order of the requests, behind everything that they caused directly."""
        async for request in pending:
            await request.done.wait()
            for name in request.partitions:
                await self._gateway.feed.published(name)
            outbox.post(si.Ack(id=request.request_id))


def _check_resumable(current: Outbox[Any] | None, after: int) -> None:
    try:
        if current is None:
            raise MessagesLostError("this resource manager is not registered")
        current.after(after, 0)
    except MessagesLostError as reason:
        raise ProtocolError("RESYNC_REQUIRED", f"{reason}: register without resumeFrom", "resumeFrom") from None


# ---- followers of the feed


class _EncodedEvents(Struct, tag_field="type", tag="Events"):
    """``si.Events`` made of events that are encoded already."""

    events: list[Raw]


class FeedSession:
    """Sends what a subscription yields; a further ``Subscribe`` replaces the one before."""

    def __init__(self, peer: Peer, feed: FeedActor) -> None:
        self.peer = peer
        self._feed = feed
        self._said, self._heard = trio.open_memory_channel[si.Subscribe | ProtocolError](1)
        #: Cancelled when the peer has said something while we wait for events.
        self._listening = trio.CancelScope()

    async def run(self) -> None:
        """Talk until the connection ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._speak)
            with suppress(ConnectionClosed):
                while True:
                    await self._on_message(await self.peer.receive())
            nursery.cancel_scope.cancel()

    async def _on_message(self, message: str | bytes) -> None:
        heard: si.Subscribe | ProtocolError
        try:
            heard = self.peer.encoding.decode_subscribe(message)
        except ProtocolError as error:
            heard = error
        await self._said.send(heard)
        self._listening.cancel()

    async def _speak(self) -> None:
        subscription: Subscription | None = None
        with suppress(ConnectionClosed):  # whoever waits for a message is told the same
            while True:
                try:
                    heard = self._heard.receive_nowait()
                except trio.WouldBlock:
                    await self._tell_next(subscription)
                    continue
                try:
                    if isinstance(heard, ProtocolError):
                        raise heard
                    subscription = await self._subscribe(heard)
                except ProtocolError as error:
                    await self.peer.send(_error_response(error))

    async def _tell_next(self, subscription: Subscription | None) -> None:
        told: Batch | Missed | Reached | None = None
        with trio.CancelScope() as self._listening:
            if subscription is None:
                await trio.sleep_forever()
            else:
                told = await subscription.next()
        match told:
            case Batch(events):
                await self.peer.send(_EncodedEvents([Raw(event) for event in events]))
            case Missed(first, last):
                await self.peer.send(si.Lagged(from_=first, to=last))
            case Reached(sequence):
                await self.peer.send(si.Bookmark(sequence=sequence))

    async def _subscribe(self, request: si.Subscribe) -> Subscription:
        wanted = EventFilter(
            frozenset(request.partitions),
            tuple(queue.lower().rstrip(".") for queue in request.queues),
            frozenset(request.applications),
            frozenset(request.kinds),
        )
        begin = await self._begin(request.from_)
        # Sent before anything else: it confirms the subscription and says from where to resume.
        await self.peer.send(begin)
        return Subscription(self._feed, self.peer.encoding.encode, wanted, begin.sequence)

    async def _begin(self, from_: int | str) -> si.Snapshot | si.Bookmark:
        """The sequence number after which events follow, with the snapshot if one is wanted."""
        match from_:
            case "now":
                return si.Bookmark(sequence=self._feed.sequence)
            case "snapshot":
                try:
                    snapshot = await self._feed.snapshot()
                except SnapshotError as error:
                    raise ProtocolError("UNAVAILABLE", str(error), "from") from None
                return si.Snapshot(sequence=snapshot.sequence, partitions=snapshot.partitions)
            case int() if 0 <= from_ <= self._feed.sequence:
                return si.Bookmark(sequence=from_)
            case int():
                message = f"found {from_}, expected 0 to {self._feed.sequence}: subscribe to a snapshot instead"
                raise ProtocolError("RESYNC_REQUIRED", message, "from")
        raise ProtocolError("UNKNOWN_NAME", f"found {from_!r}, expected now, snapshot or a sequence number", "from")
