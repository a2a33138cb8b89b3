"""Queues that go when they are empty (QU-95 to QU-99)."""

import pytest
from world import World, app, ask, configure, make_world, node, queue, release, remove, tree

from ykactor.core.messages.facts import QueueRemoved, QueueTypeChanged

CREATE = [{"name": "provided", "create": True}]


def paths(world: World) -> list[str]:
    return list(world.state()["queues"])


def states(world: World) -> dict[str, str]:
    return {path: found["state"] for path, found in world.state()["queues"].items()}


def removed(world: World) -> list[str]:
    """Every queue that was removed, in order; dynamic ones are marked."""
    return [fact.queue + ("" if fact.managed else " (dynamic)") for fact in world.facts if isinstance(fact, QueueRemoved)]


# ---- dynamic queues


def test_ten_seconds_after_it_became_empty() -> None:
    """The cleaner comes 10 s after the last application left, in one pass for the whole chain, children first (QU-96)."""
    world = make_world(tree(queue("a"), placementrules=CREATE))
    world.given(app("app-1", "root.x.y.z"), at=100)
    world.wait(200)
    world.given(remove("app-1"), at=203)
    world.wait(212.999)
    assert paths(world) == ["root", "root.a", "root.x", "root.x.y", "root.x.y.z"]
    world.wait(213)
    assert paths(world) == ["root", "root.a"]
    assert removed(world) == ["root.x.y.z (dynamic)", "root.x.y (dynamic)", "root.x (dynamic)"]


def test_nobody_postpones_the_cleaner() -> None:
    """Whatever becomes empty while a queue waits for it goes with that queue (QU-96)."""
    world = make_world(tree(placementrules=CREATE))
    world.given(*(app(f"app-{number}", f"root.x{number}") for number in range(4)), at=0)
    for number in range(3):
        world.given(remove(f"app-{number}"), at=4 * number)
    world.wait(9)
    assert removed(world) == []
    world.wait(10)
    assert sorted(removed(world)) == ["root.x0 (dynamic)", "root.x1 (dynamic)", "root.x2 (dynamic)"]
    world.given(remove("app-3"), at=15)
    world.wait(25)
    assert paths(world) == ["root"]


def test_a_chain_goes_up_to_what_is_needed() -> None:
    """A parent stays with its last child (QU-96)."""
    world = make_world(tree(placementrules=CREATE))
    world.given(app("app-1", "root.x.y.a"), app("app-2", "root.x.b"), at=0)
    world.given(remove("app-1"))
    world.wait(10)
    assert paths(world) == ["root", "root.x", "root.x.b"]
    world.given(remove("app-2"))
    world.wait(20)
    assert paths(world) == ["root"]


def test_somebody_needs_it_by_then() -> None:
    """A queue that got an application meanwhile stays, and is cleaned when that has left (QU-96, QU-98)."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.given(app("app-1", "root.x.a"), remove("app-1"), at=0)
    world.given(app("app-2", "root.x.a"), at=9)
    world.wait(30)
    assert paths(world) == ["root", "root.x", "root.x.a"]
    world.send(ask("t1", "app-2", vcore=1))
    assert world.placed() == ["t1"]
    world.given(remove("app-2"), at=40)
    world.wait(49)
    assert paths(world) == ["root", "root.x", "root.x.a"]
    world.wait(50)
    assert paths(world) == ["root"]


def test_a_sibling_came_meanwhile() -> None:
    """A dynamic parent that has another child by then stays (QU-96)."""
    world = make_world(tree(placementrules=CREATE))
    world.given(app("app-1", "root.x.a"), remove("app-1"), at=0)
    world.given(app("app-2", "root.x.b"), at=9)
    world.wait(10)
    assert paths(world) == ["root", "root.x", "root.x.b"]


def test_at_the_very_moment() -> None:
    """An application that comes when the cleaner does finds its queue: gone, and created anew (QU-98)."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.given(app("app-1", "root.x.a"), remove("app-1"), at=0)
    world.send(app("app-2", "root.x.a"), ask("t1", "app-2", vcore=1), at=10)
    assert world.placed() == ["t1"]
    assert removed(world) == ["root.x.a (dynamic)", "root.x (dynamic)"]
    assert paths(world) == ["root", "root.x", "root.x.a"]


def test_it_comes_back_with_fresh_settings() -> None:
    """A queue that was removed and is created again has nothing of its former life."""
    world = make_world(tree(placementrules=CREATE))
    world.given(app("app-1", "root.x", namespace__resourcemaxapps="1"), remove("app-1"), at=0)
    world.given(app("app-2", "root.x"), at=10)
    assert world.queue("root.x")["maxApplications"] == 0


def test_completed_applications_do_not_keep_a_queue() -> None:
    """They leave at once (QU-99): 30 s of Completing, then 10 s until the cleaner comes."""
    world = make_world(tree(placementrules=CREATE), [node("n1", vcore=9)])
    world.given(app("app-1", "root.x"), ask("t1", "app-1", vcore=1), release("t1"), at=100)
    world.wait(139)
    assert paths(world) == ["root", "root.x"]
    assert world.state_of("app-1") == "Completed"
    world.wait(140)
    assert paths(world) == ["root"]


