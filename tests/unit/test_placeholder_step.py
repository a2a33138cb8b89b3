"""Real tasks that may not run where their placeholders are: they go to another node (GA-77)."""

import pytest
from world import S_NS, answer, app, ask, make_world, node, queue, release, remove, tree

from ykactor.core.messages.facts import AskRemoved
from ykactor.core.planner.planner import Budget, Planner
from ykactor.core.state import state as state_module
from ykactor.sim.direct import carry_out

TEXT = tree(queue("g"))
CONFIRM = "PLACEHOLDER_REPLACED"
REPLACING = "p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)"


def holder(key):
    return ask(key, "gang", group="g", placeholder=True, requires="n1", vcore=1)


def real(key, **more):
    return ask(key, "gang", group="g", predicate="gpu", **{"vcore": 1} | more)


def room(*said, confirms=False, **options):
    """A gang of two placeholders on n1; n2 is free. The resource manager confirms nothing unless the test says so."""
    world = make_world(TEXT, [node("n1", vcore=10), node("n2", vcore=10)], confirms=confirms, **options)
    world.given(*said, app("gang", "root.g", placeholders={"vcore": 2}), holder("p1"), holder("p2"))
    return world


def refused_on_n1(**options):
    """The hook lets real tasks run on n2 only."""
    not_on_n1 = [*answer("gpu", "n1", no="no gpu", allocate=False), *answer("gpu", "n1", no="no gpu")]
    return room(*not_on_n1, *answer("gpu", "n2"), **options)


@pytest.fixture
def world():
    made = refused_on_n1()
    made.send(real("t1"))
    made.expect(REPLACING)
    return made


def used(world):
    return [world.node(name)["allocated"].get("vcore", 0) for name in ("n1", "n2")], world.queue("root.g")["allocated"]["vcore"]


def test_another_node(world):
    """The place on the other node is taken at once, the queue's usage stays; then the placeholder leaves its node (GA-32)."""
    assert used(world) == ([2, 1], 2)
    assert world.queue("root.g")["pending"] == {}
    world.send(release("p1", "gang", CONFIRM))
    world.expect("t1 on n2")
    assert used(world) == ([1, 1], 2)


def test_the_same_node_first(world):
    """Row 2 comes before row 3: where the hook lets it stay it stays, also when an earlier ask may not."""
    world.given(release("p1", "gang", CONFIRM))
    world.send(*answer("gpu", "n1", allocate=False), real("t2"))
    world.given(release("p2", "gang", CONFIRM))
    assert world.node("n1")["allocations"] == ["t2"]


def test_a_replacement_uses_up_an_answer():
    """SC-160: an answer for one more task lets one real task take the place of a placeholder; then it is asked anew."""
    world = room(*answer("gpu", "n1", allocate=False, uses=1), *answer("gpu", "n1", "n2", no="no gpu"), confirms=True)
    world.send(real("t1"), real("t2"))
    assert [line for line in world.heard() if " on " in line] == ["t1 on n1", "gpu instead on n1?"]
    world.send(*answer("gpu", "n1", allocate=False, uses=1))
    assert [line for line in world.heard() if " on " in line] == ["t2 on n1"]


def test_one_after_the_other():
    """Each confirmation is followed by the next replacement; the last one frees the group."""
    world = refused_on_n1(confirms=True)
    world.send(real("t1"), real("t2"), real("t3"))
    assert [line for line in world.heard() if " on " in line] == ["t1 on n2", "t2 on n2", "t3 on n2"]
    assert used(world) == ([0, 3], 3)


def test_it_is_asked_first():
    """The place of the placeholder is asked about with ``allocate`` false, then other nodes with true (SC-120)."""
    world = room()
    world.send(real("t1"))
    world.expect("gpu instead on n1?")
    world.send(*answer("gpu", "n1", no="no gpu", allocate=False))
    world.expect("gpu on n2 n1?")
    world.send(*answer("gpu", "n1", no="no gpu"), *answer("gpu", "n2"))
    world.expect(REPLACING)


