"""Queues that are over a lowered max give back (PE-97, CF-81)."""

from typing import Any

import pytest
from world import S_NS, World, app, ask, configure, make_world, node, queue, release, template, tree

from ykactor.core.config.model import QueueConfig
from ykactor.core.config.properties import QueueProperties
from ykactor.core.messages import facts as fact
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.preemption.laws import VictimSet
from ykactor.core.preemption.quota import QuotaClocks, candidates, choose, next_start, preemptable, shares
from ykactor.core.queueing.sibling_order import Effort
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.queueing.waits import Waits
from ykactor.core.state import wakeups
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.resources import Resource

DELAY = "quota.preemption.delay"
ON = {"quotapreemptionenabled": True}


def config(path: str, limit: Resource | None, delay_s: int = 0, guaranteed: Resource | None = None) -> QueueConfig:
    properties = QueueProperties(quota_preemption_delay_ns=delay_s * S_NS)
    return QueueConfig(QueuePath(path), False, properties, max=limit, guaranteed=guaranteed)


def queue_nodes(**queues: dict[str, Any]) -> dict[str, QueueNode]:
    """Queues by name, parents first; ``__`` in a name is a dot. Each says what it uses, its max, and what it is guaranteed."""
    tree = QueueTree(Changed())
    paths = {name: QueuePath(name.replace("__", ".")) for name in queues}
    parents = {path.rpartition(".")[0] for path in paths.values()}
    configs = {path: config(path, queues[name].get("max"), 1, queues[name].get("guaranteed")) for name, path in paths.items()}
    for _ in tree.configure((item, path not in parents) for path, item in configs.items()):
        pass
    for name, entry in queues.items():
        tree.nodes[paths[name]].allocated = dict(entry.get("used", {}))
        tree.nodes[paths[name]].preempting = dict(entry.get("preempting", {}))
    return {name: tree.nodes[path] for name, path in paths.items()}


def children(found: dict[str, QueueNode]) -> dict[QueueNode, list[QueueNode]]:
    below: dict[QueueNode, list[QueueNode]] = {}
    for tree_node in found.values():
        if tree_node.parent is not None:
            below.setdefault(tree_node.parent, []).append(tree_node)
    return below


def task(key: str, /, *, priority: int = 0, willing: bool = True, owner: bool = False, created: int = 0, **resource: int) -> Ask:
    """A task that uses 1 mem unless it says something else."""
    return Ask(
        AllocationKey(key),
        ApplicationID("app-1"),
        resource or {"mem": 1},
        priority,
        originator=owner,
        allow_preempt_self=willing,
        created_ns=created * S_NS,
    )


def keys(tasks: list[Ask]) -> list[str]:
    return [other.allocation_key for other in tasks]


# ---- how much


@pytest.mark.parametrize(
    ("guaranteed", "limit", "used", "expected"),
    [
        ({}, {"mem": 1000}, {"mem": 500}, {}),
        ({}, {"mem": 1000}, {"mem": 1500}, {"mem": 500}),
        ({}, {"mem": 1000, "cpu": 10, "gpu": 10}, {"mem": 1500, "cpu": 10, "gpu": 9}, {"mem": 500}),
        ({}, {"mem": 1000}, {"cpu": 150}, {}),
        ({"mem": 1200}, {"mem": 1000}, {"mem": 1500}, {"mem": 300}),
        ({"mem": 900}, {"mem": 1000}, {"mem": 1500}, {"mem": 500}),
        ({"mem": 1600}, {"mem": 1000}, {"mem": 1500}, {}),  # a deficit above is no allowance
        ({"mem": 0}, {"mem": 1000}, {"mem": 1500}, {"mem": 500}),  # a listed 0 is not listed
        ({}, {"mem": 0}, {"mem": 1500}, {"mem": 1500}),
        ({}, None, {"mem": 1500}, {}),
    ],
)
def test_how_much(guaranteed: Resource, limit: Resource | None, used: Resource, expected: Resource) -> None:
    """The table of PE-83."""
    nodes_by_name = queue_nodes(
        root={}, root__p={"guaranteed": guaranteed, "used": used}, root__p__a={"max": limit, "used": used}
    )
    assert preemptable(nodes_by_name["root__p__a"]) == expected