def test_recovery_queue_goes_too() -> None:
    """Like any dynamic queue (QU-13)."""
    world = make_world(tree())
    world.given(app("app-1", "nowhere", application__create__force="true"), remove("app-1"), at=0)
    world.wait(9)
    assert paths(world) == ["root", "root.@recovery@"]
    world.wait(10)
    assert paths(world) == ["root"]


def test_managed_queues_stay() -> None:
    """Root and Active managed queues are never removed, empty or not (QU-97); nobody wakes up for them."""
    world = make_world(tree(queue("a"), queue("p", parent=True)))
    world.given(app("app-1", "root.a"), remove("app-1"), at=0)
    assert world.direct.core.timers.cleaning_ns is None
    world.wait(1000)
    assert paths(world) == ["root", "root.a", "root.p"]


def test_managed_parents_of_dynamic_queues_stay() -> None:
    """QU-97."""
    world = make_world(tree(queue("p", parent=True), placementrules=CREATE))
    world.given(app("app-1", "root.p.x.y"), remove("app-1"), at=0)
    world.wait(10)
    assert paths(world) == ["root", "root.p"]


def test_priorities_go_with_a_queue() -> None:
    """While it is empty it shows none, and its parent forgets it (QU-97)."""
    world = make_world(tree(queue("a"), placementrules=CREATE))
    world.given(app("app-1", "root.x"), app("app-2"), at=0)
    world.given(ask("t1", "app-1", priority=7, vcore=1), ask("t2", "app-2", vcore=1))
    assert world.priorities()["root"] == 7
    world.given(remove("app-1"))
    world.wait(10)
    assert world.priorities() == {"root": 0, "root.a": 0}


def test_many_at_once() -> None:
    """All that are empty go in one pass, the others stay."""
    world = make_world(tree(placementrules=CREATE))
    world.given(*(app(f"app-{number}", f"root.x{number % 7}.y{number}") for number in range(70)), at=0)
    world.given(*(remove(f"app-{number}") for number in range(70) if number % 7 or number < 35))
    world.wait(10)
    left = {f"root.x0.y{number}" for number in range(35, 70, 7)}
    assert set(paths(world)) == {"root", "root.x0"} | left


# ---- drained queues

TREE = tree(queue("p", queue("a"), queue("b")), queue("c"))
WITHOUT = tree(queue("c"))


def test_draining() -> None:
    """All managed queues below drain too; applications run on and are scheduled, new ones are refused (QU-95)."""
    world = make_world(TREE, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1), configure(WITHOUT), at=0)
    world.given(configure(WITHOUT), at=5)
    assert states(world) == {
        "root": "Active", "root.c": "Active", "root.p": "Draining", "root.p.a": "Draining", "root.p.b": "Draining",
    }  # fmt: skip
    world.send(ask("t2", "app-1", vcore=1), app("app-2", "root.p.a"), at=20)
    heard = world.heard()
    assert "t2 on n1" in heard
    assert heard[0].startswith("app-2 Rejected: failed to place application app-2: application rejected: no placement rule")
    assert removed(world) == ["root.p.b"]
    world.given(remove("app-1"), at=33)
    world.wait(43)
    assert removed(world) == ["root.p.b", "root.p.a", "root.p"]


def test_dynamic_queues_below_a_drained_one() -> None:
    """They do not drain, but take nothing new while an ancestor does (CF-83); all go when they are empty."""
    rules = {"placementrules": CREATE}
    world = make_world(tree(queue("p", parent=True), **rules), [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.x"), configure(tree(**rules)), at=0)
    assert states(world) == {"root": "Active", "root.p": "Draining", "root.p.x": "Active"}
    world.send(app("app-2", "root.p.x"), app("app-3", "root.p.y"), ask("t1", "app-1", vcore=1), at=50)
    assert [line.split(":")[0] for line in world.heard()] == [
        "app-2 Rejected", "app-3 Rejected", "app-1 Accepted", "app-1 Starting", "t1 on n1",
    ]  # fmt: skip
    world.given(remove("app-1"))
    world.wait(60)
    assert removed(world) == ["root.p.x (dynamic)", "root.p"]


def test_back_before_the_cleaner_came() -> None:
    """A draining queue that is listed again is Active again: the cleaner leaves it alone (CF-76, CF-82)."""
    world = make_world(TREE)
    world.given(configure(WITHOUT), at=0)
    world.given(configure(TREE), at=9)
    world.wait(100)
    assert states(world) == dict.fromkeys(["root", "root.p", "root.p.a", "root.p.b", "root.c"], "Active")
    assert removed(world) == []


def test_back_while_applications_run() -> None:
    """A queue that comes back keeps its applications, and takes new ones (CF-76)."""
    world = make_world(TREE, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1), configure(WITHOUT), at=0)
    world.wait(30)
    world.given(configure(tree(queue("p", queue("a", max={"vcore": 2})), queue("c"))))
    world.send(app("app-2", "root.p.a"), ask("t2", "app-2", vcore=1), ask("t3", "app-1", vcore=1))
    assert world.placed() == ["t3"]
    assert world.why("t2") == "wants 0.001, has 0 of 0.002 vcore in queue root.p.a"
    world.given(remove("app-1"), remove("app-2"))
    world.wait(100)
    assert paths(world) == ["root", "root.p", "root.p.a", "root.c"]


def test_back_after_it_is_gone() -> None:
    """Then it is a new queue."""
    world = make_world(TREE, [node("n1", vcore=9)])
    world.given(configure(WITHOUT), at=0)
    world.wait(10)
    world.given(configure(TREE))
    world.send(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1))
    assert world.placed() == ["t1"]


