"""Queues that are over a lowered max give back (section 12 of PE, section 9.3 of CF)."""

from typing import Any

import pytest
from world import S_NS, World, app, ask, configure, node, queue, release, template, tree, world

from ykactor.core.config.model import QueueConfig, QueueProperties
from ykactor.core.messages import facts as fact
from ykactor.core.messages.asks import AllocationSpec, Ask
from ykactor.core.preemption.laws import Exchange
from ykactor.core.preemption.quota import candidates, choose, preemptable, shares
from ykactor.core.preemption.quota_clocks import QuotaClocks, next_start
from ykactor.core.quota.ledger import Account, Ledger
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.resources import Resource

DELAY = "quota.preemption.delay"
ON = {"quotapreemptionenabled": True}


def config(path: str, limit: Resource | None, delay_s: int = 0, guaranteed: Resource | None = None) -> QueueConfig:
    properties = QueueProperties(quota_preemption_delay_ns=delay_s * S_NS)
    return QueueConfig(QueuePath(path), False, properties, max=limit, guaranteed=guaranteed)


def accounts(**queues: dict[str, Any]) -> dict[str, Account]:
    """Accounts by name, parents first; ``__`` in a name is a dot. Each says what it uses, its max, and what it is guaranteed."""
    ledger = Ledger()
    paths = {name: QueuePath(name.replace("__", ".")) for name in queues}
    parents = {path.rpartition(".")[0] for path in paths.values()}
    configs = {path: config(path, queues[name].get("max"), 1, queues[name].get("guaranteed")) for name, path in paths.items()}
    for _ in ledger.configure((it, path not in parents) for path, it in configs.items()):
        pass
    for name, it in queues.items():
        ledger.accounts[paths[name]].allocated = dict(it.get("used", {}))
        ledger.accounts[paths[name]].preempting = dict(it.get("preempting", {}))
    return {name: ledger.accounts[path] for name, path in paths.items()}


def children(found: dict[str, Account]) -> dict[Account, list[Account]]:
    below: dict[Account, list[Account]] = {}
    for account in found.values():
        if account.parent is not None:
            below.setdefault(account.parent, []).append(account)
    return below


def task(key: str, /, *, priority: int = 0, willing: bool = True, owner: bool = False, created: int = 0, **resource: int) -> Ask:
    """A task that uses 1 mem unless it says something else."""
    spec = AllocationSpec(
        AllocationKey(key), ApplicationID("app-1"), resource or {"mem": 1}, priority, originator=owner, allow_preempt_self=willing
    )
    return Ask(spec, created * S_NS, 0)


def keys(tasks: list[Ask]) -> list[str]:
    return [it.spec.allocation_key for it in tasks]


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
    it = accounts(root={}, root__p={"guaranteed": guaranteed, "used": used}, root__p__a={"max": limit, "used": used})
    assert preemptable(it["root__p__a"]) == expected


def test_what_goes_already_is_not_to_be_given_again() -> None:
    """PE-83: use' = allocated - preempting; nor is it there to be spared from a guarantee."""
    used = {"used": {"mem": 1500}, "preempting": {"mem": 200}}
    it = accounts(root={}, root__p=used, root__p__a={"max": {"mem": 1000}, **used})
    assert preemptable(it["root__p__a"]) == {"mem": 300}
    it = accounts(root={}, root__p={"guaranteed": {"mem": 1200}, **used}, root__p__a={"max": {"mem": 1000}, **used})
    assert preemptable(it["root__p__a"]) == {"mem": 100}


# ---- who below it

TEN = {"guaranteed": {"mem": 10}}


