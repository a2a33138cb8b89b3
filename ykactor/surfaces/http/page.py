"""The files of web UIs: our own page (``surfaces/page``), and those of another one (``--web-root``).

Headers let our page do nothing but show this daemon (SE-97). The files of another UI are compressed and bound to this origin, and
those that begin with a dot are not served.
"""

from __future__ import annotations

import os
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path

import trio
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ykactor.surfaces.http.published import Pages
from ykactor.surfaces.http.replies import GZIP_BYTES_MIN, PLAIN, ZIPPED, InParts, Page, accepts_gzip, reply_unless_known
from ykactor.surfaces.http.session import Websockets

DIRECTORY = Path(__file__).parents[1] / "page"
_INDEX = "index.html"
#: What is served, by the ending of its name; the licence of a library is not.
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".png": "image/png",
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
    }
    return await reply_unless_known(request, file.page, file.media_type, headers, file.tag)


# ---- the files of another web UI

#: As that of our page (SE-97), but that styles and pictures may be inside a document, as frameworks put them there.
_ROOT_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
_ROOT_POLICY += "connect-src 'self'{websockets}; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
#: What is compressed, by the beginning of its media type. Pictures and fonts are already.
_TEXTS = ("text/", "application/javascript", "application/json", "application/manifest+json", "image/svg+xml")
#: Larger files are sent as they are: compressed ones are kept in memory.
_ZIPPED_MAX = 16 * 2**20


class WebRoot(StaticFiles):
    """The files below a directory, for everybody."""

    def __init__(self, directory: Path, websockets: Websockets) -> None:
        super().__init__(directory=directory, html=True)
        self._root = os.path.realpath(directory)
        self._websockets = websockets
        self._zipped = Pages()

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Find no file with a dot in front, by no name and no link: it was not meant for others, such as ``.git``."""
        full_path, found = super().lookup_path(path)
        if found is not None and any(part.startswith(".") for part in (*Path(path).parts, *_below(self._root, full_path))):
            return "", None
        return full_path, found

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, compressed if the client takes it so and wants all of it."""
        request, response = Request(scope), await super().get_response(path, scope)
        source = self._websockets.source(request)
        response.headers["Content-Security-Policy"] = _ROOT_POLICY.format(websockets=f" {source}" if source else "")
        response.headers.update({"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"})
        if not isinstance(response, FileResponse) or not _may_be_zipped(response):
            return response
        response.headers.update(dict(PLAIN))
        is_zipped = accepts_gzip(request) and "range" not in request.headers
        return await self._zipped_file(response) if is_zipped else response

    async def _zipped_file(self, response: FileResponse) -> Response:
        tag = response.headers["etag"]  # of its size and the time of its change
        page = await self._zipped.get((str(response.path), tag), partial(_page, Path(response.path)))
        kept = [header for header in response.raw_headers if header[0] not in (b"content-length", b"etag", b"accept-ranges")]
        (_, encoding), weak = ZIPPED[-1], f"W/{tag}"
        headers = [*kept, (b"etag", weak.encode()), (b"content-encoding", encoding.encode())]
        return InParts(await page.zipped(), response.status_code, headers)


def _below(root: str, path: str) -> tuple[str, ...]:
    return Path(os.path.relpath(path, root)).parts if path != root else ()


def _may_be_zipped(response: FileResponse) -> bool:
    is_text = response.headers["content-type"].startswith(_TEXTS)
    return is_text and GZIP_BYTES_MIN <= int(response.headers["content-length"]) <= _ZIPPED_MAX


async def _page(path: Path) -> Page:
    return Page(200, [await trio.to_thread.run_sync(path.read_bytes)], fresh_s=inf)
