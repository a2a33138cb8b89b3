"""The acts of operators: holds, cancelled tasks, other priorities."""

from __future__ import annotations

import pytest
from world import (
    RELEASED,
    World,
    app,
    ask,
    cancel,
    configure,
    hold,
    make_world,
    move,
    node,
    prioritise,
    queue,
    release,
    remove,
    reset,
    terminate,
    tree,
)

from ykactor.core.messages.acts import Operator
from ykactor.core.messages.states import Outcome
from ykactor.core.records.base import renewed
from ykactor.core.values.parts import finished

NODE = node("n1", vcore=10)
CANCELLED = "releasing TIMEOUT (cancelled by an operator)"


def two(**root) -> World:
    """Leaves ``root.a`` and ``root.b`` on one node of 10."""
    return make_world(tree(queue("a"), queue("b"), **root), [NODE])


# ---- holds


def test_a_held_application_gets_nothing_new() -> None:
    """OP-1: what runs goes on and may end; asks wait until the hold ends; the second hold and the second end change nothing."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=2))
    assert world.administer(hold("app-1"), at=60) == ""
    world.expect("app-1 held")
    world.send(ask("t2", "app-1", vcore=2), app("app-2"), ask("u1", "app-2", vcore=2))
    assert world.placed() == ["u1"]
    assert world.why("t2") == "held by ops since 1970-01-01T00:01:00Z"
    assert world.administer(hold("app-1", operator=Operator("eve"))) == ""
    assert world.state()["applications"]["app-1"]["held"] == {"by": "ops", "since": 60 * 10**9}
    world.send(release("t1"))
    world.expect(f"t1 {RELEASED}")
    for _ in range(2):
        assert world.administer(hold("app-1", ends=True)) == ""
    assert [line for line in world.heard() if "Running" not in line] == ["app-1 released", "t2 on n1"]
    assert "held" not in world.state()["applications"]["app-1"]


@pytest.mark.parametrize("path", ["root", "root.p", "root.p.a"])
def test_a_held_queue_holds_all_below_it(path: str) -> None:
    """OP-2: submissions are accepted and wait, also of applications that come later; others are not held."""
    world = make_world(tree(queue("p", queue("a")), queue("b")), [NODE])
    assert world.administer(hold(path)) == ""
    world.expect(f"{path} held")
    world.send(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=2), app("app-2", "root.b"), ask("u1", "app-2", vcore=2))
    assert world.placed() == ([] if path == "root" else ["u1"])
    assert world.why("t1") == f"held by ops since 1970-01-01T00:00:00Z with queue {path}"
    assert world.queue(path)["held"] == {"by": "ops", "since": 0}
    assert world.administer(hold(path, ends=True)) == ""
    assert "t1" in world.placed()


def test_both_holds() -> None:
    """OP-2, OP-7: the hold of an application and that of its queue end separately; its own is named first."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=99))
    world.administer(hold("root.a"))
    world.administer(hold("app-1"), at=5)
    assert world.why("t1").startswith("held by ops since 1970-01-01T00:00:05Z; ")
    world.administer(hold("app-1", ends=True))
    assert world.why("t1").startswith("held by ops since 1970-01-01T00:00:00Z with queue root.a; ")
    world.administer(hold("root.a", ends=True))
    assert world.why("t1").startswith("can never fit: the largest node has 0.01 vcore, it wants 0.099")


def reserving() -> World:
    """``t1`` of 8 has reserved a node, because 6 are free on each of two."""
    world = make_world(tree(queue("a"), queue("b")), [NODE, node("n2", vcore=10)])
    world.given(app("app-0", "root.b"), ask("x", "app-0", on="n1", vcore=4), ask("y", "app-0", on="n2", vcore=4))
    world.given(app("app-1"), ask("t1", "app-1", vcore=8))
    world.wait(until=3)
    world.expect("t1 reserves n1")
    return world


