"""``/ws/v1/metrics``: what Prometheus reads."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor.actors.commands import PartitionCommand, Read
from ykactor.actors.driving import drive
from ykactor.actors.mailbox import Mailbox
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.http.headers import accepts_gzip, encoded
from ykactor.surfaces.http.load import Effort
from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.replies import PLAIN, ZIPPED, InParts
from ykactor.surfaces.metrics.exposition import MEDIA_TYPE
from ykactor.surfaces.metrics.reading import PartitionFigures, read
from ykactor.surfaces.metrics.scrape import scrape
from ykactor.surfaces.metrics.sources import Sources
from ykactor.surfaces.net.refusals import RefusedError

#: How long a scrape is shown to others too, at least, and for how many times the time that it took.
FRESH_S = 1.0
SHARE = 20
#: A partition that waits for the disk answers nothing; then the rest is shown, which says so.
ANSWER_S = 2.0


class Metrics:
    """Answers scrapes."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._page = Page(200, [], fresh_until_s=float("-inf"))
        self._making = trio.Lock()
        #: Inboxes of partitions that were asked and have not answered yet: they are not asked again before.
        self._asked: set[Mailbox[PartitionCommand]] = set()

    async def metrics(self, request: Request) -> Response:
        """``/ws/v1/metrics``."""
        caller: Caller = request.scope["caller"]
        identity = caller.identity
        if identity.queues is not None or not identity.partitions.is_any:
            raise RefusedError(403, f"{identity.name} does not see all queues and partitions, of which metrics are (SE-27)")
        page = await self.page()
        media_type = "Content-Type", MEDIA_TYPE
        if not accepts_gzip(request):
            return InParts(page.parts, 200, encoded(media_type, *PLAIN))
        return InParts(await page.zipped(), 200, encoded(media_type, *ZIPPED))

    async def page(self) -> Page:
        """The last scrape, or a new one if that is too old."""
        async with self._making:
            if not self._page.is_fresh:
                effort = Effort()
                parts = await self._make(effort)
                self._page = Page(200, parts, fresh_until_s=trio.current_time() + max(FRESH_S, SHARE * effort.seconds))
            return self._page

    async def _make(self, effort: Effort) -> list[bytes]:
        inboxes = list(self._sources.gateway.partitions.values())
        self._asked.intersection_update(inboxes)
        figures = [await self._read(inbox, effort) for inbox in inboxes if inbox not in self._asked]
        return await drive(effort.measured(scrape(self._sources, [each for each in figures if each is not None])))

    async def _read(self, inbox: Mailbox[PartitionCommand], effort: Effort) -> PartitionFigures | None:
        """The figures of a partition; None if it does not answer."""
        found: list[Any] = []
        answered = trio.Event()

        def reading(core: PartitionCore, state: SchedulerState, _: int) -> Steps[PartitionFigures]:
            return effort.measured(read(core, state))

        def give(figures: Any) -> None:
            self._asked.discard(inbox)
            found.append(figures)
            answered.set()

        with trio.move_on_after(ANSWER_S), suppress(trio.ClosedResourceError):  # it was removed meanwhile
            await inbox.put(Read(reading, give))
            if not found:
                self._asked.add(inbox)
            await answered.wait()
        if found and isinstance(found[0], Exception):
            raise found[0]
        return found[0] if found else None
