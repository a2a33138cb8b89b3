"""Victims of an ask: small clusters, examples of YuniKorn's user guide, and priorities (PE-28)."""

from typing import Any

import pytest
from replicasets import ReplicaSets
from world import World, answer, answering, app, ask, make_world, node, queue, tree

from ykactor.core.messages.facts import Preempted
from ykactor.core.messages.submissions import Submission

DELAY = {"preemption.delay": "10s"}


def leaf(name: str, /, **keys: Any) -> dict[str, Any]:
    return queue(name, **keys, p=DELAY)


def wants(key: str, application_id: str, /, **keys: Any) -> Submission:
    return ask(key, application_id, preempt_other=True, **keys)


def cluster(text: str, nodes: list[Submission], *runs: tuple[str, str, str, dict[str, int]], **options: Any) -> World:
    """A world in which tasks run, oldest first: (key, leaf, node, amounts); one application for each leaf.

    ``c2`` has an application without tasks, too.
    """
    world = make_world(text, nodes, **options)
    leaves = dict.fromkeys(["c2", *(where for _, where, _, _ in runs)])
    paths = {path.rpartition(".")[2]: path for path in world.state()["queues"]}
    world.given(*(app(f"app-{name}", paths[name]) for name in leaves))
    for number, (key, where, node_id, amounts) in enumerate(runs, 1):
        world.given(ask(key, f"app-{where}", on=node_id, **amounts), at=number / 100)
    return world


def gone(world: World, *submissions: Submission) -> list[str]:
    """The victims of these asks, which come at second 1, up to their first attempt."""
    world.given(*submissions, at=1)
    world.run(11)
    return victims(world)


def victims(world: World) -> list[str]:
    """The victims so far."""
    return [key for fact in world.facts if isinstance(fact, Preempted) for _, _, key in fact.victims]


def five(**extra: int) -> dict[str, int]:
    return {"first": 5, **extra}


# ---- small clusters


S1 = tree(
    queue(
        "parent",
        leaf("c1", guaranteed={"first": 5}, max={"first": 10}),
        leaf("c2", guaranteed={"first": 5}, max={"first": 10}),
        guaranteed={"first": 10},
    )
)
WANTED = {"first": 5, "pods": 1}


def s2(text: str = S1, **options: Any) -> World:
    nodes = [node("n1", first=5, pods=1), node("n2", first=5, pods=1)]
    return cluster(text, nodes, ("t1", "c1", "n1", WANTED), ("t2", "c1", "n2", WANTED), **options)


def test_s1_the_newest() -> None:
    """The newest candidate on the node is the victim (PE-32)."""
    world = cluster(S1, [node("n1", first=10, pods=5)], ("t1", "c1", "n1", WANTED), ("t2", "c1", "n1", WANTED))
    assert gone(world, wants("a", "app-c2", **WANTED)) == ["t2"]


def test_s2_the_first_node_of_equals() -> None:
    """The first node id decides between equal solutions on two nodes (PE-44)."""
    assert gone(s2(), wants("a", "app-c2", **WANTED)) == ["t1"]


def test_s2_where_it_may_run() -> None:
    """A node that the resource manager refuses is not used (PE-45)."""
    world = s2()
    world.given(answering(is_there=True), *answer("p", "n1", no="not there"), *answer("p", "n1", no="not there", allocate=False))
    world.given(*answer("p", "n2"), *answer("p", "n2", allocate=False))
    assert gone(world, wants("a", "app-c2", predicate="p", **WANTED)) == ["t2"]


def test_s3_no_node_is_large_enough() -> None:
    """A node whose capacity is too small for the ask is not considered (PE-38)."""
    c2 = leaf("c2", guaranteed={"first": 6}, max={"first": 10})
    world = s2(tree(queue("parent", leaf("c1", guaranteed={"first": 5}, max={"first": 10}), c2)))
    assert gone(world, wants("a", "app-c2", first=6, pods=1)) == []


def test_s4_a_parent_at_its_max() -> None:
    """Both nodes have room, the parent has not: the newer task is preempted, whatever its node (PE-44)."""
    text = tree(queue("parent", leaf("c1", guaranteed={"first": 5}), leaf("c2", guaranteed={"first": 5}), max={"first": 10}))
    nodes = [node("n1", first=10), node("n2", first=10)]
    for first, second in (("n1", "n2"), ("n2", "n1")):
        world = cluster(text, nodes, ("t1", "c1", first, five()), ("t2", "c1", second, five()))
        assert gone(world, wants("a", "app-c2", first=5)) == ["t2"]