@pytest.mark.parametrize("name", ["app-1", "root.a"])
def test_reservations_are_given_up(name: str) -> None:
    """OP-3: the node is free for others at once, and nothing is reserved while the hold lasts."""
    world = reserving()
    world.administer(hold(name))
    world.expect(f"{name} held", "t1 leaves n1")
    world.send(ask("z", "app-0", vcore=1), at=100)
    assert world.placed() == ["z"]
    assert world.node("n1")["reservations"] == world.node("n2")["reservations"] == []
    world.administer(hold(name, ends=True), at=101)
    assert "t1 reserves" in " ".join(world.heard())


def preempting() -> World:
    """``t1`` preempts ``v1`` and ``v2``, whose ends are not confirmed."""
    text = tree(queue("a", guaranteed={"vcore": 8}, p={"preemption.delay": "1s"}), queue("b"))
    world = make_world(text, [NODE], confirms=False)
    world.given(app("app-0", "root.b"), ask("v1", "app-0", vcore=5), ask("v2", "app-0", vcore=5))
    world.given(app("app-1"), ask("t1", "app-1", vcore=8, preempt_other=True), at=1)
    world.wait(until=2.5)
    assert [line.split()[0] for line in world.heard() if "releasing PREEMPTED" in line] == ["v2", "v1"]
    return world


@pytest.mark.parametrize("name", ["app-1", "root.a"])
def test_attempts_to_preempt_are_let_go(name: str) -> None:
    """OP-3: as of a cancelled ask; the victims that were asked to go, go, and the hold takes nobody else's place."""
    world = preempting()
    world.administer(hold(name))
    assert world.state()["preemption"]["preemptors"] == 0
    assert world.state()["preemption"]["victims"] == 2
    world.send(*(release(key, "app-0", "PREEMPTED_BY_SCHEDULER") for key in ("v1", "v2")), at=60)
    assert world.placed() == []
    world.administer(hold(name, ends=True))
    assert world.placed() == ["t1"]


def test_a_held_task_may_be_preempted() -> None:
    """OP-1: a hold does not protect what runs."""
    text = tree(queue("a", guaranteed={"vcore": 8}, p={"preemption.delay": "1s"}), queue("b"))
    world = make_world(text, [NODE])
    world.given(app("app-0", "root.b"), ask("v1", "app-0", vcore=10))
    world.administer(hold("root.b"))
    world.given(app("app-1"), ask("t1", "app-1", vcore=8, preempt_other=True), at=1)
    world.wait(until=3)
    assert "t1 on n1" in world.heard()


def test_held_asks_offer_no_priority() -> None:
    """OP-4: a held queue shows none to its parent, and a held application none to its queue; its asks still count as pending."""
    world = make_world(tree(queue("a"), queue("b"), queue("c")))
    for name, priority in (("a", 5), ("b", 7)):
        world.given(app(f"app-{name}", f"root.{name}"), ask("t", f"app-{name}", priority=priority, vcore=1))
    world.given(app("app-b2", "root.b"), ask("t", "app-b2", priority=2, vcore=1))
    world.administer(hold("app-b"))
    assert world.priorities() == {"root": 5, "root.a": 5, "root.b": 2, "root.c": None}
    world.administer(hold("root.a"))
    assert world.priorities() == {"root": 2, "root.a": None, "root.b": 2, "root.c": None}
    assert world.queue("root.a")["pending"] == {"vcore": 1}
    for name in ("app-b", "root.a"):
        world.administer(hold(name, ends=True))
    assert world.priorities()["root"] == 7


def test_the_next_application_starts() -> None:
    """OP-4: under ``stateaware`` a held application that has not started keeps nobody back."""
    world = make_world(tree(queue("a", p={"application.sort.policy": "stateaware"})), [NODE])
    world.administer(hold("root.a"))
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), app("app-2"), ask("u1", "app-2", vcore=1))
    world.administer(hold("app-1"))
    world.administer(hold("root.a", ends=True))
    assert world.placed() == ["u1"]


