"""The other end of a websocket connection, as the sessions see it."""

import trio
from msgspec import Struct
from trio_websocket import ConnectionClosed, WebSocketConnection

from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON, Encoding, ProtocolError


class Peer:
    """Whole messages over an accepted connection in its encoding, with a deadline on every send.

    One task at a time may send.

    Args:
        stream: what the connection runs over.
        send_s: for one message to leave.
        close_s: for the closing handshake.
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
        """Wait for a message; ``ConnectionClosed`` when there will be none."""
        return await self._connection.get_message()

    async def send(self, message: Struct) -> None:
        """Send one message; ``ConnectionClosed`` when the peer is gone or does not read for ``send_s``."""
        data = self.encoding.encode(message)
        with trio.move_on_after(self._send_s) as deadline:
            await self._connection.send_message(data.decode() if self.encoding is JSON else data)
        if deadline.cancelled_caught:
            # Half a frame may have left: nothing can follow it, not even a closing handshake.
            await trio.aclose_forcefully(self._stream)
            raise ConnectionClosed(None)

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Close with a reason, as far as the peer plays along."""
        with trio.move_on_after(self._close_s):
            await self._connection.aclose(code, reason)


def error_response(error: ProtocolError, request_id: str = "") -> si.ErrorResponse:
    """The answer to a message with a mistake."""
    return si.ErrorResponse(code=error.code, message=error.message, path=error.path, id=error.request_id or request_id)