def test_what_goes_already_is_not_to_be_given_again() -> None:
    """PE-83: use' = allocated - preempting; nor is it there to be spared from a guarantee."""
    used = {"used": {"mem": 1500}, "preempting": {"mem": 200}}
    nodes_by_name = queue_nodes(root={}, root__p=used, root__p__a={"max": {"mem": 1000}, **used})
    assert preemptable(nodes_by_name["root__p__a"]) == {"mem": 300}
    nodes_by_name = queue_nodes(root={}, root__p={"guaranteed": {"mem": 1200}, **used}, root__p__a={"max": {"mem": 1000}, **used})
    assert preemptable(nodes_by_name["root__p__a"]) == {"mem": 100}


# ---- who below it

TEN = {"guaranteed": {"mem": 10}}


def family() -> dict[str, QueueNode]:
    """Two inner queues with leaves, some of them guaranteed something, one empty leaf and one at its guarantee."""
    return queue_nodes(
        root={"used": {"mem": 140}},
        root__leaf1={"used": {"mem": 50}, **TEN},
        root__leaf1__leaf11={"used": {"mem": 30}, **TEN},
        root__leaf1__leaf11__leaf111={"used": {"mem": 30}, **TEN},
        root__leaf1__leaf12={"used": {"mem": 20}, **TEN},
        root__leaf2={"used": {"mem": 80}},
        root__leaf2__leaf21={"used": {"mem": 50}},
        root__leaf2__leaf21__leaf211={"used": {"mem": 50}},
        root__leaf2__leaf22={"used": {"mem": 30}},
        root__leaf3={},
        root__leaf4={"used": {"mem": 10}, **TEN},
    )


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(100, (22, 11, 41, 24)), (200, (44, 22, 83, 49)), (50, (10, 5, 20, 12)), (2, ()), (0, ())],
)
def test_who_gives_what(amount: int, expected: tuple[int, ...]) -> None:
    """The table of PE-84; whoever has nothing to spare is left out, and what is lost by rounding stays."""
    nodes_by_name = family()
    found = {
        leaf.path.rpartition(".")[2]: part["mem"]
        for leaf, part in shares(nodes_by_name["root"], {"mem": amount}, children(nodes_by_name))
    }
    assert found == dict(zip(("leaf111", "leaf12", "leaf211", "leaf22"), expected, strict=False))


def test_each_type_has_its_own_parts() -> None:
    """PE-84: a type of which a leaf has nothing to give stays with 0, so that nothing of it goes there."""
    nodes_by_name = queue_nodes(
        root={},
        root__a={"used": {"mem": 30, "cpu": 1}, "guaranteed": {"cpu": 1}},
        root__b={"used": {"mem": 10, "cpu": 4}},
    )
    found = {leaf.path: part for leaf, part in shares(nodes_by_name["root"], {"mem": 4, "cpu": 2}, children(nodes_by_name))}
    assert found == {"root.a": {"mem": 3, "cpu": 0}, "root.b": {"mem": 1, "cpu": 2}}


def test_a_leaf_gives_all() -> None:
    """The queue that ran may be a leaf."""
    nodes_by_name = family()
    assert list(shares(nodes_by_name["root__leaf3"], {"mem": 5}, children(nodes_by_name))) == [
        (nodes_by_name["root__leaf3"], {"mem": 5})
    ]


# ---- which tasks

LIMIT = {"mem": 100, "cpu": 10}


