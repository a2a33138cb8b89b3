"""``/ws/v1/history``: how many applications and allocations there were, a sample a minute, of the last day."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.admission import check_sees_all
from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.published import Published
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.replies import reply
from ykactor.surfaces.net.refusals import RefusedError
from ykactor.wire.rest import usage
from ykactor.wire.rest.codec import encode

SAMPLE_S = 60
SAMPLES_MAX = 1440


class Sample(NamedTuple):
    """Running applications and allocations of all partitions."""

    at_ns: int
    applications: int
    containers: int


class History:
    """Takes the samples and answers requests for them. They end with the daemon."""

    def __init__(self, published: Published) -> None:
        self._published = published
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            await trio.sleep(SAMPLE_S)
            try:
                self._samples.append(await self._sample())
            except RefusedError:
                continue  # a partition is being removed, or waits for the disk

    async def _sample(self) -> Sample:
        gateway, applications, containers = self._published.gateway, 0, 0
        for name in list(gateway.partitions):
            counted = await self._published.ask(name, count)
            applications, containers = applications + counted[0], containers + counted[1]
        return Sample(gateway.now_ns(), applications, containers)

    async def applications(self, request: Request) -> Response:
        """``/ws/v1/history/apps``."""
        check_sees_all(request)
        return await reply(request, Page(200, [encode(self.found_applications())]))

    def found_applications(self) -> list[usage.ApplicationSample]:
        """The oldest first."""
        return [usage.ApplicationSample(timestamp=at_ns, total_applications=str(count)) for at_ns, count, _ in self._samples]

    async def containers(self, request: Request) -> Response:
        """``/ws/v1/history/containers``."""
        check_sees_all(request)
        return await reply(request, Page(200, [encode(self.found_containers())]))

    def found_containers(self) -> list[usage.ContainerSample]:
        """The oldest first."""
        return [usage.ContainerSample(timestamp=at_ns, total_containers=str(count)) for at_ns, _, count in self._samples]


def count(look: Look) -> Steps[tuple[int, int]]:
    """Running applications and allocations of a partition."""
    containers = 0
    for application in look.state.applications.values():
        containers += len(
            look.core.registry.leaf_of(application.application_id).applications[application.application_id].allocations
        )
        yield 1
    return len(look.state.tree.root.running), containers
