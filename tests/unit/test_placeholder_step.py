"""Real tasks that may not run where their placeholders are: they go to another node (row 3 of section 3 of GA)."""

import pytest
from world import S_NS, answer, app, ask, node, queue, release, remove, tree, world

from ykactor.core.messages.facts import AskRemoved
from ykactor.core.objects.commands import PlaceBatch, Refused
from ykactor.core.objects.node import NodeCore
from ykactor.core.planner.planner import Budget, Planner

TEXT = tree(queue("g"))
CONFIRM = "PLACEHOLDER_REPLACED"
REPLACING = "p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)"


def holder(key):
    return ask(key, "gang", group="g", placeholder=True, requires="n1", vcore=1)


def real(key, **more):
    return ask(key, "gang", group="g", predicate="gpu", **{"vcore": 1} | more)


def room(*said, confirms=False, **options):
    """A gang of two placeholders on n1; n2 is free. The resource manager confirms nothing unless told so."""
    it = world(TEXT, [node("n1", vcore=10), node("n2", vcore=10)], confirms=confirms, **options)
    it.given(*said, app("gang", "root.g", placeholders={"vcore": 2}), holder("p1"), holder("p2"))
    return it


def refused_on_n1(**options):
    """The hook lets real tasks run on n2 only."""
    not_on_n1 = [*answer("gpu", "n1", no="no gpu", allocate=False), *answer("gpu", "n1", no="no gpu")]
    return room(*not_on_n1, *answer("gpu", "n2"), **options)


@pytest.fixture
def it():
    made = refused_on_n1()
    made.send(real("t1"))
    made.expect(REPLACING)
    return made


def used(it):
    return [it.node(name)["allocated"].get("vcore", 0) for name in ("n1", "n2")], it.queue("root.g")["allocated"]["vcore"]


def test_t7_another_node(it):
    """T7: its place on the other node is taken at once, the queue's usage stays; then the placeholder leaves its node (GA-32)."""
    assert used(it) == ([2, 1], 2)
    assert it.queue("root.g")["pending"] == {}
    it.send(release("p1", "gang", CONFIRM))
    it.expect("t1 on n2")
    assert used(it) == ([1, 1], 2)


def test_the_same_node_first(it):
    """Row 2 comes before row 3: where the hook lets it stay it stays, also when an earlier ask may not."""
    it.given(release("p1", "gang", CONFIRM))
    it.send(*answer("gpu", "n1", allocate=False), real("t2"))
    it.given(release("p2", "gang", CONFIRM))
    assert it.node("n1")["allocations"] == ["t2"]


def test_one_after_the_other():
    """Each confirmation is followed by the next replacement; the last one frees the group."""
    it = refused_on_n1(confirms=True)
    it.send(real("t1"), real("t2"), real("t3"))
    assert [line for line in it.heard() if " on " in line] == ["t1 on n2", "t2 on n2", "t3 on n2"]
    assert used(it) == ([0, 3], 3)


def test_it_is_asked_first():
    """Whether the task may take the place is asked with ``allocate`` false, then where else with true (SC-120)."""
    it = room()
    it.send(real("t1"))
    it.expect("gpu instead on n1?")
    it.send(*answer("gpu", "n1", no="no gpu", allocate=False))
    it.expect("gpu on n2 n1?")
    it.send(*answer("gpu", "n1", no="no gpu"), *answer("gpu", "n2"))
    it.expect(REPLACING)


def test_it_may_stay():
    """Row 2 with a hook that passes."""
    it = room(confirms=True)
    it.given(real("t1"))
    it.send(*answer("gpu", "n1", allocate=False))
    it.expect(REPLACING, "t1 on n1")


def test_no_node_resources():
    """Step 0 of SC is before step 2: while the nodes offer nothing, nothing is replaced."""
    it = room()
    it.given(node("n1", "UPDATE", vcore=0), node("n2", "UPDATE", vcore=0))
    it.send(ask("t1", "gang", group="g", vcore=1))
    it.expect()
    it.send(node("n2", "UPDATE", vcore=1))
    it.expect(REPLACING)


def test_no_other_node():
    """Nothing happens, and is tried again when something grows."""
    it = room(*answer("gpu", "n1", "n2", no="no gpu"), *answer("gpu", "n1", no="no gpu", allocate=False))
    it.send(real("t1"), real("t2"))
    it.expect()
    assert it.remarks() == ["Unschedulable request 't1': no gpu (2x); "]
    it.send(node("n3", vcore=1), *answer("gpu", "n3"))
    it.expect("n3 accepted", REPLACING)


def test_a_dead_answerer_holds_nobody_else_up():
    """While its gang waits, other asks are placed; what is not answered counts as refused."""
    it = room()
    it.send(real("t1"), app("other", "root.g"), ask("free", "other", vcore=1))
    assert "free on n2" in it.heard()
    it.wait(10)
    it.expect("gpu on n2 n1?")
    it.wait(20)
    it.heard()
    it.send(*answer("gpu", "n2"))
    it.expect(REPLACING)


def test_t17_the_placeholder_loses_its_node(it):
    """SC-114: as if its end were confirmed; the placeholder itself is not reported."""
    it.send(node("n1", "DECOMISSION"))
    assert [line for line in it.heard() if "p1" in line or "t1" in line] == ["t1 on n2"]
    assert it.node("n2")["allocations"] == ["t1"]


def test_the_task_loses_its_node(it):
    """SC-115: it waits again; the placeholder's end is still awaited and then plain."""
    it.send(node("n2", "DECOMISSION"))
    it.expect()
    assert it.queue("root.g")["pending"] == {"vcore": 1}
    it.send(release("p1", "gang", CONFIRM))
    assert used_queue(it) == 1
    assert it.state_of("gang") == "Starting"


