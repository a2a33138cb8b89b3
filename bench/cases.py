"""The cases by name, and one run of one case. Scripts read the names of cases and figures, so they must not change."""

from collections.abc import Awaitable, Callable
from functools import partial

import trio
from msgspec import Struct, structs

from bench import (
    adapting,
    comparing,
    explaining,
    holds,
    jobs,
    journal,
    measures,
    page,
    phases,
    replicas,
    shapes,
    small_messages,
    taking_over,
)
from bench.followers import Followed, follow
from bench.holds import Holding, LargeGang
from bench.measures import Samples
from bench.memory import Cluster, footprint, rss_peak_mib
from bench.mixes import WORST_FOUND, Mix, cost
from bench.preempting import Starving, preempt
from bench.reloads import hold, reload_queues
from bench.rest import Read, read
from bench.shapes import Shape, Waiting
from bench.small_messages import Small
from bench.sockets import Paced, bulk, latency
from bench.workloads import FullCluster, ManyQueues, Workload

#: The shape of YuniKorn's own benchmark: two leaves, two applications, 10,000 asks in all.
_OWN = {nodes: Workload(nodes=nodes, leaves=2, applications=2, asks_each=5_000) for nodes in (500, 1000, 2000, 5000)}
#: Everything fits, and the rate counts.
PLACED = {
    **{f"own-{nodes}": workload for nodes, workload in _OWN.items()},
    "one-app-50k": Workload(nodes=1_000, leaves=1, applications=1, asks_each=50_000),
    "apps-1000-fifo": Workload(nodes=2_000, leaves=100, applications=1_000, asks_each=50, policy="fifo"),
    "apps-1000-fair": Workload(nodes=2_000, leaves=100, applications=1_000, asks_each=50, policy="fair"),
}
_FULL = FullCluster(nodes=1_000, asks=20_000)

_QUEUES = ManyQueues(parents=50, leaves_each=99)
_STARVING = Starving(nodes=5_000, queues=100, asks_each=10, others=20_000)
_HOPELESS = Starving(nodes=5_000, queues=100, asks_each=10, others=20_000, is_hopeless=True)
_FOLLOWED = Followed(counts=(1, 100, 1_000), nodes=1_000, fast=16_000, paced=4_000, offers_deflate=True)
_LARGE = Cluster(nodes=10_000, each=10, asks=100_000)
_PACED = Paced(nodes=1_000, asks=5_000)
#: Also measured by ``bench.steps``.
SMALL = Small(nodes=500, applications=20, base=_OWN[1000], floods={1: 8_000, 10: 16_000, 100: 16_000}, paced=5_000)
_REPLICATED = replicas.Replicated(SMALL.workload(16_000), each=100, rounds=2)
_LONG = Workload(nodes=1_000, leaves=2, applications=2, asks_each=25_000)
_JOBS = jobs.Short(jobs=300, single=30)
_ONE_BY_ONE = journal.OneByOne(nodes=1_000, asks=2_000)
_DELAYED = replicas.Delayed(SMALL.workload(16_000), each=100, paced=SMALL.workload(5_000), read=SMALL.workload(10_000))
_GREEDY = replicas.Greedy(_REPLICATED, loops=4)
_STANDING = replicas.Standing(journal.OneByOne(nodes=500, asks=1_000), rounds=2)
#: By the number of running allocations.
_KEPT = {10 * nodes: Cluster(nodes=nodes, each=10, asks=2 * nodes) for nodes in (1_000, 3_000, 10_000)}
_READ = Read(nodes=5_000, applications=20_000, rate=200, rounds=6)
_READ_WHOLE = Read(nodes=5_000, applications=5_000, tasks=10, rate=0, loops=4, rounds=2)
_FOLLOWED_PLAIN = structs.replace(_FOLLOWED, offers_deflate=False)

_PUZZLING, _PUZZLED = Waiting(nodes=5_000, asks=100_000, sizes=5), Waiting(nodes=100, asks=1_000, sizes=5)
_DAYS = comparing.Compared(nodes=1_523, asks=8_152, days=149, load=0.01)
_YEAR = comparing.Compared(nodes=20, asks=100_000, days=365, load=0.9, each=10)

