"""``/ws/v1/login`` and ``/ws/v1/logout``: a page shows a token once, and its browser keeps a cookie for it (SE-98)."""

from __future__ import annotations

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ykactor.surfaces.admission.caller import Cookie
from ykactor.surfaces.admission.request_headers import own_page
from ykactor.surfaces.http.admission import caller_of
from ykactor.surfaces.http.headers import value_of
from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.replies import reply
from ykactor.surfaces.http.websockets import Websockets
from ykactor.wire.rest.codec import encode


class Login:
    """Answers requests of pages that log in and out.

    Args:
        websockets: tell the page who it is.
    """

    def __init__(self, websockets: Websockets) -> None:
        self._websockets = websockets

    async def log_in(self, request: Request) -> Response:
        """``/ws/v1/login``."""
        host, origin, site = (value_of(request, name) for name in (b"host", b"origin", b"sec-fetch-site"))
        page = own_page(host, origin, site)
        return await self._answer(request, caller_of(request).log_in(page), page, is_logged_in=True)

    async def log_out(self, request: Request) -> Response:
        """``/ws/v1/logout``."""
        return await self._answer(request, caller_of(request).log_out(), value_of(request, b"origin") or "", is_logged_in=False)

    async def _answer(self, request: Request, cookie: Cookie | None, page: str, *, is_logged_in: bool) -> Response:
        """The caller, with the cookie if there is one; behind a proxy only the page knows whether its connection is encrypted."""
        found = structs.replace(self._websockets.found(request), is_logged_in=cookie is not None and is_logged_in)
        answer = await reply(request, Page(200, [encode(found)]))
        if cookie is not None:
            is_secure = request.url.scheme == "https" or page.startswith("https:")
            answer.raw_headers.append((b"set-cookie", cookie.header(is_secure=is_secure).encode()))
        return answer
