"""Serves the REST API of a daemon: its routes, and what has to run for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio
from starlette.routing import BaseRoute, Mount

from ykactor.actors.gateway import Gateway
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.http.app import application
from ykactor.surfaces.http.page import page_routes
from ykactor.surfaces.http.routes import routes
from ykactor.surfaces.http.server import serve_http
from ykactor.surfaces.http.services import Services
from ykactor.surfaces.http.web_root import WebRoot
from ykactor.surfaces.http.websockets import Websockets
from ykactor.surfaces.metrics.sources import Sources
from ykactor.surfaces.net.doors import HTTP, WS, Door


async def serve_rest(
    doors: Sequence[Door],
    gateway: Gateway,
    admission: Admission,
    sources: Sources,
    *,
    stopping: trio.Event,
    web_root: Path | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set.

    Args:
        doors: all of the daemon; those of the REST API are served.
        sources: of metrics.
        web_root: a directory with the files of a web UI for ``/``, where our page is otherwise.
    """
    websockets = Websockets([door.url for door in doors if door.service == WS])
    services = Services(gateway, sources, stopping, websockets)
    files: Sequence[BaseRoute] = page_routes(websockets, "/", "/ui", "/ui/")
    if web_root is not None:  # the UI there shares the login of our page (SE-98)
        files = [*page_routes(websockets, "/ui", "/ui/"), Mount("/", WebRoot(web_root, websockets))]
    app, http = application(routes(services), files), [door for door in doors if door.service == HTTP]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(services.history.run, name="history")
        nursery.start_soon(sources.instruments.loop.run, name="loop holds")
        await serve_http(http, app, admission, stopping=stopping, task_status=task_status)
        nursery.cancel_scope.cancel()
