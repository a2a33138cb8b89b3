"""One connection of HTTP/1.1: its requests, one after the other. The application that answers them is one of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any
from urllib.parse import unquote

import trio
from starlette.types import Message, Scope

from ykactor.surfaces.http.exchange import CLOSE, Exchange, Line, SendLarge, head_of
from ykactor.surfaces.net.refusals import RefusedError
from ykactor.surfaces.net.request_reader import Head, RequestReader
from ykactor.surfaces.net.transports import Readable, Transport, linger

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
        await linger(self._line.transport)

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
