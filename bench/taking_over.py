"""Time that clients wait when a standby takes over, beside a daemon that recovers the same state from its disk."""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

import trio
from msgspec import Struct, structs

from bench.daemon import drain, python_process, read_line
from bench.measures import Samples
from bench.workloads import ASK, GIB, Workload
from ykactor.client import keep_registered
from ykactor.client.kept import KeptSession
from ykactor.wire.si import messages as si

#: The capacity of a node.
_NODE: si.WireResource = {"vcore": 128_000, "memory": 512 * GIB}


class Running(Struct, frozen=True):
    """The tasks of a workload, which all run, on nodes with room for more."""

    workload: Workload


async def take_over(running: Running) -> Samples:
    """The time until a client that knows both addresses has a new ask acknowledged, and placed.

    ``planned_*`` is from the start of the command ``take-over --hand-over``, ``unplanned_*`` from that of ``take-over`` after the
    daemon was killed, ``recovery_*`` from that of ``serve`` on the same directory after another kill. ``planned_gap_ms`` is from
    the loss of the connection to the acknowledgement.
    """
    samples: Samples = {}

    async def measure(kind: str, act: Callable[[], Awaitable[object]]) -> None:
        samples.update({f"{kind}_{name}_ms": [seconds * 1e3] for name, seconds in (await client.measured(act)).items()})

    with tempfile.TemporaryDirectory() as folder:
        pair = _Pair(Path(folder))
        async with trio.open_nursery() as nursery:
            async with pair.running("a", b'"daemon_started"') as first:
                client = await nursery.start(_Client(running.workload).run, f"{pair.url('a')},{pair.url('b')}")
                await client.fill()
                async with pair.running("b", b'"partition_in_memory"', "--standby-of", pair.url("a")) as second:
                    await measure("planned", partial(pair.take_over, "b", "--hand-over"))
                    await first.wait()
                    async with pair.running("a", b'"partition_in_memory"', "--standby-of", pair.url("b")) as third:
                        await _kill(second)
                        await measure("unplanned", partial(pair.take_over, "a"))
                        await _kill(third)
                        await measure("recovery", partial(nursery.start, pair.serve, "a"))
            nursery.cancel_scope.cancel()
    del samples["unplanned_gap_ms"], samples["recovery_gap_ms"]
    return samples


async def _kill(process: trio.Process) -> None:
    process.kill()
    await process.wait()


class _Pair:
    """Two directories, each with an address."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def url(self, name: str) -> str:
        return f"unix:{self._place / name}.sock"

    @asynccontextmanager
    async def running(self, name: str, ready: bytes, *arguments: str) -> AsyncIterator[trio.Process]:
        """Run ``ykactor serve`` in a directory; the block begins with this event in its log, and when nothing more is done."""
        where = ("--state-dir", str(self._place / name), "--ws", self.url(name), "--http", "none")
        async with python_process("ykactor", "serve", *where, *arguments, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            while ready not in (line := await read_line(process.stderr)):
                if not line:
                    raise RuntimeError("the daemon has ended")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drain, process.stderr)
                yield process
                nursery.cancel_scope.cancel()

    async def serve(self, name: str, *, task_status: trio.TaskStatus[None]) -> None:
        async with self.running(name, b'"daemon_started"'):
            task_status.started()
            await trio.sleep_forever()

    async def take_over(self, name: str, *options: str) -> None:
        command = ("ykactor", "take-over", "--state-dir", str(self._place / name), *options)
        async with python_process(*command, stdout=subprocess.DEVNULL) as process:
            assert await process.wait() == 0


class _Client:
    """A resource manager that stays registered, and when it has been told what."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._rm: KeptSession
        self._count = 0
        self._placed: defaultdict[str, trio.Event] = defaultdict(trio.Event)
        self._acknowledged: defaultdict[str, trio.Event] = defaultdict(trio.Event)
        self._lost = trio.Event()
        self._lost_s = 0.0

    async def run(self, urls: str, *, task_status: trio.TaskStatus[_Client]) -> None:
        """Be registered until cancelled."""
        config, on_connection = self._workload.config, self._on_connection
        async with keep_registered(urls, rm_id="bench", config=config, on_connection=on_connection) as self._rm:
            async for message in self._rm:
                match message:
                    case si.RegisterResourceManagerResponse():
                        task_status.started(self)
                    case si.Ack(id=request):
                        self._acknowledged[request].set()
                    case si.AllocationResponse(new=allocations):
                        for allocation in allocations:
                            self._placed[allocation.allocation_key].set()

    def _on_connection(self, sentence: str) -> None:
        if sentence.startswith("no connection"):
            self._lost_s = perf_counter()
            self._lost.set()

    async def fill(self) -> None:
        """Have all tasks run."""
        for request in self._workload.setup():
            if isinstance(request, si.NodeRequest):
                nodes = [structs.replace(node, schedulable_resource=_NODE) for node in request.nodes]
                request = structs.replace(request, nodes=nodes)
            self._rm.send(request)
        for request in self._workload.requests():
            self._rm.send(request)
            for ask in request.allocations:
                await self._placed[ask.allocation_key].wait()
        self._placed.clear()

    async def measured(self, act: Callable[[], Awaitable[object]]) -> dict[str, float]:
        """The seconds from the beginning of ``act`` until a request that is sent without a connection is answered."""
        self._count += 1
        key, began_s = f"new-{self._count}", perf_counter()
        self._lost = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act)
            if not self._rm.is_lost:
                await self._lost.wait()
            ask = si.Allocation(allocation_key=key, application_id="app-0", resource_per_alloc=ASK)
            self._rm.send(si.AllocationRequest(id=key, allocations=[ask]))
            await self._acknowledged[key].wait()
            acknowledged_s = perf_counter()
            await self._placed[key].wait()
            placed_s = perf_counter()
        return {"ack": acknowledged_s - began_s, "placed": placed_s - began_s, "gap": acknowledged_s - self._lost_s}
