"""Answers and refusals on their way to the client: headers, compression, and bodies in parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ykactor.surfaces.http.headers import Headers, accepts_gzip, encoded
from ykactor.surfaces.http.pages import GZIP_BYTES_MIN, Page
from ykactor.surfaces.http.sending import Sending
from ykactor.surfaces.net.refusals import RefusedError
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import PART_BYTES, encode

JSON, TEXT = "application/json; charset=UTF-8", "text/plain; charset=utf-8"
#: Headers of an answer that is short, of one that could be compressed, and of one that is.
_SHORT: tuple[tuple[str, str], ...] = ()
PLAIN = (("Vary", "Accept-Encoding"),)
ZIPPED = (*PLAIN, ("Content-Encoding", "gzip"))
_ALLOWED_HEADERS = "X-Requested-With,Content-Type,Accept,Origin,Authorization"
#: Sends a part of a body.
Write = Callable[[bytes | memoryview], Awaitable[None]]


def error_page(status: int, message: str) -> Page:
    """The body of the answer to a request that is refused."""
    return Page(status, [encode(types.Error(status_code=status, message=message, description=message))])


class InParts(Response):
    """A response whose body is sent in parts, so that a large one holds up nobody.

    Args:
        headers: as they are sent: the base would make them anew for each answer.
    """

    def __init__(self, parts: list[bytes], status: int, headers: Headers) -> None:
        self.status_code = status
        self.raw_headers = [*headers, (b"content-length", b"%d" % sum(map(len, parts)))]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sent = pieces(self._parts) or [b""]
        with sending_of(scope).kept(holder_of(scope), self._parts):
            for number, piece in enumerate(sent, 1):
                await send({"type": "http.response.body", "body": piece, "more_body": number < len(sent)})


def sending_of(scope: Scope) -> Sending:
    """The sender of large answers on the connection of a request."""
    sending: Sending = scope["state"]["sending"]
    return sending


def holder_of(scope: Scope) -> str:
    """The name of the identity whose slot the connection of a request has."""
    holder: str = scope["state"]["admission"].holder
    return holder


def pieces(parts: Iterable[bytes]) -> list[bytes | memoryview]:
    """The parts of a body, of which large ones are cut, without a copy: many may be sending the same."""
    found: list[bytes | memoryview] = []
    for part in filter(None, parts):
        if len(part) <= 2 * PART_BYTES:
            found.append(part)
        else:
            whole = memoryview(part)
            found += [whole[start : start + PART_BYTES] for start in range(0, len(part), PART_BYTES)]
    return found


class Streamed(Response):
    """A response that ``produce`` writes, until it returns or the client has gone.

    Args:
        take: takes the slot of the response, from when it begins until its end.
    """

    def __init__(
        self,
        produce: Callable[[Write], Awaitable[None]],
        headers: dict[str, str],
        take: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._produce = produce
        self._take = take

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""

        async def write(part: bytes | memoryview) -> None:
            await send({"type": "http.response.body", "body": part, "more_body": True})

        with self._take():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            is_whole = False
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
                if scope["method"] != "HEAD":
                    await self._produce(write)
                is_whole = True
                nursery.cancel_scope.cancel()
            if is_whole:  # else the connection ends
                await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive, sending: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()


async def reply(request: Request, page: Page, media_type: str = JSON, headers: Mapping[str, str] | None = None) -> Response:
    """A page as an answer, compressed if the client takes it so.

    Raises:
        RefusedError: too much is being sent.
    """
    parts, encoding = page.parts, _SHORT
    if page.length >= GZIP_BYTES_MIN:
        encoding = PLAIN
        if accepts_gzip(request):
            parts, encoding = await page.zipped(), ZIPPED
    if not sending_of(request.scope).has_room(holder_of(request.scope), parts):
        raise RefusedError(503, "many large answers are being sent, ask again in a few seconds", {"Retry-After": "5"})
    shown = {**cors(allowed_methods(request)), **(headers or {})}
    return InParts(parts, page.status, encoded(("Content-Type", media_type), *shown.items(), *encoding))


def with_query(target: str, request: Request) -> str:
    """A path with the query of the request, for a redirection."""
    return f"{target}?{request.url.query}" if request.url.query else target


def allowed_methods(request: Request) -> str:
    """The methods of the route that is asked for."""
    methods: str = request.scope.get("allowed methods", "GET, OPTIONS")
    return methods


def cors(methods: str) -> dict[str, str]:
    """Web pages of every host may read the answer: those that must not get none (SE-89)."""
    return {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
    }
