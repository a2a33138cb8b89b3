"""Mixed workloads, each described by a few numbers: what the search for the worst case and the plots vary.

All features can be combined: sizes, selectors, queue trees, limits, priorities, gangs, releases, full clusters, predicates,
preemption. The same description always gives the same requests.
"""

import math
from collections.abc import Iterator
from time import process_time
from typing import NamedTuple

import trio
import yaml
from msgspec import Struct

from bench.harness import Rig, running
from bench.measures import Samples
from bench.workloads import GIB, in_requests
from ykactor.actors.pauses import settle_memory
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import PartitionRequest

SELECTOR = "ykactor.io/node-selector"
PREDICATE = "ykactor.io/predicate"
#: Asks in a small request.
BATCH = 50
#: After half of the requests, asks get old enough to reserve nodes.
_AGE_S = 2.1
#: CPU time after which a measurement ends, and how often it is looked at.
_CPU_MAX_S = 5.0
_LOOK_S = 0.1
#: A full node has so many tasks.
_TASKS_EACH = 4
#: Placeholders of a gang, and real asks that replace them.
_GANG = 5


class Mix(Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster, and the asks and releases that it gets.

    Attributes:
        node_sizes, ask_sizes: the number of different sizes.
        full: percentage of nodes that are full before.
        zones: number of values of an attribute of nodes, of which each ask selects one; 0 without selectors.
        depth: queues between root and a leaf.
        waiting: asks that are sent first, in large requests.
        asks: asks that are sent then, in small requests.
        releases: releases for each 100 of the latter: of tasks that fill nodes, then of asks.
        priorities: the number of different priorities.
        gangs: percentage of applications that are gangs, in leaves with the policy fifo; others refuse gangs.
        users: users, each with limits; 0 without limits.
        quota: the max of each leaf as a percentage of its share of the cluster; 0 without max.
        predicates: predicate classes; the service refuses every other node.
        preempts: every other leaf is guaranteed its share, and its asks may preempt; the tasks that fill nodes run in the others.
    """

    nodes: int = 500
    node_sizes: int = 1
    full: int = 0
    zones: int = 0
    leaves: int = 10
    depth: int = 1
    applications: int = 100
    waiting: int = 0
    asks: int = 2_000
    ask_sizes: int = 1
    releases: int = 0
    priorities: int = 1
    gangs: int = 0
    users: int = 0
    quota: int = 0
    predicates: int = 0
    is_fair: bool = False
    packs: bool = False
    reserves: bool = True
    preempts: bool = False

    def config(self) -> str:
        """The queue file."""
        tree: dict[str, object] = {
            "name": "root",
            "submitacl": "*",
            "queues": [self._group(group) for group in range(self._groups)],
        }
        if self.users:
            tree["limits"] = [self._limit(self._user_vcore())]
        policy = {"type": "binpacking" if self.packs else "fair"}
        partition = {"name": "default", "nodesortpolicy": policy, "queues": [tree]}
        return yaml.safe_dump({"partitions": [partition]}, sort_keys=False)

    def setup(self) -> list[PartitionRequest]:
        """Nodes, applications and running tasks."""
        return [
            si.NodeRequest(nodes=[self._node(number) for number in range(self.nodes)]),
            si.ApplicationRequest(new=[self._application(number) for number in range(self.applications)]),
            *in_requests(self._tasks()),
        ]

    def large_requests(self) -> list[si.AllocationRequest]:
        """The asks that come first."""
        return in_requests(self._ask(number) for number in range(self.waiting))

    def small_requests(self) -> Iterator[si.AllocationRequest]:
        """The other asks, and releases."""
        releases = self._releases()
        for first in range(0, self.asks, BATCH):
            count = min(BATCH, self.asks - first)
            ended = [release for _, release in zip(range(count * self.releases // 100), releases, strict=False)]
            yield si.AllocationRequest(
                allocations=[self._ask(self.waiting + first + number) for number in range(count)],
                releases=si.AllocationReleasesRequest(allocations_to_release=ended),
            )

    # ---- queues

    @property
    def _groups(self) -> int:
        """The number of queues below root; they share the leaves."""
        return round(math.sqrt(self.leaves))

    def _group(self, group: int) -> dict[str, object]:
        queues: list[object] = [self._leaf(leaf) for leaf in range(group, self.leaves, self._groups)]
        for level in range(self.depth, 1, -1):
            queues = [{"name": f"d{level}", "queues": queues}]
        return {"name": f"g{group}", "queues": queues}

    def _leaf(self, leaf: int) -> dict[str, object]:
        share = self._vcore() // self.leaves
        largest = share * (self.quota or 100) // 100
        resources = {"max": {"vcore": f"{largest}m"}} if self.quota else {}
        if self._is_guaranteed(leaf):
            resources["guaranteed"] = {"vcore": f"{min(share, largest)}m"}
        properties = {"application.sort.policy": "fair" if self.is_fair else "fifo", "preemption.delay": "1ms"}
        limits = [self._limit(min(largest, self._user_vcore()))] if self.users else []
        return {"name": f"q{leaf}", "resources": resources, "properties": properties, "limits": limits}

    def _user_vcore(self) -> int:
        """The limit of each user: together more than there is."""
        return self._vcore() * 3 // 2 // max(2, self.users)

    def _limit(self, vcore: int) -> dict[str, object]:
        return {"limit": "each user", "users": ["*"], "maxresources": {"vcore": f"{vcore}m"}}

    def _path(self, leaf: int) -> str:
        levels = [f"d{level}" for level in range(2, self.depth + 1)]
        return ".".join(["root", f"g{leaf % self._groups}", *levels, f"q{leaf}"])

    def _is_guaranteed(self, leaf: int) -> bool:
        return self.preempts and leaf % 2 == 0

    # ---- nodes and what runs on them

    def _vcore(self) -> int:
        """The vcore of all nodes."""
        return sum(self._node_vcore(number) for number in range(self.nodes))

    def _node_vcore(self, number: int) -> int:
        return 32_000 + 1_000 * (number % self.node_sizes)

    def _node(self, number: int) -> si.NodeInfo:
        vcore = self._node_vcore(number)
        return si.NodeInfo(
            node_id=f"n{number:05}",
            action="CREATE",
            schedulable_resource={"vcore": vcore, "memory": vcore // 250 * GIB},
            attributes={"zone": f"z{number % self.zones}"} if self.zones else {},
        )

    def _tasks(self) -> Iterator[si.Allocation]:
        """The tasks that fill nodes; they belong to applications of leaves without a guarantee, if there are any."""
        hosts = [number for number in range(self.applications) if not self._is_guaranteed(number % self.leaves)] or [0]
        for number in range(self._tasks_count):
            node = number // _TASKS_EACH
            vcore = self._node_vcore(node) // _TASKS_EACH
            yield si.Allocation(
                allocation_key=f"t{number}",
                application_id=f"app-{hosts[number % len(hosts)]}",
                resource_per_alloc={"vcore": vcore, "memory": GIB},
                node_id=f"n{node:05}",
            )

    @property
    def _tasks_count(self) -> int:
        return self.nodes * self.full // 100 * _TASKS_EACH

    def _releases(self) -> Iterator[si.AllocationRelease]:
        hosts = {task.allocation_key: task.application_id for task in self._tasks()}
        hosts |= {f"a{number}": f"app-{number % self.applications}" for number in range(self.waiting + self.asks)}
        for key, application in hosts.items():
            yield si.AllocationRelease(application_id=application, allocation_key=key, termination_type="STOPPED_BY_RM")

    # ---- applications and asks

    def _is_gang(self, application: int) -> bool:
        return not self.is_fair and application % 100 < self.gangs

    def _application(self, number: int) -> si.AddApplicationRequest:
        user = si.UserGroupInformation(user=f"u{number % max(1, self.users)}", groups=["people"])
        total: si.WireResource = {name: int(quantity) * _GANG for name, quantity in self._size(number).items()}
        return si.AddApplicationRequest(
            application_id=f"app-{number}",
            queue_name=self._path(number % self.leaves),
            ugi=user,
            placeholder_ask=total if self._is_gang(number) else None,
        )

    def _size(self, number: int) -> si.WireResource:
        """A size from 1 to 16 vcore."""
        return {"vcore": 1_000 + number % self.ask_sizes * 15_000 // self.ask_sizes, "memory": (1 + number % 3) * GIB}

    def _ask(self, number: int) -> si.Allocation:
        application, turn = number % self.applications, number // self.applications
        is_gang = self._is_gang(application)
        tags = {SELECTOR: f"zone=z{number % self.zones}"} if self.zones else {}
        if self.predicates:
            tags[PREDICATE] = f"p{number % self.predicates}"
        return si.Allocation(
            allocation_key=f"a{number}",
            application_id=f"app-{application}",
            resource_per_alloc=self._size(application if is_gang else number),
            priority=number % self.priorities,
            allocation_tags=tags,
            task_group_name="workers" if is_gang and turn < 2 * _GANG else "",
            placeholder=is_gang and turn < _GANG,
            preemption_policy=si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=self.preempts),
        )


#: The most expensive mix that ``bench.search`` has found.
WORST_FOUND = Mix(
    nodes=1_000,
    node_sizes=3,
    full=100,
    leaves=500,
    depth=8,
    waiting=10_000,
    asks=1_000,
    releases=50,
    priorities=20,
    gangs=100,
    users=10,
    predicates=1,
    packs=True,
    reserves=False,
    preempts=True,
)


class _Stage(NamedTuple):
    """The cost of some requests: CPU seconds, and the number of decisions."""

    spent_s: float
    decisions: int

    @property
    def cpu_us(self) -> float:
        return self.spent_s * 1e6 / self.decisions


async def cost(mix: Mix) -> Samples:
    """``cpu_us``: CPU of a decision, with the large or the small requests, whichever is more; ``decisions``: how many there were.

    A decision is an allocation, or an ask, a release or the answer to a predicate check that was sent. It ends early if it takes
    too long.
    """
    refusal = _refusal if mix.predicates else None
    async with running(mix.config(), mix.setup(), reserves=mix.reserves, confirms=True, refusal=refusal) as rig:
        settle_memory()
        stages = [await _stage(rig, mix.large_requests())] if mix.waiting else []
        if not stages or stages[0].spent_s < _CPU_MAX_S:
            stages.append(await _stage(rig, list(mix.small_requests())))
    return {
        "cpu_us": [max(stage.cpu_us for stage in stages)],
        "decisions": [float(sum(stage.decisions for stage in stages))],
    }


async def _stage(rig: Rig, requests: list[si.AllocationRequest]) -> _Stage:
    rig.reset()
    answers, sent, began_s = rig.answers, 0, process_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_limit_cpu, nursery.cancel_scope, began_s + _CPU_MAX_S)
        for number, request in enumerate(requests):
            if number == len(requests) // 2:
                await trio.sleep(_AGE_S)
            sent += len(request.allocations) + len(request.releases.allocations_to_release)
            await rig.submit(request)
            await rig.settle()
        nursery.cancel_scope.cancel()
    return _Stage(process_time() - began_s, sent + rig.answers - answers + rig.events.allocations)


async def _limit_cpu(scope: trio.CancelScope, end_s: float) -> None:
    """Cancel when the process has used so much CPU time."""
    while process_time() < end_s:  # noqa: ASYNC110  # nothing tells when
        await trio.sleep(_LOOK_S)
    scope.cancel()


def _refusal(check: si.PredicateCheck) -> str:
    return "an odd node" if int(check.node_id[1:]) % 2 else ""
