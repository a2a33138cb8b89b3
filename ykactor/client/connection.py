"""Connections to the daemon."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from anyio import aclose_forcefully, create_task_group, fail_after, move_on_after
from msgspec import Struct
from wsproto.events import Request
from wsproto.utilities import RemoteProtocolError

from ykactor.client.errors import Disconnected, RequestRefused
from ykactor.client.login import Login
from ykactor.client.streams import host_of, listening_on, open_stream
from ykactor.client.websocket import MESSAGE_BYTES_MAX, NoWebSocket, WebSocket, open_websocket
from ykactor.wire.compression import Deflate
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, TERM_HEADER, Encoding

#: Called when the daemon cannot write its journal, and when it can again.
OnJournal = Callable[[si.JournalStatus], object]

#: Time limits for opening a connection, and for its closing handshake.
CONNECT_S = 10.0
CLOSE_S = 2.0
#: The codes of refusals that trying again does not change, by the HTTP status.
_REFUSED = {401: "NOT_AUTHENTICATED", 403: "NOT_PERMITTED"}


@asynccontextmanager
async def open_connection(
    url: str,
    path: str,
    *,
    login: Login | None = None,
    subprotocols: Sequence[str] = (),
    headers: Sequence[tuple[bytes, bytes]] = (),
    compresses: bool = False,
) -> AsyncIterator[WebSocket]:
    """Open a connection to the daemon, which is closed at the end.

    Parameters
    ----------
    url : str
        ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``.
    path : str
        ``/v1/rm``, ``/v1/feed`` or ``/v1/operator``.
    login
        Who this is.
    subprotocols, headers
        Of the handshake.
    compresses : bool
        Whether the daemon may compress its messages.

    Raises
    ------
    Disconnected
        The connection could not be opened; ``__cause__`` has the reason.
    RequestRefused
        ``NOT_AUTHENTICATED``: the daemon does not know who this is. ``NOT_PERMITTED``: it does not let this one in.
    ValueError
        The URL is not valid, or has no TLS although there are settings for it.
    """
    shown = login or Login()
    request = Request(
        host=host_of(url),
        target=path,
        subprotocols=list(subprotocols),
        extra_headers=[*headers, *shown.headers],
        extensions=[Deflate(MESSAGE_BYTES_MAX)] if compresses else [],
    )
    try:
        with fail_after(CONNECT_S):
            stream = await open_stream(url, shown)
            try:
                connection = await open_websocket(stream, request)
            except BaseException:
                await aclose_forcefully(stream)
                raise
    except (OSError, NoWebSocket, RemoteProtocolError) as error:
        raise _failure(url, error) from error
    async with stream, alongside(connection.run):
        try:
            yield connection
        finally:
            with move_on_after(CLOSE_S):
                await connection.aclose()


def is_refused(failure: Disconnected) -> bool:
    """True if nothing listens on the address (yet)."""
    return failure.__cause__ is not None and _is_refusal(failure.__cause__)


def _is_refusal(cause: BaseException) -> bool:
    if isinstance(cause, ConnectionRefusedError | FileNotFoundError):  # of a Unix socket
        return True
    attempts = cause.__cause__
    tried = attempts.exceptions if isinstance(attempts, ExceptionGroup) else [attempts]
    return any(isinstance(error, ConnectionRefusedError) for error in tried)


def _failure(url: str, cause: Exception) -> Disconnected | RequestRefused:
    """The reason for which there is no connection."""
    match cause:
        case NoWebSocket(status=status, text=text) if status in _REFUSED:
            return RequestRefused(_REFUSED[status], f"{url}: {text.strip() or _unexplained(status)}")
        case NoWebSocket():
            reason = f"the server replied {cause}"
        case TimeoutError(errno=None):
            reason = f"no response within {CONNECT_S:g} s"
        case _ if _is_refusal(cause):
            reason = f"nothing listens there, start a daemon with ykactor serve --ws {listening_on(url)}"
        case OSError(strerror=str(sentence)) | OSError(__cause__=OSError(strerror=str(sentence))):
            reason = sentence
        case ConnectionResetError() if url.startswith("ws:"):
            reason = f"{cause}; a daemon with TLS is at wss://"
        case _:
            reason = str(cause) or type(cause).__name__
    return Disconnected(f"{url}: {reason}")


def _unexplained(status: int) -> str:
    return f"the server replied {status} without a reason: is this the address of serve --ws?"


def term_of(connection: WebSocket) -> str:
    """The term of the daemon at the other end, as the handshake tells it; "" if the daemon, or a proxy, does not tell it."""
    return connection.headers.get(TERM_HEADER, b"").decode(errors="replace")


@asynccontextmanager
async def alongside(*functions: Callable[[], Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Runs functions beside the body, and cancels them when it ends. Its exception is raised as it is, in no exception group."""
    failure: Exception | None = None
    async with create_task_group() as tasks:
        for function in functions:
            tasks.start_soon(function)
        try:
            yield
        except Exception as error:  # raised below, outside the exception group of the tasks
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class MessageStream:
    """Sends and receives messages over a connection, in one encoding."""

    def __init__(self, connection: WebSocket, encoding: Encoding) -> None:
        self._connection = connection
        self._encoding = encoding

    async def send(self, message: Struct) -> None:
        await self.send_encoded(self._encoding.encode(message))

    async def send_encoded(self, data: bytes) -> None:
        await self._connection.send_message(data.decode() if self._encoding is JSON else data)

    async def receive(self) -> str | bytes:
        return await self._connection.get_message()


def encoding_named(name: str) -> Encoding:
    """``json`` or ``msgpack``; ``ValueError`` for anything else."""
    subprotocol = f"ykactor.v1.{name}"
    if subprotocol not in ENCODINGS:
        raise ValueError(f"found {name!r}, expected json or msgpack")
    return ENCODINGS[subprotocol]


#: The first and the longest pause before the next attempt; the actual pause is random, at least half of it.
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0
#: After a session that has lasted so long, the next attempt to connect is like the first one. Whatever ends sessions at once,
#: such as a daemon that dies of what it is told, is tried less and less often.
LASTING_S = 10.0


def pause_s(attempt: int, rng: random.Random) -> float:
    """Seconds before the next attempt, when ``attempt`` attempts in a row have led to nothing."""
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempt, 16)) * rng.uniform(0.5, 1)
