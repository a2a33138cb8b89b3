"""Cost of durability: the daemon with a state directory (``--durability full``) beside the same without, and its recovery."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from msgspec import Struct

from bench.daemon import cpu_of, running_daemon
from bench.followers import place
from bench.measures import Samples
from bench.memory import Cluster
from bench.workloads import Workload, queue_file
from ykactor.client import ResourceManager, connect
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import PartitionRequest


@contextmanager
def state_dir() -> Iterator[tuple[str, str]]:
    """The arguments for a state directory that is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield "--state-dir", folder


async def throughput(workload: Workload) -> Samples:
    """Allocations per second in messages of 1,000 asks, without and with a journal, and the share that is left with it."""
    without, _ = await _placed(workload)
    with state_dir() as arguments:
        kept, cpu_s = await _placed(workload, *arguments)
    return {
        "without_per_second": [without],
        "journal_per_second": [kept],
        "journal_share": [kept / without],
        "journal_cpu_us": [cpu_s * 1e6 / workload.asks],
    }


async def _placed(workload: Workload, *arguments: str) -> tuple[float, float]:
    """Allocations per second, and the daemon's CPU seconds with all of its threads."""
    requests = workload.requests()
    async with running_daemon(workload.config(), *arguments) as (url, pid):
        async with connect(url, rm_id="bench", encoding="msgpack") as rm:
            await _send(rm, workload.setup())
            began_cpu_s, began_s = cpu_of(pid), perf_counter()
            await place(rm, requests)
            return workload.asks / (perf_counter() - began_s), cpu_of(pid) - began_cpu_s


async def _send(rm: ResourceManager, requests: Iterable[PartitionRequest]) -> None:
    for request in requests:
        await rm.request(request)


class OneByOne(Struct, frozen=True):
    """Requests with one ask each, the next when the one before was acknowledged."""

    nodes: int
    asks: int


async def acknowledgement(paced: OneByOne) -> Samples:
    """Measure acknowledgements without and with a journal: median and 99th percentile, and what the journal adds."""
    without = await acknowledged(paced)
    with state_dir() as arguments:
        kept = await acknowledged(paced, *arguments)
    samples: Samples = {}
    for percent in (50, 99):
        plain_ms, kept_ms = (times[len(times) * percent // 100] * 1e3 for times in (without, kept))
        samples |= {
            f"p{percent}_without_ms": [plain_ms],
            f"p{percent}_ms": [kept_ms],
            f"p{percent}_added_ms": [kept_ms - plain_ms],
        }
    return samples


async def acknowledged(paced: OneByOne, *arguments: str) -> list[float]:
    """The seconds until each request was acknowledged, sorted, by a daemon with these arguments."""
    workload = Workload(paced.nodes, leaves=2, applications=2, asks_each=paced.asks // 2)
    asks = [ask for request in workload.requests() for ask in request.allocations]
    times_s = []
    async with running_daemon(workload.config(), *arguments) as (url, _), connect(url, rm_id="bench") as rm:
        await _send(rm, workload.setup())
        for ask in asks:
            began_s = perf_counter()
            await rm.request(si.AllocationRequest(allocations=[ask]))
            times_s.append(perf_counter() - began_s)
    return sorted(times_s)


async def recovery(cluster: Cluster) -> Samples:
    """Seconds from the start of a process to the socket, after the one before was killed with so much state."""
    config = queue_file(100)
    with state_dir() as arguments:
        async with running_daemon(config, *arguments) as (url, _):
            async with connect(url, rm_id="bench", encoding="msgpack") as rm:
                await _send(rm, cluster.setup())
                for run, count in ((True, cluster.nodes * cluster.each), (False, cluster.asks)):
                    await _send(rm, cluster.requests(0 if run else cluster.nodes * cluster.each, count, run=run))
        began_s = perf_counter()
        async with running_daemon(config, *arguments):
            return {"start_s": [perf_counter() - began_s]}
