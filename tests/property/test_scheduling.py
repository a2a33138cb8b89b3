"""The scheduler under generated histories: the invariants hold, and every single decision is the one that the rules demand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from checked import LARGE, ONE_BY_ONE, World, check_history
from generate import generate
from histories import S_NS, Batch, History, draw_history
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seeds import scaled, seeds

from ykactor.core.config.model import AccessList, PartitionConfig, QueueConfig, SchedulerConfig
from ykactor.core.config.properties import QueueProperties
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.states import TERMINAL_TIMEOUT_NS, ApplicationState
from ykactor.core.messages.submissions import (
    AddApplication,
    ApplyConfig,
    ReleaseAllocations,
    RemoveApplication,
    Submission,
    UpdateNode,
)
from ykactor.core.nodes import index as node_index
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.objects.application import Application
from ykactor.core.objects.node import NodeCore
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.turn.scheduler import Cycle
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.sim.simulator import Work, instants
from ykactor.wire import queuefile


@pytest.fixture
def small_scans(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches the node index to heaps from the second node on, so that small clusters use them too."""

    def switch(on: bool) -> None:
        monkeypatch.setattr(node_index, "SCAN_MAX", 1 if on else 64)
        monkeypatch.setattr(node_index, "ENTRIES_MAX", 30 if on else 10**6)

    return switch


def session(seed: int, **sizes: float) -> History:
    """A well-meant session of ``generate``; what comes at one instant comes as one batch."""
    scenario = generate(seed, **sizes)
    batches = [
        Batch(instant.at_ns, [entry for step in instant.steps for entry in submissions(step)]) for instant in instants(scenario)
    ]
    return History(queuefile.load(scenario.config).partitions[0], batches)


def submissions(step: Work | SchedulerConfig) -> list[Submission]:
    if isinstance(step, SchedulerConfig):
        return [ApplyConfig(step.partitions[0])]
    return [entry for name in step for entry in step[name]]


# ---- generated histories


@settings(max_examples=scaled(150))
@given(
    seed=st.integers(0, 10**6),
    queues=st.integers(1, 20),
    nodes=st.integers(1, 8),
    applications=st.integers(1, 12),
    asks=st.integers(1, 80),
    churn=st.sampled_from((0.0, 0.5, 1.0, 2.0)),
    mistakes=st.sampled_from((0.0, 0.3)),
    reloads=st.integers(0, 3),
)
# An application starts, so its old ask joins a class that was parked in the same plan because its asks were all too young.
@example(seed=45, queues=2, nodes=5, applications=12, asks=44, churn=0.5, mistakes=0.3, reloads=2)
def test_sessions(**sizes: int) -> None:
    """Whatever a resource manager does: invariants hold after every step, every decision is the one that a naive reading of the
    rules finds from the state before it, "nothing to place" included, and a cycle's budget does not change any.
    """
    check_history(session(**sizes))


@pytest.mark.parametrize("seed", seeds(250))
def test_nasty_histories(seed: int, small_scans: Callable[[bool], None]) -> None:
    """The same for histories made of ties, extremes and batches that contradict themselves, with and without node heaps."""
    small_scans(seed % 2 == 0)
    check_history(draw_history(seed))


@pytest.mark.parametrize("seed", seeds(3))
def test_many_nodes(seed: int) -> None:
    """The same where the node index has more nodes than it scans."""
    check_history(session(seed, queues=5, nodes=150, applications=10, asks=300, churn=0.5, reloads=1))


@pytest.mark.parametrize("seed", seeds(60))
def test_the_planner_never_leads_above_max(seed: int) -> None:
    """A queue never uses more than its max without recovered allocations, resizes, other limits and shrinking clusters."""
    history = draw_history(seed)
    submitted: set[str] = set()
    for batch in history.batches:
        batch.submissions = [submission for submission in batch.submissions if _is_harmless(submission, submitted)]
    World(history.config, LARGE, strict_max=True).play(history.batches)


