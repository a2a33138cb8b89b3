"""The HTTP request that opens a websocket. It is read and checked before the websocket library sees it, which has no limits.

What is refused gets an HTTP response with one line that says why. That line never repeats anything of the request: it also goes
into the log, where credentials must not be.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import NamedTuple

import h11
import trio

RM_PATH = "/v1/rm"
FEED_PATH = "/v1/feed"
OPERATOR_PATH = "/v1/operator"
_DOORS = f"resource managers connect to {RM_PATH}, followers to {FEED_PATH}, operators to {OPERATOR_PATH}"

#: The request with all headers. What follows it is not read before the response has been sent, but for what came with it.
HEAD_BYTES_MAX = 8 * 2**10
HOST_BYTES_MAX = 255
#: The version of the protocol in RFC 6455.
_VERSION = "13"
_HEAD_END = b"\r\n\r\n"
#: Headers that decide who may connect and how: of two the library and a proxy might take different ones.
_SINGLE = re.compile("host|origin|authorization|upgrade|connection|sec-websocket-.*")
#: The host in ``Host`` and ``Origin``: a name or an address, then perhaps a port. Nothing else is allowed, such as ``user@``.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)(?:%[0-9a-z._~-]+)?\]|([0-9a-z._-]+?)\.?)(?::[0-9]{1,5})?", re.IGNORECASE)
#: How a web page shows its token: it cannot set headers. Never the subprotocol that is chosen.
_BEARER_SUBPROTOCOL = "ykactor.bearer."
#: Headers of the responses that must have some.
_HEADERS = {
    HTTPStatus.UNAUTHORIZED: ("WWW-Authenticate: Bearer",),
    HTTPStatus.METHOD_NOT_ALLOWED: ("Allow: GET",),
    HTTPStatus.UPGRADE_REQUIRED: ("Upgrade: websocket", f"Sec-WebSocket-Version: {_VERSION}"),
}


class RefusedError(Exception):
    """A request is refused.

    Attributes:
        status: of HTTP.
        reason: a sentence without anything of the request.
        logged: the reason for the log, if it is more than the peer is told.
    """

    def __init__(self, status: int, reason: str, logged: str = "") -> None:
        super().__init__(reason)
        self.status = HTTPStatus(status)
        self.reason = reason
        self.logged = logged or reason

    def response(self) -> bytes:
        """The whole response."""
        body = f"{self.reason}\n".encode()
        lines = (
            f"HTTP/1.1 {self.status} {self.status.phrase}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close, upgrade" if self.status == HTTPStatus.UPGRADE_REQUIRED else "Connection: close",
            *_HEADERS.get(self.status, ()),
        )
        return "\r\n".join(lines).encode() + _HEAD_END + body


class RequestHead(NamedTuple):
    """A request for a websocket; the library will accept it.

    Attributes:
        data: its bytes.
        rest: bytes that came behind it.
        path: without a query.
        host: the name or address in ``Host``, in lower case, without a port.
        headers: by their names in lower case; of headers that may be there more than once, one.
        subprotocols: those that the peer knows, in its order.
        bearer: the token that the peer shows, if it does.
    """

    data: bytes
    rest: bytes
    path: str
    host: str
    headers: Mapping[str, str]
    subprotocols: Sequence[str]
    bearer: str | None

    def __repr__(self) -> str:
        """Without the headers, which have credentials: this may get into a log or a traceback."""
        return f"RequestHead(path={self.path!r}, host={self.host!r})"


async def read_head(stream: trio.abc.ReceiveStream) -> RequestHead | None:
    """Read the request of a new connection; None if the connection ends before it is complete.

    Raises:
        RefusedError: it is not a request for a websocket, or too long.
    """
    data = bytearray()
    while (end := data.find(_HEAD_END)) < 0:
        if not data.isascii():  # perhaps TLS: its peer gets an answer at once
            raise _not_http()
        if len(data) == HEAD_BYTES_MAX:
            raise RefusedError(431, f"found a request with more than {HEAD_BYTES_MAX} bytes of headers")
        received = await stream.receive_some(HEAD_BYTES_MAX - len(data))
        if not received:
            return None
        data += received
    end += len(_HEAD_END)
    return _parse(bytes(data[:end]), bytes(data[end:]))


def _parse(data: bytes, rest: bytes) -> RequestHead:
    """The request, parsed by the library that the websocket library uses too: both find the same in it."""
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data)
    try:
        request = parser.next_event()
    except h11.RemoteProtocolError:
        raise _not_http() from None
    # There is data behind a request that has ended with an empty line without a carriage return.
    if not isinstance(request, h11.Request) or request.http_version != b"1.1" or parser.trailing_data[0] or not data.isascii():
        raise _not_http()
    found = [(name.decode(), value.decode()) for name, value in request.headers]
    headers = dict(found)
    for name in headers:
        if _SINGLE.fullmatch(name) and sum(name == other for other, _ in found) > 1:
            raise RefusedError(400, f"found a header twice, expected it once: {_known(name)}")
    _check_upgrade(request.method, headers)
    path, host = request.target.decode().partition("?")[0], host_of(headers.get("host", ""))
    return RequestHead(data, rest, path, host, headers, *_subprotocols_and_bearer(headers))


def _subprotocols_and_bearer(headers: Mapping[str, str]) -> tuple[list[str], str | None]:
    """The subprotocols without the one that shows a token, and the token, of the header or of the subprotocol (SE-61)."""
    offered = [name for text in headers.get("sec-websocket-protocol", "").split(",") if (name := text.strip())]
    subprotocols = [name for name in offered if not name.startswith(_BEARER_SUBPROTOCOL)]
    bearers = [name.removeprefix(_BEARER_SUBPROTOCOL) for name in offered if name.startswith(_BEARER_SUBPROTOCOL)]
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        bearers.append(credentials.strip())
    if len(bearers) > 1:
        raise RefusedError(400, f"found several tokens, expected one: Authorization, or a subprotocol {_BEARER_SUBPROTOCOL}...")
    return subprotocols, bearers[0] if bearers else None


def _known(name: str) -> str:
    """The name of a header for a response, without anything that the peer could choose."""
    return "Sec-WebSocket-..." if name.startswith("sec-websocket-") else name.title()


def _not_http() -> RefusedError:
    return RefusedError(400, "found no valid HTTP/1.1 request, expected one for a websocket")


def _check_upgrade(method: bytes, headers: Mapping[str, str]) -> None:
    """Refuse what is no request for a websocket, or would be refused by the library."""
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise RefusedError(400, "found a request with a body, expected one without")
    if method != b"GET":
        raise RefusedError(405, "found another method than GET")
    if headers.get("upgrade", "").lower() != "websocket":
        raise RefusedError(426, f"this is a websocket server: {_DOORS}")
    if "upgrade" not in [token.strip() for token in headers.get("connection", "").lower().split(",")]:
        raise RefusedError(400, "found no header Connection: Upgrade")
    if headers.get("sec-websocket-version") != _VERSION:
        raise RefusedError(426, f"found no header Sec-WebSocket-Version: {_VERSION}")
    if "sec-websocket-key" not in headers:
        raise RefusedError(400, "found no header Sec-WebSocket-Key")


def host_of(header: str) -> str:
    """The name or address in the header ``Host``, in lower case, without a port.

    Raises:
        RefusedError: it is not valid.
    """
    match = _HOST.fullmatch(header) if len(header) <= HOST_BYTES_MAX else None
    if match is None or not _is_idna(header):
        raise RefusedError(400, "found no valid Host header, expected NAME or NAME:PORT")
    return _matched(match)


def _is_idna(header: str) -> bool:
    """Whether the library can decode it, which takes long for a long one."""
    try:
        header.encode().decode("idna")
    except UnicodeError:
        return False
    return True


def _matched(match: re.Match[str]) -> str:
    return (match[1] or match[2]).lower()


def own_names(others: Collection[str]) -> frozenset[str]:
    """The names of this machine by which web pages may call it."""
    return frozenset(("localhost", socket.gethostname().lower(), *map(str.lower, others)))


def page_refusal(origin: str | None, host: str, names: Collection[str]) -> RefusedError | None:
    """Why a web page may not connect; None if it may, or if the request comes from a program: those send no ``Origin``.

    A page may connect to the host that it comes from; ports may differ. But a page of an attacker can come from a name that later
    leads to this daemon (DNS rebinding), so the host must also be an address, which is not looked up, or one of ``names``.
    Programs may use any name, such as an alias of a proxy: no page can make them connect, or leave out its own ``Origin``.

    Args:
        origin: the header ``Origin``.
        host: the name or address in ``Host``, as ``host_of`` has it.
    """
    if origin is None:
        return None
    match = _HOST.fullmatch(origin.partition("://")[2])
    if match is None or _matched(match) != host:
        return RefusedError(403, "web pages of another host may not connect")
    return host_refusal(host, names)


def host_refusal(host: str, names: Collection[str]) -> RefusedError | None:
    """Why a web page may not call this machine so, wherever it comes from; None if it may."""
    if host not in names and not _is_address(host):
        return RefusedError(403, "web pages may not connect by this name: serve --host-name allows it")
    return None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
