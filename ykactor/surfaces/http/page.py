"""Our own page: the files of ``surfaces/page``, with headers that let it do nothing but show this daemon (SE-97)."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.replies import PLAIN, reply
from ykactor.surfaces.http.websockets import Websockets

DIRECTORY = Path(__file__).parents[1] / "page"
_INDEX = "index.html"
#: What is served, by the ending of its name; the licence of a library is not.
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Scripts, styles and pictures of this origin only, and no frame around the page.
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'{websockets}; "
_POLICY += "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class _File(Struct, eq=False):
    """A file of the page.

    Attributes:
        tag: changes with its content, whether compressed or not; a browser asks each time whether it has.
    """

    page: Page
    media_type: str
    tag: str


def page_routes(websockets: Websockets, *paths: str) -> list[BaseRoute]:
    """The page at each of these paths and its files below ``/ui/``, for everybody: they tell nothing of the state."""
    found: list[BaseRoute] = []
    for path in sorted(DIRECTORY.rglob("*")):
        if path.suffix in MEDIA_TYPES:
            name, content = path.relative_to(DIRECTORY).as_posix(), path.read_bytes()
            file = _File(Page(200, [content]), MEDIA_TYPES[path.suffix], f'W/"{sha256(content).hexdigest()[:16]}"')
            answer = partial(_answer, file, websockets)
            found += [Route(at, answer) for at in (paths if name == _INDEX else [f"/ui/{name}"])]
    return found


async def _answer(file: _File, websockets: Websockets, request: Request) -> Response:
    headers = {
        "Content-Security-Policy": _POLICY.format(websockets=f" {source}" if (source := websockets.source(request)) else ""),
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": file.tag,
    }
    if (known := request.headers.get("if-none-match")) and known.removeprefix("W/") == file.tag.removeprefix("W/"):
        return Response(status_code=304, headers=headers | dict(PLAIN))
    return await reply(request, file.page, file.media_type, headers)