def ordered(tasks: list[Ask], part: Resource) -> list[str]:
    """The keys of the candidates in order."""
    return keys([task for _, task in candidates(tasks, part, LIMIT)])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (task("b"), task("a", willing=False, priority=-9)),
        (task("b"), task("a", owner=True, priority=-9)),
        (task("b", owner=True), task("a", willing=False)),
        (task("b", mem=1, cpu=1, priority=9), task("a", mem=1, cpu=1, disk=1)),  # 100 % of its types against 66 %
        (task("b", mem=1, disk=1), task("a", mem=1, disk=1, net=1)),  # 50 % against 33 %
        (task("b", priority=-1), task("a", created=7200)),
        (task("b", created=3600, mem=9), task("a", created=3599, mem=1)),
        (task("b", created=1, mem=1), task("a", created=3599, mem=2)),  # the same hour
        (task("b", mem=10, cpu=1), task("a", mem=20, cpu=1)),  # .1 .1 against .2 .1
        (task("b", mem=20, cpu=1), task("a", mem=10, cpu=3)),  # .2 .1 against .3 .1
        (task("a", mem=1), task("b", mem=1)),
    ],
    ids=range(11),
)
def test_order(first: Ask, second: Ask) -> None:
    """PE-86, key by key: the willing, not owners, most of its types, less priority, newer by the hour, smaller, key."""
    assert ordered([second, first], {"mem": 5, "cpu": 5}) == keys([first, second])


def test_who_may_be_preempted() -> None:
    """PE-85: only tasks that use something of what is to be given."""
    tasks = [task("a", mem=1), task("b", cpu=1), task("c", mem=0, cpu=1), task("d", disk=1)]
    assert ordered(tasks, {"mem": 5}) == ["a"]
    assert ordered(tasks, {"mem": 0, "cpu": 5}) == ["b", "c"]


@pytest.mark.parametrize(
    ("amount", "sizes", "taken"),
    [(8, (10, 8), [8]), (1, (11,), []), (10, (9, 11), [9]), (10, (5, 6, 9), [5]), (8, (5, 6, 3, 4), [3, 4])],
)
def test_walk(amount: int, sizes: tuple[int, ...], taken: list[int]) -> None:
    """The table of PE-87: smaller first, never more than is to be given, passed over what is too large."""
    nodes_by_name = queue_nodes(root={}, root__a={"used": {"mem": 1000}, "max": LIMIT})
    leaf, part = nodes_by_name["root__a"], {"mem": amount}
    tasks = candidates([task(f"t{size}", mem=size, cpu=99) for size in sizes], part, LIMIT)
    chosen = choose(leaf, tasks, part, VictimSet(leaf, (), is_own=False))
    assert [victim.task.resource["mem"] for victim in chosen] == taken


def test_nothing_guaranteed_is_taken() -> None:
    """Law 2: also of types that are not to be given, and of queues between."""
    nodes_by_name = queue_nodes(
        root={},
        root__p={"used": {"mem": 30, "cpu": 3}, "guaranteed": {"cpu": 1}},
        root__p__a={"used": {"mem": 30, "cpu": 3}, "guaranteed": {"mem": 15}},
    )
    leaf, part = nodes_by_name["root__p__a"], {"mem": 30}
    tasks = [task("a", mem=10, cpu=2), task("b", mem=5, cpu=1), task("c", mem=6), task("d", mem=5)]
    chosen = choose(leaf, [((), task) for task in tasks], part, VictimSet(nodes_by_name["root__p"], (), is_own=False))
    assert [victim.task.allocation_key for victim in chosen] == ["a", "d"]


# ---- when

A = QueuePath("root.a")