#: Each asks much of one index.
_SHAPES = {
    "hostnames": shapes.hostnames(),
    "zones": shapes.zones(),
    "leaves-5000": shapes.leaves(parents=50, each=100, asks=20_000, applications=5_000),
    "leaves-10000": shapes.leaves(parents=100, each=100, asks=20_000, applications=10_000),
    "tree-10x10": shapes.leaves(parents=10, each=10, asks=50_000, applications=1_000),
    "apps-50000": shapes.many_applications(),
    "recovery": shapes.recovery(),
}
#: Each could hold the event loop.
_HOLDING = Holding(asks=50_000)
_SNAPSHOT = Holding(asks=50_000, applications=1_000, waiting=100_000)
_GANG = LargeGang(nodes=1_000, asks=10_000)
_FAILING = Waiting(nodes=5_000, asks=20_000, sizes=20_000)
#: Each asks much of one feature, but the last.
_MIXES = {
    "mix-applications": Mix(leaves=100, applications=1_000, is_fair=True),
    "mix-leaves": Mix(leaves=1_000, applications=1_000, depth=4),
    "mix-zones": Mix(zones=100, ask_sizes=500),
    "mix-waiting": Mix(full=100, waiting=10_000, ask_sizes=500, releases=50),
    "mix-gangs": Mix(gangs=100),
    "mix-limits": Mix(users=100, quota=100, full=50, depth=4),
    "mix-predicates": Mix(predicates=10),
    "mix-preemption": Mix(full=100, preempts=True, releases=10),
    "worst-found": WORST_FOUND,
}
_WAITING_SIZES = {"waiting-1000-sizes": 1_000, "waiting-20000-sizes": 20_000}


_BACKLOG = adapting.Backlog(nodes=20, pods=500, rounds=4)
_TELLING = adapting.Telling(nodes=20, pods=25, waiting=10_000, rounds=16)
_REPORTED = adapting.Fleet(nodes=200, pods=5_000, rounds=3)
_BEATING = adapting.Fleet(nodes=200, pods=1, rounds=3, beats=25)
_ANSWERING = adapting.Answering(nodes=2_000, classes=(1, 30, 60, 200))
_TAKEOVER = adapting.Takeover(nodes=20, rounds=2)
_STALL = adapting.Stall(nodes=20, pods=2_000, waves=15)

_SHOWN = page.Shown(nodes=2_000, leaves=300, asks=20_000, applications=1_000, ends=10_000)
_RUNNING = taking_over.Running(Workload(1_000, leaves=100, applications=1_000, asks_each=100))


class Case(Struct, frozen=True):
    """A measurement and its size.

    Attributes:
        nodes: number of nodes in the cluster.
        asks: number of asks that are placed or pending.
        measure: runs the measurement once.
    """

    group: str
    nodes: int
    asks: int
    measure: Callable[[], Awaitable[Samples]]


def _case(
    group: str,
    workload: Workload | FullCluster | Shape | Waiting | Holding | LargeGang | Mix,
    measure: Callable[..., Awaitable[Samples]],
) -> Case:
    return Case(group, workload.nodes, workload.asks, partial(measure, workload))


