"""Reads the requests of HTTP/1.1 from the bytes of a connection.

llhttp, which ``httptools`` calls, says what a request is, and where it ends.
"""

from __future__ import annotations

from collections import deque
from http import HTTPStatus

import httptools
from msgspec import Struct

#: Bytes of the head of a request, and of whatever else may come without being a part of a body.
HEAD_BYTES_MAX = 16 * 2**10
_HEAD_END = b"\r\n\r\n"
_BODY_HEADERS = (b"content-length", b"transfer-encoding")
_TOO_LONG = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"found a head of more than {HEAD_BYTES_MAX} bytes"


class ProtocolError(Exception):
    """What was sent is no request.

    Attributes:
        status: of the answer.
    """

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Head(Struct, eq=False):
    """How a request begins.

    Attributes:
        target: path and query, as they were sent.
        version: 1.0 or 1.1.
        headers: the names in lower case.
        keeps_alive: whether another request may follow.
    """

    method: str
    target: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    keeps_alive: bool

    @property
    def awaits_100(self) -> bool:
        """Whether the body comes when it is wanted."""
        return self.version == "1.1" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
        )


class RequestReader:
    """Finds the requests in what a connection receives, one after the other."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        #: What was received and not looked at. A next request stays here as it is, which is smallest.
        self._left = bytearray()
        self._events: deque[Head | bytes | ProtocolError] = deque()
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_in_head = True
        self._head_bytes = 0
        #: Since the last event.
        self._silent_bytes = 0

    def close(self) -> None:
        """Nothing more is read. The parser and this reader refer to each other, and would wait for the garbage collector."""
        del self._parser

    @property
    def left_bytes(self) -> int:
        """How much was received and not looked at."""
        return len(self._left)

    def receive(self, data: bytes | bytearray) -> None:
        """Take what has come."""
        self._left += data

    def next(self) -> Head | bytes | None:
        """A head, or the next part of the body, which ends with an empty one; None: more has to come.

        Raises:
            ProtocolError: also at all later calls.
        """
        while not self._events and self._left:
            self._look_further()
        if not self._events:
            return None
        if isinstance(event := self._events[0], ProtocolError):
            raise event
        self._events.popleft()
        return event

    def _look_further(self) -> None:
        """As far as a head may go."""
        end = self._left.find(_HEAD_END)
        some = bytes(self._left if end < 0 else self._left[: end + len(_HEAD_END)])
        del self._left[: len(some)]
        try:
            self._parser.feed_data(some)
        except httptools.HttpParserUpgrade as upgrade:  # to another protocol; none is offered, so this one goes on
            self._left[:0] = some[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error))
        self._silent_bytes = 0 if self._events else self._silent_bytes + len(some)
        if self._silent_bytes > HEAD_BYTES_MAX:
            self._fail(*_TOO_LONG)

    def _fail(self, status: HTTPStatus, reason: str) -> None:
        self._events.append(ProtocolError(status, reason))

    # ---- called by the parser

    def on_message_begin(self) -> None:
        self._target, self._headers, self._is_in_head, self._head_bytes = b"", [], True, 0

    def on_url(self, part: bytes) -> None:
        self._target += part
        self._head_bytes += len(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # others follow a body in chunks
            self._headers.append((name.lower(), value.rstrip(b" \t")))
            self._head_bytes += len(name) + len(value) + len(b": \r\n")

    def on_headers_complete(self) -> None:
        parser, headers, version = self._parser, self._headers, self._parser.get_http_version()
        self._is_in_head = False
        if self._head_bytes > HEAD_BYTES_MAX:
            self._fail(*_TOO_LONG)
        elif version not in ("1.0", "1.1"):
            self._fail(HTTPStatus.BAD_REQUEST, f"found HTTP/{version}, expected HTTP/1.1")
        elif version == "1.1" and [name for name, _ in headers].count(b"host") != 1:
            self._fail(HTTPStatus.BAD_REQUEST, "expected one Host header")
        elif parser.should_upgrade() and any(name in _BODY_HEADERS for name, _ in headers):  # the parser would skip the body
            self._fail(HTTPStatus.BAD_REQUEST, "found a request for another protocol with a body, expected one without Upgrade")
        else:
            keeps_alive = version == "1.1" and parser.should_keep_alive()
            self._events.append(Head(parser.get_method().decode(), self._target, version, headers, keeps_alive))

    def on_body(self, part: bytes) -> None:
        self._events.append(part)

    def on_message_complete(self) -> None:
        self._events.append(b"")