def family() -> dict[str, Account]:
    """The tree of section 12.4."""
    return accounts(
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
    it = family()
    found = {leaf.path.rpartition(".")[2]: part["mem"] for leaf, part in shares(it["root"], {"mem": amount}, children(it))}
    assert found == dict(zip(("leaf111", "leaf12", "leaf211", "leaf22"), expected, strict=False))


def test_each_type_has_its_own_parts() -> None:
    """PE-84: a type of which a leaf has nothing to give stays with 0, so that nothing of it goes there."""
    it = accounts(
        root={},
        root__a={"used": {"mem": 30, "cpu": 1}, "guaranteed": {"cpu": 1}},
        root__b={"used": {"mem": 10, "cpu": 4}},
    )
    found = {leaf.path: part for leaf, part in shares(it["root"], {"mem": 4, "cpu": 2}, children(it))}
    assert found == {"root.a": {"mem": 3, "cpu": 0}, "root.b": {"mem": 1, "cpu": 2}}


def test_a_leaf_gives_all() -> None:
    """The queue that ran may be a leaf."""
    it = family()
    assert list(shares(it["root__leaf3"], {"mem": 5}, children(it))) == [(it["root__leaf3"], {"mem": 5})]


# ---- which tasks

LIMIT = {"mem": 100, "cpu": 10}


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
    assert keys(candidates([second, first], {"mem": 5, "cpu": 5}, LIMIT)) == keys([first, second])


def test_who_could_go() -> None:
    """PE-85: only tasks that use something of what is to be given."""
    tasks = [task("a", mem=1), task("b", cpu=1), task("c", mem=0, cpu=1), task("d", disk=1)]
    assert keys(candidates(tasks, {"mem": 5}, LIMIT)) == ["a"]
    assert keys(candidates(tasks, {"mem": 0, "cpu": 5}, LIMIT)) == ["b", "c"]


@pytest.mark.parametrize(
    ("amount", "sizes", "taken"),
    [(8, (10, 8), [8]), (1, (11,), []), (10, (9, 11), [9]), (10, (5, 6, 9), [5]), (8, (5, 6, 3, 4), [3, 4])],
)
def test_walk(amount: int, sizes: tuple[int, ...], taken: list[int]) -> None:
    """The table of PE-87: smaller first, never more than is to be given, passed over what is too large."""
    it = accounts(root={}, root__a={"used": {"mem": 1000}, "max": LIMIT})
    leaf, part = it["root__a"], {"mem": amount}
    tasks = candidates([task(f"t{size}", mem=size, cpu=99) for size in sizes], part, LIMIT)
    chosen = choose(leaf, tasks, part, Exchange(leaf, (), is_own=False))
    assert [victim.task.spec.resource["mem"] for victim in chosen] == taken


def test_nothing_guaranteed_is_taken() -> None:
    """Law 2: also of types that are not to be given, and of queues between."""
    it = accounts(
        root={},
        root__p={"used": {"mem": 30, "cpu": 3}, "guaranteed": {"cpu": 1}},
        root__p__a={"used": {"mem": 30, "cpu": 3}, "guaranteed": {"mem": 15}},
    )
    leaf, part = it["root__p__a"], {"mem": 30}
    tasks = [task("a", mem=10, cpu=2), task("b", mem=5, cpu=1), task("c", mem=6), task("d", mem=5)]
    chosen = choose(leaf, tasks, part, Exchange(it["root__p"], (), is_own=False))
    assert [victim.task.spec.allocation_key for victim in chosen] == ["a", "d"]


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
    """The table of section 9.3 of CF: a queue that uses 10 mem at second 100."""
    account = Account(config(A, *new), True, None, Ledger().effort)
    account.allocated = {"mem": 10}
    found = next_start(None if start is None else start * S_NS, config(A, *old), account, 100 * S_NS)
    assert found == (None if expected is None else expected * S_NS)


def test_parents_first() -> None:
    """Section 12.2: in name order from root, nobody below a queue that gives back in this pass; who came down is forgotten."""
    over: dict[str, Any] = {"used": {"mem": 10}, "max": {"mem": 5}}
    it = accounts(root={}, root__b=over, root__b__x=over, root__a={}, root__a__y=over, root__a__x={"max": {"mem": 5}})
    clocks = QuotaClocks()
    clocks.starts = {account: 5 for name, account in it.items() if "__" in name}
    clocks.starts[it["root__a__y"]] = 6
    assert clocks.next_ns() == 5
    assert clocks.due(4) == []
    assert it["root__a__x"] not in clocks.starts
    assert clocks.due(5) == [it["root__b"]]
    assert clocks.due(6) == [it["root__a__y"], it["root__b"]]
    clocks.forget(it["root__b"])
    assert clocks.due(6) == [it["root__a__y"], it["root__b__x"]]


# ---- in a partition


def leaf(limit: int | None = 100, delay: object = "10s", name: str = "a", **keys: Any) -> dict[str, Any]:
    limits = {} if limit is None else {"max": {"vcore": limit}}
    return queue(name, p={DELAY: delay}, **limits, **keys)


def text(*queues: dict[str, Any], **preemption: bool) -> str:
    return tree(*queues, preemption=preemption or ON)


def full(queues: str = text(leaf()), **options: Any) -> World:
    """root.a runs ten tasks of 10 on one node, the last of them is the newest."""
    it = world(queues, [node("n1", vcore=1000)], **options)
    it.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=10, created=number * 3600) for number in range(10)))
    return it


