"""``/ws/v1/metrics``: what Prometheus reads."""

from __future__ import annotations

from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor.actors.commands import Read
from ykactor.actors.driving import drive, pause
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.http.pages import Page, Pages
from ykactor.surfaces.http.replies import RefusedError, accepts_gzip
from ykactor.surfaces.metrics.exposition import MEDIA_TYPE
from ykactor.surfaces.metrics.reading import PartitionFigures, read
from ykactor.surfaces.metrics.scrape import scrape
from ykactor.surfaces.metrics.sources import Sources
from ykactor.surfaces.server.caller import Caller

#: How long a scrape is shown to others too.
FRESH_S = 1.0
#: A partition that waits for the disk answers nothing, and then its series are missing.
ANSWER_S = 2.0


class Metrics:
    """Answers scrapes."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._pages = Pages()

    async def metrics(self, request: Request) -> Response:
        """``/ws/v1/metrics``."""
        caller: Caller = request.scope["caller"]
        identity = caller.identity
        if identity.queues is not None or not identity.partitions.is_any:
            raise RefusedError(403, f"{identity.name} does not see all queues and partitions, of which metrics are (SE-27)")
        page = await self._pages.get("metrics", self._make, FRESH_S)
        headers = {"Content-Type": MEDIA_TYPE, "Vary": "Accept-Encoding"}
        if not accepts_gzip(request.headers):
            return Response(page.body, headers=headers)
        return Response(await page.zipped(), headers=headers | {"Content-Encoding": "gzip"})

    async def _make(self) -> Page:
        figures = [await self._read(name) for name in list(self._sources.gateway.partitions)]
        found = [each for each in figures if each is not None]
        return Page(200, await drive(scrape(self._sources, found), pause))

    async def _read(self, partition: PartitionName) -> PartitionFigures | None:
        """The figures of a partition; None if it does not answer."""
        found: list[Any] = []
        answered = trio.Event()

        def give(figures: Any) -> None:
            found.append(figures)
            answered.set()

        with trio.move_on_after(ANSWER_S):
            try:
                await self._sources.gateway.partitions[partition].put(Read(read, give))
            except (KeyError, trio.ClosedResourceError):
                return None  # it was removed meanwhile
            await answered.wait()
        if found and isinstance(found[0], Exception):
            raise found[0]
        return found[0] if found else None
