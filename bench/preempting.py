"""Queues below their guarantee preempt on a full cluster, while a queue with nodes of its own continues to be served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import trio
from msgspec import Struct

from bench.harness import running
from bench.measures import Samples, Stopwatch
from bench.workloads import GIB, HEAD, NODE, in_requests, new_applications, nodes
from ykactor.actors.pauses import settle_memory
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.preemption.victims import Search
from ykactor.wire.si import messages as si

#: Ten of these run on each full node.
_TENTH: si.WireResource = {name: int(quantity) // 10 for name, quantity in NODE.items()}
#: What an ask of a starving queue wants: it needs three victims.
_WANTED: si.WireResource = {name: 3 * int(quantity) for name, quantity in _TENTH.items()}
#: Nodes without vcore, on which only asks of the unaffected queue fit.
_APART: si.WireResource = {"memory": 256 * GIB}
_APART_ASK: si.WireResource = {"memory": GIB}


class Starving(Struct, frozen=True):
    """Full nodes, and starving queues: queues below their guarantee with pending asks.

    Attributes:
        nodes: number of full nodes, each with ten tasks; the tasks belong to as many queues as there are starving ones.
        queues: number of starving queues.
        asks_each: asks of each starving queue; its guarantee is enough for all of them.
        others: asks of the unaffected queue, which has nodes of its own.
        is_hopeless: the queues of the tasks are guaranteed what they use, so that every search fails.
    """

    nodes: int
    queues: int
    asks_each: int
    others: int
    is_hopeless: bool = False

    @property
    def asks(self) -> int:
        """Number of asks of all starving queues."""
        return self.queues * self.asks_each

    def config(self) -> str:
        """The queue file: ``root.s<i>`` starve, ``root.r<i>`` run the tasks, ``root.apart`` is the unaffected queue."""
        vcore = int(_TENTH["vcore"])
        held = f", resources: {{guaranteed: {{vcore: {10 * self.nodes * vcore // self.queues}m}}}}" if self.is_hopeless else ""
        wanted = f"resources: {{guaranteed: {{vcore: {3 * self.asks_each * vcore}m}}}}"
        lines = [*HEAD, "          - {name: apart}"]
        for i in range(self.queues):
            lines += [f"          - {{name: s{i}, {wanted}, properties: {{preemption.delay: 1ms}}}}"]
            lines += [f"          - {{name: r{i}{held}}}"]
        return "\n".join(lines)

    def setup(self) -> list[si.NodeRequest | si.ApplicationRequest | si.AllocationRequest]:
        """Nodes, applications, and running tasks."""
        apart = [si.NodeInfo(node_id=f"x{i:05}", action="CREATE", schedulable_resource=_APART) for i in range(self.others // 128)]
        names = [(f"{kind}{i}", f"root.{kind}{i}") for i in range(self.queues) for kind in "rs"]
        tasks = (
            si.Allocation(
                allocation_key=f"t{n}-{i}",
                application_id=f"r{(n * 10 + i) % self.queues}",
                resource_per_alloc=_TENTH,
                node_id=f"n{n:05}",
            )
            for n in range(self.nodes)
            for i in range(10)
        )
        applications = new_applications([*names, ("apart", "root.apart")])
        return [nodes(self.nodes), si.NodeRequest(nodes=apart), applications, *in_requests(tasks)]

    def starving(self) -> list[si.AllocationRequest]:
        """The asks of the starving queues."""
        policy = si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=True)
        return in_requests(
            si.Allocation(
                allocation_key=f"w{q}-{i}", application_id=f"s{q}", resource_per_alloc=_WANTED, preemption_policy=policy
            )
            for i in range(self.asks_each)
            for q in range(self.queues)
        )

    def apart(self) -> list[si.AllocationRequest]:
        """The asks of the unaffected queue."""
        return in_requests(
            si.Allocation(allocation_key=f"x{i}", application_id="apart", resource_per_alloc=_APART_ASK)
            for i in range(self.others)
        )


async def preempt(cluster: Starving) -> Samples:
    """Submit the asks of all starving queues, then those of the unaffected queue.

    ``decision_ms`` is the time of one decision with a search over all nodes; ``first_ms`` is that of the first decision, which
    also sorts the tasks of all nodes. ``step_max_ms`` is the longest step of one task without a checkpoint.
    ``others_per_second`` are allocations of the unaffected queue; ``ratio`` is its rate without starving queues divided by this.
    """
    alone, _ = await _others_per_second(cluster, is_alone=True)
    with _decisions_timed() as decisions_ms:
        rate, stopwatch = await _others_per_second(cluster, is_alone=False)
    return {
        "decision_ms": decisions_ms[1:],
        "first_ms": decisions_ms[:1],
        "step_max_ms": [stopwatch.step_max_ms],
        "others_per_second": [rate],
        "ratio": [alone / rate],
    }


async def _others_per_second(cluster: Starving, *, is_alone: bool) -> tuple[float, Stopwatch]:
    """The rate of the unaffected queue; the stopwatch runs until nothing more can be decided."""
    others = cluster.apart()
    async with running(cluster.config(), cluster.setup()) as rig:
        settle_memory()
        stopwatch = Stopwatch()
        trio.lowlevel.add_instrument(stopwatch)
        for request in [] if is_alone else cluster.starving():
            await rig.submit(request)
        began_s = perf_counter()
        for request in others:
            await rig.submit(request)
        await rig.events.until_allocations(cluster.others)
        duration_s = rig.events.last_s - began_s
        await rig.settle()
        trio.lowlevel.remove_instrument(stopwatch)
    return cluster.others / duration_s, stopwatch


@contextmanager
def _decisions_timed() -> Iterator[list[float]]:
    """Yields a list to which the milliseconds of each decision with a search are appended, all plans of a search together."""
    durations_ms: list[float] = []
    spent_s = 0.0
    searches = 0
    attempt, run = Preemptor.attempt, Search.run

    def timed_attempt(*args: Any) -> Any:
        nonlocal spent_s, searches
        began_s = perf_counter()
        try:
            result = attempt(*args)
        finally:  # also when the budget of the plan is used up during the search
            spent_s += perf_counter() - began_s
        if searches:
            durations_ms.append(spent_s * 1e3)
        spent_s, searches = 0.0, 0
        return result

    def counted_run(*args: Any) -> Any:
        nonlocal searches
        searches += 1
        return run(*args)

    Preemptor.attempt, Search.run = timed_attempt, counted_run  # type: ignore[method-assign, assignment]
    try:
        yield durations_ms
    finally:
        Preemptor.attempt, Search.run = attempt, run  # type: ignore[method-assign]