def _is_harmless(submission: Submission, submitted: set[str]) -> bool:
    match submission:
        case Ask() as ask:
            is_new = ask.allocation_key not in submitted
            submitted.add(ask.allocation_key)
            return is_new and ask.node_id is None
        case UpdateNode(_, action):
            return action in ("CREATE", "CREATE_DRAIN")
        case AddApplication(_, _, _, _, tags):
            return not any(tag.startswith("namespace.") for tag in tags)
        case ApplyConfig():
            return False
    return True


# ---- a node that does not do what it is told


# ---- reduced cases


def tree(*children: QueueConfig, slots: int = 0) -> PartitionConfig:
    everybody = AccessList(everybody=True)
    root = QueueConfig(QueuePath("root"), True, max_applications=slots, submit_acl=everybody, children=children)
    return PartitionConfig(PartitionName("default"), root)


def queue(name: str, *children: QueueConfig, policy: str = "fifo", **settings: object) -> QueueConfig:
    properties = QueueProperties(sort_policy=policy)
    return QueueConfig(QueuePath(f"root.{name}"), bool(children), properties, children=children, **settings)


def node(name: str, action: str = "CREATE", **capacity: int) -> UpdateNode:
    return UpdateNode(NodeID(name), NodeAction(action), capacity or None)


def application(name: str, leaf: str) -> AddApplication:
    return AddApplication(ApplicationID(name), leaf, "alice")


def ask(key: str, name: str, priority: int = 0, *, on: str | None = None, tags=None, **resource: int) -> Ask:
    where = None if on is None else NodeID(on)
    return Ask(AllocationKey(key), ApplicationID(name), resource, priority, where, tags or {})


def release(key: str, name: str) -> ReleaseAllocations:
    return ReleaseAllocations(ApplicationID(name), AllocationKey(key), TerminationType.STOPPED_BY_RM)


def test_a_node_comes_and_goes_in_one_batch() -> None:
    """A node that is gone before the scheduler saw it leaves no trace; one that comes back at once is a new node."""
    world = World(tree(queue("a")), ONE_BY_ONE, compare=True)
    world.tell(node("n", vcore=1), node("n", "DECOMISSION"))
    world.tell(node("n", vcore=2), application("app", "a"), ask("k1", "app", vcore=2))
    world.tell(node("n", "DECOMISSION"), node("n", vcore=3), ask("k2", "app", vcore=3))
    assert world.placed() == ["k1", "k2"]


def test_a_leaf_becomes_a_parent_behind_its_last_application() -> None:
    """Two configurations and the end of an application in one batch: each takes effect in its turn (CF-59, CF-61)."""
    with_leaf, with_parent = tree(queue("a")), tree(queue("a", queue("a.x")))
    world = World(with_leaf, ONE_BY_ONE, compare=True)
    world.tell(application("old", "a"), ask("k1", "old", 7, vcore=1))
    removal = RemoveApplication(ApplicationID("old"))
    world.tell(ApplyConfig(tree(queue("a"), queue("b"))), removal, ApplyConfig(with_parent))
    world.tell(node("n", vcore=4), application("new", "root.a.x"), ask("k2", "new", vcore=1))
    assert world.placed() == ["k2"]


def test_an_expired_application_is_not_its_successor() -> None:
    """An application id is free when its application has completed (AP-72): the old one's expiry does not touch the new one."""
    world = World(tree(queue("a")), ONE_BY_ONE, compare=True)
    world.tell(node("n", vcore=4), application("app", "a"), ask("k1", "app", vcore=1))
    world.tell(release("k1", "app"), at_s=1)
    world.tell(application("app", "a"), ask("k2", "app", vcore=1), at_s=60)
    assert world.core.registry.leaf(QueuePath("root.a")).applications[ApplicationID("app")].state is ApplicationState.STARTING
    world.tell(ask("k3", "app", vcore=1), at_s=60 + TERMINAL_TIMEOUT_NS / S_NS)
    assert world.placed() == ["k1", "k2", "k3"]


def test_recovery_moves_the_submission_time_back() -> None:
    """A recovered allocation that is older than its application makes the application older too (PR-40)."""
    world = World(tree(queue("a")), ONE_BY_ONE, compare=True)
    world.tell(node("n", vcore=2), application("first", "a"), at_s=10)
    world.tell(application("second", "a"), at_s=11)
    world.tell(ask("r", "second", on="n", tags={"creationTime": "3"}, vcore=1), at_s=12)
    world.tell(ask("k1", "first", vcore=1), ask("k2", "second", vcore=1), at_s=13)
    assert world.placed() == ["r", "k2"]


