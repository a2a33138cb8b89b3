"""Memory of the process for a large cluster: the peak with many running allocations, and with asks that wait."""

import resource
import sys
from collections.abc import Iterator

from msgspec import Struct

from bench.harness import Rig, running
from bench.measures import Samples
from bench.workloads import NODE, REQUEST_ASKS, new_applications, nodes, queue_file
from ykactor.actors.pauses import settle_memory
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import PartitionRequest


def rss_peak_mib() -> float:
    """Includes the memory of the parent process when it started this process, so the parent must be small."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10  # bytes on macOS, KiB elsewhere


class Cluster(Struct, frozen=True):
    """Nodes that are full of running allocations, and asks of the same size that wait.

    Attributes:
        each: allocations on each node.
        asks: number of asks that wait.
        applications: in 100 leaves; neighbours in a request belong to different ones.
    """

    nodes: int
    each: int
    asks: int
    applications: int = 1_000

    def setup(self) -> Iterator[PartitionRequest]:
        """Nodes and applications."""
        yield nodes(self.nodes)
        yield new_applications([(f"app-{i}", f"root.q{i % 100}") for i in range(self.applications)])

    def requests(self, first: int, count: int, *, run: bool) -> Iterator[PartitionRequest]:
        """Allocations that run, or asks: built when they are sent, with objects of their own as if read from a socket."""
        for start in range(first, first + count, REQUEST_ASKS):
            numbers = range(start, min(start + REQUEST_ASKS, first + count))
            yield si.AllocationRequest(allocations=[self._entry(number, run=run) for number in numbers])

    def _entry(self, number: int, *, run: bool) -> si.Allocation:
        return si.Allocation(
            allocation_key=f"a{number}",
            application_id=f"app-{number % self.applications}",
            resource_per_alloc={name: int(quantity) // self.each for name, quantity in NODE.items()},
            node_id=f"n{number % self.nodes:05}" if run else "",
        )


async def footprint(cluster: Cluster) -> Samples:
    """The peak when all allocations run, and how much higher it is when the asks wait too."""
    async with running(queue_file(100), []) as rig:
        settle_memory()
        await _submit(rig, cluster.setup())
        allocations = cluster.nodes * cluster.each
        await _submit(rig, cluster.requests(0, allocations, run=True))
        running_mib = rss_peak_mib()
        await _submit(rig, cluster.requests(allocations, cluster.asks, run=False))
        return {"running_mib": [running_mib], "waiting_mib": [rss_peak_mib() - running_mib]}


async def _submit(rig: Rig, requests: Iterator[PartitionRequest]) -> None:
    for request in requests:
        await rig.submit(request)
        await rig.settle()