@pytest.mark.parametrize("name", ["app-1", "root.a"])
def test_a_held_gang(name: str) -> None:
    """OP-5: no replacement begins; one that has begun ends; allocations that are reported are taken; timeouts go on."""
    world = make_world(tree(queue("a")), [NODE], confirms=False)
    holders = [ask(key, "app-1", placeholder=True, group="g", vcore=2) for key in ("p1", "p2")]
    world.given(app("app-1", placeholders={"vcore": 4}, timeout_ms=5000), *holders, ask("r1", "app-1", group="g", vcore=2))
    world.administer(hold(name))
    world.heard()
    world.send(ask("r2", "app-1", group="g", vcore=2), ask("r3", "app-1", group="g", on="n1", vcore=1))
    assert world.placed() == ["r3"]
    assert world.why("r2").startswith("held by ops since")
    world.send(release("p1", termination_type="PLACEHOLDER_REPLACED"))
    assert "r1 on n1" in world.heard()
    world.wait(until=6)
    assert "p2 releasing TIMEOUT (releasing allocated placeholders on placeholder timeout)" in world.heard()
    world.administer(hold(name, ends=True))
    world.send(release("p2", termination_type="TIMEOUT"))
    assert "r2 on n1" in world.heard()


def test_moves_of_what_is_held() -> None:
    """OP-6: an application takes its own hold along, and leaves that of its queue behind; it may move into a held queue."""
    world = reserving()
    world.administer(hold("root.b"))
    world.heard()
    assert world.administer(move("app-1", "root.b")) == ""
    world.expect("app-1 moved to root.b", "t1 leaves n1")
    world.administer(hold("app-1"))
    assert world.administer(move("app-1", "root.a")) == ""
    assert world.why("t1") == "held by ops since 1970-01-01T00:00:03Z"


def test_a_removed_queue_stays_while_it_is_held() -> None:
    """OP-6: a queue that has left the configuration is held until its hold ends, then it goes; a queue that is back is held."""
    world = make_world(tree(queue("a"), queue("b")), [NODE])
    world.administer(hold("root.a"))
    world.given(configure(tree(queue("b"))))
    world.wait(until=60)
    assert world.queue("root.a")["held"]
    world.given(configure(tree(queue("a"), queue("b"))), app("app-1"), ask("t1", "app-1", vcore=1))
    assert world.placed() == []
    world.given(remove("app-1"), configure(tree(queue("b"))))
    world.administer(hold("root.a", ends=True))
    world.wait(until=80)
    assert "root.a" not in world.state()["queues"]


def test_a_queue_of_another_kind_is_held() -> None:
    """OP-6: a leaf that becomes a parent, and the parent that becomes a leaf again, stay held."""
    world = make_world(tree(queue("a"), queue("b")), [NODE])
    world.administer(hold("root.a"))
    world.given(configure(tree(queue("a", queue("x")), queue("b"))))
    world.given(app("app-1", "root.a.x"), ask("t1", "app-1", vcore=1))
    assert world.why("t1").endswith("with queue root.a")
    world.given(remove("app-1"), configure(tree(queue("a"), queue("b"))))
    world.wait(until=60)
    world.given(app("app-1", "root.a"), ask("t1", "app-1", vcore=1))
    assert world.why("t1").endswith("with queue root.a")


def test_a_dynamic_queue_stays_while_it_is_held() -> None:
    """OP-6: else the next application would get a queue of the same name that is not held."""
    world = make_world(tree(queue("p", parent=True), placementrules=[{"name": "provided", "create": True}]), [NODE])
    world.given(app("app-1", "root.p.x"), ask("t1", "app-1", vcore=1))
    world.administer(hold("root.p.x"))
    world.given(remove("app-1"), at=1)
    world.wait(until=60)
    world.given(app("app-2", "root.p.x"), ask("u1", "app-2", vcore=1))
    assert world.waiting() == ["u1"]
    world.given(reset())
    assert world.queue("root.p.x")["held"]
    world.administer(hold("root.p.x", ends=True))
    world.wait(until=80)
    assert "root.p.x" not in world.state()["queues"]


