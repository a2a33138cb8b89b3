"""Answers and refusals on their way to the client: pages with their headers, compressed, and sent in parts."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import trio
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ykactor.actors.clock import worked_s
from ykactor.surfaces.http.load import Sending
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import PART_BYTES, encode

JSON, TEXT = "application/json; charset=UTF-8", "text/plain; charset=utf-8"
#: Headers of an answer that is short, of one that could be compressed, and of one that is.
_SHORT: tuple[tuple[str, str], ...] = ()
PLAIN = (("Vary", "Accept-Encoding"),)
ZIPPED = (*PLAIN, ("Content-Encoding", "gzip"))
#: The headers of requests and answers that name turns and their term (``turns``).
TURN, TERM = "Ykactor-Turn", "Ykactor-Term"
#: The header of a list that has not all items: a sentence.
LEFT_OUT = "Ykactor-Left-Out"
_ALLOWED_HEADERS = f"X-Requested-With,Content-Type,Accept,Origin,Authorization,{TURN},{TERM}"
#: Sends a part of a body.
Write = Callable[[bytes | memoryview], Awaitable[None]]


#: How long a page is shown, unless it says otherwise.
FRESH_S = 0.1
#: Smaller pages are not compressed.
GZIP_BYTES_MIN = 1400
_GZIP_LEVEL = 1
#: So many bytes take less time to compress, 0.5 ms, than a thread takes from this one.
_INLINE_BYTES = 2**16
#: The format of gzip, with the largest window.
_GZIP_WBITS = 31


class Page(Struct, eq=False):
    """An answer.

    Attributes:
        status: of HTTP.
        parts: of the body, in order: a large one is never in one piece, which would take long to make.
        took_s: how long it took to make it, without waiting for others; also to compress it, if somebody wants that.
        charge: is told how long it took to compress it; None: nobody is.
        turn: the number of the last turn of its partition before.
        made_s: when it was made, of trio's clock.
        fresh_s: how long it is shown from then on.
        left_out: how many older items a list does not have.
    """

    status: int
    parts: list[bytes]
    took_s: float = 0.0
    turn: int = 0
    made_s: float = 0.0
    fresh_s: float = FRESH_S
    left_out: int = 0
    charge: Callable[[float], None] | None = None
    _zipped: list[bytes] | None = None
    _zipping: trio.Lock = field(default_factory=trio.Lock)

    async def zipped(self) -> list[bytes]:
        """The body, compressed once for all who ask; in a thread if it is long, as it may have many megabytes."""
        async with self._zipping:
            if self._zipped is None:
                if self.length <= _INLINE_BYTES:
                    zipped, took_s = _zipped(self.parts)
                else:
                    zipped, took_s = await trio.to_thread.run_sync(_zipped, self.parts)
                self._zipped = zipped
                self.took_s += took_s
                if self.charge is not None:
                    self.charge(took_s)
            return self._zipped

    @property
    def is_fresh(self) -> bool:
        """True if it may be shown."""
        return self.age_s < self.fresh_s

    @property
    def age_s(self) -> float:
        """The seconds since it was made."""
        return trio.current_time() - self.made_s

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return sum(map(len, self.parts))

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return self.length + sum(map(len, self._zipped or ()))


def _zipped(parts: list[bytes]) -> tuple[list[bytes], float]:
    since_s, compressor = worked_s(), zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WBITS)
    zipped = b"".join([*map(compressor.compress, parts), compressor.flush()])  # as few pieces as it can be sent in
    return [zipped], worked_s() - since_s


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
    holder: str = scope["state"]["connection"].slot.holder
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


async def reply_unless_known(request: Request, page: Page, media_type: str, headers: Mapping[str, str], tag: str) -> Response:
    """The same with a tag of the content; 304 without the page if the client has it already.

    Raises:
        RefusedError: too much is being sent.
    """
    headers = {**headers, "ETag": tag}
    if (known := request.headers.get("if-none-match")) and known.removeprefix("W/") == tag.removeprefix("W/"):
        return Response(status_code=304, headers=headers | dict(PLAIN))
    return await reply(request, page, media_type, headers)


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
        "Access-Control-Expose-Headers": f"{TURN},{TERM},{LEFT_OUT}",
    }


# ---- the headers of requests and answers as ASGI has them: bytes, and names in lower case

Headers = Sequence[tuple[bytes, bytes]]


def value_of(request: Request, name: bytes) -> str | None:
    """The first header of a name; None if there is none."""
    for found, value in request.scope["headers"]:
        if found == name:
            return str(value, "latin-1")
    return None


def accepts_gzip(request: Request) -> bool:
    """True if ``Accept-Encoding`` lists ``gzip``, and not with the weight 0."""
    return _lists_gzip(b",".join([value for name, value in request.scope["headers"] if name == b"accept-encoding"]))


@lru_cache(maxsize=16)
def _lists_gzip(encodings: bytes) -> bool:
    for item in encodings.lower().split(b","):
        name, *parameters = (part.strip() for part in item.split(b";"))
        if name == b"gzip":
            return not any(_is_zero(parameter) for parameter in parameters)
    return False


def _is_zero(parameter: bytes) -> bool:
    name, _, value = parameter.partition(b"=")
    return name.strip() == b"q" and value.strip().strip(b"0") in (b"", b".")


@lru_cache(maxsize=100)
def encoded(*headers: tuple[str, str]) -> Headers:
    """Headers of an answer; most answers have those of others."""
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers)
