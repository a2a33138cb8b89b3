"""Routes, and the one of a path: found in one step for each part of the path, however many routes there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.model import Role

Endpoint = Callable[[Request], Awaitable[Response]]


class Route(Struct, frozen=True):
    """A path and what answers it.

    Attributes:
        summary: what is answered, for people.
        answer: the type of the answer; None: a text, or a document that has no type.
        parameters: the types of those of the query, and of those of the path that are not any text (``parameters``).
        role: that the caller needs; None: it needs no proof (SE-62).
        other_role: one that will do as well.
        has_any_host: True if it only reads metrics or health, for which who asks may use any name of the daemon (SE-89).
        refusals: the statuses of further ones than follow from the rest.
        success: the status of an answer.
        other_success: further ones, with the same content.
        media_types: of an answer without a type, if it has a body.
        body: the media type of the body of a request; "" if it has none.
    """

    path: str
    endpoint: Endpoint
    summary: str
    answer: Any = None
    parameters: dict[str, Any] = {}
    method: str = "GET"
    role: Role | None = Role.READER
    other_role: Role | None = None
    has_any_host: bool = False
    refusals: tuple[int, ...] = ()
    success: int = 200
    other_success: tuple[int, ...] = ()
    media_types: tuple[str, ...] = ()
    body: str = ""

    @property
    def methods(self) -> str:
        """The methods, for the header ``Allow`` and its like."""
        return "GET, OPTIONS" if self.method == "GET" else f"OPTIONS, {self.method}"


# ---- the route of a path


class _Branch(Struct, eq=False):
    """A part of the tree: the continuations of a path.

    Attributes:
        parts: by what is written there.
        other: for a parameter; a part that is written in a route comes first.
        route: of the path that ends here.
        names: of its parameters.
    """

    parts: dict[str, _Branch] = field(default_factory=dict)
    other: _Branch | None = None
    route: Route | None = None
    names: tuple[str, ...] = ()


class RouteTree:
    """The routes by the parts of their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Branch()
        for route in routes:
            branch = self._root
            for part in route.path.split("/"):
                branch = _below(branch, part)
            branch.route = route
            branch.names = tuple(part[1:-1] for part in route.path.split("/") if part.startswith("{"))

    def find(self, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route and its parameters; None: it is the path of none. Parameters are not empty."""
        branch, values = self._root, []
        for part in path.split("/"):
            below = branch.parts.get(part)
            if below is None and part:
                below = branch.other
                values.append(part)
            if below is None:
                return None
            branch = below
        if branch.route is None:
            return None
        return branch.route, dict(zip(branch.names, values, strict=True))


def _below(branch: _Branch, part: str) -> _Branch:
    if not part.startswith("{"):
        return branch.parts.setdefault(part, _Branch())
    if branch.other is None:
        branch.other = _Branch()
    return branch.other
