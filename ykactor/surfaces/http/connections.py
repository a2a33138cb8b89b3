"""One connection of HTTP/1.1: its requests, one after the other, and their answers.

h11 reads heads and frames bodies. The application is one of ASGI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from math import inf
from typing import Any
from urllib.parse import unquote

import h11
import trio
from starlette.types import Message, Scope

from ykactor.actors.clock import system_ns
from ykactor.core.values.times import S_NS
from ykactor.surfaces.server.transports import Transport

#: How long a connection may wait for a request, and may take for the head of one.
IDLE_S = 10
#: How long a connection may take a part of what is sent.
SEND_S = 10
#: How long it is read after its last answer.
LINGER_S = 1
#: Bytes of the headers of a request, and of what may follow a request that is being answered.
HEAD_BYTES_MAX = 16 * 2**10
_READ_BYTES = 2**16
#: Parts of an answer that have no more bytes together are sent in one piece.
_JOINED_BYTES = 2**16
_VERSIONS = (b"1.0", b"1.1")

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Connection:
    """Answers the requests of one peer.

    Args:
        state: what the scope of each request has of the connection.
        gate: waited for before a request is looked at.
        stopping: no request is answered after it.
    """

    def __init__(
        self,
        transport: Transport,
        app: Application,
        scheme: str,
        state: dict[str, Any],
        gate: Callable[[], Awaitable[None]],
        stopping: trio.Event,
    ) -> None:
        self._transport = transport
        self._app = app
        self._scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.1"}, "scheme": scheme, "root_path": ""}
        self._state = state
        self._gate = gate
        self._stopping = stopping
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        #: Ends the connection at its deadline: that of what it waits for.
        self._limit = trio.CancelScope()
        self._is_idle = False

    def stop_waiting(self) -> None:
        """End the connection if it waits for a request."""
        if self._is_idle:
            self._limit.cancel()

    async def serve(self) -> None:
        """Until the peer has ended the connection, sends nothing, too slowly, or what is no HTTP/1.1, or does not read.

        Raises:
            trio.BrokenResourceError: the connection is broken.
        """
        with self._limit:
            try:
                while not self._stopping.is_set() and (request := await self._next_request()):
                    exchange = _Exchange(self._http, self._transport, self._limit, request)
                    await self._app(self._scope_of(request), exchange.receive, exchange.send)
                    await exchange.end()
                    if not self._is_ready():
                        break
            except h11.RemoteProtocolError as error:
                await self._refuse(error.error_status_hint)
        await linger(self._transport)

    async def _next_request(self) -> h11.Request | None:
        """None: the peer sends no more."""
        self._limit.deadline, self._is_idle = trio.current_time() + IDLE_S, True
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await receive_some(self._http, self._transport)
            await self._gate()
        self._limit.deadline, self._is_idle = inf, False
        if not isinstance(event, h11.Request):
            return None
        if event.http_version not in _VERSIONS:
            raise h11.RemoteProtocolError("not HTTP/1", error_status_hint=HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        return event

    def _scope_of(self, request: h11.Request) -> Scope:
        path, _, query = request.target.partition(b"?")
        return {
            **self._scope,
            "http_version": request.http_version.decode(),
            "method": request.method.decode(),
            "path": unquote(path.decode()),
            "raw_path": path,
            "query_string": query,
            "headers": list(request.headers),
            "state": dict(self._state),
        }

    def _is_ready(self) -> bool:
        """Whether there may be another request: a body that nobody has read would be in its way."""
        while self._http.their_state is h11.SEND_BODY:
            if self._http.next_event() is h11.NEED_DATA:
                return False
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def _refuse(self, status: int) -> None:
        """What was sent is no request; if an answer was begun, it just ends."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [(b"content-length", b"0"), (b"connection", b"close"), _date(system_ns() // S_NS)]
            head = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
            self._limit.deadline = trio.current_time() + SEND_S
            await self._transport.send_all(head)


class _Exchange:
    """A request and its answer, as an application sees them.

    Args:
        limit: of what is sent.
    """

    def __init__(self, http: h11.Connection, transport: Transport, limit: trio.CancelScope, request: h11.Request) -> None:
        self._http = http
        self._transport = transport
        self._limit = limit
        self._request = request
        self._is_received = False
        self._head = b""
        self._has_body = True

    # ---- what is received

    async def receive(self) -> Message:
        """The next part of the body, and after the last one the end of the connection."""
        if not self._is_received:
            try:
                return await self._body()
            except (h11.RemoteProtocolError, trio.BrokenResourceError):
                self._is_received = True
        else:
            await self._disconnected()
        return {"type": "http.disconnect"}

    async def _body(self) -> Message:
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[])
            await self._send_in_time(self._http.send(go_on) or b"")
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await receive_some(self._http, self._transport)
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        self._is_received = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _disconnected(self) -> None:
        """Until the peer has gone. What it sends meanwhile is the next request, of which no more than a head is taken."""
        with suppress(trio.BrokenResourceError):
            while True:
                begun, has_ended = self._http.trailing_data
                if has_ended:
                    return
                if len(begun) > HEAD_BYTES_MAX:
                    await trio.sleep_forever()
                await receive_some(self._http, self._transport)

    # ---- what is sent

    async def send(self, message: Message) -> None:
        """A head, or a part of a body. A head is sent with the first part."""
        if message["type"] == "http.response.start":
            status, headers = message["status"], [*message["headers"], _date(system_ns() // S_NS)]
            self._has_body = self._request.method != b"HEAD" and status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
            self._head = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
            return
        parts, self._head = [self._head], b""
        if self._has_body and (body := message.get("body")):
            parts += self._http.send_with_data_passthrough(h11.Data(data=body)) or []
        if not message.get("more_body", False):
            parts += self._http.send_with_data_passthrough(h11.EndOfMessage()) or []
        if sum(map(len, parts)) <= _JOINED_BYTES:
            parts = [b"".join(parts)]
        for part in filter(None, parts):
            await self._send_in_time(part)

    async def _send_in_time(self, data: bytes | memoryview) -> None:
        self._limit.deadline = trio.current_time() + SEND_S
        await self._transport.send_all(data)
        self._limit.deadline = inf

    async def end(self) -> None:
        """Nothing follows; an application that has failed has sent nothing, or not all."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self.send({"type": "http.response.start", "status": 500, "headers": [(b"content-length", b"0")]})
            await self.send({"type": "http.response.body"})


@lru_cache(maxsize=1)
def _date(now_s: int) -> tuple[bytes, bytes]:
    return b"date", formatdate(now_s, usegmt=True).encode()


async def receive_some(http: h11.Connection, transport: Transport) -> None:
    """Take what has come, or the end. Raises ``trio.BrokenResourceError``."""
    http.receive_data(bytes(await transport.receive_some(_READ_BYTES)))


async def linger(transport: Transport) -> None:
    """Read what still comes before the connection is closed: unread bytes would reset it, and lose the last answer."""
    with trio.move_on_after(LINGER_S), suppress(trio.BrokenResourceError):
        await transport.finish()
