"""A request that is refused, whatever it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus


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