def gone(it: World) -> list[str]:
    """Who was told to go since the last time."""
    return [line.split()[0] for line in it.heard() if "releasing" in line]


def test_a_lowered_max_is_enforced_after_a_while() -> None:
    """PE-88, PE-89: the newest go, each is told why, and the queue tells what came of it."""
    it = full()
    it.given(configure(text(leaf(75))), at=5)
    it.wait(14.999)
    it.expect()
    it.wait(15)
    why = "preempting allocations to enforce new max quota for queue : root.a"
    it.expect(*(f"{key} releasing PREEMPTED_BY_SCHEDULER ({why})" for key in ("t9", "t8")))
    assert it.remarks() == ["Preempted by Quota change enforcement process in root.a"] * 2
    (entry,) = [found for found in it.facts if isinstance(found, fact.QuotaPreempted)]
    assert entry == fact.QuotaPreempted(15 * S_NS, A, {"vcore": 25}, {"vcore": 20}, 10, 2, {"vcore": 75})
    assert it.queue("root.a")["allocated"] == {"vcore": 80}


def test_there_is_one_run_for_each_start() -> None:
    """PE-82: what could not be given stays until there is another reason."""
    it = full()
    it.given(configure(text(leaf(75))))
    it.wait(10)
    assert gone(it) == ["t9", "t8"]
    it.wait(1000)
    it.given(configure(text(leaf(76))))
    it.wait(2000)
    it.expect()
    it.given(configure(text(leaf(65))))
    it.wait(2010)
    assert gone(it) == ["t7"]


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
    it = full(first)
    it.given(configure(then))
    it.wait(1000)
    it.expect()


def test_nothing_happens_when_usage_has_come_down() -> None:
    """Section 12.2, step 1; growing again begins anew."""
    it = full()
    it.given(configure(text(leaf(80))))
    it.given(release("t0"), release("t1"), at=5)
    it.wait(11)
    it.expect()
    it.given(ask("t10", "app-1", vcore=10, on="n1"), at=12)
    it.wait(21)
    it.expect()
    it.wait(22)
    assert gone(it) == ["t9"]


def test_a_raised_max_ends_it() -> None:
    """Section 9.3: usage within the max clears the start."""
    it = full()
    it.given(configure(text(leaf(50))))
    it.given(configure(text(leaf(100))), at=5)
    it.wait(100)
    it.expect()


