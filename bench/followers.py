"""Followers that read while asks are placed: the daemon in a process of its own, with real sockets."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter

import msgspec
import trio
from msgspec import Struct

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
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "queues.yaml"
        config.write_text(workload.config())
        async with _daemon(config) as (url, pid), connect(url, rm_id="bench") as rm:
            for request in workload.setup():
                await rm.request(request)
            setup_events = await _sequence(url)
            last = setup_events + _EVENTS_EACH * workload.asks
            async with _readers(url, count, last, "deflate" if followed.offers_deflate else "plain") as outcomes:
                began_cpu_s, began_s = _cpu_s(pid), perf_counter()
                await _place(rm, in_requests(iter(asks[: followed.fast])))
                fast_s = perf_counter() - began_s
                acks_ms = await _place_evenly(rm, asks[followed.fast :])
            cpu_s = _cpu_s(pid) - began_cpu_s
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


async def _place(rm: ResourceManager, requests: list[si.AllocationRequest]) -> None:
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
async def _process(*arguments: str, stdout: int | None = None, stderr: int | None = None) -> AsyncIterator[trio.Process]:
    """A Python process that is killed at the end."""
    process = await trio.lowlevel.open_process([sys.executable, "-m", *arguments], stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    await pipe.aclose()


@asynccontextmanager
async def _daemon(config: Path) -> AsyncIterator[tuple[str, int]]:
    """The URL and the process id of a daemon that runs until the block ends."""
    arguments = ("ykactor", "serve", "--ws", "127.0.0.1:0", "--config", str(config))
    async with _process(*arguments, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        log = b""
        while b'"daemon_started"' not in log:
            log += await _line(process.stderr)
        started = next(line for line in map(msgspec.json.decode, log.splitlines()) if line["event"] == "daemon_started")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drain, process.stderr)
            yield started["addresses"], process.pid
            nursery.cancel_scope.cancel()


async def _line(pipe: trio.abc.ReceiveStream) -> bytes:
    """What comes, up to the end of a line; shorter if the pipe ends."""
    line = b""
    while not line.endswith(b"\n") and (part := await pipe.receive_some()):
        line += part
    return line


async def _drain(stream: trio.abc.ReceiveStream) -> None:
    async for _ in stream:
        pass


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
            process = await stack.enter_async_context(_process(*arguments, stdout=subprocess.PIPE))
            assert process.stdout is not None
            pipes.append(process.stdout)
        for pipe in pipes:
            if (said := await _line(pipe)) != b"ready\n":
                raise RuntimeError(f"found {said!r}, expected that the followers have subscribed")
        yield outcomes
        outcomes += [msgspec.json.decode(await _line(pipe), type=Outcome) for pipe in pipes]


def _cpu_s(pid: int) -> float:
    """CPU time that the process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
