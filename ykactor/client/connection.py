"""Connections to the daemon."""

import errno
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import cast
from urllib.parse import SplitResult, urlsplit

import h11
import trio
from msgspec import Struct
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection
from wsproto import ConnectionType

from ykactor.client.addresses import split_addresses
from ykactor.client.errors import Disconnected, RequestRefused, SessionReplaced
from ykactor.client.login import Login, tls_context
from ykactor.wire.compression import Deflate, ExtensibleConnection
from ykactor.wire.seals import DamagedError, Seal
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, MSGPACK, TERM_HEADER, Encoding
from ykactor.wire.sockets import UNIX, is_loopback, unix_path

#: Called when the daemon cannot write its journal, and when it can again.
OnJournal = Callable[[si.JournalStatus], object]

#: Time limits for opening a connection, and for its closing handshake.
CONNECT_S = 10.0
CLOSE_S = 2.0
#: A daemon sends a ping every 30 s, or every 60 s while it does not read. When nothing has come for so long, its machine or the
#: network is gone, or its process stands still, and nothing else would tell who only reads.
SILENT_S = 90.0
#: The largest message: a snapshot is a single message, and that of a large cluster is large.
MESSAGE_BYTES_MAX = 2**28
#: The number of unread messages after which no more are received, and TCP back pressure stops the daemon; and their bytes, but
#: for one message.
WAITING_MAX, WAITING_BYTES_MAX = 10_000, 2**26
_LIMITS = {"max_message_size": MESSAGE_BYTES_MAX, "receive_buffer_size": 2**16}

#: The codes of refusals that trying again does not change, by the HTTP status.
_REFUSED = {401: "NOT_AUTHENTICATED", 403: "NOT_PERMITTED"}
#: The status of a server that has no such path, as the REST API of a daemon.
_NOT_FOUND = 404
_WHERE = "is this the address of serve --ws?"
#: The library's code for a connection that ended without a close frame.
_NO_CLOSE_FRAME = 1006
#: The daemon's codes for a session whose place another one has taken, or is to take: an operator has ended the registration.
_REPLACED = (4001, 4006)


class Connection(WebSocketConnection):
    """A connection to the daemon.

    Attributes
    ----------
    url : str
        The address that has answered, if there were several.
    """

    url = ""


