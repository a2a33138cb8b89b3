"""Queues below their guarantee preempt on a full cluster, and a queue that has room of its own goes on."""

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
from ykactor.actors.memory import settle_memory
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.preemption.victims import Search
from ykactor.wire.si import messages as si

#: What runs on a full node: ten of these.
_TENTH: si.WireResource = {name: int(quantity) // 10 for name, quantity in NODE.items()}
#: What a starving ask wants: three of those have to go for it.
_WANTED: si.WireResource = {name: 3 * int(quantity) for name, quantity in _TENTH.items()}
#: Nodes on which nothing that wants vcore has room, for the queue that is not concerned.
_APART: si.WireResource = {"memory": 256 * GIB}
_APART_ASK: si.WireResource = {"memory": GIB}


class Starving(Struct, frozen=True):
    """Full nodes, and queues below their guarantee in front of them.

    Attributes:
        nodes: full ones, each with ten tasks; the tasks are in as many queues as there are starving ones.
        queues: that starve.
        asks_each: of a starving queue; its guarantee is enough for all of them.
        others: asks of the queue that has nodes of its own.
        is_hopeless: the tasks' queues are guaranteed what they use, so that every search is in vain.
    """

    nodes: int
    queues: int
    asks_each: int
    others: int
    is_hopeless: bool = False

    @property
    def asks(self) -> int:
        """How many starve."""
        return self.queues * self.asks_each

    def config(self) -> str:
        """``root.s0`` and so on starve, ``root.r0`` and so on run, ``root.apart`` is not concerned."""
        vcore = int(_TENTH["vcore"])
        held = f", resources: {{guaranteed: {{vcore: {10 * self.nodes * vcore // self.queues}m}}}}" if self.is_hopeless else ""
        wanted = f"resources: {{guaranteed: {{vcore: {3 * self.asks_each * vcore}m}}}}"
        lines = [*HEAD, "          - {name: apart}"]
        for i in range(self.queues):
            lines += [f"          - {{name: s{i}, {wanted}, properties: {{preemption.delay: 1ms}}}}"]
            lines += [f"          - {{name: r{i}{held}}}"]
        return "\n".join(lines)

    def setup(self) -> list[si.NodeRequest | si.ApplicationRequest | si.AllocationRequest]:
        """Nodes, applications, and all that runs."""
        apart = [
            si.NodeInfo(node_id=f"x{i:05}", action="CREATE", schedulable_resource=_APART) for i in range(self.others // 128)
        ]
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
        everybody = new_applications([*names, ("apart", "root.apart")])
        return [nodes(self.nodes), si.NodeRequest(nodes=apart), everybody, *in_requests(tasks)]

    def starving(self) -> list[si.AllocationRequest]:
        """The asks for which others have to go."""
        policy = si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=True)
        return in_requests(
            si.Allocation(
                allocation_key=f"w{q}-{i}", application_id=f"s{q}", resource_per_alloc=_WANTED, preemption_policy=policy
            )
            for i in range(self.asks_each)
            for q in range(self.queues)
        )

    def apart(self) -> list[si.AllocationRequest]:
        """The asks of the queue that is not concerned."""
        return in_requests(
            si.Allocation(allocation_key=f"x{i}", application_id="apart", resource_per_alloc=_APART_ASK)
            for i in range(self.others)
        )


async def preempt(cluster: Starving) -> Samples:
    """All asks of all starving queues arrive, and then those of the queue that is not concerned.

    ``decision_ms`` is what one decision for an ask takes in which all nodes were looked at, ``first_ms`` the first, for which
    tasks have to be put in order; ``step_max_ms`` the longest that one task ran without a pause. ``others_per_second`` are
    allocations of the other queue, ``ratio`` is how many times more there are without starving queues.
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
    """The stopwatch runs until everybody has had a turn."""
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
    """The list grows by the milliseconds of each decision for which there was a search, all its slices together."""
    durations_ms: list[float] = []
    spent_s = 0.0
    searches = 0
    attempt, run = Preemptor.attempt, Search.run

    def timed_attempt(*args: Any) -> Any:
        nonlocal spent_s, searches
        began_s = perf_counter()
        try:
            answer = attempt(*args)
        finally:  # also when the budget of a plan is used up in the middle of it
            spent_s += perf_counter() - began_s
        if searches:
            durations_ms.append(spent_s * 1e3)
        spent_s, searches = 0.0, 0
        return answer

    def counted_run(*args: Any) -> Any:
        nonlocal searches
        searches += 1
        return run(*args)

    Preemptor.attempt, Search.run = timed_attempt, counted_run  # type: ignore[method-assign, assignment]
    try:
        yield durations_ms
    finally:
        Preemptor.attempt, Search.run = attempt, run  # type: ignore[method-assign]
