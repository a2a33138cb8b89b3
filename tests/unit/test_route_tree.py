"""The route that answers a path: the same as of starlette, which tries one after the other."""

import random

from seeds import seeds
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from ykactor.surfaces.http.app import Route, RouteTree
from ykactor.surfaces.http.routes import routes


class Anything:
    """Has whatever routes lead to."""

    def __getattr__(self, _: str) -> "Anything":
        return self

    def __call__(self, *_: object) -> None:
        return None


ROUTES: list[Route] = routes(Anything())  # type: ignore[arg-type]
WORDS = sorted({part for route in ROUTES for part in route.path.split("/")} | {"x", "", ".", "{queue}", "%", "é"})


def of_starlette(path: str) -> tuple[str, dict[str, str]] | None:
    for route in ROUTES:
        match, scope = StarletteRoute(route.path, lambda _: None).matches({"type": "http", "path": path, "method": "GET"})
        if match is Match.FULL:
            return route.path, scope["path_params"]
    return None


def of_tree(path: str) -> tuple[str, dict[str, str]] | None:
    found = RouteTree(ROUTES).find(path)
    return None if found is None else (found[0].path, found[1])


def test_each_route_answers_its_own_path() -> None:
    """Parameters may have any text but the empty one."""
    for route in ROUTES:
        path = "/".join("some thing" if part.startswith("{") else part for part in route.path.split("/"))
        assert of_tree(path) == of_starlette(path)
        assert of_tree(path) == (route.path, dict.fromkeys(of_tree(path)[1], "some thing"))


def test_other_paths() -> None:
    """Changed in one or two parts, longer or shorter: as of starlette."""
    found = 0
    for seed in seeds(400):
        chance = random.Random(seed)
        parts = chance.choice(ROUTES).path.split("/")
        for _ in range(chance.randint(1, 2)):
            place = chance.randrange(len(parts))
            parts[place : place + chance.randint(0, 1)] = chance.choices(WORDS, k=chance.randint(0, 2))
        path = "/".join(parts)
        assert of_tree(path) == of_starlette(path), path
        found += of_tree(path) is not None
    assert found