@asynccontextmanager
async def open_connection(
    url: str,
    path: str,
    *,
    login: Login | None = None,
    subprotocols: Sequence[str] = (),
    compresses: bool = False,
) -> AsyncIterator[Connection]:
    """Open a connection to the daemon, which is closed at the end.

    Parameters
    ----------
    url : str
        ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``, or several with commas between: the first that answers.
    path : str
        ``/v1/rm``, ``/v1/feed``, ``/v1/operator``, ``/v1/turns``, ``/v1/journal`` or ``/v1/bases``.
    login
        Who this is.
    subprotocols
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
    lost = list[Disconnected]()
    async with AsyncExitStack() as stack:
        for each in split_addresses(url):
            try:
                connection = await stack.enter_async_context(_opened(each, path, login or Login(), subprotocols, compresses))
            except Disconnected as failure:
                lost.append(failure)
            else:
                break
        else:
            raise _of_all(url, lost)
        yield connection


@asynccontextmanager
async def _opened(url: str, path: str, login: Login, subprotocols: Sequence[str], compresses: bool) -> AsyncIterator[Connection]:
    """A connection to one address, as of ``open_connection``."""
    failure: BaseException | None = None
    try:
        # The library leaves the socket open if the other side closes first, so the stream is opened and closed here.
        with trio.fail_after(CONNECT_S):
            stream = await open_stream(url, login)
        async with stream, trio.open_nursery() as nursery:
            extensions = [Deflate(MESSAGE_BYTES_MAX)] if compresses else []
            connection = Connection(
                cast("trio.SocketStream", trio.StapledStream(_Whole(stream), _Timed(stream))),
                ExtensibleConnection(ConnectionType.CLIENT, *extensions),
                host=host_of(url),
                path=path,
                client_subprotocols=subprotocols,
                client_extra_headers=login.headers,
                message_queue_size=WAITING_MAX,
                **_LIMITS,
            )
            unread = _Unread(connection._send_channel, connection._recv_channel)
            connection._send_channel, connection._recv_channel = unread, _Taken(unread)  # type: ignore[assignment]
            connection.url = url
            with trio.fail_after(CONNECT_S):
                nursery.start_soon(_read, connection)
                await connection._open_handshake.wait()
            try:
                yield connection
            except (Exception, SystemExit) as error:  # raised below, outside the exception group of the nursery
                failure = error
            with trio.move_on_after(CLOSE_S):
                await connection.aclose()
            nursery.cancel_scope.cancel()
    except* (OSError, trio.TooSlowError, ConnectionRejected, ConnectionClosed) as errors:
        failure = failure or _failure(url, errors)
    if failure is not None:
        raise failure


class _Whole(trio.abc.SendStream):
    """A send stream that ends when something was not sent whole, because who sent it was cancelled: nothing can follow that."""

    def __init__(self, stream: trio.abc.SendStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()  # nothing of it is sent
        try:
            await self._stream.send_all(data)
        except (trio.Cancelled, KeyboardInterrupt):
            await trio.aclose_forcefully(self._stream)
            raise

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Timed(trio.abc.ReceiveStream):
    """A receive stream that is broken when nothing comes for `SILENT_S`."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        with trio.move_on_after(SILENT_S):
            return await self._stream.receive_some(max_bytes)
        raise trio.BrokenResourceError(f"nothing came for {SILENT_S:g} s")

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Unread(trio.abc.SendChannel[str | bytes]):
    """The messages that wait to be read. To add one is no checkpoint while there is room: many may have come at once.

    Attributes:
        taken: where they are read from, by ``_Taken``.
    """

    def __init__(self, channel: trio.MemorySendChannel[str | bytes], taken: trio.MemoryReceiveChannel[str | bytes]) -> None:
        self.taken = taken
        self._channel = channel
        self._bytes = 0
        #: Whether they are read no more: then the channel refuses another one.
        self._is_over = False
        self._has_room = trio.lowlevel.ParkingLot()

    async def send(self, value: str | bytes) -> None:
        while self._bytes > WAITING_BYTES_MAX and not self._is_over:
            await self._has_room.park()
        self._bytes += len(value)
        try:
            self._channel.send_nowait(value)
        except trio.WouldBlock:
            await self._channel.send(value)

    def take(self, value: str | bytes) -> str | bytes:
        """Note that a message was read."""
        self._bytes -= len(value)
        self._has_room.unpark_all()
        return value

    def end(self) -> None:
        """Note that no message is read any more."""
        self._is_over = True
        self._has_room.unpark_all()

    async def aclose(self) -> None:
        await self._channel.aclose()


class _Taken(trio.abc.ReceiveChannel[str | bytes]):
    """The other end of ``_Unread``."""

    def __init__(self, unread: _Unread) -> None:
        self._unread = unread

    async def receive(self) -> str | bytes:
        return self._unread.take(await self._unread.taken.receive())

    def receive_nowait(self) -> str | bytes:
        """The next message; raises as that of trio."""
        return self._unread.take(self._unread.taken.receive_nowait())

    async def aclose(self) -> None:
        self._unread.end()
        await self._unread.taken.aclose()


async def _read(connection: WebSocketConnection) -> None:
    """Read until the connection ends; during the handshake its end is an error, for which the library would wait for ever."""
    try:
        await connection._reader_task()
    except h11.LocalProtocolError:  # the library wants to refuse the answer, which only a server can
        raise OSError(errno.EPROTO, f"the answer opens no websocket: {_WHERE}") from None
    if not connection._open_handshake.is_set():
        raise ConnectionResetError("the connection was closed during the handshake")


def is_refused(failure: Disconnected) -> bool:
    """True if nothing listens on the address (yet)."""
    return failure.__cause__ is not None and _is_refusal(failure.__cause__)


def _is_refusal(cause: BaseException) -> bool:
    if isinstance(cause, ConnectionRefusedError | FileNotFoundError):  # of a Unix socket
        return True
    attempts = cause.__cause__
    return isinstance(attempts, ExceptionGroup) and attempts.subgroup(ConnectionRefusedError) is not None


