"""Finds the route of a path in one step for each of its parts, however many routes there are."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from ykactor.surfaces.http.route import Route


class _Branch(Struct, eq=False):
    """What a path may have next.

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