@pytest.mark.parametrize(
    ("start", "old", "new", "expected"),
    [
        # delay is 0, or no max, or usage within it: cleared
        (7, ({"mem": 5}, 9), ({"mem": 5}, 0), None),
        (7, ({"mem": 5}, 9), (None, 9), None),
        (7, ({"mem": 5}, 9), ({"mem": 10}, 9), None),
        (7, ({"mem": 5}, 9), ({"cpu": 5}, 9), None),
        # max unchanged, no start, delay was 0
        (None, ({"mem": 5}, 0), ({"mem": 5}, 9), 109),
        (None, ({"mem": 5}, 9), ({"mem": 5}, 9), None),
        (None, ({"mem": 5}, 9), ({"mem": 5}, 3), None),
        # max unchanged, start set, delay changed
        (7, ({"mem": 5}, 9), ({"mem": 5}, 12), 10),
        (7, ({"mem": 5}, 9), ({"mem": 5}, 1), -1),
        (7, ({"mem": 5}, 9), ({"mem": 5}, 9), 7),
        # lowered without start
        (None, ({"mem": 12}, 9), ({"mem": 5}, 9), 109),
        (None, (None, 9), ({"mem": 5}, 9), 109),  # PE-81
        (None, ({"cpu": 5}, 9), ({"cpu": 5, "mem": 5}, 9), 109),
        # lowered or raised with a start
        (7, ({"mem": 6}, 9), ({"mem": 5}, 9), 7),
        (7, ({"mem": 5}, 9), ({"mem": 6}, 10), 8),
        # raised without start; some types up and some down
        (None, ({"mem": 5}, 9), ({"mem": 6}, 9), None),
        (None, ({"mem": 5, "cpu": 5}, 9), ({"mem": 5}, 9), None),
        (None, ({"mem": 5, "cpu": 5}, 9), ({"mem": 6, "cpu": 4}, 9), 109),
        (None, ({"mem": 5}, 0), ({"mem": 6}, 9), 109),
    ],
    ids=range(19),
)
def test_start(start: int | None, old: tuple[Any, int], new: tuple[Any, int], expected: int | None) -> None:
    """CF-81: a queue that uses 10 mem at second 100."""
    leaf = QueueNode(config(A, *new), True, None, Effort(), Waits(Changed()))
    leaf.allocated = {"mem": 10}
    found = next_start(None if start is None else start * S_NS, config(A, *old), leaf, 100 * S_NS)
    assert found == (None if expected is None else expected * S_NS)


def test_parents_first() -> None:
    """PE-96: in name order from root, nobody below a queue that gives back in this pass; who came down is forgotten."""
    over: dict[str, Any] = {"used": {"mem": 10}, "max": {"mem": 5}}
    nodes_by_name = queue_nodes(
        root={}, root__b=over, root__b__x=over, root__a={}, root__a__y=over, root__a__x={"max": {"mem": 5}}
    )
    clocks = QuotaClocks(Changed())
    clocks.starts.restore((node, 5) for name, node in nodes_by_name.items() if "__" in name)
    clocks.starts[nodes_by_name["root__a__y"]] = 6
    assert clocks.next_ns() == 5
    assert clocks.due(4) == []
    assert nodes_by_name["root__a__x"] not in clocks.starts
    assert clocks.due(5) == [nodes_by_name["root__b"]]
    assert clocks.due(6) == [nodes_by_name["root__a__y"], nodes_by_name["root__b"]]
    clocks.forget(nodes_by_name["root__b"])
    assert clocks.due(6) == [nodes_by_name["root__a__y"], nodes_by_name["root__b__x"]]


# ---- in a partition


def leaf(limit: int | None = 100, delay: object = "10s", name: str = "a", **keys: Any) -> dict[str, Any]:
    limits = {} if limit is None else {"max": {"vcore": limit}}
    return queue(name, p={DELAY: delay}, **limits, **keys)


def text(*queues: dict[str, Any], **preemption: bool) -> str:
    return tree(*queues, preemption=preemption or ON)


def full(queues: str = text(leaf()), **options: Any) -> World:
    """root.a runs ten tasks of 10 on one node, the last of them is the newest."""
    world = make_world(queues, [node("n1", vcore=1000)], **options)
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=10, created=number * 3600) for number in range(10)))
    return world


def gone(world: World) -> list[str]:
    """The victims since the last call."""
    return [line.split()[0] for line in world.heard() if "releasing" in line]


