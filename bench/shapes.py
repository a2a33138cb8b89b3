"""Workloads that ask much of one index: selectors, many shapes, many leaves, many applications, recovery, large gangs."""

from collections.abc import Callable
from time import process_time

import trio
from msgspec import Struct

from bench.harness import Rig, running
from bench.measures import Samples, TurnWatch, watched
from bench.workloads import GIB, HEAD, NODE, in_requests, new_applications, queue_file
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import PartitionRequest

SELECTOR = "ykactor.io/node-selector"
#: The number of different sizes, a prime so that sizes and zones meet in every combination.
_SIZES = 997


class Shape(Struct, frozen=True):
    """A cluster and the asks that are placed in it.

    Attributes:
        nodes: number of nodes.
        asks: number of asks that are placed while the time is taken.
        config: the queue file.
        setup: what is there before.
        requests: what is sent while the time is taken.
    """

    nodes: int
    asks: int
    config: Callable[[], str]
    setup: Callable[[], list[PartitionRequest]]
    requests: Callable[[], list[PartitionRequest]]


async def cost(shape: Shape) -> Samples:
    """CPU of a placement, and the longest time for which the event loop does not check its sockets."""
    requests = shape.requests()
    async with running(shape.config(), shape.setup()) as rig:
        with watched() as watch:
            began_s = process_time()
            for request in requests:
                await rig.submit(request)
            await _until_placed(rig, shape.asks)
            cpu_s = process_time() - began_s
    return _samples(cpu_s / shape.asks, watch)


async def _until_placed(rig: Rig, asks: int) -> None:
    await rig.events.until_allocations(asks)
    await rig.responses.until_allocations(asks)


def _samples(cpu_s: float, watch: TurnWatch) -> Samples:
    return {"cpu_us": [cpu_s * 1e6], "max_ms": [max(watch.turns_ms)]}


def _nodes(count: int, attributes: Callable[[int], dict[str, str]]) -> si.NodeRequest:
    return si.NodeRequest(
        nodes=[
            si.NodeInfo(node_id=f"n{i:05}", action="CREATE", schedulable_resource=NODE, attributes=attributes(i))
            for i in range(count)
        ]
    )


def _ask(number: int, application: int, resource: si.WireResource, selector: str = "") -> si.Allocation:
    tags = {SELECTOR: selector} if selector else {}
    return si.Allocation(
        allocation_key=f"a{number}", application_id=f"app-{application}", resource_per_alloc=resource, allocation_tags=tags
    )


def _size(number: int) -> si.WireResource:
    return {"vcore": 1_000 + number % _SIZES, "memory": GIB}


def hostnames(nodes: int = 5_000, asks: int = 10_000) -> Shape:
    """Each ask selects one node by its name."""
    return Shape(
        nodes,
        asks,
        lambda: queue_file(2),
        lambda: [_nodes(nodes, lambda i: {"hostname": f"n{i:05}"}), new_applications(_applications(10, 2))],
        lambda: list(in_requests(_ask(i, i % 10, _size(0), f"hostname=n{i % nodes:05}") for i in range(asks))),
    )


def zones(nodes: int = 5_000, asks: int = 20_000, count: int = 100) -> Shape:
    """Each ask selects a zone, and has one of a thousand sizes."""
    return Shape(
        nodes,
        asks,
        lambda: queue_file(2),
        lambda: [_nodes(nodes, lambda i: {"zone": f"z{i % count}"}), new_applications(_applications(10, 2))],
        lambda: list(in_requests(_ask(i, i % 10, _size(i), f"zone=z{i % count}") for i in range(asks))),
    )


def leaves(parents: int, each: int, asks: int, applications: int, nodes: int = 2_000) -> Shape:
    """Applications spread over the leaves of a tree with two levels."""

    def config() -> str:
        lines = list(HEAD)
        for parent in range(parents):
            lines += [f"          - name: p{parent}", "            queues:"]
            lines += [
                f"              - {{name: q{number}, properties: {{application.sort.policy: fifo}}}}" for number in range(each)
            ]
        return "\n".join(lines)

    def setup() -> list[PartitionRequest]:
        queues = [f"root.p{parent}.q{number}" for parent in range(parents) for number in range(each)]
        names = [(f"app-{i}", queues[i % len(queues)]) for i in range(applications)]
        return [_nodes(nodes, lambda _: {}), new_applications(names)]

    return Shape(nodes, asks, config, setup, lambda: list(in_requests(_ask(i, i % applications, _size(0)) for i in range(asks))))


