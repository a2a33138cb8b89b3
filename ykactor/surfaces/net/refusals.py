"""A request that is refused before it is known what it is about."""

from __future__ import annotations

from http import HTTPStatus

#: The version of websockets, in RFC 6455.
WEBSOCKET_VERSION = "13"
#: Headers of the responses that must have some.
_HEADERS = {
    HTTPStatus.UNAUTHORIZED: ("WWW-Authenticate: Bearer",),
    HTTPStatus.METHOD_NOT_ALLOWED: ("Allow: GET",),
    HTTPStatus.UPGRADE_REQUIRED: ("Upgrade: websocket", f"Sec-WebSocket-Version: {WEBSOCKET_VERSION}"),
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
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close, upgrade" if self.status == HTTPStatus.UPGRADE_REQUIRED else "Connection: close",
            *_HEADERS.get(self.status, ()),
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
