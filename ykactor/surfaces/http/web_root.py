"""The files of another web UI (``--web-root``): compressed, bound to this origin, and without those that begin with a dot."""

from __future__ import annotations

import os
from functools import partial
from math import inf
from pathlib import Path

import trio
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ykactor.surfaces.http.headers import accepts_gzip
from ykactor.surfaces.http.pages import GZIP_BYTES_MIN, Page, Pages
from ykactor.surfaces.http.replies import PLAIN, ZIPPED, InParts
from ykactor.surfaces.http.websockets import Websockets

#: As that of our page (SE-97), but that styles and pictures may be inside a document, as frameworks put them there.
_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
_POLICY += "connect-src 'self'{websockets}; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
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
        response.headers["Content-Security-Policy"] = _POLICY.format(websockets=f" {source}" if source else "")
        response.headers.update({"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"})
        if not isinstance(response, FileResponse) or not _may_be_zipped(response):
            return response
        response.headers.update(dict(PLAIN))
        is_zipped = accepts_gzip(request) and "range" not in request.headers
        return await self._zipped_file(response) if is_zipped else response

    async def _zipped_file(self, response: FileResponse) -> Response:
        tag = response.headers["etag"]  # of its size and the time of its change
        page = await self._zipped.get((str(response.path), tag), partial(_page, Path(response.path)), fresh_s=inf)
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
    return Page(200, [await trio.to_thread.run_sync(path.read_bytes)])
