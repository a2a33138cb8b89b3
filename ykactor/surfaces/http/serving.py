"""Everything that is served over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from ykactor.surfaces.http.api import Api
from ykactor.surfaces.http.app import application
from ykactor.surfaces.http.metrics import Metrics
from ykactor.surfaces.http.server import serve_http
from ykactor.surfaces.metrics.sources import Sources
from ykactor.surfaces.server.caller import Admit
from ykactor.surfaces.server.doors import Door


async def serve_all(
    doors: Sequence[Door],
    sources: Sources,
    started_ns: int,
    *,
    stopping: trio.Event,
    admit: Admit,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set. Meanwhile the event loop is measured.

    Args:
        started_ns: when the daemon was started, Unix time.
    """
    app = application(Api(sources.gateway, started_ns), Metrics(sources))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sources.instruments.loop.run, name="loop holds")
        await serve_http(doors, app, stopping=stopping, admit=admit, task_status=task_status)
        nursery.cancel_scope.cancel()
