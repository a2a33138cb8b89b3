"""Followers in a process of their own: ``python -m bench.readers PORT COUNT LAST OFFER``, started by ``bench.followers``.

They offer to decompress, as browsers do, if OFFER is ``deflate``, and not if it is ``plain``. They read as cheaply as possible,
so that the daemon is measured and not they: of each message they look at the first and the last sequence number, and count the
events between; equal compressed messages are decompressed once for all followers. Prints ``ready`` when all have subscribed;
from then on the process has a lower priority than the daemon. Prints one JSON object when each has event ``LAST``, or its
connection was lost.
"""

import os
import selectors
import socket
import sys
import zlib
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Struct

HANDSHAKE = (
    b"GET /v1/feed HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
OFFER = b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
_SUBSCRIBE = b'{"type":"Subscribe","from":0}'
_FIELD = b'"sequence":'
_NO_MASK = bytes(4)
_READ_MAX = 2**20
#: So that the buffers of all followers fit into the memory of one machine for sockets.
_BUFFER_BYTES = 2**18
PING, PONG = 0x89, 0x8A
_COMPRESSED = 0x40


class Outcome(Struct, frozen=True):
    """The followers of one process, counted: those that have all events in order, missed some, or lost the connection."""

    whole: int
    gaps: int
    lost: int
    messages: int


class Frame(NamedTuple):
    """First byte of a frame, and start and end of its payload."""

    kind: int
    start: int
    end: int


class Span(NamedTuple):
    """The events of a message: their first and last sequence number, and how many there are."""

    first: int
    last: int
    length: int


def _span(message: bytes) -> Span | None:
    """The first and last number of a message; None for a bookmark."""
    if not message.startswith(b'{"type":"Events"'):
        return None
    first = _number(message, message.index(_FIELD))
    return Span(first, _number(message, message.rindex(_FIELD)), message.count(_FIELD))


@lru_cache(256)
def _compressed_span(payload: bytes) -> Span | None:
    return _span(zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff"))


class Reader:
    """One follower."""

    def __init__(self, port: int, *, offers_deflate: bool) -> None:
        self.sequence = 0
        self.gaps = 0
        self.messages = 0
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self.sock.sendall(HANDSHAKE + (OFFER if offers_deflate else b"") + b"\r\n")
        self._unread = bytearray()
        while b"\r\n\r\n" not in self._unread:
            self._unread += self.sock.recv(_READ_MAX)
        del self._unread[: self._unread.index(b"\r\n\r\n") + 4]
        self.sock.sendall(bytes([0x81, 0x80 | len(_SUBSCRIBE)]) + _NO_MASK + _SUBSCRIBE)

    def read(self) -> bool:
        """Take what has arrived; False when the connection has ended."""
        try:
            data = self.sock.recv(_READ_MAX)
        except ConnectionError:
            return False
        self._unread += data
        at = 0
        while (frame := frame_in(self._unread, at)) is not None:
            kind, start, end = frame
            if kind == PING:
                self.sock.sendall(bytes([PONG, 0x80 | end - start]) + _NO_MASK + self._unread[start:end])
            else:
                payload = bytes(self._unread[start:end])
                self._on_events(_compressed_span(payload) if kind & _COMPRESSED else _span(payload))
            at = end
        del self._unread[:at]
        return bool(data)

    def _on_events(self, span: Span | None) -> None:
        if span is None:
            return
        if span.first != self.sequence + 1 or span.last - span.first + 1 != span.length:
            self.gaps += 1
        self.sequence = span.last
        self.messages += 1


def frame_in(data: bytearray, at: int) -> Frame | None:
    """The frame that starts at ``at``; None if it is not whole."""
    if len(data) < at + 10 and len(data) < at + 2 + (data[at + 1] & 127 if len(data) > at + 1 else 10):
        return None
    length, start = data[at + 1], at + 2
    if length == 126:
        length, start = int.from_bytes(data[at + 2 : at + 4]), at + 4
    elif length == 127:
        length, start = int.from_bytes(data[at + 2 : at + 10]), at + 10
    return Frame(data[at], start, start + length) if len(data) >= start + length else None


def _number(data: bytes, at: int) -> int:
    start = at + len(_FIELD)
    end = start
    while data[end : end + 1].isdigit():
        end += 1
    return int(data[start:end])


def main(port: int, count: int, last: int, *, offers_deflate: bool) -> None:
    """Follow until every follower has event ``last``."""
    readers = [Reader(port, offers_deflate=offers_deflate) for _ in range(count)]
    selector = selectors.DefaultSelector()
    for reader in readers:
        selector.register(reader.sock, selectors.EVENT_READ, reader)
    print("ready", flush=True)
    os.nice(5)
    open_count = count
    while open_count:
        for key, _ in selector.select():
            reader = key.data
            is_open = reader.read()
            if reader.sequence >= last or not is_open:
                selector.unregister(reader.sock)
                open_count -= 1
    whole = sum(reader.sequence >= last and not reader.gaps for reader in readers)
    lost = sum(reader.sequence < last for reader in readers)
    gaps = sum(bool(reader.gaps) for reader in readers)
    print(msgspec.json.encode(Outcome(whole, gaps, lost, sum(reader.messages for reader in readers))).decode(), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), offers_deflate=sys.argv[4] == "deflate")
