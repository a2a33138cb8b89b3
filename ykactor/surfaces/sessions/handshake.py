"""The HTTP request that opens a websocket, and its answer.

What is refused gets an HTTP response with one line that says why. That line never repeats anything of the request: it also goes
into the log, where credentials must not be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import trio
from wsproto.extensions import Extension
from wsproto.handshake import server_extensions_handshake
from wsproto.utilities import generate_accept_token, split_comma_header

from ykactor.access.credentials import PageRequest
from ykactor.surfaces.admission.request_headers import bearer_of, host_of, refuse_twice
from ykactor.surfaces.admission.slots import FEED_PATH, OPERATOR_PATH, RM_PATH
from ykactor.surfaces.net.refusals import RefusedError
from ykactor.surfaces.net.request_reader import Head, RequestReader
from ykactor.wire.si.codec import TERM_HEADER

_DOORS = f"resource managers connect to {RM_PATH}, followers to {FEED_PATH}, operators to {OPERATOR_PATH}"

#: The request with all headers. What follows it is not read before the response has been sent, but for what came with it.
HEAD_BYTES_MAX = 8 * 2**10
#: The version of websockets, in RFC 6455.
WEBSOCKET_VERSION = "13"
_UPGRADE = {"Upgrade": "websocket", "Sec-WebSocket-Version": WEBSOCKET_VERSION}
#: Headers that decide how the connection goes on: refused when duplicated, because a proxy might use the other one.
_OF_UPGRADES = re.compile("upgrade|connection|sec-websocket-.*")
#: How a web page shows its token: it cannot set headers. Never the subprotocol that is chosen.
_BEARER_SUBPROTOCOL = "ykactor.bearer."


class RequestHead(NamedTuple):
    """A request for a websocket, which can be accepted.

    Attributes:
        rest: bytes that came behind it.
        path: without a query.
        host: the name or address in ``Host``, in lower case, without a port.
        headers: by their names in lower case; of headers that may be there more than once, one.
        subprotocols: those that the peer knows, in its order.
        bearer: the token that the peer shows, if it does.
    """

    rest: bytes
    path: str
    host: str
    headers: Mapping[str, str]
    subprotocols: Sequence[str]
    bearer: str | None

    @property
    def page(self) -> PageRequest | None:
        """The proof of a browser: its cookie, and the page, which it names in each request for a websocket."""
        if (cookies := self.headers.get("cookie")) is None:
            return None
        return PageRequest(cookies=cookies, origin=self.headers.get("origin"), fetch_site=None, is_read=False)

    def __repr__(self) -> str:
        """The request without its headers, which have credentials: this may get into a log or a traceback."""
        return f"RequestHead(path={self.path!r}, host={self.host!r})"


async def read_head(stream: trio.abc.ReceiveStream) -> RequestHead | None:
    """Read the request of a new connection; None if the connection ends before it is complete.

    Raises:
        RefusedError: it is not a request for a websocket, or too long.
    """
    reader = RequestReader(HEAD_BYTES_MAX, is_left_after=True)
    try:
        while (head := reader.next()) is None:
            received = await stream.receive_some(HEAD_BYTES_MAX)
            if not received:
                return None
            reader.receive(received)
    except RefusedError as error:
        if error.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            raise RefusedError(error.status, f"found a request with more than {HEAD_BYTES_MAX} bytes of headers") from None
        raise _not_http() from None
    finally:
        reader.close()
    assert isinstance(head, Head), "a body follows its head"
    return _checked(head, reader.rest())


def _checked(head: Head, rest: bytes) -> RequestHead:
    """The request; raises RefusedError."""
    if head.version != "1.1" or not all(name.isascii() and value.isascii() for name, value in head.headers):
        raise _not_http()
    found = [(name.decode(), value.decode()) for name, value in head.headers]
    headers = dict(found)
    refuse_twice([name for name, _ in found], _OF_UPGRADES)
    _check_upgrade(head.method, headers)
    path, host = head.target.decode().partition("?")[0], host_of(headers.get("host", ""))
    return RequestHead(rest, path, host, headers, *_subprotocols_and_bearer(headers))


def acceptance(head: RequestHead, subprotocol: str | None, extensions: list[Extension], term: bytes) -> bytes:
    """The response that opens the websocket. Those of the extensions are enabled that the peer has offered.

    Args:
        subprotocol: the one of the peer's that is chosen.
        term: of the daemon.
    """
    lines = [
        b"HTTP/1.1 101 Switching Protocols",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Accept: " + generate_accept_token(head.headers["sec-websocket-key"].encode()),
    ]
    if subprotocol is not None:
        lines.append(b"Sec-WebSocket-Protocol: " + subprotocol.encode())
    offered = split_comma_header(head.headers.get("sec-websocket-extensions", "").encode())
    if accepted := server_extensions_handshake(offered, extensions):
        lines.append(b"Sec-WebSocket-Extensions: " + accepted)
    return b"\r\n".join([*lines, TERM_HEADER + b": " + term, b"", b""])


def _subprotocols_and_bearer(headers: Mapping[str, str]) -> tuple[list[str], str | None]:
    """The subprotocols without the one that shows a token, and the token, of the header or of the subprotocol (SE-61)."""
    offered = [name for text in headers.get("sec-websocket-protocol", "").split(",") if (name := text.strip())]
    subprotocols = [name for name in offered if not name.startswith(_BEARER_SUBPROTOCOL)]
    bearers = [name.removeprefix(_BEARER_SUBPROTOCOL) for name in offered if name.startswith(_BEARER_SUBPROTOCOL)]
    if (shown := bearer_of(headers.get("authorization"))) is not None:
        bearers.append(shown)
    if len(bearers) > 1:
        raise RefusedError(400, f"found several tokens, expected one: Authorization, or a subprotocol {_BEARER_SUBPROTOCOL}...")
    return subprotocols, bearers[0] if bearers else None


def _not_http() -> RefusedError:
    return RefusedError(400, "found no valid HTTP/1.1 request, expected one for a websocket")


def _check_upgrade(method: str, headers: Mapping[str, str]) -> None:
    """Refuse what is no request for a websocket."""
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise RefusedError(400, "found a request with a body, expected one without")
    if method != "GET":
        raise RefusedError(405, "found another method than GET", {"Allow": "GET"})
    if headers.get("upgrade", "").lower() != "websocket":
        raise RefusedError(426, f"this is a websocket server: {_DOORS}", _UPGRADE)
    if "upgrade" not in [token.strip() for token in headers.get("connection", "").lower().split(",")]:
        raise RefusedError(400, "found no header Connection: Upgrade")
    if headers.get("sec-websocket-version") != WEBSOCKET_VERSION:
        raise RefusedError(426, f"found no header Sec-WebSocket-Version: {WEBSOCKET_VERSION}", _UPGRADE)
    if "sec-websocket-key" not in headers:
        raise RefusedError(400, "found no header Sec-WebSocket-Key")