def test_holds_are_kept() -> None:
    """OP-8: after a restart everything is held as before."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=99), app("app-2", "root.b"), ask("u1", "app-2", vcore=99))
    world.administer(hold("app-1"))
    world.administer(hold("root.b"))
    before = world.state()
    world.direct.restore(*finished(renewed(world.direct.core, world.direct.scheduler))[:2])
    assert world.state() == before
    assert {world.why(key).partition(" since")[0] for key in ("t1", "u1")} == {"held by ops"}


# ---- cancelled tasks


def test_a_cancelled_ask() -> None:
    """OP-10, OP-11: it is removed at once, with its reservation; the resource manager is told; the last one ends the work."""
    world = reserving()
    assert world.administer(cancel("app-1", "t1")) == ""
    world.expect("app-1 Completing", f"t1 {CANCELLED}", "t1 leaves n1")
    assert world.waiting() == []
    assert world.administer(cancel("app-1", "t1")) == "failed to find t1 of application app-1"
    world.wait(until=34)
    assert "app-1 Completed" in world.heard()


def test_a_cancelled_allocation() -> None:
    """OP-10, AP-129: it runs on until the resource manager confirms, and is released once."""
    world = make_world(tree(queue("a")), [NODE], confirms=False)
    world.given(app("app-1"), ask("t1", "app-1", vcore=8))
    assert world.administer(cancel("app-1", "t1")) == ""
    world.expect(f"t1 {CANCELLED}")
    assert world.queue("root.a")["allocated"] == {"vcore": 8}
    for request, why in (
        (cancel("app-1", "t1"), "t1 of app-1 is being released already"),
        (cancel("app-9", "t1"), "failed to find application app-9"),
    ):
        assert world.administer(request) == why
    world.send(release("t1", termination_type="TIMEOUT"))
    assert world.queue("root.a")["allocated"] == {}


@pytest.mark.parametrize("outcome", [None, Outcome.CANCELLED])
def test_an_application_that_has_ended_is_told_so(outcome: Outcome | None) -> None:
    """OP-10: every act on it says how it has ended; SE-26: to operators of its queue only."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), release("t1", "app-1"))
    if outcome is not None:
        world.send(remove("app-1", outcome))
    world.wait(30)
    for request in (cancel("app-1", "t1"), prioritise("app-1", 5), hold("app-1"), terminate("app-1"), move("app-1", "root.b")):
        assert world.administer(request) == f"application app-1 has ended: {outcome or 'Completed'}"
    assert world.administer(hold("app-1", operator=Operator("ops", ("root.b",)))) == "failed to find application app-1"
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    assert world.administer(hold("app-1")) == ""


def test_an_application_that_was_rejected_is_told_so() -> None:
    """OP-10; SE-26: it has no queue, so only operators of all queues are told."""
    world = two()
    world.given(app("app-1", "root.nowhere"))
    for request in (cancel("app-1", "t1"), prioritise("app-1", 5), hold("app-1"), terminate("app-1"), move("app-1", "root.b")):
        assert world.administer(request) == "application app-1 has ended: Rejected"
    assert world.administer(hold("app-1", operator=Operator("ops", ("root.b",)))) == "failed to find application app-1"


def test_a_victim_is_not_cancelled() -> None:
    """AP-129: what is being released already is refused."""
    assert preempting().administer(cancel("app-0", "v1")) == "v1 of app-0 is being released already"


def test_a_cancelled_preemptor() -> None:
    """OP-10: its attempt is let go."""
    world = preempting()
    world.administer(cancel("app-1", "t1"))
    assert world.state()["preemption"]["preemptors"] == 0


def test_tasks_of_gangs_are_cancelled() -> None:
    """OP-10: a real ask that waits for its placeholder gives up its place; the placeholder still ends (AP-125)."""
    world = make_world(tree(queue("a")), [NODE], confirms=False)
    world.given(app("app-1", placeholders={"vcore": 2}), ask("p1", "app-1", placeholder=True, group="g", vcore=2))
    world.given(ask("r1", "app-1", group="g", vcore=2))
    assert world.administer(cancel("app-1", "r1")) == ""
    world.expect(f"r1 {CANCELLED}")
    assert world.administer(cancel("app-1", "p1")) == "p1 of app-1 is being released already"
    world.send(release("p1", termination_type="PLACEHOLDER_REPLACED"))
    assert world.node("n1")["allocations"] == []


