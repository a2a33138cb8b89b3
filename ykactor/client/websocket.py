"""The client's end of a websocket: `wsproto` reads and makes its frames."""

from contextlib import suppress
from typing import Any

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream, Event, create_task_group
from anyio.abc import ByteStream
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Message,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason

from ykactor.client.channel import Channel
from ykactor.client.errors import Disconnected, SessionReplaced

#: The largest message: a snapshot is a single message, and that of a large cluster is large.
MESSAGE_BYTES_MAX = 2**28
#: The number of unread messages after which no more are received, and TCP back pressure stops the daemon.
WAITING_MAX = 10_000
#: The number of frames that are sent together, while those before them are sent.
UNSENT_MAX = 16
#: The length of the text of a refusal, which is a sentence.
_REFUSAL_BYTES_MAX = 2**12
#: The daemon's codes for a session whose place another one has taken, or is to take: an operator has ended the registration.
_REPLACED = (4001, 4006)
_NAMES = {int(code): code.name for code in CloseReason}
_BROKEN = (EndOfStream, BrokenResourceError, ClosedResourceError, OSError)


class NoWebSocket(Exception):  # an answer
    """The answer to a request for a websocket, if it is not one: its status and its text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}".rstrip())
        self.status = status
        self.text = text


async def open_websocket(stream: ByteStream, request: Request) -> "WebSocket":
    """Ask for a websocket.

    Raises
    ------
    NoWebSocket
        The answer is another one.
    ConnectionResetError
        There was no answer.
    """
    protocol = WSConnection(ConnectionType.CLIENT)
    await stream.send(protocol.send(request))
    status, body, is_whole = 0, b"", False
    while True:
        for event in protocol.events():
            match event:
                case AcceptConnection():
                    return WebSocket(stream, protocol, event)
                case RejectConnection(status_code=status, has_body=has_body):
                    is_whole = not has_body
                case RejectData(data=data, body_finished=is_whole):
                    body += data
        if is_whole or len(body) > _REFUSAL_BYTES_MAX:
            raise NoWebSocket(status, body.decode(errors="replace"))
        try:
            received = await stream.receive()
        except (EndOfStream, BrokenResourceError):
            raise ConnectionResetError("the connection was closed during the handshake") from None
        protocol.receive_data(received)


class WebSocket:
    """An open websocket, while ``run`` runs, which answers pings and keeps messages until they are taken.

    Attributes
    ----------
    subprotocol : str or None
        The one that the daemon has chosen.
    headers : dict of bytes
        Those of its answer that are not of the protocol.
    """

    def __init__(self, stream: ByteStream, protocol: WSConnection, accepted: AcceptConnection) -> None:
        self.subprotocol = accepted.subprotocol
        self.headers = dict(accepted.extra_headers)
        self._stream = stream
        self._protocol = protocol
        self._incoming = Channel[str | bytes](WAITING_MAX)
        #: Frames. A task of its own sends them, so that a message is sent whole also if its sender is cancelled.
        self._outgoing = Channel[bytes](UNSENT_MAX)
        self._is_over = Event()
        #: Why nothing more can be sent.
        self._ended: Disconnected | None = None
        #: What has come of a message of several parts, and its size.
        self._parts: list[str | bytes] = []
        self._size = 0

    async def send_message(self, message: str | bytes) -> None:
        """Send a message; raises `Disconnected`."""
        if self._ended is not None:
            raise self._ended
        sent = TextMessage(data=message) if isinstance(message, str) else BytesMessage(data=message)
        await self._outgoing.put(self._protocol.send(sent))

    async def get_message(self) -> str | bytes:
        """Wait for the next message. Raises `Disconnected`."""
        return await self._incoming.take()

    async def aclose(self) -> None:
        """Send a close frame, unless the connection is being closed already, and wait for the end of the connection."""
        self._ended = self._ended or Disconnected("the session is closed")
        self._incoming.close(self._ended)
        if self._protocol.state is ConnectionState.OPEN:
            with suppress(Disconnected):
                await self._outgoing.put(self._protocol.send(CloseConnection(code=CloseReason.NORMAL_CLOSURE)))
        self._end(self._ended)
        await self._is_over.wait()

    async def run(self) -> None:
        """Send and receive until the connection ends."""
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(self._write)
                try:
                    await self._read()
                    while True:  # the daemon closes first, when it has noted the end
                        await self._stream.receive()
                except Disconnected as error:
                    self._end(error)
                except _BROKEN:
                    self._end(_lost())
        finally:
            self._end(Disconnected("the session is closed"))
            self._is_over.set()

    def _end(self, error: Disconnected) -> None:
        self._ended = self._ended or error
        self._incoming.close(self._ended)
        self._outgoing.close(self._ended)

    async def _write(self) -> None:
        with suppress(Disconnected):
            try:
                while True:
                    await self._stream.send(b"".join(await self._outgoing.take_all()))
            except _BROKEN:
                self._outgoing.close(self._ended or _lost())

    async def _read(self) -> None:
        while True:
            for event in self._protocol.events():
                match event:
                    case Message():
                        await self._receive(event)
                    case Ping() if self._protocol.state is ConnectionState.OPEN:
                        await self._outgoing.put(self._protocol.send(event.response()))
                    case CloseConnection():
                        await self._on_close(event)
                        return
            self._protocol.receive_data(await self._stream.receive())

    async def _receive(self, event: Message[Any]) -> None:
        self._size += len(event.data)
        self._parts.append(event.data)
        if self._size > MESSAGE_BYTES_MAX:
            if self._protocol.state is ConnectionState.OPEN:
                await self._outgoing.put(self._protocol.send(CloseConnection(code=CloseReason.MESSAGE_TOO_BIG)))
            raise Disconnected(f"a message has more than {MESSAGE_BYTES_MAX} bytes", CloseReason.MESSAGE_TOO_BIG)
        if event.message_finished:
            whole = ("" if isinstance(event, TextMessage) else b"").join(self._parts)  # type: ignore[arg-type]
            self._parts, self._size = [], 0
            with suppress(Disconnected):  # it is closed here, and the close frame of the daemon is waited for
                await self._incoming.put(whole)

    async def _on_close(self, event: CloseConnection) -> None:
        """Answer the close frame of the daemon; what is no frame at all gets no answer."""
        reason = event.reason or ""
        failure = SessionReplaced if event.code in _REPLACED else Disconnected
        sentence = f"the connection was closed: {event.code} {reason or _NAMES.get(event.code, '')}".rstrip()
        self._ended = self._ended or failure(sentence, event.code, reason)
        if self._protocol.state is ConnectionState.REMOTE_CLOSING:
            await self._outgoing.put(self._protocol.send(event.response()))
        self._end(self._ended)


def _lost() -> Disconnected:
    sentence = "the connection was lost without a reason: the daemon was killed, or the network failed"
    return Disconnected(sentence, CloseReason.ABNORMAL_CLOSURE)