def test_room_on_the_node_or_not() -> None:
    """A node with room for the ask, where the newer victim goes, comes before one without, if as many go (PE-44)."""
    text = tree(queue("parent", leaf("c1"), leaf("c2", guaranteed={"first": 5}), max={"first": 10}))
    runs = [("t1", "c1", "n1", five()), ("t2", "c1", "n2", five())]
    assert gone(cluster(text, [node("n1", first=5), node("n2", first=10)], *runs), wants("a", "app-c2", first=5)) == ["t2"]
    assert gone(cluster(text, [node("n1", first=10), node("n2", first=5)], *runs), wants("a", "app-c2", first=5)) == ["t1"]


def test_at_the_guarantee_in_one_type() -> None:
    """PE-25: a queue that has all it is guaranteed of one type that the ask wants may not preempt, whatever else it lacks."""
    c2 = leaf("c2", guaranteed={"vcore": 2, "memory": 4096})
    text = tree(queue("parent", leaf("c1"), c2))
    runs = [("u", "c2", "n1", {"vcore": 2, "memory": 4000}), ("t1", "c1", "n1", {"vcore": 2, "memory": 4000})]
    nodes = [node("n1", vcore=4, memory=8000)]
    assert gone(cluster(text, nodes, *runs), wants("a", "app-c2", vcore=2, memory=4000)) == []
    assert gone(cluster(text, nodes, *runs), wants("a", "app-c2", memory=4000)) == ["t1"]


def test_s5_one_node_does_not_free_enough() -> None:
    """All victims run on one node, also for a max of a queue (PE-43)."""
    text = tree(queue("parent", leaf("c1"), leaf("c2", guaranteed={"first": 5}), max={"first": 6}))
    runs = [("t1", "c1", "n1", {"first": 4}), ("t2", "c1", "n2", {"first": 2})]
    world = cluster(text, [node("n1", first=5), node("n2", first=4)], *runs)
    assert gone(world, wants("a", "app-c2", first=5)) == []


def s6(*runs: tuple[str, str, str, dict[str, int]], c3: int = 0) -> World:
    text = tree(queue("parent", leaf("c1"), leaf("c2", guaranteed={"first": 15}), leaf("c3"), max={"first": 18}))
    world = cluster(text, [node("n1", first=30), node("n2", first=30)], *runs)
    world.given(app("app-c3", "root.parent.c3"), ask("t4", "app-c3", on="n2", priority=c3, first=5), at=0.5)
    return world


def test_s6_as_few_as_possible() -> None:
    """Two on n2, never three (PE-40, PE-42)."""
    world = s6(("t1", "c1", "n1", five()), ("t2", "c1", "n2", five()))
    assert sorted(gone(world, wants("a", "app-c2", first=10))) == ["t2", "t4"]


def test_s7_not_the_more_important() -> None:
    """A task of higher priority is no victim, so the other node is used (PE-28, PE-44)."""
    world = s6(("t1", "c1", "n1", five()), ("t2", "c1", "n1", five()), c3=1000)
    assert sorted(gone(world, wants("a", "app-c2", first=10))) == ["t1", "t2"]


def test_s8_guarantee_of_a_parent() -> None:
    """The guarantee of a queue above the leaf counts where the leaf has none (PE-24, PE-27)."""
    inner = queue("p1", leaf("c1"), guaranteed={"vcore": 1})
    text = tree(queue("parent", inner, queue("p2", leaf("c2")), max={"vcore": 2}))
    amounts = {"vcore": 1, "mem": 200}
    world = cluster(text, [node("n1", vcore=3, mem=400)], ("t1", "c2", "n1", amounts), ("t2", "c2", "n1", amounts))
    world.given(app("app-c1", "root.parent.p1.c1"))
    assert gone(world, wants("a", "app-c1", vcore=1)) == ["t2"]


def test_s9_only_what_helps_and_no_further_than_the_guarantee() -> None:
    """The two newest that use vcores; the third would leave c2 below its guarantee (PE-41), the others do not help (PE-40)."""
    one, other = queue("p1", leaf("c1", guaranteed={"vcore": 2})), queue("p2", leaf("c2", guaranteed={"vcore": 1}))
    runs = [(f"v{n}", "c2", "n1", {"vcore": 1, "mem": 100}) for n in range(3)]
    runs += [(f"m{n}", "c2", "n1", {"mem": 100}) for n in range(3)]
    world = cluster(tree(queue("parent", one, other)), [node("n1", vcore=3, mem=600)], *runs)
    world.given(app("app-c1", "root.parent.p1.c1"))
    assert sorted(gone(world, wants("a", "app-c1", vcore=2), wants("b", "app-c1", vcore=2))) == ["v1", "v2"]


