"""Random workloads from a seed, for property tests.

``generate`` draws a valid queue configuration, and a session of a resource manager with all kinds of requests, invalid ones
included. The only source of randomness is one ``random.Random(seed)``: the same arguments give the same scenario, byte for byte.
"""

import random
from collections.abc import Callable
from functools import partial

from generated_queues import QueueShape, draw_config, grow_tree, leaves

from ykactor.core.values.resources import Resource, add_to
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

_GIB = 2**30
_GPU = "nvidia.com/gpu"
#: A type that no node offers: asks for it pass the headroom check and stay pending (QU-38).
_NOWHERE = "example.com/fpga"
_EXTREMES = (2**31 - 1, -(2**31))
#: Seconds between two messages, with weights; 40 is longer than the 30 s of an application in Completing (AP-50).
_GAPS_S, _GAP_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 3.0, 40.0), (24, 8, 8, 8, 4, 1)
#: After the last message: long enough for every Completing application to complete.
_EPILOGUE_S = 60.0
_STOPPED = "STOPPED_BY_RM"


def generate(
    seed: int,
    *,
    queues: int = 8,
    nodes: int = 6,
    applications: int = 8,
    asks: int = 60,
    churn: float = 0.5,
    mistakes: float = 0.1,
    reloads: int = 0,
) -> Scenario:
    """A workload over a random queue tree.

    Args:
        seed: determines everything together with the other arguments.
        queues: number of queues below root, at least 1; they form a tree of 1 to 4 levels.
        nodes: number of nodes registered at second 0, at least 1; others are added and removed later.
        applications: number of applications, at least 1.
        asks: number of asks of all applications, submitted in batches.
        churn: number of releases, cancels, node changes and removals of applications per batch of asks.
        mistakes: number of duplicate and invalid entries per batch of asks.
        reloads: number of configurations sent during the session: the same queues with other limits and properties.
    """
    rng = random.Random(seed)
    tree = grow_tree(rng, queues)
    session = _Session(rng, tree, nodes)
    next_config = partial(draw_config, rng, tree, session.cluster)
    config = next_config()
    opening: list[si.WorkRequest] = [session.register(nodes), session.add_application()]

    batches = _split(rng, asks)
    steps: list[Callable[[], si.WorkRequest]] = [session.add_application] * (applications - 1)
    steps += [partial(session.submit, count) for count in batches]
    steps += [session.change] * round(churn * len(batches))
    steps += [session.mistake] * round(mistakes * len(batches))
    steps += [lambda: si.UpdateConfigurationRequest(config=next_config())] * reloads
    rng.shuffle(steps)
    messages = [TimedRequest(at=0.0, request=request) for request in opening]
    at = 0.0
    for step in steps:
        at += rng.choices(_GAPS_S, _GAP_WEIGHTS)[0]
        messages.append(TimedRequest(at=at, request=step()))
    return Scenario(name=f"generated-{seed}", config=config, until=at + _EPILOGUE_S, messages=messages)