def test_it_may_stay():
    """Row 2 with a hook that passes."""
    world = room(confirms=True)
    world.given(real("t1"))
    world.send(*answer("gpu", "n1", allocate=False))
    world.expect(REPLACING, "t1 on n1")


def test_no_node_resources():
    """PR-26: while the nodes offer nothing, nothing is replaced."""
    world = room()
    world.given(node("n1", "UPDATE", vcore=0), node("n2", "UPDATE", vcore=0))
    world.send(ask("t1", "gang", group="g", vcore=1))
    world.expect()
    world.send(node("n2", "UPDATE", vcore=1))
    world.expect(REPLACING)


def test_no_other_node():
    """Nothing happens, and is tried again when something grows."""
    world = room(*answer("gpu", "n1", "n2", no="no gpu"), *answer("gpu", "n1", no="no gpu", allocate=False))
    world.send(real("t1"), real("t2"))
    world.expect()
    assert world.remarks() == ["Unschedulable request 't1': no gpu (2x); "]
    world.send(node("n3", vcore=1), *answer("gpu", "n3"))
    world.expect("n3 accepted", REPLACING)


def test_a_dead_answerer_holds_nobody_else_up():
    """While its gang waits, other asks are placed; what is not answered counts as refused."""
    world = room()
    world.send(real("t1"), app("other", "root.g"), ask("free", "other", vcore=1))
    assert "free on n2" in world.heard()
    world.wait(10)
    world.expect("gpu on n2 n1?")
    world.wait(20)
    world.heard()
    world.send(*answer("gpu", "n2"))
    world.expect(REPLACING)


def test_the_placeholder_loses_its_node(world):
    """SC-114: as if its end were confirmed; the placeholder itself is not reported."""
    world.send(node("n1", "DECOMISSION"))
    assert [line for line in world.heard() if "p1" in line or "t1" in line] == ["t1 on n2"]
    assert world.node("n2")["allocations"] == ["t1"]


def test_the_task_loses_its_node(world):
    """SC-115, GA-23: it waits again; the placeholder's end is still awaited and then plain."""
    world.send(node("n2", "DECOMISSION"))
    world.expect()
    assert world.queue("root.g")["pending"] == {"vcore": 1}
    world.send(release("p1", "gang", CONFIRM))
    assert used_queue(world) == 1
    assert world.state_of("gang") == "Starting"


def test_the_task_is_no_victim_meanwhile(world):
    """PE-31: a real task that waits for the end of its placeholder is no victim."""
    world.send(app("system", "root.g"), ask("d", "system", requires="n2", vcore=10, priority=9))
    assert [line for line in world.heard() if "releasing" in line] == []
    assert world.remarks() == ["Unschedulable request 'd' with required node 'n2', no preemption victim found"]


def used_queue(world):
    return world.queue("root.g")["allocated"]["vcore"]


def test_the_placeholder_ends_otherwise(world):
    """GA-36: the task gives its place up and waits again."""
    world.send(release("p1", "gang", "TIMEOUT"))
    world.expect("p2 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)")
    assert used(world) == ([1, 1], 1)


def test_the_task_is_cancelled(world):
    """AP-125: its place is free again, the placeholder's end is still awaited."""
    assert asks_removed(world, release("t1", "gang")) == ["t1"]
    assert used(world) == ([2, 0], 2)
    assert asks_removed(world, release("p1", "gang", CONFIRM)) == ["p1"]
    world.expect()
    assert used(world) == ([1, 0], 1)


def asks_removed(world, *said):
    """The asks whose records are gone, in order."""
    start = len(world.facts)
    world.send(*said)
    return [fact.ask.allocation_key for fact in world.facts[start:] if isinstance(fact, AskRemoved)]


