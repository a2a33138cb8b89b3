"""Cost of the sockets: a resource manager sends asks to ``ykactor serve``, a process of its own, over a websocket."""

from time import perf_counter
from typing import Literal

import trio
from msgspec import Struct

from bench import measures
from bench.daemon import cpu_of, running_daemon
from bench.followers import place
from bench.measures import Samples
from bench.workloads import Workload
from ykactor.client import ResourceManager, connect
from ykactor.wire.si import messages as si

#: The interval of messages with one ask each.
_PACED_S = 0.001


class Paced(Struct, frozen=True):
    """Asks that arrive evenly, 1,000 in a second, each in a message of its own."""

    nodes: int
    asks: int


async def latency(paced: Paced) -> Samples:
    """Measure the time from an ask to its allocation: median and 99th percentile; and the daemon's CPU for each ask."""
    workload = Workload(paced.nodes, leaves=2, applications=2, asks_each=paced.asks // 2)
    asks = [ask for request in workload.requests() for ask in request.allocations]
    async with running_daemon(workload.config()) as (url, pid), connect(url, rm_id="bench") as rm:
        for request in workload.setup():
            await rm.request(request)
        began_cpu_s = cpu_of(pid)
        sent_s: dict[str, float] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send_evenly, rm, asks, sent_s)
            received_s = await _receive(rm, len(asks))
        cpu_s = cpu_of(pid) - began_cpu_s
    took_ms = sorted((received_s[key] - sent_s[key]) * 1e3 for key in received_s)
    return {
        "p50_ms": [took_ms[len(took_ms) // 2]],
        "p99_ms": [took_ms[len(took_ms) * 99 // 100]],
        "cpu_us": [cpu_s * 1e6 / len(asks)],
    }


async def _send_evenly(rm: ResourceManager, asks: list[si.Allocation], sent_s: dict[str, float]) -> None:
    """Send each ask when it is due, or as soon as possible after that."""
    began_s = trio.current_time()
    for number, ask in enumerate(asks):
        await trio.sleep_until(began_s + number * _PACED_S)
        sent_s[ask.allocation_key] = perf_counter()
        await rm.send(si.AllocationRequest(allocations=[ask]))


async def _receive(rm: ResourceManager, count: int) -> dict[str, float]:
    """The times at which the allocations were received."""
    received_s: dict[str, float] = {}
    while len(received_s) < count:
        response = await rm.__anext__()
        if isinstance(response, si.AllocationResponse):
            now_s = perf_counter()
            received_s |= {allocation.allocation_key: now_s for allocation in response.new}
    return received_s


async def bulk(workload: Workload) -> Samples:
    """Allocations per second with messages of 1,000 asks in each encoding, and their share of the rate without sockets."""
    (alone,) = (await measures.throughput(workload))["allocations_per_second"]
    samples: Samples = {"without_per_second": [alone]}
    encodings: tuple[Literal["json", "msgpack"], ...] = ("json", "msgpack")
    for encoding in encodings:
        rate, cpu_s = await _bulk(workload, encoding)
        samples[f"{encoding}_per_second"] = [rate]
        samples[f"{encoding}_share"] = [rate / alone]
        samples[f"{encoding}_cpu_us"] = [cpu_s * 1e6 / workload.asks]
    return samples


async def _bulk(workload: Workload, encoding: str) -> tuple[float, float]:
    """Allocations per second, and the daemon's CPU seconds."""
    requests = workload.requests()
    async with running_daemon(workload.config()) as (url, pid), connect(url, rm_id="bench", encoding=encoding) as rm:
        for request in workload.setup():
            await rm.request(request)
        began_cpu_s, began_s = cpu_of(pid), perf_counter()
        await place(rm, requests)
        return workload.asks / (perf_counter() - began_s), cpu_of(pid) - began_cpu_s
