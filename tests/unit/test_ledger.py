"""Usage along the tree: headroom and commit (QU-30 to QU-41), fair shares (PR-70), running slots (QU-50 to QU-56)."""

from typing import Any

import pytest
from world import World, app, ask, configure, make_world, node, queue, release, remove, tree

from ykactor.core.config.model import QueueConfig
from ykactor.core.inspection.invariants import fair_share
from ykactor.core.messages.changed import Changed
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.quota.headroom import queue_shortage
from ykactor.core.quota.ledger import Ledger
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import Resource

Limits = dict[str, tuple[Resource | None, Resource]]


def queues(root_max: Resource | None, limits: Limits) -> QueueTree:
    """A tree of the queues named, each with its max and what is allocated in it in addition to what is below it."""
    queue_tree = QueueTree(Changed())
    paths = ["root", *limits]
    parents = {path.rpartition(".")[0] for path in paths}
    configs = [QueueConfig(QueuePath(path), path in parents, max=limits[path][0] if path in limits else None) for path in paths]
    list(queue_tree.configure((config, not config.is_parent) for config in configs))
    queue_tree.set_root_max(root_max)
    for path, (_, allocated) in limits.items():
        Ledger().charge(node_of(queue_tree, path), allocated, was_pending=False)
    return queue_tree


def node_of(queue_tree: QueueTree, path: str) -> QueueNode:
    return queue_tree.nodes[QueuePath(path)]


def fits(queue_tree: QueueTree, path: str, **wanted: int) -> bool:
    return queue_shortage(node_of(queue_tree, path).path_up, tuple(sorted(wanted.items()))) is None


# ---- commit and headroom


@pytest.mark.parametrize(
    ("limit", "allocated", "wanted", "fit"),
    [
        (None, {"a": 5}, {"a": 1}, True),
        ({"a": 1}, {"a": 1}, {"b": 1}, True),
        ({"a": 1}, {"a": 1}, {"a": 1}, False),
        ({"a": 1, "b": 0}, {"b": 1}, {"a": 1}, True),
        ({"a": 1, "b": 0}, {"b": 1}, {"b": 1}, False),
    ],
)
def test_commit_below_root(limit: Resource | None, allocated: Resource, wanted: Resource, fit: bool) -> None:
    """Only the types of the ask are looked at (QU-40); what max does not list is unlimited (QU-31)."""
    assert fits(queues({"a": 99, "b": 99}, {"root.q": (limit, allocated)}), "root.q", **wanted) is fit


@pytest.mark.parametrize(
    ("limit", "allocated", "wanted", "fit"),
    [
        (None, {}, {"a": 1}, False),
        ({"a": 1}, {"b": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1}, {"a": 1}, False),
    ],
)
def test_commit_at_root(limit: Resource | None, allocated: Resource, wanted: Resource, fit: bool) -> None:
    """A type that no node offers is refused at root (QU-38, QU-40)."""
    assert fits(queues(limit, {"root.q": (None, allocated)}), "root.q", **wanted) is fit


#: Root's max; the queues with max and own usage; the headroom (QU-36) of some of them.
TREES: list[tuple[Resource | None, Limits, dict[str, Resource]]] = [
    (
        {"m": 20, "v": 10},
        {"root.p": ({"m": 20, "v": 8}, {}), "root.p.l1": (None, {"m": 5, "v": 3}), "root.p.l2": (None, {"m": 5, "v": 3})},
        {"root.p.l1": {"m": 10, "v": 2}},
    ),
    (
        dict.fromkeys("abcd", 1000),
        {
            "root.p": ({"a": 20, "b": 10}, {}),
            "root.p.l1": ({"a": 10, "c": 10}, {"a": 5, "b": 5, "c": 5}),
            "root.p.l2": ({"d": 10}, {"c": 5, "d": 5}),
        },
        {"root.p.l1": {"a": 5, "b": 5, "c": 5}, "root.p.l2": {"a": 15, "b": 5, "d": 5}},
    ),
    (
        {"m": 1000, "v": 1000},
        {
            "root.p": ({"m": 20, "v": 8}, {}),
            "root.p.l1": ({"m": 10, "v": 8}, {"m": 5, "v": 3}),
            "root.p.l2": (None, {"m": 5, "v": 3}),
        },
        {"root.p.l1": {"m": 5, "v": 2}, "root.p.l2": {"m": 10, "v": 2}},
    ),
]


