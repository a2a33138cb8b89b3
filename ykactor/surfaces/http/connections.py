"""One connection of HTTP/1.1: its requests, one after the other. The application that answers them is one of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from math import inf
from typing import Any
from urllib.parse import unquote

import trio
from starlette.types import Message, Scope

from ykactor.actors.clock import system_ns
from ykactor.core.values.times import S_NS
from ykactor.surfaces.http.load import FREE_BYTES
from ykactor.surfaces.http.replies import Headers
from ykactor.surfaces.net.requests import HEAD_BYTES_MAX, Head, RefusedError, RequestReader
from ykactor.surfaces.net.transports import Readable, Transport

#: How long a connection may wait for a request, and may take for the head of one.
IDLE_S = 10

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Connection:
    """Answers the requests of one peer.

    Args:
        state: what the scope of each request has of the connection.
        arrival: waits until the socket can be read, before a request.
        stopping: no request is answered after it.
        send_large: sends what is large of an answer.
    """

    def __init__(
        self,
        transport: Transport,
        app: Application,
        scheme: str,
        state: dict[str, Any],
        arrival: Readable,
        stopping: trio.Event,
        send_large: SendLarge,
    ) -> None:
        self._send_large = send_large
        self._line = Line(transport)
        self._reader = RequestReader()
        self._app = app
        self._scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.1"}, "scheme": scheme, "root_path": ""}
        self._state = state
        self._arrival = arrival
        self._stopping = stopping
        self._is_idle = False
        self._serving = trio.CancelScope()

    def end_if_late(self, now_s: float) -> None:
        """End the connection if it has taken too long for what it is doing, at this time of trio's clock."""
        if now_s >= self._line.due_s:
            self._serving.cancel()

    def stop_waiting(self) -> None:
        """End the connection if it waits for a request."""
        if self._is_idle:
            self._serving.cancel()

    async def serve(self) -> None:
        """Serve requests until the peer closes, is idle, is too slow, sends invalid HTTP/1.1, or stops reading.

        Raises:
            trio.BrokenResourceError: the connection is broken.
        """
        with self._serving:
            try:
                while not self._stopping.is_set() and (head := await self._next_head()):
                    exchange = Exchange(self._reader, self._line, head, self._send_large)
                    await self._app(self._scope_of(head), exchange.receive, exchange.send)
                    await exchange.end()
                    if not exchange.may_go_on():
                        break
            except RefusedError as error:
                await self._refuse(error)
            finally:
                self._reader.close()

    async def _next_head(self) -> Head | None:
        """The head of the next request; None: the peer sends no more."""
        self._line.due_s, self._is_idle = trio.current_time() + IDLE_S, True
        if head := self._reader.next():
            await trio.lowlevel.checkpoint()  # it has come with others, which must not all be answered at once
        while head is None:
            if not await self._line.receive(self._reader, self._arrival):
                return None
            head = self._reader.next()
        self._line.due_s, self._is_idle = inf, False
        assert isinstance(head, Head)
        return head

    def _scope_of(self, head: Head) -> Scope:
        path, _, query = head.target.partition(b"?")
        return {
            **self._scope,
            "http_version": head.version,
            "method": head.method,
            "path": unquote(path.decode()),
            "raw_path": path,
            "query_string": query,
            "headers": head.headers,
            "state": dict(self._state),
        }

    async def _refuse(self, error: RefusedError) -> None:
        reason = f"{error}\n".encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(reason)), CLOSE]
        await self._line.send(head_of(error.status, headers) + reason)


# ---- one request and its answer, as an ASGI application receives and sends them

#: How long a connection may take a part of what is sent, and how many bytes of large answers it must take on average: such an
#: answer is kept in memory until the last has taken it.
SEND_S = 10
BYTES_PER_S_MIN = 2**20
_READ_BYTES = 2**16
#: Parts of an answer that have no more bytes together are sent in one piece.
_JOINED_BYTES = 2**16
_GO_ON = b"HTTP/1.1 100 \r\n\r\n"
_CHUNKED = b"transfer-encoding", b"chunked"
CLOSE = b"connection", b"close"
_KEEP_ALIVE = b"connection", b"keep-alive"
#: An answer has these if it has no others of the name: nobody keeps it, and nobody takes it for another kind of thing.
_COMMON = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


#: Sends a part of a large answer, of which the length is given, when it is its turn (``Sending``).
SendLarge = Callable[[int, Callable[[], Coroutine[Any, Any, None]]], Awaitable[None]]


class Line:
    """The bytes of a connection.

    Attributes:
        due_s: when it has taken too long for what it is doing, of trio's clock. It is looked at now and then: a deadline of trio
            for each step costs more than the step.
    """

    def __init__(self, transport: Transport) -> None:
        self.due_s = inf
        self.transport = transport
        #: How much longer large parts may take than at ``BYTES_PER_S_MIN``.
        self._spare_s = float(SEND_S)

    async def receive(self, reader: RequestReader, readable: Readable = trio.lowlevel.wait_readable) -> bool:
        """True if something has come. Raises ``trio.BrokenResourceError``."""
        data = await self.transport.receive_next(_READ_BYTES, readable)
        reader.receive(data)
        return bool(data)

    async def send(self, data: bytes | memoryview) -> None:
        """Send it in time. Raises ``trio.BrokenResourceError``."""
        began_s = trio.current_time()
        may_take_s = SEND_S if len(data) <= _JOINED_BYTES else self._spare_s + len(data) / BYTES_PER_S_MIN
        self.due_s = began_s + may_take_s
        await self.transport.answer(data)
        self.due_s = inf
        if len(data) > _JOINED_BYTES:
            self._spare_s = min(SEND_S, may_take_s - (trio.current_time() - began_s))