CASES: dict[str, Case] = {
    **{name: _case("throughput", workload, measures.throughput) for name, workload in PLACED.items()},
    "full-cluster": _case("throughput", _FULL, measures.freed_node),
    **{f"phases-{name}": _case("phases", workload, phases.of_workload) for name, workload in PLACED.items()},
    "phases-full-cluster": _case("phases", _FULL, phases.of_freed_nodes),
    "add-one-ask": _case("latency", FullCluster(nodes=1_000, asks=100_000), measures.one_more_ask),
    "loop-lag": _case("latency", _OWN[5000], measures.loop_lag),
    "reload-5000": Case("latency", _QUEUES.nodes, 0, partial(reload_queues, _QUEUES)),
    "preemption": Case("latency", _STARVING.nodes, _STARVING.asks, partial(preempt, _STARVING)),
    "no-victims": Case("latency", _HOPELESS.nodes, _HOPELESS.asks, partial(preempt, _HOPELESS)),
    "followers": Case("followers", _FOLLOWED.nodes, _FOLLOWED.asks, partial(follow, _FOLLOWED)),
    "followers-plain": Case("followers", _FOLLOWED_PLAIN.nodes, _FOLLOWED_PLAIN.asks, partial(follow, _FOLLOWED_PLAIN)),
    "rest": Case("followers", _READ.nodes, _READ.asks, partial(read, _READ)),
    "rest-whole": Case("followers", _READ_WHOLE.nodes, _READ_WHOLE.asks, partial(read, _READ_WHOLE)),
    "socket-latency": Case("sockets", _PACED.nodes, _PACED.asks, partial(latency, _PACED)),
    "socket-bulk": _case("sockets", _OWN[1000], bulk),
    "small-messages": Case("sockets", SMALL.nodes, SMALL.paced, partial(small_messages.cost, SMALL)),
    "replica": Case("sockets", _REPLICATED.workload.nodes, _REPLICATED.workload.asks, partial(replicas.cost, _REPLICATED)),
    "replica-lag": Case("sockets", _DELAYED.bulk.nodes, _DELAYED.bulk.asks, partial(replicas.lag, _DELAYED)),
    "replica-readers": Case(
        "sockets", _GREEDY.replicated.workload.nodes, _GREEDY.replicated.workload.asks, partial(replicas.greedy, _GREEDY)
    ),
    "standby": Case("sockets", _STANDING.requests.nodes, _STANDING.requests.asks, partial(replicas.standby_latency, _STANDING)),
    "take-over": Case("sockets", _RUNNING.workload.nodes, _RUNNING.workload.asks, partial(taking_over.take_over, _RUNNING)),
    "local-jobs": Case("sockets", 1, _JOBS.jobs, partial(jobs.run, _JOBS)),
    "journal-throughput": _case("journal", _LONG, journal.throughput),
    "journal-latency": Case("journal", _ONE_BY_ONE.nodes, _ONE_BY_ONE.asks, partial(journal.acknowledgement, _ONE_BY_ONE)),
    **{
        f"journal-recovery-{size}": Case("journal", known.nodes, known.asks, partial(journal.recovery, known))
        for size, known in _KEPT.items()
    },
    "idle": _case("latency", Workload(1_000, 2, 2, 0), measures.idle),
    **{name: _case("shapes", shape, shapes.cost) for name, shape in _SHAPES.items()},
    **{name: _case("shapes", mix, cost) for name, mix in _MIXES.items()},
    **{
        name: _case("shapes", Waiting(nodes=5_000, asks=20_000, sizes=sizes), shapes.release_and_submit)
        for name, sizes in _WAITING_SIZES.items()
    },
    "waiting-100000": _case("shapes", Waiting(nodes=5_000, asks=100_000, sizes=5), shapes.first_pass),
    "hold-snapshot": _case("holds", _SNAPSHOT, holds.snapshot),
    "hold-release": _case("holds", _HOLDING, holds.release),
    "hold-quota": _case("holds", _HOLDING, holds.enforce),
    "hold-gang": _case("holds", _GANG, holds.replace),
    "hold-shapes": _case("holds", _FAILING, holds.fail),
    "hold-queues": Case("holds", _QUEUES.nodes, 0, partial(hold, _QUEUES)),
    "kubernetes-bind": Case("kubernetes", _BACKLOG.nodes, _BACKLOG.pods, partial(adapting.bind, _BACKLOG)),
    "kubernetes-conditions": Case(
        "kubernetes", _TELLING.nodes, _TELLING.waiting, partial(adapting.bind_beside_conditions, _TELLING)
    ),
    "kubernetes-report": Case("kubernetes", _REPORTED.nodes, _REPORTED.pods, partial(adapting.report, _REPORTED)),
    "kubernetes-heartbeat": Case("kubernetes", _BEATING.nodes, 0, partial(adapting.heartbeats, _BEATING)),
    "kubernetes-answers": Case("kubernetes", _ANSWERING.nodes, 0, partial(adapting.answer, _ANSWERING)),
    "kubernetes-takeover": Case("kubernetes", _TAKEOVER.nodes, 0, partial(adapting.take_over, _TAKEOVER)),
    "kubernetes-stalled": Case("kubernetes", _STALL.nodes, _STALL.pods, partial(adapting.grow, _STALL)),
    "explain": _case("answers", _PUZZLING, explaining.explanations),
    "explain-changes": _case("answers", _PUZZLED, explaining.changes),
    "compare-days": Case("answers", _DAYS.nodes, _DAYS.asks, partial(comparing.compare, _DAYS)),
    "compare-year": Case("answers", _YEAR.nodes, _YEAR.asks, partial(comparing.compare, _YEAR)),
    "page": Case("page", _SHOWN.nodes, _SHOWN.asks, partial(page.show, _SHOWN)),
    "memory": Case("memory", _LARGE.nodes, _LARGE.asks, partial(footprint, _LARGE)),
}
GROUPS = ("throughput", "phases", "latency", "followers", "sockets", "journal", "kubernetes", "answers", "page", "memory")

#: The case computed from two others: the cost of an allocation with 5,000 nodes, divided by the cost with 500.
COST_RATIO = "cost-ratio"
COST_RATIO_OF = ("own-500", "own-5000")


class Measured(Struct, frozen=True):
    """One run of one case; ``rss_mib`` is the peak of its process."""

    name: str
    nodes: int
    asks: int
    samples: Samples
    rss_mib: float


def run_here(name: str) -> Measured:
    """Run the case once in this process, which should have done nothing else before."""
    case = CASES[name]
    samples = trio.run(case.measure)
    return Measured(name, case.nodes, case.asks, samples, rss_peak_mib())
