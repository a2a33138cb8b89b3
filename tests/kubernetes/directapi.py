"""A fake API server without sockets, for tests on a simulated clock, or over plain HTTP, and the process that asks it."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import trio
from fakehttp import Body, Refused, Request, Wire
from fakeserver import FakeServer

from ykactor.kubernetes.api import JSON, Api, _error
from ykactor.kubernetes.credentials import Credentials
from ykactor.kubernetes.process import Process


class DirectApi(Api):
    """The API of a server as somebody with this token."""

    def __init__(self, server: FakeServer, token: str = "yk") -> None:
        self._server = server
        self._token = token

    async def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> bytes:
        await trio.lowlevel.checkpoint()
        headers = {"authorization": f"Bearer {self._token}", "content-type": content_type}
        content = b"" if body is None else json.dumps(body).encode()
        wire = _Answer()
        try:
            await self._server._answer(wire, Request(method, path, headers, content))
        except Refused as refused:
            await wire.send(refused.status, refused.answer)
        text = (wire.answer if isinstance(wire.answer, str) else json.dumps(wire.answer)).encode()
        if wire.status >= 400:
            raise _error(wire.status, {"retry-after": "1"} if wire.status in (429, 504) else {}, text)
        return text

    @asynccontextmanager
    async def watch(self, path: str, silence_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """A watch in which nothing happens."""
        await trio.sleep_forever()
        yield aiter(())  # type: ignore[call-overload]


class _Answer(Wire):
    """Keeps an answer."""

    def __init__(self) -> None:
        self.status = 0
        self.answer: Body | str = ""

    async def send(self, status: int, answer: Body | str) -> None:
        self.status, self.answer = status, answer


def open_api(url: str, token: str = "yk") -> AbstractAsyncContextManager[Api]:
    """The API of a server without TLS; loading the authorities of this machine would take longer than many a test."""
    return Api.open(Credentials(url, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), lambda: token, ""))


def process(
    rng: random.Random | None = None,
    now: Callable[[], datetime] = lambda: datetime(2030, 1, 1, tzinfo=UTC),
    warn: Callable[[str], None] = lambda _: None,
) -> Process:
    """A process of which only warnings may be read."""
    return Process(identity="one", now=now, say=lambda _: None, warn=warn, rng=rng or random.Random(0))