def test_a_lowered_max_is_enforced_after_a_while() -> None:
    """PE-88, PE-89: the newest are preempted, each has an event with the reason, and the queue one with the result."""
    world = full()
    world.given(configure(text(leaf(75))), at=5)
    world.wait(14.999)
    world.expect()
    world.wait(15)
    why = "preempting allocations to enforce new max quota for queue : root.a"
    world.expect(*(f"{key} releasing PREEMPTED_BY_SCHEDULER ({why})" for key in ("t9", "t8")))
    assert world.remarks() == ["Preempted by Quota change enforcement process in root.a"] * 2
    (entry,) = [found for found in world.facts if isinstance(found, fact.QuotaPreempted)]
    assert entry == fact.QuotaPreempted(15 * S_NS, A, {"vcore": 25}, {"vcore": 20}, 10, 2, {"vcore": 75})
    assert world.queue("root.a")["allocated"] == {"vcore": 80}


def test_there_is_one_run_for_each_start() -> None:
    """PE-82: what could not be given stays until there is another reason."""
    world = full()
    world.given(configure(text(leaf(75))))
    world.wait(10)
    assert gone(world) == ["t9", "t8"]
    world.wait(1000)
    world.given(configure(text(leaf(76))))
    world.wait(2000)
    world.expect()
    world.given(configure(text(leaf(65))))
    world.wait(2010)
    assert gone(world) == ["t7"]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (text(leaf(), quotapreemptionenabled=False), text(leaf(50), quotapreemptionenabled=False)),
        (text(leaf(delay=0)), text(leaf(50, delay=0))),
        (text(leaf()), text(leaf(None))),
        (text(leaf()), text(leaf(100, guaranteed={"vcore": 50}))),
    ],
)
def test_it_is_off_by_default(first: str, then: str) -> None:
    """The switch, the delay and a lowered max are all needed."""
    world = full(first)
    world.given(configure(then))
    world.wait(1000)
    world.expect()


def test_the_delay_of_a_queue_above() -> None:
    """PE-80: a queue without a delay of its own has that of its parent."""
    below = [text(queue("p", queue("a", max={"vcore": limit}), p={DELAY: "10s"})) for limit in (100, 80)]
    world = make_world(below[0], [node("n1", vcore=1000)])
    world.given(app("app-1", "root.p.a"), *(ask(f"t{number}", "app-1", vcore=10) for number in range(10)))
    world.given(configure(below[1]))
    world.wait(9.999)
    world.heard()
    world.wait(10)
    assert len(gone(world)) == 2


def test_nothing_happens_when_usage_has_come_down() -> None:
    """PE-97: growing again begins anew."""
    world = full()
    world.given(configure(text(leaf(80))))
    world.given(release("t0"), release("t1"), at=5)
    world.wait(11)
    world.expect()
    world.given(ask("t10", "app-1", vcore=10, on="n1"), at=12)
    world.wait(21)
    world.expect()
    world.wait(22)
    assert gone(world) == ["t9"]


def test_a_raised_max_ends_it() -> None:
    """CF-81: usage within the max clears the start."""
    world = full()
    world.given(configure(text(leaf(50))))
    world.given(configure(text(leaf(100))), at=5)
    world.wait(100)
    world.expect()


def test_another_delay_moves_the_start() -> None:
    """CF-81: also into the past."""
    world = full()
    world.given(configure(text(leaf(90))))
    assert world.queue("root.a")["quotaPreemptionStartTime"] == 10 * S_NS
    world.given(configure(text(leaf(90, "20s"))), at=9)
    assert world.queue("root.a")["quotaPreemptionStartTime"] == 20 * S_NS
    world.wait(19)
    world.expect()
    world.send(configure(text(leaf(90, "2s"))))
    assert gone(world) == ["t9"]
    assert "quotaPreemptionStartTime" not in world.queue("root.a")