@pytest.mark.parametrize(
    ("c1", "c2", "expected"),
    [({}, {"guaranteed": {"vcore": 1}}, ["t2"]), ({}, {}, []), ({"guaranteed": {"vcore": 1}}, {}, [])],
    ids=["S10", "S11", "c1 alone has a guarantee"],
)
def test_s10_s11_siblings_below_a_starving_parent(c1: dict[str, Any], c2: dict[str, Any], expected: list[str]) -> None:
    """An own trigger may exchange tasks below the parent; an inherited one takes nothing from a sibling (PE-27, PE-41)."""
    text = tree(queue("parent", queue("p1", leaf("c1", **c1), leaf("c2", **c2), guaranteed={"vcore": 10})))
    world = cluster(text, [node("n1", vcore=2)], ("t1", "c1", "n1", {"vcore": 1}), ("t2", "c1", "n1", {"vcore": 1}))
    assert gone(world, wants("a", "app-c2", vcore=1)) == expected


def test_s12_down_to_the_guarantee() -> None:
    """c1 keeps the one task that it is guaranteed (PE-41)."""
    inner = queue("p1", leaf("c1", guaranteed={"vcore": 1}), leaf("c2", guaranteed={"vcore": 1}), guaranteed={"vcore": 10})
    world = cluster(tree(queue("parent", inner)), [node("n1", vcore=2)], *((f"t{n}", "c1", "n1", {"vcore": 1}) for n in (1, 2)))
    assert gone(world, wants("a", "app-c2", vcore=1), wants("b", "app-c2", vcore=1)) == ["t2"]


def test_s13_types_that_nobody_uses_do_not_matter() -> None:
    """c1's guarantee of ``second`` is not touched by tasks without it (PE-41)."""
    c1, c2 = leaf("c1", guaranteed={"first": 10, "second": 2}), leaf("c2", guaranteed={"first": 10})
    nodes = [node("n1", first=10, second=2), node("n2", first=10, second=2)]
    runs = [("t1", "c1", "n1", {"first": 10}), ("t2", "c1", "n2", {"first": 10})]
    world = cluster(tree(queue("parent", c1, c2)), nodes, *runs)
    assert gone(world, wants("a", "app-c2", first=5)) == ["t1"]


def test_s14_whom_the_guarantee_spares() -> None:
    """Victim t2 goes, because without t1 c1 would have 5 < 10 (PE-41)."""
    c1, c2 = leaf("c1", guaranteed={"first": 10}), leaf("c2", guaranteed={"first": 10, "second": 2})
    runs = [("t1", "c1", "n1", {"first": 10}), ("t2", "c1", "n2", {"first": 5}), ("u", "c2", "n2", {"first": 5, "second": 3})]
    nodes = [node(name, first=10, second=3, third=10) for name in ("n1", "n2")]
    world = cluster(tree(queue("parent", c1, c2)), nodes, *runs)
    assert gone(world, wants("a", "app-c2", first=5, third=10)) == ["t2"]


def s15() -> World:
    parent = queue("parent", leaf("c1"), leaf("c2", guaranteed={"vcore": 1}), max={"vcore": 20}, guaranteed={"vcore": 2})
    runs = [(f"t{n}", "c1", f"n{1 + n // 3}", {"vcore": 1}) for n in range(6)]
    return cluster(tree(parent), [node("n1", vcore=3), node("n2", vcore=3)], *runs)


def test_s15_the_newest_of_the_first_node() -> None:
    """The newest candidate of the first node, although a newer one runs on the second (PE-44)."""
    assert gone(s15(), wants("a", "app-c2", vcore=1)) == ["t2"]


def test_s15_the_newest_where_it_may_run() -> None:
    """Only nodes that the resource manager is known to allow are used (PE-45)."""
    world = s15()
    for allocate in (True, False):
        world.given(*answer("p", "n1", no="not there", allocate=allocate), *answer("p", "n2", allocate=allocate))
    world.given(answering(is_there=True))
    assert gone(world, wants("a", "app-c2", predicate="p", vcore=1)) == ["t5"]


