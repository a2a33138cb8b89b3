"""A resource manager that registers afresh and reports what runs (SC-141, SC-144, SC-145, AP-99, GA-70 to GA-72)."""

from __future__ import annotations

from typing import Any

import pytest
from gangs import gang, holder, real
from world import World, app, ask, configure, foreign, make_world, node, queue, release, reset, tree

CREATE = [{"name": "provided", "create": True}]
RECOVERY = "root.@recovery@"


def forced(name: str, queue_name: str) -> Any:
    """An application that already runs somewhere."""
    return app(name, queue_name, application__create__force="true")


def room(**root: Any) -> World:
    return make_world(tree(queue("a"), queue("b"), **root), [node("n1", vcore=10)])


# ---- registration


def test_the_tree_is_as_configured() -> None:
    """Queues that applications brought into being or kept from going are gone, and so are the quotas they brought (SC-141)."""
    world = room(placementrules=CREATE)
    quota = '{"resources":{"vcore":{"value":1}}}'
    world.given(app("app-1", "root.x.y", namespace__resourcequota=quota), app("app-2", "root.b"))
    world.given(configure(tree(queue("a"), placementrules=CREATE)))
    assert list(world.state()["queues"]) == ["root", "root.a", "root.b", "root.x", "root.x.y"]
    world.given(reset())
    world.wait(0)
    assert list(world.state()["queues"]) == ["root", "root.a"]
    world.send(node("n1", vcore=10), app("app-1", "root.x.y"), ask("t1", "app-1", vcore=5), app("app-2", "root.b"))
    world.expect("n1 accepted", "app-1 New", "app-1 Accepted", "app-2 New", "app-1 Starting", "t1 on n1")


def test_nothing_rings_from_before() -> None:
    """Timers, the cleaner and what has ended are forgotten with the rest (SC-141)."""
    world = room(placementrules=CREATE)
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), app("app-2", "root.x"), ask("t2", "app-2", vcore=1))
    world.given(release("t2", "app-2"))
    world.wait(29)
    world.given(reset(), node("n1", vcore=10), app("app-1"), app("app-2", "root.x"))
    world.wait(1_000_000)
    world.expect()


@pytest.mark.parametrize("late", [release("t1"), release("t1", termination_type="TIMEOUT"), release(None), release("f1", "")])
def test_answers_from_before(late: Any) -> None:
    """A confirmation that was under way means nothing to whoever has not been reported yet (AP-132)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), foreign("f1", "n1", vcore=1))
    world.given(reset())
    world.send(late, node("n1", vcore=10), late, app("app-1"), late, ask("t1", "app-1", on="n1", vcore=1))
    world.expect("n1 accepted", "app-1 New", "app-1 Accepted", "app-1 Starting", "t1 on n1")
    assert world.queue("root.a")["allocated"] == {"vcore": 1}


# ---- what is reported


def test_out_of_order() -> None:
    """Nothing is kept for later: each entry that comes too early is refused, the others count (SC-144, AP-99)."""
    world = make_world(tree(queue("a")))
    world.send(ask("t1", "app-1", on="n1", vcore=1), foreign("f1", "n1", vcore=1), app("app-1"))
    world.send(ask("t1", "app-1", on="n1", vcore=1), node("n1", vcore=4), ask("t1", "app-1", on="n1", vcore=1))
    world.expect(
        "t1 rejected: failed to find application app-1",
        "f1 rejected: failed to find node n1 for allocation f1",
        "app-1 New",
        "t1 rejected: failed to find node n1",
        "n1 accepted",
        "app-1 Accepted",
        "app-1 Starting",
        "t1 on n1",
    )


def test_everything_twice() -> None:
    """Reporting again changes nothing (AP-13, AP-113, SC-82)."""
    world = make_world(tree(queue("a")))
    story = [node("n1", vcore=4), app("app-1"), ask("t1", "app-1", on="n1", vcore=1), foreign("f1", "n1", vcore=1)]
    world.given(*story, ask("t2", "app-1", vcore=1))
    before = world.state()
    world.send(*story, ask("t2", "app-1", vcore=1))
    assert [line.split()[0] for line in world.heard()] == ["n1", "app-1"]  # refused, what exists counts
    assert {**world.state(), "applications": before["applications"]} == before  # but for the refusal that is shown


@pytest.mark.parametrize(
    ("tasks", "state"),
    [([], "New"), (["t1"], "Starting"), (["t1", "t2"], "Running"), (["p1"], "Accepted"), (["p1", "p2"], "Starting"),
     (["p1", "t1"], "Starting"), (["p1", "t1", "p2"], "Starting")],
)  # fmt: skip
def test_states(tasks: list[str], state: str) -> None:
    """One real allocation: Starting, two: Running; placeholders: Accepted until the gang is complete (AP-99, AP-35, AP-38)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=10)])
    world.given(gang(2), *(ask(key, "gang", on="n1", group="g", placeholder=key < "q", vcore=1) for key in tasks))
    assert world.state_of("gang") == state