def used_queue(it):
    return it.queue("root.g")["allocated"]["vcore"]


def test_the_placeholder_ends_otherwise(it):
    """GA-36: the task gives its place up and waits again."""
    it.send(release("p1", "gang", "TIMEOUT"))
    it.expect("p2 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)")
    assert used(it) == ([1, 1], 1)


def test_the_task_is_cancelled(it):
    """AP-125: its place is free again, the placeholder's end is still awaited."""
    assert asks_removed(it, release("t1", "gang")) == ["t1"]
    assert used(it) == ([2, 0], 2)
    assert asks_removed(it, release("p1", "gang", CONFIRM)) == ["p1"]
    it.expect()
    assert used(it) == ([1, 0], 1)


def asks_removed(it, *said):
    """Whose ask records are gone when this was said, in order."""
    start = len(it.facts)
    it.send(*said)
    return [fact.ask.spec.allocation_key for fact in it.facts[start:] if isinstance(fact, AskRemoved)]


def test_the_task_is_cancelled_on_the_same_node():
    """The removal of its ask is told (section 2 of EV), also when all tasks are released with it, or its application ends."""
    said = release("t1", "gang"), release(None, "gang"), remove("gang")
    removed = []
    for word in said:
        it = room(*answer("gpu", "n1", allocate=False))
        it.given(real("t1"), real("t2"))
        removed.append(asks_removed(it, word))
    assert removed == [["t1"], ["t1", "t2", "p1", "p2"], ["t1", "t2", "p1", "p2"]]


def test_the_application_goes(it):
    """Nothing of it is left anywhere, whether all is released or it is removed."""
    it.send(release(None, "gang"))
    assert it.node("n2")["allocations"] == []
    it.given(app("gang-2", "root.g"))
    other = refused_on_n1()
    other.given(real("t1"))
    other.send(remove("gang"))
    assert other.final()["nodes"]["n2"]["allocated"] == {}


def test_a_node_that_refuses_undoes_it(monkeypatch):
    """GA-23: the attempt is undone completely, and made again when the node is known as it is."""
    it = refused_on_n1()
    place, refusals = NodeCore.on_place_batch, []

    def refuse_once(core: NodeCore, command: PlaceBatch):
        if core.node_id == "n2" and not refusals:
            refusals.append(command)
            core.revision += 1
            return Refused(core.revision, "not as you think")
        return place(core, command)

    monkeypatch.setattr(NodeCore, "on_place_batch", refuse_once)
    it.send(real("t1"))
    it.expect(REPLACING)
    assert len(refusals) == 1
    assert used(it) == ([2, 1], 2)


def refused_gangs(count, **options):
    """Gangs of one placeholder each whose real tasks may run nowhere."""
    it = world(TEXT, [node("n1", vcore=10 * count)], **options)
    it.given(*answer("gpu", "n1", no="no gpu", allocate=False), *answer("gpu", "n1", no="no gpu"))
    names = [f"gang-{number:03}" for number in range(count)]
    it.given(*(app(name, "root.g", placeholders={"vcore": 1}) for name in names))
    it.given(*(ask(f"p-{name}", name, group="g", placeholder=True, vcore=1) for name in names))
    it.given(*(ask(f"t-{name}", name, group="g", predicate="gpu", vcore=1) for name in names))
    return it


def test_many_gangs_are_looked_at_a_few_at_a_time():
    """A plan is bounded by what it may decide and do; in the end all were looked at, in order, once each."""
    it = refused_gangs(10, placements_max=4)
    assert [line.split("'")[1] for line in it.remarks()] == [f"t-gang-{number:03}" for number in range(10)]
    indexes, planner = it.direct.scheduler.indexes, Planner(it.direct.scheduler.indexes)
    indexes.nodes.openings += 1
    plans = [planner.plan(it.now_ns + 20 * S_NS, Budget(4, 10**6)) for _ in range(4)]
    assert [len(plan.steps) for plan in plans] == [4, 4, 2, 0]
    indexes.nodes.openings += 1
    works = [planner.plan(it.now_ns + 20 * S_NS, Budget(4, 50)).work for _ in range(6)]
    assert all(50 < work < 100 for work in works[:3])
    assert not indexes.replaceable


def test_what_changes_no_node_makes_nobody_look_again():
    """The end of an application that ran nothing is no reason; a node that grows is."""
    it = refused_gangs(3)
    indexes = it.direct.scheduler.indexes
    seen = []
    set_aside = indexes.set_aside
    indexes.set_aside = lambda leaf, application: (seen.append(application), set_aside(leaf, application))
    it.send(app("other", "root.g"), remove("other"))
    assert seen == []
    it.send(node("n1", "UPDATE", vcore=100))
    assert len(seen) == 3


def test_many_held_asks_cost_one_look():
    """Asks of one group and shape fare alike: one remark, one question, however many wait."""
    it = room()
    it.send(*(real(f"t{number}") for number in range(50)))
    it.expect("gpu instead on n1?")


def test_a_task_that_is_resized_on_its_way(it):
    """AP-110: its place on the other node was for another size: it gives it up and waits again; the same size changes nothing."""
    it.send(real("t1"))
    assert used(it) == ([2, 1], 2)
    it.send(*answer("gpu", "n2", no="full"), real("t1", vcore=2))
    assert used(it) == ([2, 0], 2)
    assert it.queue("root.g")["pending"] == {"vcore": 2}


def test_a_task_that_runs_already(it):
    """AP-112: the resource manager has placed it itself; its place on the other node is free again."""
    it.send(ask("t1", "gang", group="g", on="n1", vcore=1))
    assert used(it) == ([3, 0], 3)
    it.send(release("p1", "gang", CONFIRM))
    assert used(it) == ([2, 0], 2)
