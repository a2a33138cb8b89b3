"""The workloads: queues, nodes, applications and asks, made before the measured time starts.

Sizes are chosen so that everything fits: a node has 64 vcore and 256 GiB, an ask wants 1 vcore and 1 GiB. 500 nodes have room
for 32,000 asks, more than three times the asks of the smallest case.
"""

from collections.abc import Iterable

from msgspec import Struct

from ykactor.wire.si import messages as si

GIB = 2**30
NODE: si.WireResource = {"vcore": 64_000, "memory": 256 * GIB}
ASK: si.WireResource = {"vcore": 1_000, "memory": GIB}

#: Asks in one request.
REQUEST_ASKS = 1000


class Workload(Struct, frozen=True):
    """``asks_each`` equal asks for each of ``applications``, spread over ``leaves`` queues.

    Attributes:
        policy: ``application.sort.policy`` of every leaf.
    """

    nodes: int
    leaves: int
    applications: int
    asks_each: int
    policy: str = "fifo"

    @property
    def asks(self) -> int:
        """Number of asks in all."""
        return self.applications * self.asks_each

    def config(self) -> str:
        """The queue file."""
        return queue_file(self.leaves, self.policy)

    def setup(self) -> list[si.NodeRequest | si.ApplicationRequest | si.AllocationRequest]:
        """Nodes and applications."""
        applications = [(f"app-{i}", f"root.q{i % self.leaves}") for i in range(self.applications)]
        return [nodes(self.nodes), new_applications(applications)]

    def requests(self) -> list[si.AllocationRequest]:
        """All asks; consecutive asks in a request belong to different applications."""
        return in_requests(
            si.Allocation(allocation_key=f"a{app}-{i}", application_id=f"app-{app}", resource_per_alloc=ASK)
            for i in range(self.asks_each)
            for app in range(self.applications)
        )


#: The first lines of a queue file, up to the list of queues below root.
HEAD = ["partitions:", "  - name: default", "    queues:", "      - name: root", "        submitacl: '*'", "        queues:"]


def queue_file(leaves: int, policy: str = "fifo") -> str:
    """A queue file with leaves ``root.q0``, ``root.q1`` and so on, all with one application policy."""
    lines = [f"          - {{name: q{i}, properties: {{application.sort.policy: {policy}}}}}" for i in range(leaves)]
    return "\n".join(HEAD + lines)


def nodes(count: int) -> si.NodeRequest:
    """``count`` equal nodes, ``n00000`` and so on."""
    return si.NodeRequest(
        nodes=[si.NodeInfo(node_id=f"n{i:05}", action="CREATE", schedulable_resource=NODE) for i in range(count)]
    )


def new_applications(applications: list[tuple[str, str]]) -> si.ApplicationRequest:
    """Applications from (application ID, queue) pairs."""
    user = si.UserGroupInformation(user="bench", groups=["bench"])
    return si.ApplicationRequest(
        new=[si.AddApplicationRequest(application_id=name, queue_name=queue, ugi=user) for name, queue in applications]
    )


def in_requests(asks: Iterable[si.Allocation], each: int = REQUEST_ASKS) -> list[si.AllocationRequest]:
    """The asks in requests of ``each``."""
    every = list(asks)
    return [si.AllocationRequest(allocations=every[i : i + each]) for i in range(0, len(every), each)]


# ---- a full cluster

#: Four of these run on each node.
_QUARTER: si.WireResource = {name: int(quantity) // 4 for name, quantity in NODE.items()}
#: The shapes of pending asks, in turn. vcore is always used up before memory, so a node is full when it has no vcore left.
_WAITING: list[si.WireResource] = [
    {"vcore": 1_000, "memory": 2 * GIB},
    {"vcore": 2_000, "memory": 8 * GIB},
    {"vcore": 4_000, "memory": 8 * GIB},
    {"vcore": 8_000, "memory": 32 * GIB},
    {"vcore": 16_000, "memory": 32 * GIB},
]
#: Number of applications of the pending asks.
_WAITING_APPLICATIONS = 20


class FullCluster(Struct, frozen=True):
    """Full nodes, and ``asks`` pending asks of five shapes in 20 applications of another leaf."""

    nodes: int
    asks: int

    def config(self) -> str:
        """The queue file: tasks run in ``root.q0``, asks are pending in ``root.q1``."""
        return queue_file(2)

    def setup(self) -> list[si.NodeRequest | si.ApplicationRequest | si.AllocationRequest]:
        """Nodes, applications, running tasks and pending asks."""
        waiting = [(f"waits-{i}", "root.q1") for i in range(_WAITING_APPLICATIONS)]
        running = (
            si.Allocation(allocation_key=f"r{i}", application_id="runs", resource_per_alloc=_QUARTER)
            for i in range(4 * self.nodes)
        )
        return [
            nodes(self.nodes),
            new_applications([("runs", "root.q0"), *waiting]),
            *in_requests(running),
            *in_requests(self.waiting_ask(i) for i in range(self.asks)),
        ]

    def waiting_ask(self, number: int) -> si.Allocation:
        """A pending ask that does not fit; ``number`` makes it unique."""
        shapes = len(_WAITING)
        return si.Allocation(
            allocation_key=f"w{number}",
            application_id=f"waits-{number // shapes % _WAITING_APPLICATIONS}",
            resource_per_alloc=_WAITING[number % shapes],
        )


# ---- many queues

_BUSY = "          - name: busy"


class ManyQueues(Struct, frozen=True):
    """A configuration with ``parents`` times ``leaves_each`` leaves, and one application in another queue."""

    parents: int
    leaves_each: int
    nodes: int = 100

    def small(self) -> str:
        """The configuration before: only the application's queue."""
        return "\n".join([*HEAD, _BUSY])

    def config(self, max_vcore: int) -> str:
        """The configuration in which every leaf has a guarantee, this max, properties and a limit."""
        lines = [*HEAD, _BUSY]
        for parent in range(self.parents):
            lines += [f"          - name: p{parent}", "            queues:"]
            for leaf in range(self.leaves_each):
                lines += [
                    f"              - name: q{leaf}",
                    f"                resources: {{guaranteed: {{vcore: 1}}, max: {{vcore: {max_vcore}, memory: 100Gi}}}}",
                    "                properties: {application.sort.policy: fair, priority.offset: 5}",
                    "                limits: [{limit: one, users: [alice], maxresources: {vcore: 5}}]",
                ]
        return "\n".join(lines)

    def setup(self) -> list[si.NodeRequest | si.ApplicationRequest]:
        """Nodes and the application."""
        return [nodes(self.nodes), new_applications([("app-0", "root.busy")])]

    def asks(self, first: int, count: int) -> si.AllocationRequest:
        """``count`` asks of the application, numbered from ``first``."""
        wanted: si.WireResource = {"vcore": 1, "memory": 1}
        return si.AllocationRequest(
            allocations=[
                si.Allocation(allocation_key=f"a{number}", application_id="app-0", resource_per_alloc=wanted)
                for number in range(first, first + count)
            ]
        )