def test_a_type_with_0_is_a_type_of_the_ask() -> None:
    """A type that the ask lists with 0 is checked like any other: it does not fit where that type is used above max (QU-40)."""
    world = World(tree(queue("a", max={"gpu": 0}), queue("b")), ONE_BY_ONE, compare=True)
    world.tell(node("n", vcore=4), application("a", "a"), application("b", "b"))
    world.tell(ask("k1", "a", vcore=1, gpu=0), ask("k2", "b", vcore=1, gpu=0))
    world.tell(ask("r", "b", on="n", gpu=1))  # the cluster has no gpu, yet one is in use
    world.tell(ask("k3", "b", vcore=1, gpu=0), ask("k4", "b", vcore=1))
    assert world.placed() == ["k1", "k2", "r", "k4"]
    world.tell(release("r", "b"))
    assert world.placed()[-1] == "k3"


def test_a_slot_comes_back_without_any_usage() -> None:
    """An application that ends by cancelling its last ask gives its slot back, and the next one runs (QU-53)."""
    world = World(tree(queue("a", max_applications=1)), ONE_BY_ONE, compare=True)
    world.tell(node("n", vcore=4), application("first", "a"), application("second", "a"))
    world.tell(ask("k1", "first", vcore=1), ask("large", "first", vcore=9))
    world.tell(release("k1", "first"))
    world.tell(ask("k2", "second", vcore=1))
    assert world.placed() == ["k1"]
    world.tell(release("large", "first"))
    assert world.placed() == ["k1", "k2"]


def test_cancelling_an_ask_lets_another_application_begin() -> None:
    """Under stateaware the Accepted application that may begin is chosen anew when priorities change (PR-46)."""
    world = World(tree(queue("a", policy="stateaware")), ONE_BY_ONE, compare=True)
    world.tell(node("n", vcore=4), application("first", "a"), application("second", "a"))
    world.tell(ask("large", "first", 9, vcore=9), ask("larger", "first", 1, vcore=10), ask("k2", "second", 5, vcore=1))
    assert world.placed() == []
    world.tell(release("large", "first"))
    assert world.placed() == ["k2"]


def test_the_end_of_starting_lets_another_application_begin() -> None:
    """Under stateaware the next application may begin when Starting has lasted 5 minutes (AP-40, PR-75)."""
    world = World(tree(queue("a", policy="stateaware")), ONE_BY_ONE, compare=True)
    world.tell(node("n", vcore=4), application("first", "a"), application("second", "a"))
    world.tell(ask("k1", "first", vcore=1), ask("large", "first", vcore=9), ask("k2", "second", vcore=1))
    assert world.placed() == ["k1"]
    world.tell(at_s=300)
    assert world.placed() == ["k1", "k2"]


def test_one_sibling_empties_what_another_one_fills() -> None:
    """The last ask of one leaf goes in the message in which the first ask of its sibling comes: that one is pending above."""
    world = World(tree(queue("p", queue("p.a"), queue("p.b"))), ONE_BY_ONE, compare=True)
    world.tell(application("a", "root.p.a"), application("b", "root.p.b"), ask("k1", "a", vcore=9))
    world.tell(node("n", vcore=4), release("k1", "a"), ask("k2", "b", vcore=1))
    assert world.placed() == ["k2"]


# ---- the invariants themselves


def leaf_truth(world: World) -> Application:
    return world.core.registry.leaf(QueuePath("root.a")).applications[ApplicationID("app")]


def account(world: World) -> QueueNode:
    return world.scheduler.state.tree.nodes[QueuePath("root.a")]


def waiting(world: World) -> PendingApplication:
    return world.scheduler.state.applications[ApplicationID("app")]


def core(world: World) -> NodeCore:
    return world.core.registry.nodes[NodeID("n")]


def indexed(world: World) -> IndexedNode:
    return world.scheduler.state.nodes.nodes[NodeID("n")]


