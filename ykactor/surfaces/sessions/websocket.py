"""The websocket server: resource managers on ``/v1/rm``, operators on ``/v1/operator``, followers of the feed on
``/v1/feed``, replicas on ``/v1/turns``, standbys on ``/v1/journal``, what-ifs on ``/v1/bases``.

After its handshake a connection becomes a ``Peer``, and a session serves it until either side ends. A session may wait for the
inbox of a partition, which becomes TCP back pressure. A peer can affect only its own session. Only one task at a time sends to a
peer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.extensions import Extension
from wsproto.handshake import server_extensions_handshake
from wsproto.utilities import generate_accept_token, split_comma_header

from ykactor.access.credentials import PageRequest
from ykactor.access.model import Role
from ykactor.actors.gateway import Gateway, ReadGateway
from ykactor.surfaces.admission.admission import Admission, Asked, bearer_of, host_of, refuse_twice
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.listener import AcceptedConnection, Listener
from ykactor.surfaces.admission.session_limits import InputMemory, SessionLimits
from ykactor.surfaces.admission.slots import (
    BASES_PATH,
    FEED_PATH,
    JOURNAL_PATH,
    OPERATOR_PATH,
    RM_PATH,
    SESSION_ROLES,
    TURNS_PATH,
)
from ykactor.surfaces.metrics.instruments import SessionCounts
from ykactor.surfaces.net.doors import Door, DoorKind
from ykactor.surfaces.net.requests import RETRY, Head, RefusedError, RequestReader
from ykactor.surfaces.net.transports import FrameStream
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.connection import ConnectionClosedError, WebSocket
from ykactor.surfaces.sessions.feed_session import FeedSession, event_formats
from ykactor.surfaces.sessions.journal_session import JournalSession
from ykactor.surfaces.sessions.operator_session import OperatorSession
from ykactor.surfaces.sessions.peer import Limits, Peer
from ykactor.surfaces.sessions.rm_session import ResourceManagerSession
from ykactor.surfaces.sessions.turns_session import BasesSession, TurnsSession, bases_queue
from ykactor.wire.compression import Deflate
from ykactor.wire.si.codec import ENCODINGS, JSON, TERM_HEADER

logger = logging.getLogger(__name__)

#: When the daemon stops, sessions have this long to send their messages and to close; then they are cancelled.
STOP_S = 2.0
#: Code and reason of the close frame: normally, and when the daemon stops (1001 is "going away" in RFC 6455).
_DONE = 1000, None
_STOPPING = 1001, "the daemon stops"
#: When the code of a session fails (1011 is "internal error" in RFC 6455).
_FAILED = 1011, "an error of the daemon ended the session, its log has the details"

#: The close code of a session whose caller is let in no longer (RFC 6455 leaves 4000 and above to applications).
REVOKED = 4005


class Acting(NamedTuple):
    """The needs of sessions that act, and of those of replicas."""

    gateway: Gateway
    audit: Audit


Session = ResourceManagerSession | FeedSession | OperatorSession | TurnsSession | JournalSession | BasesSession


async def serve_websockets(
    doors: Sequence[Door],
    gateway: ReadGateway,
    admission: Admission,
    *,
    acting: Acting | str,
    stopping: trio.Event,
    limits: Limits | None = None,
    counts: SessionCounts | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set, and return when the last session has ended.

    From then on no connection and no request is accepted. Every session sends the messages of its outbox or subscription and
    closes with 1001; a session that has not ended after ``STOP_S`` is cancelled. Before setting ``stopping``, let the partitions
    finish and the feed number what they published: a request that is not finished gets no ``Ack``.

    Args:
        acting: at a replica, which only answers readers, the address of its daemon.
        counts: of sessions.

    Resource handling: takes over the listeners of ``doors`` and closes them.
    Error handling: an error in a session ends that session only, and is logged.
    """
    async with trio.open_nursery() as outliving:
        server = _Server(gateway, admission, limits or Limits(), counts or SessionCounts(), stopping)
        if isinstance(acting, str):
            server.daemon = acting
        else:
            configs = ConfigUpdates(acting.gateway, acting.audit)
            outliving.start_soon(configs.run)
            server.acting = _Sessions(*acting, outliving, configs, admission.memory)
        listener = Listener(admission, admission.slots.handshakes, server.serve, logger, "handshake_failed")
        await listener.listen(doors, stopping=stopping, stop_s=STOP_S, task_status=task_status)
        outliving.cancel_scope.cancel()


