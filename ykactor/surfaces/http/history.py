"""The samples of the last day, one a minute: ``P/history`` of a partition, and the sums at ``/ws/v1/history``."""

from __future__ import annotations

from collections import deque
from functools import partial
from math import inf
from typing import NamedTuple

import trio
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response

from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.http.app import check_sees_all, check_sees_nodes
from ykactor.surfaces.http.parameters import number
from ykactor.surfaces.http.published import Published
from ykactor.surfaces.http.readings.history import sample
from ykactor.surfaces.http.replies import Page, reply
from ykactor.surfaces.metrics.scrape import Sources
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.rest import usage
from ykactor.wire.rest.codec import encode, encode_part
from ykactor.wire.rest.history import PartitionSample

SAMPLE_S = 60
SAMPLES_MAX = 1440


class Sample(NamedTuple):
    """Running applications and allocations of all partitions."""

    at_ns: int
    applications: int
    containers: int


class _Kept(Struct, frozen=True, gc=False):
    """A sample of a partition, encoded: 400 bytes, where its objects would take ten times as much."""

    at_ns: int
    encoded: bytes


def _ring() -> deque[_Kept]:
    return deque(maxlen=SAMPLES_MAX)


class _Ring(Struct, eq=False):
    """The samples of a partition, the oldest first, and how many there have been."""

    samples: deque[_Kept] = field(default_factory=_ring)
    count: int = 0


class History:
    """Takes the samples and answers requests for them. They end with the daemon, and those of a partition with it."""

    def __init__(self, published: Published, sources: Sources) -> None:
        self._published = published
        self._sources = sources
        self._sums: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._rings: dict[PartitionName, _Ring] = {}

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            await trio.sleep(SAMPLE_S)
            await self._take()

    async def _take(self) -> None:
        """Take a sample of each partition. One that waits for the disk has none, and then there is no sum either."""
        gateway, found = self._published.gateway, list[PartitionSample]()
        names = list(gateway.partitions)
        for name in self._rings.keys() - names:
            del self._rings[name]
        for name in names:
            try:
                taken = await self._sample(name)
            except RefusedError:
                continue
            ring = self._rings.setdefault(name, _Ring())
            ring.samples.append(_Kept(taken.at, encode_part(taken)))
            ring.count += 1
            found.append(taken)
        if len(found) == len(names):
            applications, containers = sum(each.applications for each in found), sum(each.allocations for each in found)
            self._sums.append(Sample(max((each.at for each in found), default=gateway.now_ns()), applications, containers))

    async def _sample(self, name: PartitionName) -> PartitionSample:
        placed = self._sources.instruments.facts.placed.get(name)
        taken: PartitionSample = await self._published.ask(name, partial(sample, placed=placed))
        return taken

    async def of_partition(self, request: Request) -> Response:
        """``P/history``: the samples after a time; of whole partitions, so not for readers that are limited to queues."""
        name = self._published.partition(request)
        check_sees_nodes(request)
        after, ring = number(request, "after", 0), self._rings.get(name, _Ring())

        async def make() -> Page:
            found = [kept.encoded for kept in ring.samples if kept.at_ns > after]
            return Page(200, [b"[%b]\n" % b",".join(found)], fresh_s=inf)

        whole = ("history", self._published.gateway.partitions.get(name), ring.count)
        return await reply(request, await (make() if after else self._published.kept(whole, make)))

    async def applications(self, request: Request) -> Response:
        """``/ws/v1/history/apps``."""
        check_sees_all(request)
        return await reply(request, Page(200, [encode(self.found_applications())]))

    def found_applications(self) -> list[usage.ApplicationSample]:
        """The oldest first."""
        return [usage.ApplicationSample(timestamp=at_ns, total_applications=str(count)) for at_ns, count, _ in self._sums]

    async def containers(self, request: Request) -> Response:
        """``/ws/v1/history/containers``."""
        check_sees_all(request)
        return await reply(request, Page(200, [encode(self.found_containers())]))

    def found_containers(self) -> list[usage.ContainerSample]:
        """The oldest first."""
        return [usage.ContainerSample(timestamp=at_ns, total_containers=str(count)) for at_ns, _, count in self._sums]
