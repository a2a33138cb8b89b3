"""Serves the REST API of a daemon: its routes, and what has to run for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import trio

from ykactor.actors.gateway import Gateway
from ykactor.surfaces.http.admission import Admission
from ykactor.surfaces.http.app import application
from ykactor.surfaces.http.routes import routes
from ykactor.surfaces.http.server import serve_http
from ykactor.surfaces.http.services import Services
from ykactor.surfaces.metrics.sources import Sources
from ykactor.surfaces.server.audit import Audit
from ykactor.surfaces.server.caller import Admit, admit_anybody
from ykactor.surfaces.server.doors import Door


async def serve_rest(
    doors: Sequence[Door],
    gateway: Gateway,
    audit: Audit,
    problems: Callable[[], Sequence[str]],
    sources: Sources,
    *,
    stopping: trio.Event,
    admit: Admit = admit_anybody,
    host_names: Collection[str] = (),
    web_root: Path | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set.

    Args:
        problems: as in ``Health``.
        sources: of metrics.
        admit, host_names: as in ``Admission``.
        web_root: as in ``application``.
    """
    services = Services(gateway, problems, sources, stopping)
    app = application(routes(services), web_root)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(services.history.run, name="history")
        nursery.start_soon(sources.instruments.loop.run, name="loop holds")
        await serve_http(doors, app, Admission(audit, admit, host_names), stopping=stopping, task_status=task_status)
        nursery.cancel_scope.cancel()