def _failure(url: str, errors: BaseExceptionGroup[Exception]) -> Disconnected | RequestRefused:
    """The reason for which there is no connection, with the first exception of a group as its cause."""
    cause: BaseException = errors
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    match cause:
        case ConnectionRejected(status_code=status, body=body):
            text = (body or b"").decode(errors="replace").strip()
            if status in _REFUSED:
                refused = RequestRefused(_REFUSED[status], f"{url}: {text or _unexplained(status)}")
                refused.__cause__ = cause
                return refused
            reason = f"the server replied {status} {text}".rstrip()
            if status == _NOT_FOUND:
                reason = f"a web server is there, and no websocket of a daemon: {_WHERE} That of serve --http is for browsers"
        case trio.TooSlowError():
            reason = f"no response within {CONNECT_S:g} s"
        case _ if _is_refusal(cause):
            reason = f"nothing listens there, start a daemon with ykactor serve --ws {listening_on(url)}"
        case OSError(strerror=str(sentence)):
            reason = sentence
        case ConnectionResetError() if url.startswith("ws:"):
            reason = f"{cause}; a daemon with TLS is at wss://"
        case _:
            reason = str(cause) or type(cause).__name__
    disconnected = Disconnected(f"{url}: {reason}")
    disconnected.__cause__ = cause
    return disconnected


def _of_all(url: str, lost: list[Disconnected]) -> Disconnected:
    """The reason for which there is no connection to any of these addresses."""
    if len(lost) == 1:
        return lost[0]
    if all(failure.__cause__ is not None and _is_refusal(failure.__cause__) for failure in lost):
        return Disconnected(f"{url}: nothing listens at any of these addresses")
    return Disconnected("; ".join(map(str, lost)))


def _unexplained(status: int) -> str:
    return f"the server replied {status} without a reason: {_WHERE}"


def term_of(connection: WebSocketConnection) -> str:
    """The term of the daemon at the other end, as the handshake tells it; "" if the daemon, or a proxy, does not tell it."""
    return dict(connection.handshake_headers).get(TERM_HEADER, b"").decode(errors="replace")


