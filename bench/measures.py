"""The measurements. Each runs in its own process and returns samples of its figures; a figure's name ends with its unit."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time, thread_time
from typing import Any

import trio

from bench.harness import Rig, running
from bench.workloads import NODE, FullCluster, Workload
from ykactor.actors.pauses import settle_memory
from ykactor.core.values.ids import NodeID
from ykactor.wire.si import messages as si

#: What the daemon has to do after a round is over then, such as collecting garbage.
REST_S = 0.05
#: Figure -> its values, all taken in this process.
Samples = dict[str, list[float]]


async def throughput(workload: Workload) -> Samples:
    """Allocations per second, and CPU time of an allocation: from the first request until the last was read on both sides."""
    requests = workload.requests()
    async with running(workload.config(), workload.setup()) as rig:
        settle_memory()
        began_cpu_s = process_time()
        duration_s = await place_all(rig, workload.asks, requests)
        cpu_s = process_time() - began_cpu_s
    return {"allocations_per_second": [workload.asks / duration_s], "cpu_us": [cpu_s * 1e6 / workload.asks]}


async def place_all(rig: Rig, asks: int, requests: list[si.AllocationRequest]) -> float:
    """Submit the requests; the seconds until all asks were placed and read on both sides."""
    began_s = perf_counter()
    for request in requests:
        await rig.submit(request)
    await rig.events.until_allocations(asks)
    await rig.responses.until_allocations(asks)
    return max(rig.events.last_s, rig.responses.last_s) - began_s


async def freed_node(cluster: FullCluster, rounds: int = 10) -> Samples:
    """Release everything on one node: the time until the first pending ask is placed there, and until all that fit are placed.

    Repeated for ``rounds`` nodes, one after the other, with a rest before each. ``answer_ms`` is the time until the resource
    manager has the first allocation, whatever followers have.
    """
    samples: Samples = {"answer_ms": [], "first_ms": [], "all_ms": []}
    async with running(cluster.config(), cluster.setup()) as rig:
        settle_memory()
        for i in range(rounds):
            request = release_all(rig, f"n{i * cluster.nodes // rounds:05}")
            rig.reset()
            await trio.sleep(REST_S)
            began_s = perf_counter()
            await rig.submit(request)
            await rig.settle()
            samples["answer_ms"].append(((rig.responses.first_s or 0) - began_s) * 1e3)
            first_s = max(rig.events.first_s or 0, rig.responses.first_s or 0)
            last_s = max(rig.events.last_s, rig.responses.last_s)
            samples["first_ms"].append((first_s - began_s) * 1e3)
            samples["all_ms"].append((last_s - began_s) * 1e3)
        _check_full(rig)
    return samples


def release_all(rig: Rig, node_id: str) -> si.AllocationRequest:
    """The request that releases everything on the node."""
    running_here = rig.partition.core.registry.nodes[NodeID(node_id)].allocations.values()
    releases = [
        si.AllocationRelease(
            application_id=ask.application_id,
            allocation_key=ask.allocation_key,
            termination_type="STOPPED_BY_RM",
        )
        for ask in running_here
    ]
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=releases))


def _check_full(rig: Rig) -> None:
    """Check that no node has a vcore left, so that everything that fits was placed."""
    for node in rig.partition.core.registry.nodes.values():
        if node.allocated["vcore"] != NODE["vcore"]:
            raise RuntimeError(f"node {node.node_id} is not full: {node.allocated}")


async def one_more_ask(cluster: FullCluster, rounds: int = 100) -> Samples:
    """Add one ask to many pending ones: milliseconds until a follower reads its event."""
    samples: list[float] = []
    async with running(cluster.config(), cluster.setup()) as rig:
        settle_memory()
        for i in range(rounds):
            request = si.AllocationRequest(allocations=[cluster.waiting_ask(cluster.asks + i)])
            next_event = rig.events.position + 1
            began_s = perf_counter()
            await rig.submit(request)
            await rig.events.until_position(next_event)
            samples.append((perf_counter() - began_s) * 1e3)
            await rig.settle()
    return {"ms": samples}


async def loop_lag(workload: Workload) -> Samples:
    """Measure the pauses in which the event loop does not check its sockets while the workload is placed.

    ``max_ms`` and ``p99_ms`` are times between two checks, ``step_max_ms`` is the longest step of one task without a checkpoint,
    ``gc_max_ms`` the longest garbage collection (contained in the others).
    """
    requests = workload.requests()
    async with running(workload.config(), workload.setup()) as rig:
        settle_memory()
        stopwatch = Stopwatch()
        with _collections_timed() as collections_ms:
            trio.lowlevel.add_instrument(stopwatch)
            await place_all(rig, workload.asks, requests)
            trio.lowlevel.remove_instrument(stopwatch)
    turns_ms = sorted(stopwatch.turns_ms)
    return {
        "max_ms": turns_ms[-1:],
        "p99_ms": [turns_ms[len(turns_ms) * 99 // 100]],
        "step_max_ms": [stopwatch.step_max_ms],
        "gc_max_ms": [max(collections_ms, default=0.0)],
    }


class TurnWatch(trio.abc.Instrument):
    """Times each iteration of the event loop between two checks of the sockets, in CPU time of the thread."""

    def __init__(self) -> None:
        self.turns_ms: list[float] = []
        self._began_s = thread_time()

    def after_io_wait(self, timeout: float) -> None:
        self._began_s = thread_time()

    def before_io_wait(self, timeout: float) -> None:
        self.turns_ms.append((thread_time() - self._began_s) * 1e3)


class Stopwatch(trio.abc.Instrument):
    """Times each iteration of the event loop between two checks of the sockets, and each step of a task."""

    def __init__(self) -> None:
        self.turns_ms: list[float] = []
        self.step_max_ms = 0.0
        self._turn_began_s = self._step_began_s = perf_counter()

    def after_io_wait(self, timeout: float) -> None:
        self._turn_began_s = perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        self.turns_ms.append((perf_counter() - self._turn_began_s) * 1e3)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_began_s = perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.step_max_ms = max(self.step_max_ms, (perf_counter() - self._step_began_s) * 1e3)


@contextmanager
def watched() -> Iterator[TurnWatch]:
    """Times the event loop, with the memory of what was set up out of the way of the garbage collector."""
    settle_memory()
    watch = TurnWatch()
    trio.lowlevel.add_instrument(watch)
    try:
        yield watch
    finally:
        trio.lowlevel.remove_instrument(watch)


@contextmanager
def _collections_timed() -> Iterator[list[float]]:
    """Yields a list to which the milliseconds of each garbage collection are appended."""
    durations_ms: list[float] = []
    began_s = 0.0

    def on_collection(phase: str, details: dict[str, Any]) -> None:
        nonlocal began_s
        if phase == "start":
            began_s = perf_counter()
        else:
            durations_ms.append((perf_counter() - began_s) * 1e3)

    gc.callbacks.append(on_collection)
    try:
        yield durations_ms
    finally:
        gc.callbacks.remove(on_collection)


async def idle(workload: Workload, duration_s: float = 2.0) -> Samples:
    """CPU seconds used in ``duration_s`` seconds without input, with the nodes and applications of the workload."""
    async with running(workload.config(), workload.setup()):
        settle_memory()
        began_s = process_time()
        await trio.sleep(duration_s)
        return {"cpu_s": [process_time() - began_s]}