def test_scheduling_goes_on_meanwhile() -> None:
    """A pass may run between two messages; what is reported afterwards counts without any check (SC-145, QU-41)."""
    world = make_world(tree(queue("a", max={"vcore": 2})))
    world.send(node("n1", vcore=2), app("app-1"), ask("t1", "app-1", vcore=2))
    world.send(ask("r1", "app-1", on="n1", vcore=2))
    world.expect("n1 accepted", "app-1 New", "app-1 Accepted", "app-1 Starting", "t1 on n1", "app-1 Running", "r1 on n1")
    assert world.queue("root.a")["allocated"] == {"vcore": 4}
    assert world.node("n1")["available"] == {"vcore": -2}


def test_an_undisturbed_recovery() -> None:
    """Nodes that come draining get nothing before they are opened; what already runs there counts (SC-145)."""
    world = make_world(tree(queue("a")))
    world.given(node("n1", "CREATE_DRAIN", vcore=2), app("app-1"), ask("t1", "app-1", vcore=1))
    world.send(ask("r1", "app-1", on="n1", vcore=1), ask("t2", "app-1", vcore=1))
    world.expect("app-1 Starting", "r1 on n1")
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    world.expect("app-1 Running", "t1 on n1")


def test_a_replacement_in_the_middle() -> None:
    """The placeholder comes back as it was, its real task as an ask, and they find each other again (GA-71)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=3)], confirms=False)
    world.given(gang(2), holder("p1"), holder("p2"), real("t1"))
    world.given(reset(), node("n1", vcore=3), gang(2), holder("p1", on="n1"), holder("p2", on="n1"))
    world.send(release("p1", "gang", "PLACEHOLDER_REPLACED"), real("t1"))
    world.expect("p2 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)")
    world.send(release("p2", "gang", "PLACEHOLDER_REPLACED"))
    world.expect("t1 on n1")


# ---- the recovery queue


def test_forced_applications() -> None:
    """Forced applications without a place in the configuration go on in the recovery queue, others are refused (PL-41)."""
    world = room()
    world.given(app("app-1", "root.b"), ask("t1", "app-1", vcore=1), configure(tree(queue("a"))), reset())
    world.send(node("n1", vcore=2), forced("app-1", "root.b"), app("app-2", "root.b"), forced("app-3", "root.a"))
    assert [line.split(":")[0] for line in world.heard()] == ["n1 accepted", "app-1 New", "app-2 Rejected", "app-3 New"]
    world.send(*(ask(f"r{n}", f"app-{n}", on="n1", vcore=1) for n in (1, 2, 3)), ask("t2", "app-1", vcore=1))
    world.send(release("r3", "app-3"))
    assert world.heard()[-1] == "t2 on n1"
    assert world.queue(RECOVERY)["allocated"] == {"vcore": 2}
    assert world.queue("root.a")["allocated"] == {}


def test_forced_without_a_user() -> None:
    """The user need not be known (QU-91); a gang may be placed there, too, and the queue is removed when it is empty."""
    world = room()
    placeholders = {"vcore": 1}
    world.send(app("gang", "x", user="", placeholders=placeholders, application__create__force="true"), holder("p1", on="n1"))
    world.expect("gang New", "gang Accepted", "gang Starting", "p1 on n1")
    assert world.state()["applications"]["gang"]["queueName"] == RECOVERY
    world.given(release("p1", "gang"))
    world.wait(1000)
    assert RECOVERY not in world.state()["queues"]