@pytest.mark.parametrize(("root_max", "limits", "headrooms"), TREES)
def test_headroom(root_max: Resource | None, limits: Limits, headrooms: dict[str, Resource]) -> None:
    """Exactly the headroom fits, of each type alone and of all at once, and nothing more (QU-36, QU-37)."""
    queue_tree = queues(root_max, limits)
    for path, headroom in headrooms.items():
        assert fits(queue_tree, path, **headroom)
        for name, quantity in headroom.items():
            assert fits(queue_tree, path, **{name: quantity})
            assert not fits(queue_tree, path, **{name: quantity + 1})


def test_shortage_names_the_queue_and_the_type() -> None:
    """The first queue from the leaf upwards that is short, for the answer to "why does it wait"."""
    queue_tree = queues({"a": 10, "b": 10}, {"root.p": ({"a": 5}, {}), "root.p.q": ({"b": 5}, {})})
    for wanted, path, name in [({"b": 6}, "root.p.q", "b"), ({"a": 6}, "root.p", "a"), ({"c": 1}, "root", "c")]:
        shortage = queue_shortage(node_of(queue_tree, "root.p.q").path_up, tuple(wanted.items()))
        assert shortage is not None
        assert (shortage[0].path, shortage[1]) == (path, name)


def test_above_a_lowered_max_counts_as_no_headroom() -> None:
    """Usage above max: not a single unit more of that type, any amount of another (QU-37, QU-40)."""
    queue_tree = queues({"a": 99, "b": 99}, {"root.q": ({"a": 5}, {"a": 9})})
    assert not fits(queue_tree, "root.q", a=1)
    assert fits(queue_tree, "root.q", b=50)


@pytest.mark.parametrize("level", ["root.p.q", "root.p"])
def test_every_level_limits(level: str) -> None:
    """An allocation needs room in the leaf and in every ancestor (QU-34); what is too large waits for ever (QU-35)."""
    limits = {path: {"max": {"vcore": 2}} if path == level else {} for path in ("root.p", "root.p.q")}
    world = make_world(tree(queue("p", queue("q", **limits["root.p.q"]), **limits["root.p"])), [node("n1", vcore=100)])
    world.given(app("app-1", "root.p.q"))
    world.send(ask("t3", "app-1", priority=9, vcore=3), *(ask(f"t{n}", "app-1", vcore=1) for n in range(3)))
    assert world.placed() == ["t0", "t1"]
    assert world.why("t3") == f"can never fit: wants 0.003, may have at most 0.002 vcore in queue {level}"
    assert world.queue(level)["allocated"] == {"vcore": 2}


def test_zero_forbids() -> None:
    """A type listed with 0 is forbidden, even if it is the only one (QU-32, QU-33)."""
    world = make_world(tree(queue("a", max={"gpu": 0})), [node("n1", vcore=10, gpu=10)])
    world.send(app("app-1"), ask("t1", "app-1", gpu=1, vcore=1), ask("t2", "app-1", vcore=1))
    assert world.placed() == ["t2"]


def test_a_guarantee_neither_reserves_nor_limits() -> None:
    """Others may use all of the cluster, and so may a queue that is guaranteed little (QU-45)."""
    world = make_world(tree(queue("a"), queue("b", guaranteed={"vcore": 1})), [node("n1", vcore=3)])
    world.given(app("app-1", "root.a"), app("app-2", "root.b"))
    world.send(*(ask(f"a{number}", "app-1", vcore=1) for number in range(3)))
    assert world.placed() == ["a0", "a1", "a2"]
    world.given(release(None, "app-1"))
    world.send(*(ask(f"b{number}", "app-2", vcore=1) for number in range(3)))
    assert world.placed() == ["b0", "b1", "b2"]


