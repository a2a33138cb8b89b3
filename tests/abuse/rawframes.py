"""The bytes of a client: the request for a websocket, and frames."""

RM_PATH, FEED_PATH, OPERATOR_PATH = "/v1/rm", "/v1/feed", "/v1/operator"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def handshake(path: str = FEED_PATH, subprotocol: str = "ykactor.v1.json", *, compresses: bool = False) -> bytes:
    """The request for a websocket."""
    lines = (
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {subprotocol}",
        *(("Sec-WebSocket-Extensions: permessage-deflate",) if compresses else ()),
    )
    return "\r\n".join((*lines, "", "")).encode()


def frame(payload: bytes, opcode: int = TEXT, *, fin: bool = True, rsv: int = 0, declared: int | None = None) -> bytes:
    """A frame of a client, with a mask of zeros.

    Args:
        rsv: the three reserved bits; 4 is that of compressed messages.
        declared: the length in the header, if it is not the right one.
    """
    length = len(payload) if declared is None else declared
    first = bytes([fin << 7 | rsv << 4 | opcode])
    if length < 126:
        header = bytes([0x80 | length])
    elif length < 2**16:
        header = b"\xfe" + length.to_bytes(2)
    else:
        header = b"\xff" + length.to_bytes(8)
    return first + header + bytes(4) + payload