def test_another_delay_moves_the_start() -> None:
    """Section 9.3: also into the past."""
    it = full()
    it.given(configure(text(leaf(90))))
    assert it.queue("root.a")["quotaPreemptionStartTime"] == 10 * S_NS
    it.given(configure(text(leaf(90, "20s"))), at=9)
    assert it.queue("root.a")["quotaPreemptionStartTime"] == 20 * S_NS
    it.wait(19)
    it.expect()
    it.send(configure(text(leaf(90, "2s"))))
    assert gone(it) == ["t9"]
    assert "quotaPreemptionStartTime" not in it.queue("root.a")


def test_growth_that_is_not_ours_begins_it() -> None:
    """QU-41: recovered allocations and resizes; what becomes smaller begins nothing."""
    it = full()
    it.given(ask("t10", "app-1", vcore=5, on="n1", created=0), at=1)
    it.wait(11)
    assert gone(it) == ["t10"]
    it.given(ask("t0", "app-1", vcore=20, on="n1"), at=20)
    it.given(ask("t1", "app-1", vcore=9, on="n1"), at=25)
    it.wait(30)
    assert gone(it) == ["t1"]  # 9 were too many; 10 would be one too much
    it.given(ask("t2", "app-1", vcore=11, on="n1"), at=40)
    it.given(configure(text(leaf(100), quotapreemptionenabled=False)), at=45)
    it.given(ask("t3", "app-1", vcore=11, on="n1"), at=46)
    it.wait(100)
    it.expect()


def test_nothing_else_begins_it() -> None:
    """A queue that is over its max takes nothing; what becomes smaller there is no growth."""
    it = full()
    it.given(configure(text(leaf(95))))
    it.given(ask("more", "app-1", vcore=1))
    assert it.why("more") == "not enough vcore in queue root.a: wants 1, has 0 of 95"
    it.wait(10)
    assert gone(it) == []  # nothing is as small as 5
    it.given(ask("t0", "app-1", vcore=9, on="n1"))
    assert it.direct.scheduler.indexes.clocks.starts == {}


def test_queues_that_placement_created_never_give_back() -> None:
    """Section 12.1: also with a max and a delay from a template; the parent does for them."""
    below = template(max={"vcore": 100}, p={DELAY: "1s"})
    parent = queue("p", parent=True, childtemplate=below, p={DELAY: "10s"}, max={"vcore": 1000})
    rules: list[dict[str, Any]] = [{"name": "provided", "create": True}]
    it = world(tree(parent, placementrules=rules, preemption=ON), [node("n1", vcore=2000)])
    it.given(app("app-1", "root.p.x"), *(ask(f"t{number}", "app-1", vcore=50, on="n1") for number in range(4)))
    it.wait(100)
    it.expect()
    lowered = queue("p", parent=True, childtemplate=below, p={DELAY: "10s"}, max={"vcore": 150})
    it.given(configure(tree(lowered, placementrules=rules, preemption=ON)))
    it.wait(110)
    assert gone(it) == ["t0"]


def family_text(limit: int, child: int = 1000) -> str:
    one = leaf(child, "10s", "one")
    return text(queue("p", one, queue("two"), max={"vcore": limit}, p={DELAY: "10s"}))


def test_a_parent_gives_back_from_all_its_leaves() -> None:
    """PE-84; what becomes due below it is looked at when what it asks for has been told (section 12.2)."""
    it = world(family_text(1000), [node("n1", vcore=1000)])
    it.given(app("app-1", "root.p.one"), *(ask(f"a{number}", "app-1", vcore=10) for number in range(6)))
    it.given(app("app-2", "root.p.two"), *(ask(f"b{number}", "app-2", vcore=10) for number in range(3)))
    it.given(configure(family_text(60, 30)))
    it.wait(10)
    entries = [found for found in it.facts if isinstance(found, fact.QuotaPreempted)]
    assert [(found.queue, found.amount, found.victims) for found in entries] == [
        ("root.p", {"vcore": 30}, 3),
        ("root.p.one", {"vcore": 10}, 1),
    ]
    assert gone(it) == ["a0", "a1", "b0", "a2"]


