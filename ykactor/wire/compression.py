"""Compressed websocket messages (permessage-deflate, RFC 7692), where every message is compressed on its own.

So a message to many peers is compressed once. The extension of the websocket library has a compressor for each connection, and
decompresses without a bound.
"""

import re
import zlib
from dataclasses import replace

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import Event, Pong, Request
from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, RsvBits

#: The fastest: 64 KiB of events take 0.1 to 0.2 ms, and become 3 KiB.
_LEVEL = 1
#: The largest window, which every peer of RFC 7692 has unless it says otherwise; negative: without header and checksum.
_WINDOW_BITS = -15
#: The end of a compressed message, which is not sent.
_TAIL = b"\x00\x00\xff\xff"
#: The parameters of an offer that can be accepted; a smaller window of the server cannot.
_PARAMETER = re.compile(
    r'(?:server|client)_no_context_takeover|client_max_window_bits(?:=("?)(?:[89]|1[0-5])\1)?|server_max_window_bits=("?)15\2'
)


def compressed(payload: bytes) -> bytes:
    """The payload of a compressed message."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS)
    return (compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_TAIL)


class Deflate(Extension):
    """Offers and accepts the extension for one connection, and decompresses messages. What the library sends is not compressed.

    Args:
        message_bytes_max: the largest message after it is decompressed, also known to the library.
    """

    name = "permessage-deflate"

    def __init__(self, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._is_enabled = False
        #: The decompressor of the message that is received; None if it is not compressed.
        self._decompressor: zlib._Decompress | None = None
        self._left = 0
        self._is_control = False

    # ---- handshake

    def enabled(self) -> bool:
        """True if both sides know the extension."""
        return self._is_enabled

    def offer(self) -> str:
        """The offer of a client."""
        return "server_no_context_takeover; client_no_context_takeover"

    def finalize(self, offer: str) -> None:
        """The server has accepted."""
        self._is_enabled = True

    def accept(self, offer: str) -> str | None:
        """The parameters with which a server accepts the first offer that it can; None for any other."""
        parameters = [parameter.strip() for parameter in offer.split(";")[1:]]
        names = {parameter.partition("=")[0] for parameter in parameters}
        if self._is_enabled or len(names) < len(parameters) or not all(map(_PARAMETER.fullmatch, parameters)):
            return None
        self._is_enabled = True
        window = "; server_max_window_bits=15" if "server_max_window_bits" in names else ""
        return f"server_no_context_takeover; client_no_context_takeover{window}"

    # ---- received frames

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> RsvBits:
        """Note what the frame is; the first of a message may have the bit of compressed messages."""
        self._is_control = opcode.iscontrol()
        is_first = opcode in (Opcode.TEXT, Opcode.BINARY)
        if is_first:
            self._decompressor = zlib.decompressobj(_WINDOW_BITS) if rsv.rsv1 else None
            self._left = self._message_bytes_max
        return RsvBits(is_first, False, False)

    def frame_inbound_payload_data(self, proto: FrameDecoder | FrameProtocol, data: bytes) -> bytes | CloseReason:
        """Decompress a part of a message."""
        return data if self._decompressor is None or self._is_control else self._decompressed(self._decompressor, data)

    def frame_inbound_complete(self, proto: FrameDecoder | FrameProtocol, fin: bool) -> bytes | CloseReason | None:
        """Decompress the end of a message."""
        if self._decompressor is None or self._is_control or not fin:
            return None
        decompressor, self._decompressor = self._decompressor, None
        return self._decompressed(decompressor, _TAIL)

    def _decompressed(self, decompressor: "zlib._Decompress", data: bytes) -> bytes | CloseReason:
        try:
            found = decompressor.decompress(data, self._left + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        if len(decompressor.unused_data) > 1 + len(_TAIL):  # behind a last block there may be an empty one, see RFC 7692, 7.2.3.4
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        self._left -= len(found)
        # For what is too large the library gets as much as it refuses, so that the peer is told as for any message.
        return found if self._left >= 0 else bytes(self._message_bytes_max + 1)


class ExtensibleConnection(WSConnection):
    """Offers ``extensions`` in the handshake, for which ``trio_websocket`` has no parameter."""

    def __init__(self, connection_type: ConnectionType, *extensions: Extension) -> None:
        super().__init__(connection_type)
        self.extensions = list(extensions)

    def send(self, event: Event) -> bytes:
        """The bytes of the event; none for the answer to a ping that crosses the close frame, which nothing may follow."""
        if isinstance(event, Request):
            event = replace(event, extensions=self.extensions)
        elif isinstance(event, Pong) and self.state is not ConnectionState.OPEN:
            return b""
        return super().send(event)