def test_growth_that_is_not_ours_begins_it() -> None:
    """QU-41: recovered allocations and resizes; what becomes smaller begins nothing."""
    world = full()
    world.given(ask("t10", "app-1", vcore=5, on="n1", created=0), at=1)
    world.wait(11)
    assert gone(world) == ["t10"]
    world.given(ask("t0", "app-1", vcore=20, on="n1"), at=20)
    world.given(ask("t1", "app-1", vcore=9, on="n1"), at=25)
    world.wait(30)
    assert gone(world) == ["t1"]  # 9 were too many; 10 would be one too much
    world.given(ask("t2", "app-1", vcore=11, on="n1"), at=40)
    world.given(configure(text(leaf(100), quotapreemptionenabled=False)), at=45)
    world.given(ask("t3", "app-1", vcore=11, on="n1"), at=46)
    world.wait(100)
    world.expect()


def test_nothing_else_begins_it() -> None:
    """A queue that is over its max takes nothing; what becomes smaller there is no growth."""
    world = full()
    world.given(configure(text(leaf(95))))
    world.given(ask("more", "app-1", vcore=1))
    assert world.why("more") == "wants 0.001, has 0 of 0.095 vcore in queue root.a"
    world.wait(10)
    assert gone(world) == []  # nothing is as small as 5
    world.given(ask("t0", "app-1", vcore=9, on="n1"))
    assert world.direct.scheduler.state.clocks.starts == {}


def test_queues_that_placement_created_never_give_back() -> None:
    """PE-97: also with a max and a delay from a template; the parent does for them."""
    below = template(max={"vcore": 100}, p={DELAY: "1s"})
    parent = queue("p", parent=True, childtemplate=below, p={DELAY: "10s"}, max={"vcore": 1000})
    rules: list[dict[str, Any]] = [{"name": "provided", "create": True}]
    world = make_world(tree(parent, placementrules=rules, preemption=ON), [node("n1", vcore=2000)])
    world.given(app("app-1", "root.p.x"), *(ask(f"t{number}", "app-1", vcore=50, on="n1") for number in range(4)))
    world.wait(100)
    world.expect()
    lowered = queue("p", parent=True, childtemplate=below, p={DELAY: "10s"}, max={"vcore": 150})
    world.given(configure(tree(lowered, placementrules=rules, preemption=ON)))
    world.wait(110)
    assert gone(world) == ["t0"]


def family_text(limit: int, child: int = 1000) -> str:
    one = leaf(child, "10s", "one")
    return text(queue("p", one, queue("two"), max={"vcore": limit}, p={DELAY: "10s"}))


def test_a_parent_gives_back_from_all_its_leaves() -> None:
    """PE-84; queues below it that become due are looked at when its victims have been reported (PE-96)."""
    world = make_world(family_text(1000), [node("n1", vcore=1000)])
    world.given(app("app-1", "root.p.one"), *(ask(f"a{number}", "app-1", vcore=10) for number in range(6)))
    world.given(app("app-2", "root.p.two"), *(ask(f"b{number}", "app-2", vcore=10) for number in range(3)))
    world.given(configure(family_text(60, 30)))
    world.wait(10)
    entries = [found for found in world.facts if isinstance(found, fact.QuotaPreempted)]
    assert [(found.queue, found.amount, found.victims) for found in entries] == [
        ("root.p", {"vcore": 30}, 3),
        ("root.p.one", {"vcore": 10}, 1),
    ]
    assert gone(world) == ["a0", "a1", "b0", "a2"]


def test_a_parent_with_nothing_to_give_does_not_hold_up_its_children() -> None:
    """PE-96: what is due at one moment does not depend on how many plans there are at it."""
    world = make_world(family_text(1000), [node("n1", vcore=1000)])
    for name, path in (("app-1", "root.p.one"), ("app-2", "root.p.two")):
        world.given(app(name, path), *(ask(f"t{number}", name, vcore=10) for number in range(6)))
    world.given(configure(family_text(119, 30)))  # half of 1 for each leaf is nothing
    world.wait(10)
    assert gone(world) == ["t0", "t1", "t2"]