def test_the_first_type_by_name_is_told() -> None:
    """Types are looked at in the order of their names, however an ask lists them (QU-3)."""
    world = make_world(tree(queue("a", max={"gpu": 1, "memory": 1, "vcore": 1})), [node("n1", gpu=9, memory=9, vcore=9)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=2, memory=2, gpu=2))
    assert world.why("t1") == "can never fit: wants 2, may have at most 1 gpu in queue root.a"


def test_charge_and_free() -> None:
    """A charge turns pending into usage on every level at once; what ends is subtracted (QU-42)."""
    queue_tree = queues({"a": 9}, {"root.p": (None, {}), "root.p.q": (None, {})})
    leaf, ledger = node_of(queue_tree, "root.p.q"), Ledger()
    ledger.change_pending(leaf, {"a": 5})
    ledger.charge(leaf, {"a": 2})
    assert [(queue.allocated, queue.pending) for queue in leaf.path_up] == [({"a": 2}, {"a": 3})] * 3
    ledger.charge(leaf, {"a": 3})
    assert [(queue.allocated, queue.pending) for queue in leaf.path_up] == [({"a": 5}, {})] * 3
    ledger.free(leaf, {"a": 5})
    assert [queue.allocated for queue in leaf.path_up] == [{}] * 3


# ---- fair shares


def share(allocated: dict[str, Any], *, guaranteed: Resource | None, fair_max: Resource | None, **limits: Any) -> float:
    """The share of a leaf below root in a cluster of this size, with recovered allocations."""
    keys = limits | ({} if guaranteed is None else {"guaranteed": guaranteed})
    world = make_world(tree(queue("a", **keys)), [node("n1", **(fair_max or {}))])
    if allocated:
        world.given(app("app-1"), ask("t1", "app-1", on="n1", **allocated))
    found: float = world.queue("root.a")["share"]
    return found


@pytest.mark.parametrize(
    ("allocated", "guaranteed", "fair_max", "expected"),
    [
        ({}, {"vcore": 5}, {"vcore": 10}, 0),
        ({"m": 300, "vcore": 300}, {"m": 500, "vcore": 500}, None, 0.6),
        ({"m": 100, "vcore": 100, "pods": 100}, {"pods": 200}, {"m": 1000, "vcore": 1000, "pods": 1000}, 0.5),
        ({"m": 100, "vcore": 100, "pods": 100}, {"pods": 800}, {"m": 1000, "vcore": 1000, "pods": 1000}, 0.125),
        ({"m": 200, "vcore": 100}, None, {"m": 1000, "vcore": 1000}, 0.2),
        # in addition to a positive one, as a guarantee of nothing but zeros is none (QU-33)
        ({"gpu": 1, "vcore": 100}, {"gpu": 0, "m": 1}, {"vcore": 1000}, 1),
        ({"gpu": 5}, None, {"vcore": 1000}, 0),
        ({"m": 400, "vcore": 200}, {"m": 800, "vcore": 400}, None, 0.5),
        ({"vcore": 3000}, {"vcore": 1000}, None, 3),  # ratios may exceed 1
    ],
)
def test_share(allocated: Resource, guaranteed: Resource | None, fair_max: Resource | None, expected: float) -> None:
    """PR-70: the largest ratio over what is allocated; own guarantee before fair max."""
    assert share(allocated, guaranteed=guaranteed, fair_max=fair_max) == pytest.approx(expected)


def test_share_of_a_forbidden_type() -> None:
    """Fair max 0 and something used: 1 (PR-70)."""
    assert share({"vcore": 100}, guaranteed=None, fair_max={"vcore": 1000}, max={"vcore": 0}) == 1


def test_share_skips_negative_usage() -> None:
    """allocated[t] < 0 is skipped; 0 of a denominator 0 is 0 (PR-70)."""
    assert fair_share({"a": -5, "b": 1}, {"a": 1.0, "b": 10.0}) == pytest.approx(0.1)
    assert fair_share({"a": 0}, {"a": 0.0}) == 0