class _Sessions(NamedTuple):
    """Makes the sessions that act, and those of replicas; ``nursery`` is for tasks that outlive their session."""

    gateway: Gateway
    audit: Audit
    nursery: trio.Nursery
    configs: ConfigUpdates
    memory: InputMemory

    def check(self, path: str) -> None:
        """Refuse what this daemon has not. Raises RefusedError."""
        if path == JOURNAL_PATH and self.gateway.standbys is None:
            raise RefusedError(503, "this daemon has no journal: serve --state-dir has")

    async def begun(self) -> None:
        """Wait until clients are let in. Raises RefusedError if the daemon waits for standbys, which may never come."""
        if reason := self.gateway.waits:
            raise RefusedError(503, reason, RETRY)
        await self.gateway.begun.wait()

    def session(self, path: str, peer: Peer, caller: Caller) -> Session:
        """The session of a peer that has connected to a path."""
        if path == TURNS_PATH:
            return TurnsSession(peer, self.gateway, caller, self.audit)
        if path == JOURNAL_PATH and self.gateway.standbys is not None:
            return JournalSession(peer, self.gateway, self.gateway.standbys, caller)
        if path == OPERATOR_PATH:
            return OperatorSession(peer, self.gateway, self.configs, caller, self.audit)
        return ResourceManagerSession(peer, self.gateway, self.nursery, self.configs, self.memory, caller, self.audit)


