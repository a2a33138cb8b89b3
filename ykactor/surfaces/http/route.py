"""One route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.model import Role

Endpoint = Callable[[Request], Awaitable[Response]]


class Route(Struct, frozen=True):
    """A path and what answers it.

    Attributes:
        summary: what is answered, for people.
        answer: the type of the answer; None: a text, or a document that has no type.
        statuses: of refusals, beside those that every route has.
        parameters: the types of those of the query, and of those of the path that are not any text (``schemas``).
        role: that the caller needs; None: it needs no proof (SE-62).
        other_role: one that will do as well.
        has_any_host: True if it only reads metrics or health, for which who asks may use any name of the daemon (SE-89).
        success: the status of an answer.
        other_success: further ones, with the same content.
        media_types: of an answer without a type, if it has a body.
        body: the media type of the body of a request; "" if it has none.
    """

    path: str
    endpoint: Endpoint
    summary: str
    answer: Any = None
    statuses: tuple[int, ...] = ()
    parameters: dict[str, Any] = {}
    method: str = "GET"
    role: Role | None = Role.READER
    other_role: Role | None = None
    has_any_host: bool = False
    success: int = 200
    other_success: tuple[int, ...] = ()
    media_types: tuple[str, ...] = ()
    body: str = ""

    @property
    def methods(self) -> str:
        """For the header ``Allow`` and its like."""
        return "GET, OPTIONS" if self.method == "GET" else f"OPTIONS, {self.method}"
