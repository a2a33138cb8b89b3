"""The health of the daemon: ``/ws/v1/scheduler/healthcheck``, ``/livez`` and ``/readyz``."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ykactor.actors.health import Check, HealthChecks
from ykactor.surfaces.http.admission import check_sees_all
from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.replies import reply
from ykactor.wire.rest import checks as shapes
from ykactor.wire.rest.codec import encode


class Health:
    """Answers requests for the state of health."""

    def __init__(self, checks: HealthChecks) -> None:
        self._checks = checks

    async def check(self, request: Request) -> Response:
        """``/ws/v1/scheduler/healthcheck``; with the status 503 when ``/readyz`` has it, and the same content."""
        check_sees_all(request)
        checks = [*map(_shown, await self._checks.checks())]
        health = shapes.Health(healthy=all(check.succeeded for check in checks), health_checks=checks)
        return await reply(request, Page(503 if self._checks.problems() else 200, [encode(health)]))

    async def live(self, request: Request) -> Response:
        """``/livez``: the daemon answers."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """``/readyz``: every partition runs, and the journal can be written. Why not is for readers (``check``)."""
        return PlainTextResponse("not ready\n", 503) if self._checks.problems() else PlainTextResponse("ok\n")


def _shown(check: Check) -> shapes.HealthCheck:
    return shapes.HealthCheck(
        name=check.name, succeeded=not check.problem, description=check.description, diagnosis_message=check.problem
    )