# ---- priorities


def test_priorities_change_the_order() -> None:
    """OP-12: as if the asks had been submitted with them; asks that come later have their own."""
    world = make_world(tree(queue("a")), [node("n1", vcore=1)])
    world.given(app("app-0"), ask("x", "app-0", vcore=1), app("app-1"), ask("t1", "app-1", vcore=1))
    world.given(ask("t2", "app-1", vcore=1), app("app-2"), ask("u1", "app-2", priority=3, vcore=1))
    assert world.administer(prioritise("app-1", 5)) == ""
    world.expect("t1 has priority 5", "t2 has priority 5")
    world.send(ask("t3", "app-1", vcore=1))
    assert world.administer(prioritise("app-1", 9, "t2")) == ""
    assert world.priorities()["root"] == 9
    order = []
    for key, owner in (("x", "app-0"), ("t2", "app-1"), ("t1", "app-1"), ("u1", "app-2")):
        world.heard()
        world.send(release(key, owner))
        order += world.placed()
    assert order == ["t2", "t1", "u1", "t3"]


def test_the_same_priority_changes_nothing() -> None:
    """OP-12: no event, and no refusal."""
    world = make_world(tree(queue("a")))
    world.given(app("app-1"), ask("t1", "app-1", priority=5, vcore=1))
    assert world.administer(prioritise("app-1", 5)) == ""
    world.expect()


def test_reservations_and_attempts_stay() -> None:
    """OP-13: a reservation, and victims that were asked to go, are for the ask with its new priority."""
    world = preempting()
    assert world.administer(prioritise("app-1", -7)) == ""
    world.expect("t1 has priority -7")
    assert world.state()["preemption"]["preemptors"] == 1
    world.send(*(release(key, "app-0", "PREEMPTED_BY_SCHEDULER") for key in ("v1", "v2")))
    assert world.placed() == ["t1"]


def test_a_higher_priority_preempts_at_once() -> None:
    """OP-13: an attempt that has failed does not make the ask wait when its priority changes."""
    text = tree(queue("a", guaranteed={"vcore": 8}, p={"preemption.delay": "1s"}), queue("b"))
    world = make_world(text, [NODE])
    world.given(app("app-0", "root.b"), ask("v1", "app-0", priority=5, vcore=10))
    world.given(app("app-1"), ask("t1", "app-1", vcore=8, preempt_other=True), at=1)
    world.wait(until=4)
    assert "t1 on n1" not in world.heard()
    world.administer(prioritise("app-1", 6, "t1"))
    assert "t1 on n1" in world.heard()


def test_what_has_no_priority_to_change() -> None:
    """OP-12: a running task keeps the priority of its ask (PR-2)."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    assert world.administer(prioritise("app-1", 5, "t1")) == "t1 of app-1 is placed already, expected a pending ask"
    assert world.administer(prioritise("app-1", 5, "t9")) == "failed to find t9 of application app-1"
    assert world.administer(prioritise("app-1", 5)) == "application app-1 has no pending ask"
    assert world.administer(hold("root.x")) == "queue root.x does not exist"


def test_limited_operators() -> None:
    """SE-26, OP-14: applications and queues outside the operator's own are as if they were not there."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=99), app("app-2", "root.b"))
    ops = Operator("ops", ("root.b",))
    assert world.administer(hold("app-1", operator=ops)) == "failed to find application app-1"
    assert world.administer(hold("root.a", operator=ops)) == "queue root.a does not exist"
    assert world.administer(hold("root", operator=ops)) == "queue root does not exist"
    assert world.administer(hold("app-2", operator=ops)) == ""
    assert world.administer(hold("root.b", operator=ops)) == ""


def test_a_held_application_ends() -> None:
    """OP-6: it may be ended, and its id then belongs to an application that is not held."""
    world = two()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    world.administer(hold("app-1"))
    assert world.administer(terminate("app-1")) == ""
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    assert world.waiting() == []
