"""The peer of a session: sends and receives whole messages over a websocket connection."""

import trio
from msgspec import Struct
from trio_websocket import ConnectionClosed, WebSocketConnection

from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON, Encoding, ProtocolError


class Peer:
    """Sends and receives messages over an accepted connection, in its encoding, with a deadline for every send.

    One task at a time may send.

    Args:
        stream: the stream below the connection.
        send_s: the time limit for sending one message.
        close_s: the time limit for the closing handshake.
    """

    def __init__(
        self, stream: trio.abc.Stream, connection: WebSocketConnection, encoding: Encoding, *, send_s: float, close_s: float
    ) -> None:
        self.encoding = encoding
        self._stream = stream
        self._connection = connection
        self._send_s = send_s
        self._close_s = close_s

    async def receive(self) -> str | bytes:
        """Wait for a message; raises ``ConnectionClosed`` when the connection has ended."""
        return await self._connection.get_message()

    async def send(self, message: Struct) -> None:
        """Send one message; raises ``ConnectionClosed`` if the connection has ended, or the peer does not read for ``send_s``."""
        data = self.encoding.encode(message)
        with trio.move_on_after(self._send_s) as deadline:
            await self._connection.send_message(data.decode() if self.encoding is JSON else data)
        if deadline.cancelled_caught:
            # A part of the frame may have been sent, so that nothing can follow, not even a closing handshake.
            await trio.aclose_forcefully(self._stream)
            raise ConnectionClosed(None)

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Close the connection with a reason; gives up if the peer does not answer the closing handshake in time."""
        with trio.move_on_after(self._close_s):
            await self._connection.aclose(code, reason)


def error_response(error: ProtocolError, request_id: str = "") -> si.ErrorResponse:
    """The response to a wrong message."""
    return si.ErrorResponse(code=error.code, message=error.message, path=error.path, id=error.request_id or request_id)