def test_share_divides_doubles() -> None:
    """Both numbers become doubles before the division (QU-2); exact integers would give another last bit here."""
    used = 2**53 + 1
    assert fair_share({"a": used}, {"a": 3.0}) == float(used) / 3.0
    assert fair_share({"a": used}, {"a": 3.0}) != used // 3


#: Cluster, own max of the parent and of the leaf, the leaf's fair max.
FAIR_MAX: list[tuple[Resource, Resource | None, Resource | None, Resource]] = [
    ({"vcore": 1000}, None, {"vcore": 1200}, {"vcore": 1200}),
    ({"mem": 1000, "vcore": 1000}, {"vcore": 900}, None, {"mem": 1000, "vcore": 900}),
    ({"mem": 1000}, None, {"gpu": 100}, {"mem": 1000, "gpu": 100}),
    ({"vcore": 1000, "mem": 1000}, None, {"vcore": 0}, {"mem": 1000, "vcore": 0}),
    ({}, None, {"vcore": 5}, {}),
]


@pytest.mark.parametrize(("cluster", "parent", "leaf", "fair_max"), FAIR_MAX)
def test_fair_max(cluster: Resource, parent: Resource | None, leaf: Resource | None, fair_max: Resource) -> None:
    """The fair max (QU-105): going down, own values replace; seen as the denominator of each type."""
    limits = [{} if limit is None else {"max": limit} for limit in (parent, leaf)]
    text = tree(queue("p", queue("q", **limits[1]), **limits[0]))
    quantity: Any = 90
    for name in ("vcore", "mem", "gpu"):
        world = make_world(text, [node("n1", **cluster)])
        world.given(app("app-1", "root.p.q"), ask("t1", "app-1", on="n1", **{name: quantity}))
        denominator = fair_max.get(name)
        expected = 0.0 if denominator is None else quantity / denominator if denominator else 1.0
        assert world.queue("root.p.q")["share"] == pytest.approx(expected), name


def test_shares_follow_the_cluster() -> None:
    """A node that comes or goes changes every denominator; a release brings the share down."""
    world = make_world(tree(queue("a")), [node("n1", vcore=100)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=50), ask("t2", "app-1", vcore=30))
    assert world.queue("root.a")["share"] == pytest.approx(0.8)
    world.send(node("n2", vcore=100))
    assert world.queue("root.a")["share"] == pytest.approx(0.4)
    world.send(release("t1"))
    assert world.queue("root.a")["share"] == pytest.approx(0.15)
    world.send(node("n1", "UPDATE", vcore=200))
    assert world.queue("root.a")["share"] == pytest.approx(0.1)


# ---- running slots


def counted(root: int = 0, parent: int = 0, leaf: int = 0) -> str:
    """root.p.q, root.p.r and root.s with limits on the running applications; none below a limit may be without one (E39)."""
    leaves = [queue(name, maxapplications=leaf) for name in ("q", "r")]
    return tree(queue("p", *leaves, maxapplications=parent), queue("s", maxapplications=leaf), maxapplications=root)


ROOM = node("n1", vcore=1000)


def running(world: World, *paths: str) -> list[int]:
    return [world.queue(path)["runningApplications"] for path in paths]


@pytest.mark.parametrize(
    ("limits", "second", "full"),
    [((0, 0, 1), "root.p.q", "root.p.q"), ((0, 1, 1), "root.p.r", "root.p"), ((1, 1, 1), "root.s", "root")],
)
def test_every_level_counts_applications(limits: tuple[int, int, int], second: str, full: str) -> None:
    """The check is recursive (QU-50), root counts for the partition (QU-56); a held application waits, Accepted (QU-51)."""
    world = make_world(counted(*limits), [ROOM])
    world.given(app("app-1", "root.p.q"), app("app-2", second))
    world.send(ask("t1", "app-1", vcore=1), ask("t2", "app-2", vcore=1), ask("t3", "app-1", vcore=1))
    assert world.placed() == ["t1", "t3"]
    assert world.state_of("app-2") == "Accepted"
    assert world.why("t2") == f"queue {full} runs 1 of at most 1 application"
    world.send(release(None, "app-1"))
    assert world.placed() == ["t2"]