def test_s16_opted_out_last() -> None:
    """A task that opted out is taken last (PE-32); a guarantee of 0 is none (PE-24)."""
    text = tree(queue("parent", leaf("c1", guaranteed={"vcore": 0}), leaf("c2", guaranteed={"vcore": 10})))
    world = cluster(text, [node("n1", vcore=10)], *((f"t{n}", "c1", "n1", {"vcore": 2}) for n in range(4)))
    world.given(ask("t4", "app-c1", on="n1", preempt_self=False, vcore=2), at=0.5)
    assert gone(world, wants("a", "app-c2", vcore=2)) == ["t3"]


def test_s17_a_node_without_opt_outs() -> None:
    """n2, where nobody opted out, although n1 comes first (PE-44)."""
    text = tree(queue("parent", leaf("c1"), leaf("c2", guaranteed={"vcore": 10})))
    world = cluster(text, [node("n1", vcore=10), node("n2", vcore=10)])
    world.given(app("app-c1", "root.parent.c1"))
    world.given(*(ask(f"o{n}", "app-c1", on="n1", preempt_self=False, vcore=1) for n in range(10)))
    world.given(*(ask(f"t{n}", "app-c1", on="n2", vcore=1) for n in range(10)))
    assert len(found := gone(world, wants("a", "app-c2", vcore=3))) == 3
    assert all(key.startswith("t") for key in found)


def test_s18_free_space_counts() -> None:
    """4 are free, 2 more are enough (PE-39)."""
    text = tree(queue("parent", leaf("c1"), leaf("c2", guaranteed={"vcore": 10})))
    world = cluster(text, [node("n1", vcore=10)], *((f"t{n}", "c1", "n1", {"vcore": 2}) for n in range(3)))
    assert gone(world, wants("a", "app-c2", vcore=6)) == ["t2"]


def test_s20_the_node_goes_before_the_victims_do() -> None:
    """PE-55: the reservation is lost and with it the flag; a new attempt comes 15 s after the last one."""
    nodes = [node("n1", first=10, pods=5), node("n2", first=10, pods=5)]
    runs = [(f"t{n}", "c1", f"n{1 + n // 2}", WANTED) for n in range(4)]
    world = cluster(S1.replace('"10"', '"20"'), nodes, *runs, confirms=False)
    assert gone(world, wants("a", "app-c2", **WANTED)) == ["t1"]
    world.given(node("n1", "DECOMISSION"), at=12)
    assert world.direct.scheduler.state.preemptions.by_ask == {}
    world.run(25.9)
    assert victims(world) == ["t1"]
    world.run(26.1)
    assert victims(world) == ["t1", "t3"]


# ---- PE-28


@pytest.mark.parametrize(
    ("p1", "p2", "allowed"),
    [
        ({}, {}, True),
        ({}, {"priority.offset": 1001}, False),
        ({}, {"priority.offset": 1000}, True),
        ({}, {"priority.offset": 1, "priority.policy": "fence"}, False),
        ({}, {"priority.offset": -1, "priority.policy": "fence"}, True),
        ({"priority.offset": -1000, "priority.policy": "fence"}, {}, True),
        ({"priority.offset": -1001, "priority.policy": "fence"}, {}, False),
    ],
)
def test_priorities_as_the_common_queue_sees_them(p1: dict[str, Any], p2: dict[str, Any], *, allowed: bool) -> None:
    """PE-28: the ask has 0 in root.p1.l1, the task -1000 in root.p2.l2; equal is enough."""
    text = tree(queue("p1", leaf("l1", guaranteed={"vcore": 1}), p=p1), queue("p2", leaf("l2"), p=p2))
    world = make_world(text, [node("n1", vcore=1)])
    world.given(app("app-1", "root.p1.l1"), app("app-2", "root.p2.l2"), ask("t", "app-2", on="n1", priority=-1000, vcore=1))
    assert gone(world, wants("a", "app-1", vcore=1)) == (["t"] if allowed else [])


@pytest.mark.parametrize(
    ("p1", "task", "allowed"),
    [
        ({"priority.offset": 100}, 50, False),
        ({"priority.offset": -1000, "priority.policy": "fence"}, 0, True),
        ({"priority.offset": -1000, "priority.policy": "fence"}, 6, False),
    ],
)
def test_the_offset_of_the_common_queue_counts_for_neither(p1: dict[str, Any], task: int, *, allowed: bool) -> None:
    """PE-28: the ask has 5 in root.p1.l1, the task runs in root.p1.l3."""
    world = make_world(tree(queue("p1", leaf("l1", guaranteed={"vcore": 1}), leaf("l3"), p=p1)), [node("n1", vcore=1)])
    world.given(app("app-1", "root.p1.l1"), app("app-3", "root.p1.l3"), ask("t", "app-3", on="n1", priority=task, vcore=1))
    assert gone(world, wants("a", "app-1", priority=5, vcore=1)) == (["t"] if allowed else [])