def test_who_goes_already_counts_as_gone() -> None:
    """PE-83 while nobody confirms: the same is not asked for twice, and victims go on counting for everybody else."""
    world = full(confirms=False)
    world.given(configure(text(leaf(75))))
    world.wait(10)
    assert gone(world) == ["t9", "t8"]
    world.given(configure(text(leaf(65))), at=20)
    world.wait(30)
    assert gone(world) == ["t7"]
    assert world.queue("root.a")["allocated"] == {"vcore": 100}
    world.given(*(release(key) for key in ("t9", "t8", "t7")))
    assert world.queue("root.a")["allocated"] == {"vcore": 70}
    assert world.direct.scheduler.state.preemptions.victims == {}


def test_tasks_that_require_their_node_stay() -> None:
    """PE-85."""
    world = make_world(text(leaf()), [node("n1", vcore=1000)])
    world.given(app("app-1"), ask("pinned", "app-1", vcore=10, requires="n1"), ask("t1", "app-1", vcore=10, priority=9))
    world.given(configure(text(leaf(0))))
    world.wait(10)
    assert gone(world) == ["t1"]


def test_placeholders_go_too() -> None:
    """PE-56, PE-74: nobody takes the place of one that goes, and it is not timed out."""
    world = make_world(text(leaf()), [node("n1", vcore=1000)], confirms=False)
    gang = {"group": "g", "placeholder": True}
    world.given(app("app-1", placeholders={"vcore": 20}), *(ask(f"p{number}", "app-1", vcore=10, **gang) for number in range(2)))
    world.given(configure(text(leaf(10))))
    world.wait(10)
    assert gone(world) == ["p0"]
    world.send(ask("r1", "app-1", vcore=10, group="g"))
    assert gone(world) == ["p1"]
    world.wait(2000)
    assert gone(world) == []


def test_the_clock_knows_when_to_wake() -> None:
    """SC-5: time alone lets something be decided at the start of a queue, if there is the switch."""
    world = full()
    world.given(configure(text(leaf(50))), at=1)
    state = world.direct.scheduler.state
    assert wakeups.next_ns(state, world.now_ns) == 11 * S_NS
    world.given(configure(text(leaf(50), quotapreemptionenabled=False)))
    assert wakeups.next_ns(state, world.now_ns) is None
    world.given(configure(text(leaf(50))), at=30)
    assert len(world.placed()) == 0
    assert wakeups.next_ns(state, world.now_ns) is None


def test_the_switch_decides_whether_what_is_due_is_done() -> None:
    """PE-96: a start is kept while the switch is off."""
    world = full()
    world.given(configure(text(leaf(80), quotapreemptionenabled=False)))
    world.wait(100)
    world.expect()
    world.send(configure(text(leaf(80))))
    assert gone(world) == ["t9", "t8"]


def test_a_queue_that_goes_has_nothing_to_give_back() -> None:
    """A queue that comes again begins anew."""
    world = full(text(leaf(), queue("b")))
    world.given(configure(text(leaf(50), queue("b"))))
    world.given(release(None), at=1)
    world.given(configure(text(queue("b"))), at=2)
    world.wait(100)
    assert world.direct.scheduler.state.clocks.starts == {}
    assert "root.a" not in world.state()["queues"]


# ---- what stays above its max


def six(guaranteed: int = 8, limit: int = 8, **options: Any) -> str:
    """A queue with a guarantee of memory in GiB and a max of cores."""
    bounds = {"guaranteed": {"memory": guaranteed * GI}, "max": {"vcore": 1000 * limit}}
    return text(queue("a", p={DELAY: "10s"}, **bounds), **options)


def worked(before: str, after: str, *, vcore: int = 1000, until: float = 100) -> World:
    """Six tasks of a core and a GiB under one configuration, then another one at 1 s."""
    world = make_world(before, [node("n1", vcore=10_000, memory=100 * GI)])
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=vcore, memory=GI) for number in range(6)))
    world.given(configure(after), at=1)
    world.run(until)
    return world


