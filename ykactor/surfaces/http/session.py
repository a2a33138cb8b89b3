"""``/ws/v1/session``, which tells web pages who they are and where the websockets are, ``/ws/v1/login`` and ``/ws/v1/logout``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.model import Role
from ykactor.surfaces.admission.admission import host_of, own_page
from ykactor.surfaces.admission.caller import Cookie
from ykactor.surfaces.http.app import caller_of
from ykactor.surfaces.http.replies import Page, reply, value_of
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode
from ykactor.wire.sockets import UNIX

#: What a page uses behind a proxy, by what the proxy says that it was loaded with.
_FORWARDED = {"http": "ws", "https": "wss"}
_IPV6 = re.compile(r"\[.*\]")


class Websockets:
    """The first websocket door that a browser can reach, by the name that the page was opened with.

    Args:
        urls: of all websocket doors: ``ws://HOST:PORT``, ``wss://HOST:PORT`` or ``unix:PATH``.
        roles: those that are served here.
    """

    def __init__(self, urls: Sequence[str], roles: AbstractSet[Role] = frozenset(Role)) -> None:
        self._roles = roles
        url = next((url for url in urls if not url.startswith(UNIX)), "")
        self._scheme, self._port = url.partition(":")[0], url.rpartition(":")[2]

    def url(self, request: Request) -> str:
        """``ws://HOST:PORT``: a page may connect to the host that it comes from only (SE-97). "" if there is none.

        Behind a proxy it is the proxy itself, which says so by ``X-Forwarded-Proto``.
        """
        header = request.headers.get("host", "")
        try:
            host = host_of(header)
        except RefusedError:
            return ""
        if (scheme := _FORWARDED.get(request.headers.get("x-forwarded-proto", ""))) is not None:
            return f"{scheme}://{header}"
        shown = f"[{host}]" if ":" in host else host
        return f"{self._scheme}://{shown}:{self._port}" if self._scheme else ""

    def source(self, request: Request) -> str:
        """The same for a ``Content-Security-Policy``, which cannot name an IPv6 address: there it is any host with this port."""
        return _IPV6.sub("*", self.url(request))

    async def session(self, request: Request) -> Response:
        """``/ws/v1/session``."""
        return await reply(request, Page(200, [encode(self.found(request))]))

    def found(self, request: Request) -> types.Session:
        """The caller, and the addresses of the websockets."""
        caller = caller_of(request)
        return types.Session(
            name=caller.identity.name,
            roles=sorted(caller.identity.roles & self._roles),
            websockets=self.url(request),
            is_logged_in=caller.is_logged_in,
        )


# ---- logins: a page shows a token once, and its browser keeps a cookie for it (SE-98)


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