def _applications(count: int, leaves: int) -> list[tuple[str, str]]:
    return [(f"app-{i}", f"root.q{i % leaves}") for i in range(count)]


def many_applications(applications: int = 50_000, leaves: int = 10, nodes: int = 2_000) -> Shape:
    """Make as many applications with one ask each."""
    return Shape(
        nodes,
        applications,
        lambda: queue_file(leaves),
        lambda: [_nodes(nodes, lambda _: {}), new_applications(_applications(applications, leaves))],
        lambda: list(in_requests(_ask(i, i, _size(0)) for i in range(applications))),
    )


def recovery(nodes: int = 10_000, each: int = 10) -> Shape:
    """A resource manager that comes back: its running allocations with their nodes."""
    count = nodes * each
    return Shape(
        nodes,
        count,
        lambda: queue_file(100),
        lambda: [_nodes(nodes, lambda _: {}), new_applications(_applications(1_000, 100))],
        lambda: list(in_requests(_recovered(i, f"n{i % nodes:05}") for i in range(count))),
    )


def _recovered(number: int, node_id: str) -> si.Allocation:
    return si.Allocation(
        allocation_key=f"a{number}", application_id=f"app-{number % 1_000}", resource_per_alloc=_size(0), node_id=node_id
    )


class Waiting(Struct, frozen=True):
    """Full nodes, and pending asks of many sizes that fit nowhere.

    Attributes:
        sizes: number of different sizes among the pending asks.
        pairs: releases of one task, each with one new ask, while the time is taken.
    """

    nodes: int
    asks: int
    sizes: int
    pairs: int = 30

    def setup(self) -> list[PartitionRequest]:
        """Two tasks on each node, of a size that nearly all pending asks need one of."""
        running = (
            si.Allocation(
                allocation_key=f"r{i}", application_id="runs", resource_per_alloc={"vcore": 25_000, "memory": 100 * GIB}
            )
            for i in range(2 * self.nodes)
        )
        return [
            _nodes(self.nodes, lambda _: {}),
            new_applications([("runs", "root.q0"), *_applications(20, 2)]),
            *in_requests(running),
        ]

    def pending(self) -> list[PartitionRequest]:
        """The asks that wait."""
        return list(in_requests(self.ask(i) for i in range(self.asks)))

    def ask(self, number: int) -> si.Allocation:
        """One of them."""
        return _ask(number, number % 20, {"vcore": 20_000 + number % self.sizes, "memory": 50 * GIB})


async def first_pass(waiting: Waiting) -> Samples:
    """CPU until nothing more is decided about new asks that fit nowhere, and then when they may reserve nodes."""
    requests = waiting.pending()
    async with running(queue_file(2), waiting.setup()) as rig:
        with watched() as watch:
            began_s = process_time()
            for request in requests:
                await rig.submit(request)
            await rig.settle()
            first_s = process_time() - began_s
            began_s = process_time()
            await trio.sleep(3)  # they may reserve after 2 s
            await rig.settle()
            second_s = process_time() - began_s
    return {"first_s": [first_s], "reserve_s": [second_s], "max_ms": [max(watch.turns_ms)]}


async def release_and_submit(waiting: Waiting) -> Samples:
    """CPU of a release and a new ask while many wait."""
    async with running(queue_file(2), [*waiting.setup(), *waiting.pending()]) as rig:
        await trio.sleep(3)
        await rig.settle()
        with watched() as watch:
            began_s = process_time()
            for number in range(waiting.pairs):
                release = si.AllocationRelease(
                    application_id="runs", allocation_key=f"r{number}", termination_type="STOPPED_BY_RM"
                )
                releases = si.AllocationReleasesRequest(allocations_to_release=[release])
                asks = [waiting.ask(waiting.asks + number)]
                await rig.submit(si.AllocationRequest(allocations=asks, releases=releases))
                await rig.settle()
            pair_s = (process_time() - began_s) / waiting.pairs
    return {"pair_ms": [pair_s * 1e3], "max_ms": [max(watch.turns_ms)]}
