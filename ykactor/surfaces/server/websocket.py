"""The websocket server: resource managers on ``/v1/rm``, followers of the event feed on ``/v1/feed``.

A connection becomes a ``Peer`` when its handshake is fine; then a session talks with it until either side ends. Sessions are
the edge: they may wait for a partition's inbox, which becomes TCP back pressure, and nothing that a peer does reaches further
than its own session. All messages to one peer are sent by one task at a time.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from urllib.parse import urlsplit

import trio
from msgspec import Struct
from trio_websocket import ConnectionClosed, WebSocketRequest, wrap_server_stream
from wsproto.utilities import LocalProtocolError

from ykactor.actors.gateway import Gateway
from ykactor.surfaces.server.feed_session import FeedSession
from ykactor.surfaces.server.logs import log_event
from ykactor.surfaces.server.peer import Peer
from ykactor.surfaces.server.rm_session import ResourceManagerSession
from ykactor.surfaces.server.streams import EndNoticedStream
from ykactor.wire.si.codec import ENCODINGS, JSON

logger = logging.getLogger(__name__)

RM_PATH = "/v1/rm"
FEED_PATH = "/v1/feed"

#: When the daemon stops, sessions have this long to send what they hold and to say goodbye; then they are dropped.
STOP_S = 2.0
#: Code and reason of a close: of the usual one, and when the daemon stops (RFC 6455 calls that "going away").
_DONE = 1000, None
_STOPPING = 1001, "the daemon stops"

Session = ResourceManagerSession | FeedSession


class Limits(Struct, frozen=True):
    """Bounds of the server."""

    #: Followers at once, and sessions of resource managers: neither can take the other's places.
    feed_sessions_max: int = 1000
    rm_sessions_max: int = 16
    message_bytes_max: int = 16 * 2**20
    #: For the HTTP upgrade; for the first message; for one message to leave; for the closing handshake.
    handshake_s: float = 10.0
    first_message_s: float = 30.0
    send_s: float = 10.0
    close_s: float = 2.0
    #: A ping leaves this often, and its answer may take as long.
    ping_s: float = 30.0


async def serve_websockets(
    listeners: list[trio.SocketListener],
    gateway: Gateway,
    *,
    stopping: trio.Event,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set, and return when the last session has ended.

    From then on nobody is let in and no request is taken. Every session sends what its outbox or subscription holds and
    closes with 1001; what has not ended after ``STOP_S`` is dropped. By then the partitions should have finished and the feed
    should have numbered what they published: a request that no partition has finished gets no ``Ack``.

    Resource handling: takes over ``listeners`` and closes them.
    Error handling: whatever happens in a session ends that session and is logged.
    """
    async with trio.open_nursery() as outliving:
        async with trio.open_nursery() as sessions:
            server = _Server(gateway, limits or Limits(), outliving)
            async with trio.open_nursery() as accepting:
                serve = partial(trio.serve_listeners, server.on_connection, listeners, handler_nursery=sessions)
                task_status.started(await accepting.start(serve))
                await stopping.wait()
                accepting.cancel_scope.cancel()
            sessions.cancel_scope.deadline = trio.current_time() + STOP_S
            server.stop()
        outliving.cancel_scope.cancel()