class _Server:
    """Runs a session for each connection.

    Attributes:
        acting: None at a replica.
        daemon: the address of the daemon that a replica copies.
    """

    acting: _Sessions | None = None
    daemon = ""

    def __init__(
        self, gateway: ReadGateway, admission: Admission, limits: Limits, counts: SessionCounts, stopping: trio.Event
    ) -> None:
        self._gateway = gateway
        self._admission = admission
        self._audit = admission.audit
        self._limits = limits
        self._counts = counts
        self._stopping = stopping
        self._formats = event_formats()
        self._bases = bases_queue()

    async def serve(self, accepted: AcceptedConnection) -> None:
        """Serve one connection until its session has ended."""
        with ExitStack() as held:
            admitted = await self._admitted(accepted)
            if admitted is not None:
                await self._serve(*admitted, accepted, held)

    @contextmanager
    def _in_time(self, accepted: AcceptedConnection) -> Iterator[None]:
        """The block ends when the handshake takes too long, or the daemon stops."""
        with (
            trio.move_on_after(self._admission.in_force().handshake_seconds) as deadline,
            accepted.listener.ended_by_stop(deadline.cancel),
        ):
            yield

    async def _admitted(self, accepted: AcceptedConnection) -> tuple[RequestHead, Caller] | None:
        """The request of a new connection and who sent it, with a session's slot; None if it was refused or none came."""
        with self._in_time(accepted):
            try:
                if await accepted.open() and (head := await read_head(accepted.transport)) is not None:
                    if self.acting is not None and head.path != JOURNAL_PATH:
                        await self.acting.begun()
                    return head, self._caller(head, accepted)
            except RefusedError as refused:
                accepted.log_refused(refused)
                await accepted.transport.send_all(refused.response())
        return None

    async def _serve(self, head: RequestHead, caller: Caller, accepted: AcceptedConnection, held: ExitStack) -> None:
        try:
            async with trio.open_nursery() as nursery:
                session = await self._accept(nursery, head, caller, accepted, held)
                if session is not None:
                    self._counts.open[caller.role] += 1
                    held.callback(self._counts.open.subtract, [caller.role])
                    nursery.start_soon(session.peer.keep_alive, self._limits.ping_s)
                    nursery.start_soon(_drop_when_revoked, session.peer, caller)
                    await session.peer.close(*await self._run(session, accepted))
                nursery.cancel_scope.cancel()
        except* (ConnectionClosedError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception:
            logger.exception("session_failed")

    async def _run(self, session: Session, accepted: AcceptedConnection) -> tuple[int, str | None]:
        """Run a session to its end; the code and the reason of the close frame."""
        has_failed = False
        try:
            with accepted.listener.ended_by_stop(session.stop):
                await session.run()
        except* ConnectionClosedError:
            pass
        except* Exception:  # the connection is still there, so the peer can be told
            logger.exception("session_failed")
            has_failed = True
        if has_failed:
            return _FAILED
        return _STOPPING if self._stopping.is_set() else _DONE

    async def _accept(
        self, nursery: trio.Nursery, head: RequestHead, caller: Caller, accepted: AcceptedConnection, held: ExitStack
    ) -> Session | None:
        """Answer the request; None if the peer does not take the answer in time."""
        with self._in_time(accepted):
            frames, most = (
                FrameStream(accepted.transport),
                self._limits.subscription_bytes_max if head.path == FEED_PATH else None,
            )
            extensions = [] if most is None else [Deflate(most)]
            encoding = next((ENCODINGS[name] for name in head.subprotocols if name in ENCODINGS), None)
            term = str(self._gateway.terms.present).encode()
            await frames.send_all(acceptance(head, None if encoding is None else encoding.name, [*extensions], term))
            sends = SessionLimits(caller, self._audit, head.path, self._counts, most)
            protocol, memory = Connection(ConnectionType.SERVER, [*extensions], head.rest), self._admission.memory
            connection = WebSocket(frames, protocol, nursery, limits=sends, memory=memory, close_s=self._limits.close_s)
            held.callback(memory.forget, connection)
            nursery.start_soon(connection.run)
            peer = Peer(frames, connection, encoding or JSON, sends, self._limits)
            if head.path == BASES_PATH:
                return BasesSession(peer, self._gateway, caller.holder, self._bases)
            if head.path != FEED_PATH:
                assert self.acting is not None, "the handshake was refused"
                return self.acting.session(head.path, peer, caller)
            frames.limit_buffer()
            compresses = any(extension.enabled() for extension in extensions)
            form, computing = self._formats[peer.encoding.name, compresses], self._admission.computing
            return FeedSession(peer, self._gateway, form, caller, self._audit, computing)
        return None

    def _caller(self, head: RequestHead, accepted: AcceptedConnection) -> Caller:
        """The caller, which has a session's slot now: before anything waits, or others could take it."""
        role, origin = SESSION_ROLES.get(head.path, Role.READER), head.headers.get("origin")
        asked = Asked(
            target=head.path,
            role=role,
            roles=(role,),
            bearer=head.bearer,
            page=head.page,
            host=head.headers.get("host"),
            origin=origin,
            may_be_of_page=origin is not None,  # no page can leave it out; programs may use any name, such as an alias of a proxy
        )
        return accepted.admit(asked, partial(self._claim, head, accepted))

    def _claim(self, head: RequestHead, accepted: AcceptedConnection, caller: Caller) -> str:
        if head.path not in SESSION_ROLES:
            *paths, last = SESSION_ROLES
            raise RefusedError(404, f"found an unknown path, expected {', '.join(paths)} or {last}")
        if head.subprotocols and ENCODINGS.keys().isdisjoint(head.subprotocols):
            raise RefusedError(400, f"found no known subprotocol, expected {' or '.join(ENCODINGS)}")
        if self.acting is None and head.path not in (FEED_PATH, BASES_PATH):
            raise RefusedError(403, f"this is a replica, which only answers readers: connect to the daemon at {self.daemon}")
        if SESSION_ROLES[head.path] is Role.REPLICA and Role.REPLICA in caller.identity.roles:  # others are refused for that
            _check_copy(caller, accepted.door)
            if self.acting is not None:
                self.acting.check(head.path)
        return self._admission.slots.claim_session(accepted.slot, caller, head.path)


def _check_copy(caller: Caller, door: Door) -> None:
    """SE-100: a replica or standby is told everything, so nothing may be hidden from it, and nobody may listen."""
    if not caller.identity.may_copy():
        raise RefusedError(403, f"{caller.identity.name} may not see everything, which a replica does")
    if door.kind is DoorKind.NETWORK and door.tls is None:
        raise RefusedError(403, "what is recorded is sent to another machine by TLS only")


async def _drop_when_revoked(peer: Peer, caller: Caller) -> None:
    await caller.ended.wait()
    await peer.drop(REVOKED, caller.revoked)


# ---- the handshake: the HTTP request that opens a websocket, and its answer
#
# What is refused gets an HTTP response with one line that says why. That line never repeats anything of the request: it also goes
# into the log, where credentials must not be.

_DOORS = (
    f"resource managers connect to {RM_PATH}, followers to {FEED_PATH}, operators to {OPERATOR_PATH}, replicas to {TURNS_PATH}, "
    f"standbys to {JOURNAL_PATH}, what-ifs to {BASES_PATH}"
)

#: The request with all headers. What follows it is not read before the response has been sent, but for what came with it.
HEAD_BYTES_MAX = 8 * 2**10
#: The version of websockets, in RFC 6455.
WEBSOCKET_VERSION = "13"
_UPGRADE = {"Upgrade": "websocket", "Sec-WebSocket-Version": WEBSOCKET_VERSION}
#: Headers that decide how the connection goes on: refused when duplicated, because a proxy might use the other one.
_OF_UPGRADES = re.compile("upgrade|connection|sec-websocket-.*")
#: How a web page shows its token: it cannot set headers. Never the subprotocol that is chosen.
_BEARER_SUBPROTOCOL = "ykactor.bearer."


class RequestHead(NamedTuple):
    """A request for a websocket, which can be accepted.

    Attributes:
        rest: bytes that came behind it.
        path: without a query.
        headers: by their names in lower case; of headers that may be there more than once, one.
        subprotocols: those that the peer knows, in its order.
        bearer: the token that the peer shows, if it does.
    """

    rest: bytes
    path: str
    headers: Mapping[str, str]
    subprotocols: Sequence[str]
    bearer: str | None

    @property
    def page(self) -> PageRequest | None:
        """The proof of a browser: its cookie, and the page, which it names in each request for a websocket."""
        if (cookies := self.headers.get("cookie")) is None:
            return None
        return PageRequest(cookies=cookies, origin=self.headers.get("origin"), fetch_site=None, is_read=False)

    def __repr__(self) -> str:
        """The request without its headers, which have credentials: this may get into a log or a traceback."""
        return f"RequestHead(path={self.path!r})"


async def read_head(stream: trio.abc.ReceiveStream) -> RequestHead | None:
    """Read the request of a new connection; None if the connection ends before it is complete.

    Raises:
        RefusedError: it is not a request for a websocket, or too long.
    """
    reader = RequestReader(HEAD_BYTES_MAX, is_left_after=True)
    try:
        while (head := reader.next()) is None:
            received = await stream.receive_some(HEAD_BYTES_MAX)
            if not received:
                return None
            reader.receive(received)
    except RefusedError as error:
        if error.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            raise RefusedError(error.status, f"found a request with more than {HEAD_BYTES_MAX} bytes of headers") from None
        raise _not_http() from None
    finally:
        reader.close()
    assert isinstance(head, Head), "a body follows its head"
    return _checked(head, reader.rest())


def _checked(head: Head, rest: bytes) -> RequestHead:
    """The request; raises RefusedError."""
    if head.version != "1.1" or not all(name.isascii() and value.isascii() for name, value in head.headers):
        raise _not_http()
    found = [(name.decode(), value.decode()) for name, value in head.headers]
    headers = dict(found)
    refuse_twice([name for name, _ in found], _OF_UPGRADES)
    _check_upgrade(head.method, headers)
    host_of(headers.get("host", ""))
    return RequestHead(rest, head.target.decode().partition("?")[0], headers, *_subprotocols_and_bearer(headers))


def acceptance(head: RequestHead, subprotocol: str | None, extensions: list[Extension], term: bytes) -> bytes:
    """The response that opens the websocket. Those of the extensions are enabled that the peer has offered.

    Args:
        subprotocol: the one of the peer's that is chosen.
        term: of the daemon.
    """
    lines = [
        b"HTTP/1.1 101 Switching Protocols",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Accept: " + generate_accept_token(head.headers["sec-websocket-key"].encode()),
    ]
    if subprotocol is not None:
        lines.append(b"Sec-WebSocket-Protocol: " + subprotocol.encode())
    offered = split_comma_header(head.headers.get("sec-websocket-extensions", "").encode())
    if accepted := server_extensions_handshake(offered, extensions):
        lines.append(b"Sec-WebSocket-Extensions: " + accepted)
    return b"\r\n".join([*lines, TERM_HEADER + b": " + term, b"", b""])


def _subprotocols_and_bearer(headers: Mapping[str, str]) -> tuple[list[str], str | None]:
    """The subprotocols without the one that shows a token, and the token, of the header or of the subprotocol (SE-61)."""
    offered = [name for text in headers.get("sec-websocket-protocol", "").split(",") if (name := text.strip())]
    subprotocols = [name for name in offered if not name.startswith(_BEARER_SUBPROTOCOL)]
    bearers = [name.removeprefix(_BEARER_SUBPROTOCOL) for name in offered if name.startswith(_BEARER_SUBPROTOCOL)]
    if (shown := bearer_of(headers.get("authorization"))) is not None:
        bearers.append(shown)
    if len(bearers) > 1:
        raise RefusedError(400, f"found several tokens, expected one: Authorization, or a subprotocol {_BEARER_SUBPROTOCOL}...")
    return subprotocols, bearers[0] if bearers else None


def _not_http() -> RefusedError:
    return RefusedError(400, "found no valid HTTP/1.1 request, expected one for a websocket")


def _check_upgrade(method: str, headers: Mapping[str, str]) -> None:
    """Refuse what is no request for a websocket."""
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise RefusedError(400, "found a request with a body, expected one without")
    if method != "GET":
        raise RefusedError(405, "found another method than GET", {"Allow": "GET"})
    if headers.get("upgrade", "").lower() != "websocket":
        raise RefusedError(426, f"this is a websocket server: {_DOORS}", _UPGRADE)
    if "upgrade" not in [token.strip() for token in headers.get("connection", "").lower().split(",")]:
        raise RefusedError(400, "found no header Connection: Upgrade")
    if headers.get("sec-websocket-version") != WEBSOCKET_VERSION:
        raise RefusedError(426, f"found no header Sec-WebSocket-Version: {WEBSOCKET_VERSION}", _UPGRADE)
    if "sec-websocket-key" not in headers:
        raise RefusedError(400, "found no header Sec-WebSocket-Key")
