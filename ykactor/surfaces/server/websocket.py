"""The websocket server: resource managers on ``/v1/rm``, followers of the event feed on ``/v1/feed``.

After its handshake a connection becomes a ``Peer``, and a session serves it until either side ends. A session may wait for the
inbox of a partition, which becomes TCP back pressure. A peer can affect only its own session. Only one task at a time sends to a
peer.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from urllib.parse import urlsplit

import trio
from msgspec import Struct
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest
from wsproto import ConnectionType
from wsproto.utilities import LocalProtocolError

from ykactor.actors.gateway import Gateway
from ykactor.surfaces.server.config_updates import ConfigUpdates
from ykactor.surfaces.server.feed_session import FeedSession, event_formats
from ykactor.surfaces.server.logs import log_event
from ykactor.surfaces.server.peer import Peer
from ykactor.surfaces.server.rm_session import ResourceManagerSession
from ykactor.surfaces.server.streams import EndNoticedStream, FrameStream
from ykactor.wire.compression import Deflate, ExtensibleConnection
from ykactor.wire.si.codec import ENCODINGS, JSON

logger = logging.getLogger(__name__)

RM_PATH = "/v1/rm"
FEED_PATH = "/v1/feed"

#: When the daemon stops, sessions have this long to send their messages and to close; then they are cancelled.
STOP_S = 2.0
#: Code and reason of the close frame: normally, and when the daemon stops (1001 is "going away" in RFC 6455).
_DONE = 1000, None
_STOPPING = 1001, "the daemon stops"
#: When the code of a session fails (1011 is "internal error" in RFC 6455).
_FAILED = 1011, "an error of the daemon ended the session, its log has the details"

Session = ResourceManagerSession | FeedSession


class Limits(Struct, frozen=True):
    """Limits of the server."""

    #: Followers at once, and sessions of resource managers: neither can take the other's places.
    feed_sessions_max: int = 1000
    rm_sessions_max: int = 16
    #: Room for the largest configuration (``lengths.CONFIG_MAX``) and its escapes.
    message_bytes_max: int = 24 * 2**20
    #: The largest message of a follower: the lists of a subscription have up to 256 KiB each (AP-138).
    subscription_bytes_max: int = 2 * 2**20
    #: Time limits for the HTTP upgrade, for the first message, for sending one message, and for the closing handshake.
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

    From then on no connection and no request is accepted. Every session sends the messages of its outbox or subscription and
    closes with 1001; a session that has not ended after ``STOP_S`` is cancelled. Before setting ``stopping``, let the partitions
    finish and the feed number what they published: a request that is not finished gets no ``Ack``.

    Resource handling: takes over ``listeners`` and closes them.
    Error handling: an error in a session ends that session only, and is logged.
    """
    async with trio.open_nursery() as outliving:
        async with trio.open_nursery() as sessions:
            configs = ConfigUpdates(gateway)
            outliving.start_soon(configs.run)
            server = _Server(gateway, limits or Limits(), outliving, configs)
            async with trio.open_nursery() as accepting:
                serve = partial(trio.serve_listeners, server.on_connection, listeners, handler_nursery=sessions)
                task_status.started(await accepting.start(serve))
                await stopping.wait()
                accepting.cancel_scope.cancel()
            sessions.cancel_scope.deadline = trio.current_time() + STOP_S
            server.stop()
        outliving.cancel_scope.cancel()