def run_what_waits(world: World) -> None:
    leaf_truth(world).tasks.asks.update({entry.allocation_key: entry for entry in core(world).allocations.values()})


#: What the sentence must name, and how to break it.
DAMAGES: list[tuple[str, Callable[[World], object]]] = [
    ("queue root.a: allocated", lambda world: account(world).allocated.update(vcore=7)),
    ("queue root.a: pending", lambda world: account(world).pending.clear()),
    ("queue root: pending", lambda world: account(world).pending.clear()),
    ("queue root.a: the set of running", lambda world: account(world).running.clear()),
    ("queue root.a: the highest priority", lambda world: account(world).priorities.add(99)),
    ("queue root.a: the priority", lambda world: setattr(account(world), "priority", 99)),
    ("queue root.a: the fair share", lambda world: setattr(account(world), "share", 0.9)),
    ("queue root.a: max", lambda world: setattr(account(world), "max", {"vcore": 1})),
    ("queue root.a: is_leaf", lambda world: setattr(account(world), "is_leaf", False)),
    ("queue root.a: the place", lambda world: setattr(account(world).place, "group_key", (0,))),
    ("nodes: the number of placements", lambda world: setattr(world.core.registry.unsent, "count", 1)),
    ("ledger: the cluster's total", lambda world: core(world).capacity.update(vcore=9)),
    ("pending application app: the state", lambda world: setattr(waiting(world), "state", ApplicationState.NEW)),
    ("pending application app: the submission", lambda world: setattr(waiting(world), "submission_ns", -1)),
    ("pending application app: allocated", lambda world: waiting(world).allocated.clear()),
    ("pending application app: the place", lambda world: setattr(waiting(world), "sort_key", None)),
    ("pending application app: the set of asks", lambda world: leaf_truth(world).tasks.asks.clear()),
    ("not on its node n", lambda world: core(world).allocations.clear()),
    ("waits and runs", run_what_waits),
    ("which does not know it", lambda world: leaf_truth(world).tasks.allocations.clear()),
    ("partition: the leaf of each", lambda world: world.core.registry.applications.clear()),
    ("node n: allocated", lambda world: core(world).allocated.clear()),
    ("node n: occupied", lambda world: core(world).occupied.update(vcore=1)),
    ("node n: allocated + occupied + available", lambda world: core(world).available.update(vcore=3)),
    ("indexed node n: available", lambda world: indexed(world).available.update(vcore=3)),
    ("indexed node n: schedulable", lambda world: setattr(indexed(world), "schedulable", False)),
    ("indexed node n: revision", lambda world: setattr(indexed(world), "revision", 99)),
    ("indexed node n: score", lambda world: setattr(indexed(world), "place", (0.9, "n"))),
    ("node index: the set of nodes", lambda world: world.core.registry.nodes.clear()),
]


@pytest.mark.parametrize(("sentence", "damage"), DAMAGES)
def test_violations_are_named(sentence: str, damage: Callable[[World], None]) -> None:
    """Whatever is not as its owner has it is found, and the sentence says what it is."""
    world = World(tree(queue("a", max={"vcore": 4}), queue("b")))
    world.tell(node("n", vcore=4, memory=8), application("app", "a"))
    world.tell(ask("k1", "app", vcore=2), ask("k2", "app", 5, vcore=2), ask("k3", "app", vcore=3))
    assert violations(world.core, world.scheduler) == []
    damage(world)
    assert any(sentence in found for found in violations(world.core, world.scheduler))


class Bounded(World):
    """Fails if it does not come to rest."""

    cycles_left = 20_000

    def cycle(self, now_ns: int) -> tuple[Cycle, bool]:
        self.cycles_left -= 1
        assert self.cycles_left > 0, "the partition does not come to rest"
        return super().cycle(now_ns)


@pytest.mark.parametrize("seed", seeds(9))
def test_the_smallest_budget_comes_to_rest(seed: int) -> None:
    """A budget that is spent on the way to the first candidate decides the same as a large one, only in more plans."""
    history = session(seed)
    assert Bounded(history.config, Budget(1, 0)).play(history.batches) == World(history.config, LARGE).play(history.batches)