@asynccontextmanager
async def alongside(*functions: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Runs functions beside the body, and cancels them when it ends. Its exception is raised as it is, in no exception group."""
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        for function in functions:
            nursery.start_soon(function)
        try:
            yield
        except (Exception, SystemExit) as error:  # raised below, outside the exception group of the nursery
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class MessageStream:
    """Sends and receives messages over a connection, in one encoding."""

    def __init__(self, connection: WebSocketConnection, encoding: Encoding) -> None:
        self._connection = connection
        self._encoding = encoding

    async def send(self, message: Struct) -> None:
        await self.send_encoded(self._encoding.encode(message))

    async def send_encoded(self, data: bytes) -> None:
        try:
            await self._connection.send_message(data.decode() if self._encoding is JSON else data)
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def receive(self) -> str | bytes:
        try:
            return await self._connection.get_message()
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def receive_response(self) -> si.Response:
        """The next message to a resource manager or an operator."""
        return self._encoding.decode_response(await self.receive())

    async def receive_feed(self) -> si.FeedMessage:
        """The next message of the event feed. Raises `RequestRefused` if the daemon refuses what was sent."""
        message = self._encoding.decode_feed(await self.receive())
        if isinstance(message, si.ErrorResponse):
            raise RequestRefused(message.code, message.message, message.path)
        return message


class SealedStream:
    """Sends and receives sealed messages (``wire.seals``) over a connection, which ends with one that is damaged."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection
        self._stream = MessageStream(connection, MSGPACK)
        self._sent, self._received = Seal(), Seal()
        self._sending = trio.Lock()

    async def send(self, data: bytes) -> None:
        async with self._sending:
            await self._stream.send_encoded(self._sent.close(data))

    async def receive(self) -> bytes:
        return self._opened(await self._stream.receive())

    async def receive_all(self, size: int) -> list[bytes]:
        """Wait for a message, and take those that have come after it, until they have ``size`` bytes together."""
        messages = [await self.receive()]
        left = size - len(messages[0])
        with suppress(trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
            while left > 0:
                messages.append(self._opened(self._connection._recv_channel.receive_nowait()))
                left -= len(messages[-1])
        return messages

    def _opened(self, sealed: str | bytes) -> bytes:
        try:
            return self._received.open(sealed)
        except DamagedError as error:
            raise Disconnected(f"found a message that cannot be read: {error}") from None


@asynccontextmanager
async def open_feed(
    url: str, login: Login, encoding: Encoding = JSON, check: Callable[[str], object] = lambda _: None
) -> AsyncIterator[MessageStream]:
    """A connection to the event feed of a daemon, opened as by `open_connection`; ``check`` may refuse its term."""
    async with open_connection(url, "/v1/feed", login=login, subprotocols=[encoding.name], compresses=True) as connection:
        check(term_of(connection))
        yield MessageStream(connection, encoding)


def _closed(closed: ConnectionClosed) -> Disconnected:
    reason = closed.reason
    if reason is None:
        return Disconnected("the connection is closed")
    if reason.code == _NO_CLOSE_FRAME:
        why = "the daemon was killed or stands still, or the network failed"
        return Disconnected(f"the connection was lost without a reason: {why}")
    failure = SessionReplaced if reason.code in _REPLACED else Disconnected
    return failure(f"the connection was closed: {reason.code} {reason.reason or reason.name}")


def encoding_named(name: str) -> Encoding:
    """``json`` or ``msgpack``; ``ValueError`` for anything else."""
    subprotocol = f"ykactor.v1.{name}"
    if subprotocol not in ENCODINGS:
        raise ValueError(f"found {name!r}, expected json or msgpack")
    return ENCODINGS[subprotocol]


DEFAULT_PORTS = {"ws": 80, "wss": 443}
#: The codes of X.509 for a certificate, or a chain, of an authority that is not trusted.
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def check_url(url: str) -> None:
    """ValueError unless it is ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``, or several with commas between them."""
    for address in split_addresses(url):
        if address.startswith(UNIX):
            unix_path(address)
        else:
            _parts(address)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or too large
        is_valid = False
    if not is_valid:
        hint = "; http:// is for browsers and the REST API" if url.startswith(("http:", "https:")) else ""
        raise ValueError(f"found {url!r}, expected ws://HOST:PORT, wss://HOST:PORT or unix:PATH{hint}")
    return parts


def host_of(url: str) -> str:
    """The value of the header ``Host``."""
    return "localhost" if url.startswith(UNIX) else urlsplit(url).netloc.rpartition("@")[2]


def listening_on(url: str) -> str:
    """The value of ``serve --ws`` for this URL."""
    return url if url.startswith(UNIX) else host_of(url)


async def open_stream(url: str, login: Login) -> Stream:
    """Connect, and with TLS verify the daemon.

    Raises
    ------
    Disconnected
        The daemon is not verified, or the token would be sent for others to read.
    OSError
        Nobody is there.
    ValueError
        The URL is not valid, or has no TLS although there are settings for it.
    """
    if login.tls is not None and not url.startswith("wss:"):
        raise ValueError(f"found tls with {url}, expected wss://: without TLS it has no effect")
    if url.startswith(UNIX):
        return await trio.open_unix_socket(unix_path(url))
    parts = _parts(url)
    host = parts.hostname or ""
    tcp = await trio.open_tcp_stream(host, parts.port or DEFAULT_PORTS[parts.scheme])
    try:
        if parts.scheme == "wss":
            return await _with_tls(tcp, url, host, login.tls or tls_context())
        # What counts is where the connection has led to: a name can lead anywhere.
        if login.token and not login.insecure and not is_loopback(tcp.socket.getpeername()[0]):
            raise Disconnected(
                f"{url}: the token is not sent without TLS to another machine: use wss://, or allow it with --insecure"
            )
        return tcp
    except BaseException:
        await trio.aclose_forcefully(tcp)
        raise


async def _with_tls(tcp: trio.SocketStream, url: str, host: str, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    stream = trio.SSLStream(tcp, context, server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        match error.__cause__:
            case ssl.SSLCertVerificationError(verify_code=code, verify_message=message):
                reason = f"the certificate of the daemon is refused: {message}"
                if code in _UNKNOWN_AUTHORITY:
                    reason += "; --tls-ca names the authorities to trust"
            case ssl.SSLError(reason=str(name)):
                reason = f"there is no TLS: {name.lower().replace('_', ' ')}"
            case _:
                reason = "the connection was closed during the handshake of TLS"
        raise Disconnected(f"{url}: {reason}") from error
    return stream