class _Server:
    """Runs a session for each connection; ``nursery`` is for tasks that outlive their session."""

    def __init__(self, gateway: Gateway, limits: Limits, nursery: trio.Nursery, configs: ConfigUpdates) -> None:
        self._gateway = gateway
        self._limits = limits
        self._nursery = nursery
        self._configs = configs
        #: Sessions by path.
        self._sessions = {RM_PATH: 0, FEED_PATH: 0}
        self._is_stopping = False
        self._formats = event_formats()
        #: The functions that end the handshakes and sessions under way.
        self._endings: set[Callable[[], None]] = set()

    def stop(self) -> None:
        """End all handshakes and sessions."""
        self._is_stopping = True
        for end in self._endings:
            end()

    @contextmanager
    def _ended_by_stop(self, end: Callable[[], None]) -> Iterator[None]:
        """``stop`` calls ``end`` during this block; if it was called before, ``end`` is called at once."""
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
        """Serve one connection; trio closes the stream afterwards."""
        session: Session | None = None
        try:
            async with trio.open_nursery() as nursery:
                session = await self._shake_hands(nursery, stream)
                if session is not None:
                    nursery.start_soon(session.peer.keep_alive, self._limits.ping_s)
                    await session.peer.close(*await self._run(session))
                nursery.cancel_scope.cancel()
        except* (ConnectionClosed, LocalProtocolError):
            pass  # LocalProtocolError: the library wrongly answers a ping that arrives while it closes
        except* Exception as errors:
            if session is None:  # bytes that the websocket library cannot parse
                log_event(logger, logging.INFO, "handshake_failed", reason=repr(errors.exceptions[0]))
            else:
                logger.exception("session_failed")
        # Closing a socket with unread bytes resets the connection, and the peer may lose the last message: read to the end.
        with trio.move_on_after(self._limits.close_s), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.send_eof()
            while await stream.receive_some(2**16):
                pass

    async def _run(self, session: Session) -> tuple[int, str | None]:
        """Run a session to its end; the code and the reason of the close frame."""
        has_failed = False
        try:
            with self._ended_by_stop(session.stop), self._place(session):
                await session.run()
        except* (ConnectionClosed, LocalProtocolError):
            pass  # LocalProtocolError: sent while the library answers the close frame of the peer
        except* Exception:  # the library still runs, so the peer can be told
            logger.exception("session_failed")
            has_failed = True
        if has_failed:
            return _FAILED
        return _STOPPING if self._is_stopping else _DONE

    async def _shake_hands(self, nursery: trio.Nursery, stream: trio.SocketStream) -> Session | None:
        limits = self._limits
        # With a plain HTTP request the library would wait for ever, hence the deadline.
        frames = FrameStream(stream)
        with trio.move_on_after(limits.handshake_s) as deadline, self._ended_by_stop(deadline.cancel):
            noticed = EndNoticedStream(frames, deadline.cancel)
            protocol = ExtensibleConnection(ConnectionType.SERVER)
            connection = WebSocketConnection(
                noticed,
                protocol,
                max_message_size=limits.message_bytes_max,
                receive_buffer_size=2**16,
            )
            # As ``trio_websocket.wrap_server_stream``, which has no parameter for the protocol.
            nursery.start_soon(connection._reader_task)
            request = await connection._get_request()
            refusal = self._refusal(request)
            if refusal is not None:
                status, sentence = refusal
                await request.reject(status, body=sentence.encode())
                return None
            return await self._accept(request, frames, noticed, connection, protocol)
        return None

    async def _accept(
        self,
        request: WebSocketRequest,
        frames: FrameStream,
        noticed: EndNoticedStream,
        connection: WebSocketConnection,
        protocol: ExtensibleConnection,
    ) -> Session:
        limits, path = self._limits, _path_of(request)
        encoding = next((ENCODINGS[name] for name in request.proposed_subprotocols if name in ENCODINGS), None)
        deflate = Deflate(limits.subscription_bytes_max)
        if path == FEED_PATH:
            protocol.extensions.append(deflate)
            # The library has no other way to choose the limit after the path is known.
            connection._max_message_size = limits.subscription_bytes_max
        await request.accept(subprotocol=encoding.name if encoding is not None else None)
        peer = Peer(
            frames,
            noticed,
            connection,
            encoding or JSON,
            path=path,
            first_message_s=limits.first_message_s,
            send_s=limits.send_s,
            close_s=limits.close_s,
        )
        if path == RM_PATH:
            return ResourceManagerSession(peer, self._gateway, self._nursery, self._configs)
        frames.limit_buffer()
        form = self._formats[peer.encoding.name, deflate.enabled()]
        return FeedSession(peer, self._gateway, self._gateway.instance, form)

    def _refusal(self, request: WebSocketRequest) -> tuple[int, str] | None:
        """HTTP status and message for a handshake that is refused; None if it is accepted."""
        if _path_of(request) not in (RM_PATH, FEED_PATH):
            return 404, f"found {_path_of(request)}, expected {RM_PATH} or {FEED_PATH}\n"
        if not _same_host(request):
            return 403, "web pages of another host may not connect\n"
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
    """Whether a browser's page has the host of the daemon; ports may differ. Programs send no ``Origin`` and may connect."""
    origin = next((value for name, value in request.headers if name == b"origin"), None)
    if origin is None:
        return True
    # The library removes the Host header from the public headers.
    host: str = request._event.host
    try:
        return urlsplit(origin.decode("ascii")).hostname == urlsplit(f"//{host}").hostname is not None
    except ValueError:
        return False
