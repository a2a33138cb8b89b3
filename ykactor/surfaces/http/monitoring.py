"""The monitoring of the daemon: its metrics, which Prometheus reads at ``/ws/v1/metrics``, and its health."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ykactor.actors.commands import PartitionCommand, Read
from ykactor.actors.health import Check, HealthChecks
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.pauses import drive
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.http.app import check_sees_all
from ykactor.surfaces.http.load import CpuMeter
from ykactor.surfaces.http.published import Pages
from ykactor.surfaces.http.replies import PLAIN, ZIPPED, InParts, Page, accepts_gzip, encoded, reply
from ykactor.surfaces.metrics.exposition import MEDIA_TYPE
from ykactor.surfaces.metrics.reading import PartitionFigures, read
from ykactor.surfaces.metrics.scrape import Sources, scrape
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode

#: How long a scrape is shown to others too, at least, and for how many times the time that it took.
FRESH_S = 1.0
SHARE = 20
#: A partition that waits for the disk answers nothing; then the rest is shown, which says so.
ANSWER_S = 2.0


class Metrics:
    """Answers scrapes."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._pages = Pages()
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
        return await self._pages.get(("metrics",), self._scraped)

    async def _scraped(self) -> Page:
        meter, inboxes = CpuMeter(), list(self._sources.gateway.partitions.values())
        self._asked.intersection_update(inboxes)
        figures = [await self._read(inbox, meter) for inbox in inboxes if inbox not in self._asked]
        parts = await drive(meter.measured(scrape(self._sources, [each for each in figures if each is not None])))
        return Page(200, parts, fresh_s=max(FRESH_S, SHARE * meter.seconds))

    async def _read(self, inbox: Mailbox[PartitionCommand], meter: CpuMeter) -> PartitionFigures | None:
        """The figures of a partition; None if it does not answer."""
        found: list[Any] = []
        answered = trio.Event()

        def reading(core: PartitionCore, state: SchedulerState, _: int) -> Steps[PartitionFigures]:
            return meter.measured(read(core, state))

        def give(figures: Any) -> None:
            self._asked.discard(inbox)
            found.append(figures)
            answered.set()

        with trio.move_on_after(ANSWER_S), suppress(trio.ClosedResourceError):  # it was removed meanwhile
            await inbox.put(Read(reading, give))
            if not found:
                self._asked.add(inbox)
            await answered.wait()
            if isinstance(found[0], Exception):
                raise found[0]
        return found[0] if found else None


# ---- health: ``/ws/v1/scheduler/healthcheck``, ``/livez`` and ``/readyz``


class Health:
    """Answers requests for the state of health."""

    def __init__(self, checks: HealthChecks) -> None:
        self._checks = checks

    async def check(self, request: Request) -> Response:
        """``/ws/v1/scheduler/healthcheck``; with the status 503 when ``/readyz`` has it, and the same content."""
        check_sees_all(request)
        checks = [*map(_shown, await self._checks.checks())]
        health = types.Health(healthy=all(check.succeeded for check in checks), health_checks=checks)
        return await reply(request, Page(503 if self._checks.problems() else 200, [encode(health)]))

    async def live(self, request: Request) -> Response:
        """``/livez``: the daemon answers."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """``/readyz``: every partition runs, and the journal can be written. Why not is for readers (``check``)."""
        return PlainTextResponse("not ready\n", 503) if self._checks.problems() else PlainTextResponse("ok\n")


def _shown(check: Check) -> types.HealthCheck:
    return types.HealthCheck(
        name=check.name, succeeded=not check.problem, description=check.description, diagnosis_message=check.problem
    )
