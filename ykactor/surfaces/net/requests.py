"""Requests of HTTP/1.1: read from the bytes of a connection, and refused.

The first line is read here, because the parser takes some that are none, and refuses some that are one. llhttp, which
``httptools`` calls, says what the rest of a request is, and where it ends. It is never given bytes of two requests at once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus

import httptools
from msgspec import Struct

#: Of refusals that soon may not hold any more.
RETRY = {"Retry-After": "2"}
#: Bytes of the head of a request.
HEAD_BYTES_MAX = 16 * 2**10
_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_BODY_HEADERS = (b"content-length", b"transfer-encoding")
#: The first line of a request, and how one may begin that is not here as a whole.
_LINE = re.compile(rb"([!-~]+) ([!-~]+) HTTP/(\d)\.(\d)")
_LINE_BEGIN = re.compile(rb"[ -~]*\r?")
#: A target as to a proxy, with what it names, and the rest.
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)


class Head(Struct, eq=False):
    """The head of a request.

    Attributes:
        target: path and query, as they were sent; ``*`` of ``OPTIONS`` for the whole server.
        version: 1.0 or 1.1, which a later minor version counts as.
        headers: the names in lower case. ``Host`` is what a target as to a proxy has named, if it was one.
        keeps_alive: whether another request may follow.
    """

    method: str
    target: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    keeps_alive: bool

    @property
    def awaits_100(self) -> bool:
        """True if the body comes when it is asked for."""
        return self.version == "1.1" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
        )


class RequestReader:
    """Finds the requests in what a connection receives, one after the other.

    Args:
        head_bytes_max: bytes of a head, and of whatever else may come without being a part of a body.
        is_left_after: True if the connection speaks another protocol after one request (``rest``). Otherwise none is offered.
    """

    def __init__(self, head_bytes_max: int = HEAD_BYTES_MAX, *, is_left_after: bool = False) -> None:
        self._head_bytes_max = head_bytes_max
        self._is_left_after = is_left_after
        self._parser = httptools.HttpRequestParser(self)
        #: What was received and not looked at. A next request stays here as it is, which is smallest.
        self._left = bytearray()
        self._events: deque[Head | bytes | RefusedError] = deque()
        self._is_between = True
        #: The end of what the parser was given of a head, or of a body in chunks; of another body, the bytes that are left of it.
        self._tail = b""
        self._body_left = 0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_in_head = True
        self._head_bytes = 0
        #: Since the last event.
        self._silent_bytes = 0
        #: Whether more has to come before anything can be done with what is left.
        self._waits = False
        #: How much of what is left can be the beginning of a first line.
        self._looked_at = 0

    def close(self) -> None:
        """Nothing more is read. The parser and this reader refer to each other, and would wait for the garbage collector."""
        del self._parser

    @property
    def left_bytes(self) -> int:
        """The number of bytes that were received and not looked at."""
        return len(self._left)

    def rest(self) -> bytes:
        """The bytes that were received behind a request."""
        return bytes(self._left)

    def receive(self, data: bytes | bytearray) -> None:
        """Take what has come."""
        self._left += data

    def next(self) -> Head | bytes | None:
        """A head, or the next part of the body, which ends with an empty one; None: more has to come.

        Raises:
            RefusedError: also at all later calls.
        """
        self._waits = False
        while not self._events and self._left and not self._waits:
            self._look_further()
        if not self._events:
            return None
        if isinstance(event := self._events[0], RefusedError):
            raise event
        self._events.popleft()
        return event

    def _look_further(self) -> None:
        """Parse as far as a head may go, and at most to the end of a request."""
        if self._is_between:
            self._look_for_line()
            return
        some = self._next_piece()
        try:
            self._parser.feed_data(some)
        except httptools.HttpParserUpgrade:  # to another protocol; none is offered, so this one goes on
            pass
        except httptools.HttpParserError as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error))
        self._has_looked_at(len(some))

    def _look_for_line(self) -> None:
        """The first line of the next request, behind empty ones."""
        left = self._left
        if left.startswith(_LINE_END):
            del left[: len(_LINE_END)]
            self._has_looked_at(len(_LINE_END))
            return
        new, most = max(0, self._looked_at - 1), self._head_bytes_max
        end = left.find(_LINE_END, new, most)
        if end < 0 and _LINE_BEGIN.fullmatch(left, new, min(len(left), most)):
            self._looked_at, self._waits = len(left), True
            if len(left) >= most:
                self._events.append(self._too_long())
            return
        found = _LINE.fullmatch(left, 0, max(0, end))
        if found is None:
            self._fail(HTTPStatus.BAD_REQUEST, "found no first line of a request, such as GET / HTTP/1.1")
        elif (major := int(found[3])) != 1:
            status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED if major > 1 else HTTPStatus.BAD_REQUEST
            self._fail(status, f"found HTTP/{major}.{int(found[4])}, expected HTTP/1.1")
        else:
            self._begin(b"%b %b HTTP/1.%d\r\n" % (found[1], found[2], min(1, int(found[4]))))
            del found, left[: end + len(_LINE_END)]
            self._looked_at = 0
            self._has_looked_at(end)

    def _begin(self, line: bytes) -> None:
        """Give the parser the first line of a request."""
        self._is_between, self._tail = False, line[-len(_HEAD_END) :]
        try:
            self._parser.feed_data(line)
        except httptools.HttpParserError as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error))

    def _next_piece(self) -> bytes:
        """The bytes that the parser gets next: a head, and a body in chunks, end with an empty line."""
        if self._body_left:
            some = bytes(self._left[: min(self._body_left, self._head_bytes_max)])
            self._body_left -= len(some)
        else:
            known = len(self._tail)
            end = (self._tail + self._left).find(_HEAD_END)
            some = bytes(self._left if end < 0 else self._left[: end + len(_HEAD_END) - known])
            self._tail = b"" if end >= 0 else (self._tail + some)[1 - len(_HEAD_END) :]
        del self._left[: len(some)]
        return some

    def _has_looked_at(self, count: int) -> None:
        self._silent_bytes = 0 if self._events else self._silent_bytes + count
        if self._silent_bytes > self._head_bytes_max:
            self._events.append(self._too_long())

    def _fail(self, status: HTTPStatus, reason: str) -> None:
        self._events.append(RefusedError(status, reason))

    def _too_long(self) -> RefusedError:
        reason = f"found a head of more than {self._head_bytes_max} bytes"
        return RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason)

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
        self._is_in_head = False
        try:
            self._events.append(self._head())
        except RefusedError as error:
            self._events.append(error)

    def _head(self) -> Head:
        parser, headers, version = self._parser, self._headers, self._parser.get_http_version()
        if self._head_bytes > self._head_bytes_max:
            raise self._too_long()
        if version == "1.1" and len(_values(headers, b"host")) != 1:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "expected one Host header")
        self._check_body(version)
        method = parser.get_method().decode()
        target, headers = _target_and_headers(method, self._target, headers)
        tokens = [token.strip() for token in b",".join(_values(headers, b"connection")).lower().split(b",")]
        keeps_alive = parser.should_keep_alive() and b"close" not in tokens
        return Head(method, target, version, headers, keeps_alive)

    def _check_body(self, version: str) -> None:
        """Refuse a body whose end could be read in two ways, or that is encoded in another way than in chunks."""
        encodings = _values(self._headers, b"transfer-encoding")
        if encodings and version != "1.1":
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"found a Transfer-Encoding in HTTP/{version}, which does not know it")
        if encodings and b",".join(encodings).strip().lower() != b"chunked":
            raise RefusedError(HTTPStatus.NOT_IMPLEMENTED, "found another Transfer-Encoding than chunked")
        if self._parser.should_upgrade() and not self._is_left_after and any(name in _BODY_HEADERS for name, _ in self._headers):
            reason = "found a request for another protocol with a body, expected one without Upgrade"
            raise RefusedError(HTTPStatus.BAD_REQUEST, reason)  # the parser would skip the body
        self._body_left = int(next(iter(_values(self._headers, b"content-length")), b"0"))

    def on_body(self, part: bytes) -> None:
        self._events.append(part)

    def on_message_complete(self) -> None:
        self._is_between = True
        self._events.append(b"")


def _values(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def _target_and_headers(
    method: str, target: bytes, headers: list[tuple[bytes, bytes]]
) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The target without the host that it names, and the headers with that as ``Host``."""
    if target == b"*" and method != "OPTIONS":
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"found the target * of {method}, which only OPTIONS may have")
    named = _ABSOLUTE.fullmatch(target)
    if named is None:
        return target, headers
    host, rest = named.groups()
    if not host:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "found a target without the host that it should name")
    target = rest if rest.startswith(b"/") else b"/" + rest
    if rest == b"" and method == "OPTIONS":
        target = b"*"
    return target, [(b"host", host), *(each for each in headers if each[0] != b"host")]


# ---- refusals


class RefusedError(Exception):
    """A request is refused.

    Attributes:
        status: of HTTP.
        reason: a sentence.
        headers: further ones of the answer.
        logged: the reason for the log, if it is more than the peer is told.
    """

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None, *, logged: str = "") -> None:
        super().__init__(reason)
        self.status = HTTPStatus(status)
        self.reason = reason
        self.headers = headers or {}
        self.logged = logged or reason

    def response(self) -> bytes:
        """The whole response to a request that ends its connection."""
        body = f"{self.reason}\n".encode()
        lines = (
            f"HTTP/1.1 {self.status} {self.status.phrase}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close, upgrade" if self.status == HTTPStatus.UPGRADE_REQUIRED else "Connection: close",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