def test_a_drained_parent_comes_back_as_a_leaf() -> None:
    """A drained parent stays one until its last child is gone: it takes no new ones, and its children are scheduled (CF-60)."""
    world = make_world(TREE, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), configure(WITHOUT), at=0)
    world.given(configure(tree(queue("p", max={"vcore": 2}), queue("c"))), at=5)
    assert states(world)["root.p"] == "Active"
    world.send(ask("t1", "app-1", vcore=1), app("app-2", "root.p"))
    heard = [line.split(":")[0] for line in world.heard()]
    assert heard == ["app-1 Accepted", "app-2 Rejected", "app-1 Starting", "t1 on n1"]
    world.wait(20)
    assert paths(world) == ["root", "root.p", "root.c", "root.p.a"]
    world.given(remove("app-1"), at=22)
    world.wait(31.9)
    assert world.queue("root.p")["isLeaf"] is False
    world.wait(32)
    assert paths(world) == ["root", "root.p", "root.c"]
    assert [(fact.queue, fact.is_leaf) for fact in world.facts if isinstance(fact, QueueTypeChanged)] == [("root.p", True)]
    world.send(app("app-3", "root.p"), ask("t2", "app-3", vcore=2), ask("t3", "app-3", vcore=1))
    assert world.placed() == ["t2"]
    assert world.why("t3") == "wants 0.001, has 0 of 0.002 vcore in queue root.p"


def test_a_parent_with_dynamic_children_waits_for_them() -> None:
    """A parent that the text wants as a leaf: its dynamic children run on, and it is a leaf when they are gone (CF-60)."""
    world = make_world(tree(queue("p", parent=True), placementrules=CREATE), [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.x"), configure(tree(queue("p"), placementrules=CREATE)), at=0)
    world.send(ask("t1", "app-1", vcore=1))
    assert world.placed() == ["t1"]
    world.given(remove("app-1"))
    world.wait(10)
    assert removed(world) == ["root.p.x (dynamic)"]
    world.send(app("app-2", "root.p"))
    world.expect("app-2 New")


def test_nothing_new_below_a_parent_that_becomes_a_leaf() -> None:
    """The text has a leaf, so nothing new may come below it (QU-8): else its last child need never go (CF-60)."""
    world = make_world(tree(queue("p", parent=True), placementrules=CREATE))
    world.given(app("app-1", "root.p.x"), configure(tree(queue("p"), placementrules=CREATE)))
    world.send(app("app-2", "root.p.x"), app("app-3", "root.p.y"))
    assert [line.split(":")[0] for line in world.heard()] == ["app-2 Rejected", "app-3 Rejected"]


def test_a_drained_leaf_comes_back_as_a_parent() -> None:
    """A leaf with applications is refused as a parent, by name, and goes on draining; an empty one becomes a parent (CF-61)."""
    world = make_world(TREE)
    world.given(app("app-1", "root.p.a"), configure(WITHOUT), at=0)
    below = tree(queue("p", queue("a", queue("x"))), queue("c"))
    world.send(configure(below), at=5)
    world.expect(
        "configuration rejected: queue root.p.a cannot become a parent: it is a leaf with 1 applications; "
        "wait for them to end or move them"
    )
    assert states(world)["root.p.a"] == "Draining"
    world.given(remove("app-1"), at=6)
    world.send(configure(below), app("app-2", "root.p.a.x"))
    world.expect("configuration accepted", "app-2 New")
    world.wait(50)
    assert states(world) == dict.fromkeys(["root", "root.p", "root.p.a", "root.p.a.x", "root.c"], "Active")


@pytest.mark.parametrize("at", [0, 5, 9.999, 10, 15])
def test_drained_and_back_again_and_again(at: float) -> None:
    """However often and whenever the text changes, what is listed in the end is there, and only that."""
    world = make_world(TREE, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1), at=0)
    for number in range(4):
        world.given(configure(WITHOUT), at=100 * number + at)
        world.given(configure(TREE), at=100 * number + 2 * at)
    world.wait(500)
    assert states(world) == dict.fromkeys(["root", "root.p", "root.p.a", "root.p.b", "root.c"], "Active")
    world.given(remove("app-1"), configure(WITHOUT), at=500)
    world.wait(510)
    assert paths(world) == ["root", "root.c"]