def test_a_parent_with_nothing_to_give_does_not_hold_up_its_children() -> None:
    """Section 12.2: what is due at one moment does not depend on how many plans there are at it."""
    it = world(family_text(1000), [node("n1", vcore=1000)])
    for name, path in (("app-1", "root.p.one"), ("app-2", "root.p.two")):
        it.given(app(name, path), *(ask(f"t{number}", name, vcore=10) for number in range(6)))
    it.given(configure(family_text(119, 30)))  # half of 1 for each leaf is nothing
    it.wait(10)
    assert gone(it) == ["t0", "t1", "t2"]


def test_who_goes_already_counts_as_gone() -> None:
    """PE-83 while nobody confirms: the same is not asked for twice, and victims go on counting for everybody else."""
    it = full(confirms=False)
    it.given(configure(text(leaf(75))))
    it.wait(10)
    assert gone(it) == ["t9", "t8"]
    it.given(configure(text(leaf(65))), at=20)
    it.wait(30)
    assert gone(it) == ["t7"]
    assert it.queue("root.a")["allocated"] == {"vcore": 100}
    it.given(*(release(key) for key in ("t9", "t8", "t7")))
    assert it.queue("root.a")["allocated"] == {"vcore": 70}
    assert it.direct.scheduler.indexes.preemptions.victims == {}


def test_tasks_that_require_their_node_stay() -> None:
    """PE-85."""
    it = world(text(leaf()), [node("n1", vcore=1000)])
    it.given(app("app-1"), ask("pinned", "app-1", vcore=10, requires="n1"), ask("t1", "app-1", vcore=10, priority=9))
    it.given(configure(text(leaf(0))))
    it.wait(10)
    assert gone(it) == ["t1"]


def test_placeholders_go_too() -> None:
    """PE-56, PE-74: nobody takes the place of one that goes, and it is not timed out."""
    it = world(text(leaf()), [node("n1", vcore=1000)], confirms=False)
    gang = {"group": "g", "placeholder": True}
    it.given(app("app-1", placeholders={"vcore": 20}), *(ask(f"p{number}", "app-1", vcore=10, **gang) for number in range(2)))
    it.given(configure(text(leaf(10))))
    it.wait(10)
    assert gone(it) == ["p0"]
    it.send(ask("r1", "app-1", vcore=10, group="g"))
    assert gone(it) == ["p1"]
    it.wait(2000)
    assert gone(it) == []


def test_the_clock_knows_when_to_wake() -> None:
    """SC-5: time alone lets something be decided at the start of a queue, if there is the switch."""
    it = full()
    it.given(configure(text(leaf(50))), at=1)
    indexes = it.direct.scheduler.indexes
    assert indexes.next_ns(it.now_ns) == 11 * S_NS
    it.given(configure(text(leaf(50), quotapreemptionenabled=False)))
    assert indexes.next_ns(it.now_ns) is None
    it.given(configure(text(leaf(50))), at=30)
    assert len(it.placed()) == 0
    assert indexes.next_ns(it.now_ns) is None


def test_the_switch_decides_whether_what_is_due_is_done() -> None:
    """Section 12.2: a start is kept while the switch is off."""
    it = full()
    it.given(configure(text(leaf(80), quotapreemptionenabled=False)))
    it.wait(100)
    it.expect()
    it.send(configure(text(leaf(80))))
    assert gone(it) == ["t9", "t8"]


def test_a_queue_that_goes_has_nothing_to_give_back() -> None:
    """A queue that comes again begins anew."""
    it = full(text(leaf(), queue("b")))
    it.given(configure(text(leaf(50), queue("b"))))
    it.given(release(None), at=1)
    it.given(configure(text(queue("b"))), at=2)
    it.wait(100)
    assert it.direct.scheduler.indexes.clocks.starts == {}
    assert "root.a" not in it.state()["queues"]
