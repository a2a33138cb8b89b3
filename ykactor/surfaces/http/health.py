"""Whether the daemon is well: ``/ws/v1/scheduler/healthcheck``, ``/livez`` and ``/readyz``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.published import Published, check_sees_all
from ykactor.surfaces.http.readings.invariants import violations
from ykactor.surfaces.http.replies import reply
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode

#: How long a health check is shown.
CHECK_S = 30.0
#: Subjects of our invariants under the names that Apache YuniKorn gives to such a check; the others have one of their own.
_CHECKS = {
    "amounts of nodes": ("Consistency of data", "on each node capacity = allocated + occupied + available"),
    "queues": ("Consistency of data", "the capacity of a partition is the sum of its nodes, and its queues are configured"),
    "reservations": ("Reservation check", "reservations are of pending asks, on nodes that are large enough"),
    "allocations": ("Orphan allocation check", "nodes and applications know the same allocations"),
}
_OWN = "Invariants"
_ORDER = ("Scheduling errors", "Consistency of data", "Reservation check", "Orphan allocation check", _OWN)


class Health:
    """Answers requests for the state of health.

    Args:
        problems: what keeps the daemon from serving: partitions that are stopped, a journal that cannot be written.
    """

    def __init__(self, published: Published, problems: Callable[[], Sequence[str]]) -> None:
        self._published = published
        self._problems = problems

    async def check(self, request: Request) -> Response:
        """``/ws/v1/scheduler/healthcheck``: the last check, or a new one if that is too old."""
        check_sees_all(request)
        return await reply(request, await self._published.kept(("health",), self._page, CHECK_S))

    async def _page(self) -> Page:
        problems = "; ".join(self._problems())
        checks = [_check(_ORDER[0], "every partition runs, and the journal can be written", problems)]
        for partition in list(self._published.gateway.partitions):
            found = await self._published.ask(partition, violations)
            for subject, broken in found.items():
                name, description = _CHECKS.get(subject, (_OWN, subject))
                checks.append(_check(name, f"{partition}: {description}", "; ".join(broken)))
        checks.sort(key=lambda check: _ORDER.index(check.name))
        health = types.Health(healthy=all(check.succeeded for check in checks), health_checks=checks)
        return Page(200, [encode(health)])

    async def live(self, request: Request) -> Response:
        """``/livez``: the daemon answers."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """``/readyz``: every partition runs, and the journal can be written. Why not is for readers (``check``)."""
        return PlainTextResponse("not ready\n", 503) if self._problems() else PlainTextResponse("ok\n")


def _check(name: str, description: str, problem: str) -> types.HealthCheck:
    return types.HealthCheck(name=name, succeeded=not problem, description=description, diagnosis_message=problem)