def told(world: World) -> list[tuple[float, str]]:
    return [(found.at_ns / S_NS, found.reason) for found in world.facts if isinstance(found, fact.StaysAboveMax)]


GI = 2**30
GUARDED = "2 vcore above its maximum; nothing is taken because memory is 2Gi below its guarantee"


def test_a_queue_that_its_guarantee_keeps_above_its_max() -> None:
    """PE-87 protects the memory of all tasks; PE-98 says so when the queue should have given back, and as long as it lasts."""
    world = worked(six(), six(limit=4))
    assert gone(world) == []
    assert told(world) == [(11, GUARDED)]
    assert world.queue("root.a")["aboveMax"] == {"resource": {"vcore": 2000}, "reason": GUARDED}
    world.given(release("t0"), at=200)
    assert world.queue("root.a")["aboveMax"]["reason"] == GUARDED.replace("2 vcore", "1 vcore").replace("2Gi", "3Gi")
    world.given(release("t1"))
    assert "aboveMax" not in world.queue("root.a")


def test_what_else_keeps_a_queue_above_its_max() -> None:
    """PE-98: the start has not come, the switch or the delay is off, a queue above is guaranteed the type, nothing else fits."""
    off = "2 vcore above its maximum; nothing is taken because quota preemption is off"
    waits = worked(six(0), six(0, limit=4), until=5)
    assert waits.queue("root.a")["aboveMax"]["reason"] == "2 vcore above its maximum; it gives back from 1970-01-01T00:00:11Z on"
    assert worked(six(), six(limit=4, quotapreemptionenabled=False)).queue("root.a")["aboveMax"]["reason"] == off
    plain = [tree(queue("a", max={"vcore": limit})) for limit in (8000, 4000)]
    assert worked(plain[0], plain[1]).queue("root.a")["aboveMax"]["reason"] == off
    parents = [
        text(queue("p", queue("a", max={"vcore": limit}), guaranteed={"vcore": 6000}, p={DELAY: "10s"})) for limit in (8000, 4000)
    ]
    world = make_world(parents[0], [node("n1", vcore=10_000)])
    world.given(app("app-1", "root.p.a"), *(ask(f"t{number}", "app-1", vcore=1000) for number in range(6)))
    world.given(configure(parents[1]))
    world.run(20)
    assert told(world) == [(10, "2 vcore above its maximum; nothing is taken because vcore of root.p is at its guarantee")]


def test_what_is_left_when_nothing_fits() -> None:
    """PE-98: the queue has given back what it could, and what is too much for good is less than a task."""
    world = make_world(text(leaf(1000)), [node("n1", vcore=1000)])
    world.given(app("app-1"), ask("t0", "app-1", vcore=10), ask("t1", "app-1", vcore=10))
    world.given(configure(text(leaf(15))))
    world.run(20)
    assert gone(world) == []
    assert told(world) == [(10, "5m vcore above its maximum; it has given back what it could")]


def test_many_guarantees_are_counted() -> None:
    """PE-98: a sentence names three types at most."""
    names = [f"t{number}" for number in range(5)]
    bounds = {"guaranteed": dict.fromkeys(names, 5), "p": {DELAY: "10s"}}
    before, after = (text(queue("a", max={"vcore": vcore}, **bounds)) for vcore in (9, 1))
    world = make_world(before, [node("n1", vcore=9, **dict.fromkeys(names, 9))])
    world.given(app("app-1"), ask("k", "app-1", vcore=2, **dict.fromkeys(names, 1)))
    world.given(configure(after))
    world.run(20)
    why = "t0 is 4 below its guarantee, t1 is 4 below its guarantee, t2 is 4 below its guarantee and 2 more"
    assert told(world) == [(10, f"1m vcore above its maximum; nothing is taken because {why}")]
