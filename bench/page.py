"""The page in a headless Chromium: how soon it shows a large state, its longest steps, and its memory while events come."""

import tempfile
from itertools import islice
from math import inf
from pathlib import Path

import trio
from msgspec import Struct

from bench.chromium import Page, new_page, running
from bench.daemon import running_daemon
from bench.measures import Samples
from bench.workloads import NODE, in_requests, new_applications, nodes, queue_file
from ykactor.client import ResourceManager, connect
from ykactor.core.messages.kinds import TerminationType
from ykactor.wire.si import messages as si

VIEWS = ("overview", "queues", "waiting", "jobs", "applications", "nodes", "users", "preemptions", "configuration", "events")
_SHOWN = "document.querySelectorAll('#totals .tile').length > 3"
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
#: So long each view is looked at, in seconds.
_LOOK_S = 1.0
#: The hour is measured in so many parts.
_PARTS = 6
_BATCH = 50
_PAUSE_S = 0.05
_QUARTER: si.WireResource = {name: int(quantity) // 4 for name, quantity in NODE.items()}


class Shown(Struct, frozen=True):
    """A state that is shown, and an hour of it, in which ``ends`` tasks end and as many asks come."""

    nodes: int
    leaves: int
    asks: int
    applications: int
    ends: int


async def show(shown: Shown) -> Samples:
    """Open the page, look at each view, and let an hour of tasks go by as fast as the daemon takes them."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as browser:
        async with running_daemon(queue_file(shown.leaves), "--http", "127.0.0.1:0") as (addresses, _):
            ws, http = addresses.split(", ")
            async with connect(ws, rm_id="rm") as rm, new_page(browser) as page:
                await _fill(rm, shown)
                return await _measured(page, http, rm, shown)


async def _fill(rm: ResourceManager, shown: Shown) -> None:
    """Nodes of which each has four tasks; all other asks wait."""
    names = [(f"job-{number}", f"root.q{number % shown.leaves}") for number in range(shown.applications)]
    asks = (_ask(number, shown) for number in range(4 * shown.nodes + shown.asks))
    await rm.request(nodes(shown.nodes))
    await rm.request(new_applications(names))
    for request in in_requests(asks):
        await rm.request(request)


def _ask(number: int, shown: Shown) -> si.Allocation:
    name = f"job-{number % shown.applications}"
    return si.Allocation(allocation_key=f"{name}-{number}", application_id=name, resource_per_alloc=_QUARTER)


async def _measured(page: Page, http: str, rm: ResourceManager, shown: Shown) -> Samples:
    await page.begin_trace()
    await page.open(http)
    await page.until(_SHOWN)
    found = {"shown_ms": await page.run("performance.now()"), "painted_ms": await page.run(_PAINTED)}
    for view in VIEWS:
        await page.run(f"location.hash = '#{view}'")
        await trio.sleep(_LOOK_S)
    found["opened_step_ms"] = max(await page.end_trace())
    steps, heap = list[float](), list[float]()
    async with trio.open_nursery() as nursery:
        begun, running = trio.open_memory_channel[si.Allocation](inf)
        nursery.start_soon(_follow, rm, begun)
        rest = iter(range(4 * shown.nodes + shown.asks, 4 * shown.nodes + shown.asks + shown.ends))
        while numbers := list(islice(rest, shown.ends // _PARTS)):
            await page.begin_trace()
            await _go_by(rm, page, running, shown, numbers)
            steps += await page.end_trace()
            heap.append(await _heap_mib(page))  # it collects garbage, which is no step of the page
        nursery.cancel_scope.cancel()
    # Lists of the last events, and the state before the last snapshot, come and go: what grows raises the least, too.
    found |= {"heap_mib": max(heap), "heap_ratio": min(heap[_PARTS // 2 :]) / min(heap[: _PARTS // 2]), "step_ms": max(steps)}
    await page.open("about:blank")
    assert page.errors == []
    return {name: [value] for name, value in found.items()}


async def _follow(rm: ResourceManager, begun: trio.MemorySendChannel[si.Allocation]) -> None:
    """Tell the tasks that begin to run."""
    async for message in rm:
        for task in message.new if isinstance(message, si.AllocationResponse) else ():
            await begun.send(task)


async def _go_by(
    rm: ResourceManager, page: Page, running: trio.MemoryReceiveChannel[si.Allocation], shown: Shown, numbers: list[int]
) -> None:
    """Let the oldest task end for each of these new asks, in each view for a while."""
    for start in range(0, len(numbers), _BATCH):
        batch = numbers[start : start + _BATCH]
        releases = [_released(await running.receive()) for _ in batch]
        asks = [_ask(number, shown) for number in batch]
        await rm.request(si.AllocationRequest(allocations=asks, releases=si.AllocationReleasesRequest(releases)))
        await page.run(f"location.hash = '#{VIEWS[start // _BATCH % len(VIEWS)]}'")
        await trio.sleep(_PAUSE_S)


def _released(task: si.Allocation) -> si.AllocationRelease:
    return si.AllocationRelease(
        application_id=task.application_id, allocation_key=task.allocation_key, termination_type=TerminationType.STOPPED_BY_RM
    )


async def _heap_mib(page: Page) -> float:
    """The memory of the objects of the page at rest."""
    await page.run("location.hash = '#overview'")
    await trio.sleep(_LOOK_S)
    await page.send("HeapProfiler.collectGarbage")
    return float((await page.send("Runtime.getHeapUsage"))["usedSize"]) / 2**20
