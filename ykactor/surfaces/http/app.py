"""The ASGI application: which path leads where, and what holds for all of them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from ykactor.access.credentials import PageRequest
from ykactor.access.model import Role
from ykactor.access.view import View, view_of
from ykactor.surfaces.admission.admission import Asked, bearer_of, refuse_twice
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.listener import CLOSES, LIVE_PATH, AcceptedConnection
from ykactor.surfaces.http.connections import Application
from ykactor.surfaces.http.replies import cors, error_page, reply, value_of, with_query
from ykactor.surfaces.net.doors import DoorKind
from ykactor.surfaces.net.requests import RETRY, RefusedError

#: In a path; of a decoded one everything else is encoded again.
_PLAIN = "/:@!$&'()*+,;=~"


def application(routes: Sequence[Route], files: Sequence[BaseRoute], waits: Callable[[], str] = str) -> Application:
    """The application. The scope of a request has the connection that lets it in: ``state["connection"]``.

    Who asks is known before anything is answered, but on routes that need no proof (``Route.role``), for ``files``
    that there are, and for ``OPTIONS`` of a route, by which a browser asks whether it may show one (SE-60).

    Args:
        files: of a web UI, which are served to everybody, where no route is.
        waits: the reason for which nobody is let in yet (``ReadGateway.waits``).
    """
    repairs = [(_repair(route.path), route) for route in routes]
    others = Starlette(routes=files, exception_handlers={404: partial(_not_found, repairs), 405: _no_file})
    others.router.redirect_slashes = False
    tree = RouteTree(routes)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != LIVE_PATH and (reason := waits()):
            await (await _not_yet(Request(scope, receive), reason))(scope, receive, send)
            return
        if scope["path"] == "*":
            await (await _options(Request(scope, receive), "GET, HEAD, OPTIONS, POST"))(scope, receive, send)
            return
        if (found := tree.find(scope["path"])) is None:
            await scope["state"]["connection"].turn(None)
            await others(scope, receive, send)
            return
        route, scope["path_params"] = found
        scope["allowed methods"] = route.methods
        response = await _response(route, Request(scope, receive))
        await response(scope, receive, send)

    return answer


async def _response(route: Route, request: Request) -> Response:
    """The response to a request of a route, with any method."""
    if request.method == "OPTIONS":
        return await _options(request, route.methods)
    if request.method not in (route.method, "HEAD" if route.method == "GET" else ""):
        return await _let_in(request, route, partial(_wrong_method, route.methods))
    return await _let_in(request, route, route.endpoint)


async def _options(request: Request, methods: str) -> Response:
    """The methods of a route, or of the server as a whole."""
    await request.state.connection.turn(None)
    return Response(status_code=200, headers={"Allow": methods, **cors(methods)})


async def _not_yet(request: Request, reason: str) -> Response:
    """The refusal of a request while nobody is let in, of whomever it is."""
    await request.state.connection.turn(None)
    return await reply(request, error_page(503, reason), headers={**RETRY, **CLOSES})


async def _let_in(request: Request, route: Route | None, answer: Endpoint) -> Response:
    """The answer to a caller that may ask, or the refusal of another one.

    Args:
        route: None: the path is none of ours.
    """
    try:
        try:
            if route is None or route.role is not None:
                _admit(request, route)
        finally:
            await request.state.connection.turn(request.scope.get("caller"))
        return await _answered(request, answer)
    except RefusedError as error:
        refused = error
    except Exception as error:
        request.state.connection.log_failed(error)
        refused = RefusedError(500, "an error of the daemon ended the request, its log has the details", {"Connection": "close"})
    return await reply(request, error_page(refused.status, refused.reason), headers=refused.headers)


async def _answered(request: Request, answer: Endpoint) -> Response:
    try:
        return await answer(request)
    except RefusedError as error:
        if error.status == 403 and "caller" in request.scope:
            request.state.connection.log_refused(error)
            request.state.connection.admission.refused(request.scope["caller"], request.scope["path"], error.reason)
        raise


#: The statuses of answers that end their connection. Others may have its slot if it shows no identity that may have one.
_ENDS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)


def _admit(request: Request, route: Route | None) -> None:
    """Let a request in, before anything else of it is looked at; its scope then has the ``caller``. Raises RefusedError."""
    connection: AcceptedConnection = request.state.connection
    try:
        refuse_twice([str(name, "latin-1") for name, _ in request.scope["headers"]])
        asked = _asked(request, route, connection)
        slots, is_scrape = connection.admission.slots, asked.role is Role.METRICS
        claim = partial(slots.claim_requests, connection.slot, is_scrape=is_scrape)
        request.scope["caller"] = connection.admit(asked, claim)
    except RefusedError as refused:
        connection.log_refused(refused)
        if refused.status in _ENDS:
            refused.headers = {**refused.headers, **CLOSES}
        raise


def _asked(request: Request, route: Route | None, connection: AcceptedConnection) -> Asked:
    role = Role.READER if route is None or route.role is None else route.role
    bearer, cookies = bearer_of(value_of(request, b"authorization")), value_of(request, b"cookie")
    origin, site, page = value_of(request, b"origin"), value_of(request, b"sec-fetch-site"), None
    if cookies is not None:
        page = PageRequest(cookies=cookies, origin=origin, fetch_site=site, is_read=request.method in ("GET", "HEAD"))
    needs_proof = connection.admission.needs_proof
    return Asked(
        target=request.scope["path"],
        role=role,
        roles=() if route is None else (role, route.other_role or role),
        bearer=bearer,
        page=page,
        host=value_of(request, b"host"),
        origin=origin,
        site=site,
        may_be_of_page=connection.door.kind is not DoorKind.UNIX and (bearer is None or not needs_proof),
        has_any_host=needs_proof or (route is not None and route.has_any_host),
    )


async def _not_found(repairs: list[tuple[re.Pattern[str], Route]], request: Request, _: Exception) -> Response:
    return await _let_in(request, None, partial(_elsewhere, repairs))


async def _elsewhere(repairs: list[tuple[re.Pattern[str], Route]], request: Request) -> Response:
    """A path that is nearly one of ours leads there; any other leads nowhere."""
    path = re.sub("/{2,}", "/", request.url.path).removesuffix("/")
    for pattern, route in repairs:
        match = pattern.fullmatch(path)
        if match is not None and request.url.path != (target := _filled(route.path, match)):
            status = 301 if request.method == "GET" else 308
            return RedirectResponse(with_query(quote(target, safe=_PLAIN), request), status)
    raise RefusedError(404, "Page not found")


def _repair(template: str) -> re.Pattern[str]:
    """Finds paths that differ from this one in case only."""
    parts = (f"(?P<{part[1:-1]}>[^/]+)" if part[:1] == "{" else re.escape(part) for part in template.split("/"))
    return re.compile("/".join(parts), re.IGNORECASE)


def _filled(template: str, match: re.Match[str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: match[name[1]], template)


async def _no_file(request: Request, _: Exception) -> Response:
    """Files are only read."""
    return await _let_in(request, None, partial(_wrong_method, "GET, HEAD"))


async def _wrong_method(methods: str, _: Request) -> Response:
    raise RefusedError(405, "Method not allowed", {"Allow": methods})


# ---- the callers of requests that were let in, and what of the state they may see (SE-88)


def caller_of(request: Request) -> Caller:
    """The caller of a request that was let in."""
    caller: Caller = request.scope["caller"]
    return caller


def view_for(request: Request) -> View | None:
    """The part of the state that the caller may see; None: everything."""
    return view_of(caller_of(request).identity)


def check_sees_all(request: Request) -> None:
    """Refuse a reader that is limited to partitions or queues: the answer is about all of them (SE-88)."""
    if view_for(request) is not None:
        raise RefusedError(403, "only readers that are limited neither to partitions nor to queues may read this")


def check_sees_nodes(request: Request) -> None:
    """Refuse a reader that is limited to queues: the answer is in no queue (SE-88)."""
    view = view_for(request)
    if view is not None and view.queues is not None:
        raise RefusedError(403, "readers that are limited to queues may not read this")


# ---- routes

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
        asked: the type of the body; None: any text.
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
    asked: Any = None

    @property
    def methods(self) -> str:
        """The methods, for the header ``Allow`` and its like."""
        return "GET, OPTIONS" if self.method == "GET" else f"OPTIONS, {self.method}"


# ---- the route of a path: found in one step for each part of the path, however many routes there are


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
