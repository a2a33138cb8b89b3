"""Followers that read while asks are placed: the daemon in a process of its own, with real sockets."""

import resource
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter

import msgspec
import trio
from msgspec import Struct

from bench.daemon import cpu_of, python_process, read_line, running_daemon
from bench.measures import Samples
from bench.readers import Outcome
from bench.workloads import Workload, in_requests
from ykactor.client import ResourceManager, connect
from ykactor.client import follow as subscribe
from ykactor.wire.si import messages as si

#: Followers in one process.
_READERS_EACH = 500
#: The paced asks: requests of so many asks, one every so often.
_PACED_ASKS = 50
_PACED_S = 0.02
#: Events of a placement: request, node, user, application. State changes of applications come on top.
_EVENTS_EACH = 4


class Followed(Struct, frozen=True):
    """Asks that are placed as fast as possible, then asks that arrive evenly, while followers read all events.

    Attributes:
        counts: numbers of followers; each gets a daemon of its own. The ratios compare with the first.
        fast: asks that are placed as fast as possible.
        paced: asks that arrive evenly after that.
        offers_deflate: whether followers offer to decompress messages.
    """

    counts: tuple[int, ...]
    nodes: int
    fast: int
    paced: int
    offers_deflate: bool

    @property
    def asks(self) -> int:
        """Number of asks in all."""
        return self.fast + self.paced


async def follow(followed: Followed) -> Samples:
    """The daemon's CPU time per placement by number of followers, and how long requests wait for their ``Ack``.

    ``cpu_us_N`` is the CPU time of a placement with N followers until all of them have its events, ``ratio_N`` compares it with
    the first number of followers, ``per_second_N`` is the rate of the placements, ``ack_ms_N`` the longest time until a request
    of the paced asks was acknowledged, and ``ack_median_ms_N`` the median. ``incomplete_N`` is the number of followers that do
    not have every event in order.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # every follower is a socket here and there
    samples: Samples = {}
    for count in followed.counts:
        samples |= {f"{name}_{count}": values for name, values in (await _follow(followed, count)).items()}
    base = samples[f"cpu_us_{followed.counts[0]}"][0]
    for count in followed.counts[1:]:
        samples[f"ratio_{count}"] = [samples[f"cpu_us_{count}"][0] / base]
    return samples


async def _follow(followed: Followed, count: int) -> Samples:
    workload = Workload(followed.nodes, leaves=2, applications=2, asks_each=followed.asks // 2)
    asks = [ask for request in workload.requests() for ask in request.allocations]
    async with running_daemon(workload.config()) as (url, pid), connect(url, rm_id="bench") as rm:
        for request in workload.setup():
            await rm.request(request)
        setup_events = await _sequence(url)
        last = setup_events + _EVENTS_EACH * workload.asks
        async with _readers(url, count, last, "deflate" if followed.offers_deflate else "plain") as outcomes:
            began_cpu_s, began_s = cpu_of(pid), perf_counter()
            await place(rm, in_requests(iter(asks[: followed.fast])))
            fast_s = perf_counter() - began_s
            acks_ms = await _place_evenly(rm, asks[followed.fast :])
        cpu_s = cpu_of(pid) - began_cpu_s
    return {
        "cpu_us": [cpu_s * 1e6 / workload.asks],
        "per_second": [followed.fast / fast_s],
        "ack_ms": [acks_ms[-1]],
        "ack_median_ms": [acks_ms[len(acks_ms) // 2]],
        "incomplete": [float(count - sum(outcome.whole for outcome in outcomes))],
    }


async def _sequence(url: str) -> int:
    """The number of the newest event."""
    async with subscribe(url, from_="snapshot") as messages:
        snapshot = await messages.__anext__()
    assert isinstance(snapshot, si.Snapshot)
    return snapshot.sequence


async def place(rm: ResourceManager, requests: list[si.AllocationRequest]) -> None:
    """Send all requests at once and wait until all asks are placed."""
    wanted = sum(len(request.allocations) for request in requests)
    async with trio.open_nursery() as nursery:
        for request in requests:
            nursery.start_soon(rm.send, request)
        while wanted:
            response = await rm.__anext__()
            wanted -= len(response.new) if isinstance(response, si.AllocationResponse) else 0


async def _place_evenly(rm: ResourceManager, asks: list[si.Allocation]) -> list[float]:
    """Send the asks in small requests, evenly; the milliseconds until each was acknowledged, sorted."""
    times_ms: list[float] = []

    async def send(first: int) -> None:
        began_s = perf_counter()
        await rm.request(si.AllocationRequest(allocations=asks[first : first + _PACED_ASKS]))
        times_ms.append((perf_counter() - began_s) * 1e3)

    async with trio.open_nursery() as nursery:
        for first in range(0, len(asks), _PACED_ASKS):
            nursery.start_soon(send, first)
            await trio.sleep(_PACED_S)
    return sorted(times_ms)


@asynccontextmanager
async def _readers(url: str, count: int, last: int, offer: str) -> AsyncIterator[list[Outcome]]:
    """Followers during the block; after it, and when all have event ``last``, the list has what they saw."""
    outcomes: list[Outcome] = []
    port = url.rpartition(":")[2]
    async with AsyncExitStack() as stack:
        pipes = []
        for start in range(0, count, _READERS_EACH):
            here = min(_READERS_EACH, count - start)
            arguments = ("bench.readers", port, str(here), str(last), offer)
            process = await stack.enter_async_context(python_process(*arguments, stdout=subprocess.PIPE))
            assert process.stdout is not None
            pipes.append(process.stdout)
        for pipe in pipes:
            if (said := await read_line(pipe)) != b"ready\n":
                raise RuntimeError(f"found {said!r}, expected that the followers have subscribed")
        yield outcomes
        outcomes += [msgspec.json.decode(await read_line(pipe), type=Outcome) for pipe in pipes]