def _split(rng: random.Random, total: int) -> list[int]:
    """Batch sizes that add up to ``total``: up to 8, or up to a hundredth of a large total."""
    sizes: list[int] = []
    while total > 0:
        sizes.append(min(total, rng.randint(1, max(8, total // 100))))
        total -= sizes[-1]
    return sizes


class _Session:
    """The resource manager's view of the cluster, and the requests that it sends.

    The session does not see decisions of the scheduler: a release may end a running allocation or cancel a pending ask.
    """

    def __init__(self, rng: random.Random, tree: QueueShape, nodes: int) -> None:
        self._rng = rng
        self._queues = [leaf.path for leaf in leaves(tree)]
        self._capacities = [self._draw_capacity() for _ in range(nodes)]
        #: The total capacity of the nodes registered at second 0.
        self.cluster: Resource = {}
        for capacity in self._capacities:
            add_to(self.cluster, capacity)
        self._shapes = [self._draw_shape() for _ in range(6)]
        self._nodes: list[str] = []
        self._nodes_count = self._applications_count = self._keys_count = 0
        self._applications: list[str] = []
        #: (application, key) of asks that were submitted and not released.
        self._asks: list[tuple[str, str]] = []
        self._foreign: list[str] = []

    # the requests

    def register(self, count: int) -> si.NodeRequest:
        """New nodes."""
        infos = []
        for _ in range(count):
            self._nodes_count += 1
            self._nodes.append(f"node-{self._nodes_count}")
            capacity = self._capacities[self._nodes_count % len(self._capacities)]
            action = "CREATE_DRAIN" if self._rng.random() < 0.05 else "CREATE"
            infos.append(_node(self._nodes[-1], action, capacity))
        return si.NodeRequest(nodes=infos)

    def add_application(self) -> si.ApplicationRequest:
        """A new application, nearly always for an existing leaf, in one of the accepted spellings."""
        self._applications_count += 1
        self._applications.append(f"app-{self._applications_count}")
        queue = self._rng.choice(self._queues)
        spellings = (queue, queue.upper(), queue.removeprefix("root."), "root.nowhere", "root")
        spelled = self._rng.choices(spellings, (90, 4, 4, 1, 1))[0]
        return si.ApplicationRequest(new=[_application(self._applications[-1], spelled, self._rng)])

    def submit(self, count: int) -> si.AllocationRequest:
        """Asks of random applications."""
        return si.AllocationRequest(allocations=[self._draw_ask() for _ in range(count)])

    def change(self) -> si.WorkRequest:
        """A random change: a release, a removal, or a change of a node or an allocation."""
        changes = (
            (self._release, 10),
            (self._release_all, 1),
            (self._remove_application, 1),
            (self._change_node, 4),
            (self._decommission, 1),
            (self._recover, 1),
            (self._change_foreign, 2),
            (self._resize, 1),
        )
        chosen: Callable[[], si.WorkRequest] = self._rng.choices(*zip(*changes, strict=True))[0]
        return chosen()

    def mistake(self) -> si.WorkRequest:
        """An entry that must be refused or ignored (AP-103 to AP-114, SC-102)."""
        rng, application = self._rng, self._any_application()
        shape = rng.choice(self._shapes)
        requests: tuple[si.WorkRequest, ...] = (
            _asks(_ask("stray", "nobody", shape)),
            _asks(_ask("empty", application, {})),
            _asks(_ask("zero", application, {"vcore": 0, "memory": 0})),
            _asks(_ask("negative", application, {"vcore": -1, "memory": _GIB})),
            _asks(_ask("elsewhere", application, shape, partition_name="nowhere")),
            _asks(_ask("homeless", application, shape, node_id="node-0")),
            _asks(_ask("ungrouped", application, shape, placeholder=True)),
            si.ApplicationRequest(new=[_application(application, rng.choice(self._queues), rng)]),
            si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id="nobody")]),
            _releases(application, "no-such-key"),
            _releases("nobody", "no-such-key"),
            si.NodeRequest(nodes=[_node(self._any_node(), "CREATE", {"vcore": 1000})]),
            si.NodeRequest(nodes=[_node("node-0", rng.choice(("UPDATE", "DRAIN_NODE", "DECOMISSION")), {"vcore": 1})]),
        )
        return rng.choice(requests)

    # the changes

    def _release(self) -> si.WorkRequest:
        """Release some asks or allocations; each is replaced by the last of the list, which costs O(1)."""
        taken = []
        for _ in range(min(len(self._asks), self._rng.randint(1, 5))):
            position = self._rng.randrange(len(self._asks))
            self._asks[position], self._asks[-1] = self._asks[-1], self._asks[position]
            application, key = self._asks.pop()
            taken.append(si.AllocationRelease(application_id=application, allocation_key=key, termination_type=_STOPPED))
        return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=taken))

    def _release_all(self) -> si.WorkRequest:
        return _releases(self._any_application(), "")

    def _remove_application(self) -> si.WorkRequest:
        """Remove an application. If it is the only one, its later asks are refused."""
        application = self._any_application()
        if len(self._applications) > 1:
            self._applications.remove(application)
        return si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id=application)])

    def _change_node(self) -> si.WorkRequest:
        action = self._rng.choice(("UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE"))
        capacity = self._draw_capacity() if action == "UPDATE" else {}
        return si.NodeRequest(nodes=[_node(self._any_node(), action, capacity)])

    def _decommission(self) -> si.WorkRequest:
        """Remove a node and register a new one in the same request."""
        gone = self._any_node()
        self._nodes.remove(gone)
        return si.NodeRequest(nodes=[_node(gone, "DECOMISSION", {}), *self.register(1).nodes])

    def _recover(self) -> si.WorkRequest:
        """Recover an allocation that already runs; limits do not apply (AP-109)."""
        application, key = self._new_key()
        return _asks(_ask(key, application, self._rng.choice(self._shapes), node_id=self._any_node()))

    def _change_foreign(self) -> si.WorkRequest:
        """Add or release a foreign allocation."""
        if self._foreign and self._rng.random() < 0.5:
            return _releases("", self._foreign.pop())
        self._keys_count += 1
        self._foreign.append(f"foreign-{self._keys_count}")
        tags = {"foreign": self._rng.choice(("default", "static"))}
        shape = {"vcore": 500, "memory": _GIB}
        return _asks(_ask(self._foreign[-1], "", shape, node_id=self._any_node(), allocation_tags=tags))

    def _resize(self) -> si.WorkRequest:
        """The same key with other resources (AP-110, AP-111), or with the same ones (AP-114)."""
        if not self._asks:
            return si.NodeRequest()
        application, key = self._rng.choice(self._asks)
        return _asks(_ask(key, application, self._rng.choice(self._shapes)))

    # draws

    def _draw_capacity(self) -> Resource:
        vcore = self._rng.choice((4000, 8000, 16000, 32000))
        capacity = {"vcore": vcore, "memory": vcore // 1000 * self._rng.choice((2, 4, 8)) * _GIB}
        if self._rng.random() < 0.3:
            capacity[_GPU] = self._rng.choice((1, 2, 4))
        return capacity

    def _draw_shape(self) -> Resource:
        rng = self._rng
        shape = {"vcore": rng.choice((100, 500, 1000, 2000, 3000)), "memory": rng.choice((1, 2, 4, 6)) * _GIB // 2}
        kind = rng.random()
        if kind < 0.15:
            shape[_GPU] = rng.randint(0, 2)  # an amount of 0 must have no effect
        elif kind < 0.2:
            shape[_NOWHERE] = 1
        elif kind < 0.25:
            shape["vcore"] = 10**6  # larger than any node
        elif kind < 0.3:
            del shape["memory"]
        return shape

    def _draw_ask(self) -> si.Allocation:
        """An ask, usually of one of a few shapes, as in real workloads; sometimes of a new shape."""
        rng = self._rng
        application, key = self._new_key()
        shape = rng.choice(self._shapes) if rng.random() < 0.85 else self._draw_shape()
        tags = {}
        if rng.random() < 0.15:
            tags["creationTime"] = str(rng.randint(0, 60))
        if rng.random() < 0.03:
            tags["yunikorn.apache.org/requiredNode"] = self._any_node()
        return _ask(key, application, shape, priority=self._draw_priority(), allocation_tags=tags)

    def _draw_priority(self) -> int:
        rng = self._rng
        drawn = (0, rng.randint(-10, 10), rng.randint(*reversed(_EXTREMES)), rng.choice(_EXTREMES))
        return rng.choices(drawn, (60, 30, 7, 3))[0]

    def _new_key(self) -> tuple[str, str]:
        application = self._any_application()
        self._keys_count += 1
        self._asks.append((application, f"{application}-{self._keys_count}"))
        return self._asks[-1]

    def _any_application(self) -> str:
        return self._rng.choice(self._applications)

    def _any_node(self) -> str:
        return self._rng.choice(self._nodes)


# ---- wire structs


def _node(node_id: str, action: str, capacity: Resource) -> si.NodeInfo:
    return si.NodeInfo(node_id=node_id, action=action, schedulable_resource={**capacity} if capacity else None)


def _application(application_id: str, queue: str, rng: random.Random) -> si.AddApplicationRequest:
    user = rng.choice(("alice", "bob", "carol"))
    return si.AddApplicationRequest(application_id=application_id, queue_name=queue, ugi=si.UserGroupInformation(user=user))


def _ask(
    key: str,
    application_id: str,
    resource: Resource,
    *,
    priority: int = 0,
    node_id: str = "",
    partition_name: str = "",
    allocation_tags: dict[str, str] | None = None,
    placeholder: bool = False,
) -> si.Allocation:
    return si.Allocation(
        allocation_key=key,
        application_id=application_id,
        resource_per_alloc={**resource},
        priority=priority,
        node_id=node_id,
        partition_name=partition_name,
        allocation_tags=allocation_tags or {},
        placeholder=placeholder,
    )


def _asks(*asks: si.Allocation) -> si.AllocationRequest:
    return si.AllocationRequest(allocations=list(asks))


def _releases(application_id: str, key: str) -> si.AllocationRequest:
    release = si.AllocationRelease(application_id=application_id, allocation_key=key, termination_type=_STOPPED)
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))
