"""Connections as hypercorn wants them, and what it does not bound."""

from __future__ import annotations

from contextlib import suppress

import trio
from hypercorn.events import Event, RawData, Updated
from hypercorn.trio.tcp_server import TCPServer

from ykactor.surfaces.server.transports import Transport

#: How long a connection may take a part of what is sent.
SEND_S = 10
#: How long it is read after its last answer.
LINGER_S = 1


class Connection(TCPServer):
    """Ends when its peer has ended it, and sends the head of an answer of known length together with what follows it.

    The library would keep it until it has been idle for long enough, and wait for each part alone, also for empty ones.
    """

    _has_ended = False
    _head = b""

    async def _read_data(self) -> None:
        await super()._read_data()
        self._has_ended = True
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """As of the library, but for the timer of a connection that has ended, and for heads."""
        if isinstance(event, Updated) and self._has_ended:
            return
        if not isinstance(event, RawData):
            await super().protocol_send(event)
        elif not self._head and _is_head(event.data):
            self._head = event.data
        elif data := self._head + event.data:
            self._head = b""
            await super().protocol_send(RawData(data))


def _is_head(data: bytes) -> bool:
    """Whether this is the head of an answer that has a length, so that its end, perhaps an empty part, follows at once."""
    return data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data.lower()


class Bounded(trio.abc.HalfCloseableStream):
    """A connection whose peer must take what is sent: the library would wait for ever, whatever is cancelled.

    Args:
        sends: gets the scopes of what is being sent.
    """

    def __init__(self, transport: Transport, sends: set[trio.CancelScope]) -> None:
        self._stream = transport
        self._sends = sends
        self.socket = transport.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As of the socket, within a time; after it the connection is closed."""
        with trio.move_on_after(SEND_S) as sending:
            self._sends.add(sending)
            try:
                await self._stream.send_all(data)
            except trio.BusyResourceError:
                raise trio.BrokenResourceError("the connection is being closed") from None
            finally:
                self._sends.discard(sending)
        if sending.cancelled_caught:
            await trio.aclose_forcefully(self._stream)  # else the library would go on to read
            raise trio.BrokenResourceError("the peer does not read")

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of the socket."""
        return await self._stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        """As of the socket."""
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """As of the socket, within a time."""
        with trio.move_on_after(SEND_S):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """As of the socket. Before, what still comes is read: unread bytes would reset it and lose the last answer."""
        errors = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)
        with trio.move_on_after(LINGER_S, shield=True), suppress(*errors):
            await self._stream.finish()
        await self._stream.aclose()


class Encrypted(Bounded):
    """The same with what the library knows TLS by: then its URLs begin with ``https``."""

    @property
    def transport_stream(self) -> Encrypted:
        """What has the socket."""
        return self

    async def do_handshake(self) -> None:
        """It is done."""

    def selected_alpn_protocol(self) -> str:
        """The protocol that is spoken."""
        return "http/1.1"