# ---- examples of the user guide


def guide(text: str, capacity: int, *runs: tuple[str, int, dict[str, Any]]) -> ReplicaSets:
    """One node; every application is submitted by its queue's name and runs so many tasks, oldest first."""
    world = make_world(text, [node("n1", vcore=capacity)], confirms=False)
    for number, (path, count, keys) in enumerate(runs):
        name = path.rpartition(".")[2]
        flags = {"preempt_other": True, "vcore": 1} | keys
        world.given(
            app(name, f"root.{path}"), *(ask(f"{name}-{n}", name, on="n1", **flags) for n in range(count)), at=number / 10
        )
    return ReplicaSets(world)


def ends(sets: ReplicaSets, *asks: Submission) -> dict[str, int]:
    """The vcores that every queue uses ten minutes after these asks."""
    sets.world.given(*asks, at=10)
    sets.run(610)
    return {path: found["allocated"].get("vcore", 0) for path, found in sets.world.state()["queues"].items()}


def test_guide_general() -> None:
    """q2 gets its guarantee of 5, q1 keeps the rest (PE-25)."""
    q1, q2 = (leaf(name, max={"vcore": 10}, guaranteed={"vcore": 5}) for name in ("q1", "q2"))
    sets = guide(tree(queue("parent", q1, q2, max={"vcore": 12})), 20, ("parent.q1", 10, {}), ("parent.q2", 0, {}))
    used = ends(sets, *(wants(f"a{n}", "q2", vcore=1) for n in range(10)))
    assert (used["root.parent.q1"], used["root.parent.q2"]) == (7, 5)


def test_guide_priority_class() -> None:
    """Tasks that opted out stay while others can go (PE-44)."""
    leaves = (leaf(name, max={"vcore": 8}, guaranteed={"vcore": 3}) for name in ("q1", "q2", "q3"))
    runs = [("parent.q1", 8, {}), ("parent.q2", 8, {"preempt_self": False}), ("parent.q3", 0, {})]
    sets = guide(tree(queue("parent", *leaves, max={"vcore": 16})), 20, *runs)
    used = ends(sets, *(wants(f"a{n}", "q3", vcore=1) for n in range(8)))
    assert [used[f"root.parent.q{n}"] for n in (1, 2, 3)] == [5, 8, 3]


def test_guide_queue_priority() -> None:
    """PE-28: high gets its guarantee from norm, low may not preempt it."""
    high, norm, low = (
        queue(name, max={"vcore": limit}, guaranteed={"vcore": 6}, p=DELAY | {"priority.offset": offset})
        for name, limit, offset in (("high", 10, 100), ("norm", 18, 0), ("low", 10, -100))
    )
    runs = [("norm", 6, {"vcore": 3}), ("high", 0, {}), ("low", 0, {})]
    asks = [wants(f"{name}{n}", name, vcore=3) for n in range(5) for name in ("high", "low")]
    used = ends(guide(tree(high, norm, low), 18, *runs), *asks)
    assert [used[f"root.{name}"] for name in ("high", "norm", "low")] == [6, 12, 0]


def test_guide_fence() -> None:
    """PE-20: q2 finds nobody inside its own fence; sys takes from ten-a what is above its guarantee."""
    fence = {"preemption.policy": "fence"}
    q1, q2 = leaf("q1", guaranteed={"vcore": 2}), queue("q2", guaranteed={"vcore": 2}, p=DELAY | fence)
    ten_a = queue("ten-a", q1, q2, guaranteed={"vcore": 5}, max={"vcore": 15}, p=fence)
    ten_b = queue("ten-b", leaf("q3", guaranteed={"vcore": 10}), guaranteed={"vcore": 10}, max={"vcore": 15}, p=fence)
    text = tree(queue("rt", ten_a, ten_b, leaf("sys", guaranteed={"vcore": 10}), max={"vcore": 30}, p=fence))
    runs = [("rt.ten-a.q1", 15, {}), ("rt.ten-b.q3", 15, {}), ("rt.ten-a.q2", 0, {}), ("rt.sys", 0, {})]
    asks = [wants(f"{name}{n}", name, vcore=1) for n in range(15) for name in ("q2", "sys")]
    used = ends(guide(text, 40, *runs), *asks)
    assert [used[f"root.rt.{name}"] for name in ("ten-a.q1", "ten-a.q2", "ten-b.q3", "sys")] == [10, 0, 10, 10]
