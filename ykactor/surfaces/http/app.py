"""The ASGI application: which path leads where, and what holds for all of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ykactor.access.credentials import NotAuthenticatedError
from ykactor.access.model import Role
from ykactor.surfaces.http.api import Api
from ykactor.surfaces.http.metrics import Metrics
from ykactor.surfaces.http.replies import RefusedError, cors, reply

logger = logging.getLogger(__name__)

_P = "/ws/v1/partition/{partition}"
Endpoint = Callable[[Request], Awaitable[Response]]


#: Which of these roles a caller needs, where it is not the role of a reader.
_ROLES = {"/ws/v1/metrics": (Role.METRICS, Role.READER)}


def routes(api: Api, metrics: Metrics) -> dict[str, Endpoint]:
    """What each path answers to ``GET``."""
    return {
        "/ws/v1/metrics": metrics.metrics,
        "/ws/v1/clusters": api.clusters,
        "/ws/v1/partitions": api.partitions,
        f"{_P}/queues": api.all_queues,
        f"{_P}/queue/{{queue}}": api.queue,
        f"{_P}/queue/{{queue}}/applications": api.queue_applications,
        f"{_P}/queue/{{queue}}/applications/{{state}}": api.queue_applications,
        f"{_P}/queue/{{queue}}/application/{{app}}": api.application,
        f"{_P}/applications/{{state}}": api.applications,
        f"{_P}/application/{{app}}": api.application,
        f"{_P}/nodes": api.nodes,
        f"{_P}/node/{{node}}": api.node,
        f"{_P}/placementrules": api.placement_rules,
        f"{_P}/usage/users": api.users,
        f"{_P}/usage/user/{{user}}": api.user,
        f"{_P}/usage/groups": api.groups,
        f"{_P}/usage/group/{{group}}": api.group,
        "/ws/v1/scheduler/node-utilizations": api.node_utilizations,
    }


def application(api: Api, metrics: Metrics) -> ASGIApp:
    """The application. The scope of a request has who finds its caller (``state["admit"]``), and then the ``caller``."""
    paths = routes(api, metrics)
    repairs = [(_repair(path), path) for path in paths]
    app = Starlette(
        routes=[Route(path, partial(_answer, endpoint), methods=["GET", "OPTIONS"]) for path, endpoint in paths.items()],
        exception_handlers={404: partial(_not_found, repairs), 405: _wrong_method},
    )
    app.router.redirect_slashes = False
    return app


async def _answer(endpoint: Endpoint, request: Request) -> Response:
    """What an endpoint answers, or why not."""
    if request.method == "OPTIONS":
        return Response(status_code=200, headers={"Allow": "GET, OPTIONS", **cors(request)})
    try:
        roles = _ROLES.get(request.url.path, (Role.READER,))
        request.scope["caller"] = request.state.admit(request, roles)
        return await endpoint(request)
    except NotAuthenticatedError:
        refused = RefusedError(401, "expected a valid proof of an identity", {"WWW-Authenticate": "Bearer"})
    except RefusedError as error:
        refused = error
    except Exception:
        logger.exception("request_failed")
        refused = RefusedError(500, "an error of the daemon ended the request, its log has the details")
    return await reply(request, refused.page(), headers=refused.headers)


async def _not_found(repairs: list[tuple[re.Pattern[str], str]], request: Request, _: Exception) -> Response:
    """A path that is nearly one of ours leads there; any other leads nowhere."""
    path = re.sub("/{2,}", "/", request.url.path).removesuffix("/")
    for pattern, template in repairs:
        match = pattern.fullmatch(path)
        if match is not None and request.url.path != (target := _filled(template, match)):
            status = 301 if request.method == "GET" else 308
            return RedirectResponse(str(request.url.replace(path=target)), status)
    return PlainTextResponse("404 page not found\n", 404)


def _repair(template: str) -> re.Pattern[str]:
    """Finds paths that differ from this one in case only."""
    parts = (f"(?P<{part[1:-1]}>[^/]+)" if part[:1] == "{" else re.escape(part) for part in template.split("/"))
    return re.compile("/".join(parts), re.IGNORECASE)


def _filled(template: str, match: re.Match[str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: match[name[1]], template)


async def _wrong_method(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse("Method Not Allowed\n", 405, headers={"Allow": "GET, HEAD, OPTIONS"})