def test_the_task_is_cancelled_on_the_same_node():
    """The removal of its ask is published (EV-69), also when all tasks are released with it, or its application ends."""
    said = release("t1", "gang"), release(None, "gang"), remove("gang")
    removed = []
    for word in said:
        world = room(*answer("gpu", "n1", allocate=False))
        world.given(real("t1"), real("t2"))
        removed.append(asks_removed(world, word))
    assert removed == [["t1"], ["t1", "t2", "p1", "p2"], ["t1", "t2", "p1", "p2"]]


def test_the_application_goes(world):
    """Nothing of it is left anywhere, whether all is released or it is removed."""
    world.send(release(None, "gang"))
    assert world.node("n2")["allocations"] == []
    world.given(app("gang-2", "root.g"))
    other = refused_on_n1()
    other.given(real("t1"))
    other.send(remove("gang"))
    assert other.final()["nodes"]["n2"]["allocated"] == {}


def refused_gangs(count, **options):
    """Gangs of one placeholder each whose real tasks may run nowhere."""
    world = make_world(TEXT, [node("n1", vcore=10 * count)], **options)
    world.given(*answer("gpu", "n1", no="no gpu", allocate=False), *answer("gpu", "n1", no="no gpu"))
    names = [f"gang-{number:03}" for number in range(count)]
    world.given(*(app(name, "root.g", placeholders={"vcore": 1}) for name in names))
    world.given(*(ask(f"p-{name}", name, group="g", placeholder=True, vcore=1) for name in names))
    world.given(*(ask(f"t-{name}", name, group="g", predicate="gpu", vcore=1) for name in names))
    return world


def test_many_gangs_are_looked_at_a_few_at_a_time():
    """A plan is bounded by what it may decide and do; in the end all were looked at, in order, once each."""
    world = refused_gangs(10, placements_max=4)
    assert [line.split("'")[1] for line in world.remarks()] == [f"t-gang-{number:03}" for number in range(10)]
    state, planner = world.direct.scheduler.state, Planner(world.direct.scheduler.state)
    state.nodes.opened.count += 1
    plans = [carry_out(planner.plan(world.now_ns + 20 * S_NS, Budget(4, 10**6))) for _ in range(4)]
    assert [len(plan) for plan in plans] == [4, 4, 2, 0]
    state.nodes.opened.count += 1
    works = [carry_out(planner.plan(world.now_ns + 20 * S_NS, Budget(4, 50))).work for _ in range(6)]
    assert all(50 < work < 100 for work in works[:3])
    assert not state.pairs.by_leaf


@pytest.mark.skipif(not state_module.__file__.endswith(".py"), reason="nobody can replace a method of a compiled class")
def test_what_changes_no_node_makes_nobody_look_again():
    """The end of an application that ran nothing is no reason; a node that grows is."""
    world = refused_gangs(3)
    state = world.direct.scheduler.state
    seen = []
    set_aside = state.pairs.set_aside
    state.pairs.set_aside = lambda leaf, application: (seen.append(application), set_aside(leaf, application))
    world.send(app("other", "root.g"), remove("other"))
    assert seen == []
    world.send(node("n1", "UPDATE", vcore=100))
    assert len(seen) == 3


def test_many_held_asks_cost_one_look():
    """Asks of one group and shape succeed or fail together: one report, one question, however many wait."""
    world = room()
    world.send(*(real(f"t{number}") for number in range(50)))
    world.expect("gpu instead on n1?")


def test_a_task_that_is_resized_on_its_way(world):
    """AP-110: its place on the other node was for another size: it gives it up and waits again; the same size changes nothing."""
    world.send(real("t1"))
    assert used(world) == ([2, 1], 2)
    world.send(*answer("gpu", "n2", no="full"), real("t1", vcore=2))
    assert used(world) == ([2, 0], 2)
    assert world.queue("root.g")["pending"] == {"vcore": 2}


def test_a_task_that_runs_already(world):
    """AP-112: the resource manager has placed it itself; its place on the other node is free again."""
    world.send(ask("t1", "gang", group="g", on="n1", vcore=1))
    assert used(world) == ([3, 0], 3)
    world.send(release("p1", "gang", CONFIRM))
    assert used(world) == ([2, 0], 2)