def test_siblings_share_the_parents_limit() -> None:
    """Root 2, parent 1; raising parent to 2 lets the second application go (QU-50)."""
    world = make_world(counted(2, 1, 1), [ROOM])
    world.given(app("app-1", "root.p.q"), app("app-2", "root.p.r"))
    world.send(ask("t1", "app-1", vcore=1), ask("t2", "app-2", vcore=1))
    assert world.placed() == ["t1"]
    world.send(configure(counted(2, 2, 1)))
    assert world.placed() == ["t2"]


def test_slot_from_starting_to_completing() -> None:
    """Taken on entering Starting, not twice on Running, given back on Completing, taken again on the way back (QU-53)."""
    world = make_world(counted(), [ROOM])
    paths = ("root", "root.p", "root.p.q")
    world.given(app("app-1", "root.p.q"), ask("t1", "app-1", vcore=1))
    assert (world.state_of("app-1"), running(world, *paths)) == ("Starting", [1, 1, 1])
    world.given(ask("t2", "app-1", vcore=1))
    assert (world.state_of("app-1"), running(world, *paths)) == ("Running", [1, 1, 1])
    world.given(release(None))
    assert (world.state_of("app-1"), running(world, *paths)) == ("Completing", [0, 0, 0])
    world.given(ask("t3", "app-1", vcore=1))
    assert (world.state_of("app-1"), running(world, *paths)) == ("Running", [1, 1, 1])
    world.given(remove("app-1"))
    assert running(world, *paths) == [0, 0, 0]


def test_waiting_applications_hold_no_slot() -> None:
    """New and Accepted applications do not count; what came back from Completing is never held back (QU-51, AP-24)."""
    world = make_world(counted(leaf=1), [ROOM])
    world.given(app("app-1", "root.p.q"), app("app-2", "root.p.q"), app("app-3", "root.p.q"))
    world.given(ask("huge", "app-3", priority=9, vcore=10**6), ask("t1", "app-1", vcore=1))
    assert running(world, "root.p.q") == [1]
    world.given(release("t1", "app-1"), ask("t2", "app-2", vcore=1))
    assert world.state_of("app-2") == "Starting"
    world.given(ask("t3", "app-1", vcore=1))
    assert world.state_of("app-1") == "Running"
    assert running(world, "root.p.q") == [2]


def test_running_is_counted_above_a_limit() -> None:
    """Recovery and a lowered limit leave more than allowed: each is counted, and nobody starts until enough ended (QU-55)."""
    world = make_world(counted(leaf=1), [ROOM])
    world.given(*(app(f"app-{n}", "root.p.q") for n in range(4)))
    world.given(*(ask(f"t{n}", f"app-{n}", on="n1", vcore=1) for n in range(3)))
    assert running(world, "root.p.q") == [3]
    world.send(ask("t3", "app-3", vcore=1))
    for n in range(3):
        assert world.placed() == []
        world.send(release(None, f"app-{n}"))
    assert world.placed() == ["t3"]
    assert running(world, "root.p.q") == [1]


def test_slots_are_counted_by_application() -> None:
    """Whoever holds a slot is let through; taking it twice counts once (QU-52)."""
    queue_tree = QueueTree(Changed())
    configs = [QueueConfig(QueuePath("root"), True), QueueConfig(QueuePath("root.q"), False, max_applications=1)]
    list(queue_tree.configure((config, not config.is_parent) for config in configs))
    ledger, leaf, one, other = Ledger(), node_of(queue_tree, "root.q"), ApplicationID("app-1"), ApplicationID("app-2")
    assert not leaf.lacks_slot(one)
    ledger.take_slot(leaf, one)
    ledger.take_slot(leaf, one)
    assert not leaf.lacks_slot(one)
    assert leaf.lacks_slot(other)
    ledger.give_slot_back(leaf, one)
    ledger.give_slot_back(leaf, one)
    assert not leaf.lacks_slot(other)