class Exchange:
    """Answers one request.

    Args:
        send_large: sends what is large of the answer.

    Attributes:
        keeps_alive: whether another request may follow; until something else is sent.
    """

    def __init__(self, reader: RequestReader, line: Line, head: Head, send_large: SendLarge) -> None:
        self.keeps_alive = head.keeps_alive
        self._reader = reader
        self._line = line
        self._send_large = send_large
        self._sent_bytes = 0
        self._request = head
        self._awaits_100 = head.awaits_100
        self._is_received = False
        self._is_begun = self._is_sent = False
        #: What is sent with the next part of the body.
        self._head = b""
        self._has_body = True
        self._is_chunked = False
        #: Of what ``Content-Length`` says.
        self._left_bytes: int | None = None

    # ---- what is received

    async def receive(self) -> Message:
        """The next part of the body, and after the last one the end of the connection."""
        if self._is_received:
            await self._disconnected()
            return {"type": "http.disconnect"}
        with suppress(RefusedError, trio.BrokenResourceError):
            part = await self._part()
            if part is not None:
                self._is_received = not part
                return {"type": "http.request", "body": part, "more_body": bool(part)}
        self._is_received, self.keeps_alive = True, False
        return {"type": "http.disconnect"}

    async def _part(self) -> bytes | None:
        """The next one of the body, after the last one b""; None: it does not come."""
        while (part := self._reader.next()) is None:
            if self._awaits_100:
                self._awaits_100 = False
                await self._line.send(_GO_ON)
            if not await self._line.receive(self._reader):
                return None
        assert isinstance(part, bytes)
        return part

    async def _disconnected(self) -> None:
        """Wait until the peer has gone. What it sends meanwhile is the next request, of which no more than a head is taken."""
        with suppress(trio.BrokenResourceError):
            while await self._line.receive(self._reader):
                if self._reader.left_bytes > HEAD_BYTES_MAX:
                    await trio.sleep_forever()

    def may_go_on(self) -> bool:
        """True if the next request may be read."""
        return self.keeps_alive and self._is_sent

    def _is_received_whole(self) -> bool:
        """A body that nobody has read, and that has not come or is wrong, is in the way of the next request."""
        with suppress(RefusedError):
            while not self._is_received and (part := self._reader.next()) is not None:
                self._is_received = not part
        return self._is_received

    # ---- what is sent

    async def send(self, message: Message) -> None:
        """A head, or a part of a body. A head is sent with the first part."""
        if message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
            return
        body, is_last = message.get("body", b"") if self._has_body else b"", not message.get("more_body", False)
        parts, self._head = [self._head, *self._framed(body, is_last=is_last)], b""
        if sum(len(part) for part in parts) <= _JOINED_BYTES:
            parts = [b"".join(parts)]
        for part in parts:
            if part:
                await self._send(part)
        if not is_last:
            await trio.lowlevel.checkpoint()  # an answer may have many parts, and its peer may take each at once
        self._is_sent = is_last and not self._left_bytes

    async def _send(self, part: bytes | memoryview) -> None:
        self._sent_bytes += len(part)
        if self._sent_bytes <= FREE_BYTES:
            await self._line.send(part)
        else:
            await self._send_large(len(part), partial(self._line.send, part))

    def _begin(self, status: int, headers: Headers) -> None:
        self._is_begun, self._awaits_100 = True, False
        self._has_body = self._request.method != "HEAD" and status not in _NO_BODY
        length = dict(headers).get(b"content-length")
        if self._has_body and length is not None:
            self._left_bytes = int(length)
        self._is_chunked = self._has_body and length is None and self._request.version == "1.1"
        is_framed = not self._has_body or length is not None or self._is_chunked
        self.keeps_alive &= is_framed and CLOSE not in headers and self._is_received_whole()
        framing = [_CHUNKED] if self._is_chunked else []
        if not self.keeps_alive and CLOSE not in headers:
            framing.append(CLOSE)
        elif self.keeps_alive and self._request.version == "1.0":  # which ends the connection unless both say this
            framing.append(_KEEP_ALIVE)
        self._head = head_of(status, [*headers, *framing])

    def _framed(self, body: bytes | memoryview, *, is_last: bool) -> list[bytes | memoryview]:
        if self._left_bytes is not None:
            self._left_bytes -= len(body)
            if self._left_bytes < 0:
                raise ValueError(f"found {-self._left_bytes} bytes more than Content-Length says")
        if not self._is_chunked:
            return [body]
        chunk = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
        return [*chunk, b"0\r\n\r\n"] if is_last else chunk

    async def end(self) -> None:
        """Nothing follows; an application that has failed has sent nothing, or not all."""
        if not self._is_begun:
            await self.send({"type": "http.response.start", "status": 500, "headers": [(b"content-length", b"0"), CLOSE]})
            await self.send({"type": "http.response.body"})


def head_of(status: int, headers: Headers) -> bytes:
    """The head of an answer, with its date and what all have."""
    names = {name for name, _ in headers}
    whole = (*headers, *(header for header in _COMMON if header[0] not in names))
    lines = [b"HTTP/1.1 %d \r\n" % status, *(b"%b: %b\r\n" % header for header in whole), _date(system_ns() // S_NS)]
    head = b"".join(lines)
    if not head.count(b"\r") == head.count(b"\n") == len(lines):  # it would be another header, or the body
        raise ValueError("found the end of a line in a header")
    return head + b"\r\n"


@lru_cache(maxsize=1)
def _date(now_s: int) -> bytes:
    return b"date: %b\r\n" % formatdate(now_s, usegmt=True).encode()