class _Server:
    """Makes sessions of connections; ``nursery`` is for what outlives a session."""

    def __init__(self, gateway: Gateway, limits: Limits, nursery: trio.Nursery) -> None:
        self._gateway = gateway
        self._limits = limits
        self._nursery = nursery
        #: Sessions by path.
        self._sessions = {RM_PATH: 0, FEED_PATH: 0}
        self._is_stopping = False
        #: Tells followers this run of the daemon from others; chance reaches nothing but their frames.
        self._instance = secrets.token_hex(8)
        #: How each handshake and session under way is told to come to its end.
        self._endings: set[Callable[[], None]] = set()

    def stop(self) -> None:
        """Tell everybody to come to an end."""
        self._is_stopping = True
        for end in self._endings:
            end()

    @contextmanager
    def _told_to_stop(self, end: Callable[[], None]) -> Iterator[None]:
        """``stop`` calls ``end`` if it comes within this block or has come before."""
        if self._is_stopping:
            end()
        self._endings.add(end)
        try:
            yield
        finally:
            self._endings.discard(end)

    @contextmanager
    def _place(self, session: Session) -> Iterator[None]:
        """The session takes up a place within this block."""
        path = RM_PATH if isinstance(session, ResourceManagerSession) else FEED_PATH
        self._sessions[path] += 1
        try:
            yield
        finally:
            self._sessions[path] -= 1

    async def on_connection(self, stream: trio.SocketStream) -> None:
        """Run one connection from its first byte to its last; trio closes the stream afterwards."""
        session: Session | None = None
        try:
            async with trio.open_nursery() as nursery:
                session = await self._shake_hands(nursery, stream)
                if session is not None:
                    nursery.start_soon(session.peer.keep_alive, self._limits.ping_s)
                    with self._told_to_stop(session.stop), self._place(session):
                        await session.run()
                    await session.peer.close(*(_STOPPING if self._is_stopping else _DONE))
                nursery.cancel_scope.cancel()
        except* (ConnectionClosed, LocalProtocolError):
            pass  # the second: the library answers pings that come while it closes, and its protocol forbids that
        except* Exception as errors:
            if session is None:  # bytes too strange for the websocket library
                log_event(logger, logging.INFO, "handshake_failed", reason=repr(errors.exceptions[0]))
            else:
                logger.exception("session_failed")
        # Closing a socket with unread bytes resets it, and the peer might never read why: let it finish speaking.
        with trio.move_on_after(self._limits.close_s), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.send_eof()
            while await stream.receive_some(2**16):
                pass

    async def _shake_hands(self, nursery: trio.Nursery, stream: trio.SocketStream) -> Session | None:
        limits = self._limits
        # The library waits for ever on a plain HTTP request, hence the deadline.
        with trio.move_on_after(limits.handshake_s) as deadline, self._told_to_stop(deadline.cancel):
            request = await wrap_server_stream(
                nursery,
                EndNoticedStream(stream, deadline.cancel),
                max_message_size=limits.message_bytes_max,
                receive_buffer_size=2**16,
            )
            refusal = self._refusal(request)
            if refusal is not None:
                status, sentence = refusal
                await request.reject(status, body=sentence.encode())
                return None
            encoding = next((ENCODINGS[name] for name in request.proposed_subprotocols if name in ENCODINGS), None)
            connection = await request.accept(subprotocol=encoding.name if encoding is not None else None)
            peer = Peer(
                stream,
                connection,
                encoding or JSON,
                first_message_s=limits.first_message_s,
                send_s=limits.send_s,
                close_s=limits.close_s,
            )
            if _path_of(request) == RM_PATH:
                return ResourceManagerSession(peer, self._gateway, self._nursery)
            return FeedSession(peer, self._gateway.feed, self._instance)
        return None

    def _refusal(self, request: WebSocketRequest) -> tuple[int, str] | None:
        """HTTP status and sentence for a handshake that we do not accept."""
        if _path_of(request) not in (RM_PATH, FEED_PATH):
            return 404, f"found {_path_of(request)}, expected {RM_PATH} or {FEED_PATH}\n"
        if not _same_host(request):
            return 403, "pages of another host may not connect\n"
        if request.proposed_subprotocols and ENCODINGS.keys().isdisjoint(request.proposed_subprotocols):
            return 400, f"found no known subprotocol, expected {' or '.join(ENCODINGS)}\n"
        path = _path_of(request)
        sessions_max = self._limits.rm_sessions_max if path == RM_PATH else self._limits.feed_sessions_max
        if self._sessions[path] >= sessions_max:
            return 503, f"{sessions_max} sessions are open on {path}, no more are allowed\n"
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
