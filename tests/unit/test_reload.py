"""The running queue tree becomes the configured one (CF-58 to CF-61, CF-75, CF-76)."""

import pytest
from world import World, app, ask, configure, load, make_world, node, queue, release, remove, tree

from ykactor.core.messages.facts import QueueAdded, QueueLimitChanged, QueueRemoved, QueueStateChanged
from ykactor.core.partition.reload import walk

THREE = tree(queue("p", queue("a"), queue("b")), queue("c"))


def queues(world: World) -> dict[str, str]:
    """Path -> state, in the order of the tree."""
    return {path: found["state"] for path, found in world.final()["queues"].items()}


def changes(world: World, before: int) -> list[str]:
    """The reports about queues since there were this many facts."""
    told = []
    for fact in world.facts[before:]:
        match fact:
            case QueueAdded(_, path):
                told.append(f"{path} added")
            case QueueRemoved(_, path):
                told.append(f"{path} removed")
            case QueueStateChanged(_, path, state):
                told.append(f"{path} {state}")
            case QueueLimitChanged(_, path, limit, resource):
                told.append(f"{path} {limit} {resource}")
    return told


def test_walk() -> None:
    """Parents first, in the order of the text."""
    assert [entry.path for entry in walk(load(THREE).root)] == ["root", "root.p", "root.p.a", "root.p.b", "root.c"]


def test_the_same_again() -> None:
    """Nothing changes, and only the acceptance is reported."""
    world = make_world(THREE, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=9))
    before, state = len(world.facts), world.state()
    world.send(configure(THREE))
    world.expect("configuration accepted")
    assert changes(world, before) == []
    assert world.state() == state


def test_limits_change_at_once() -> None:
    """New limits are reported, queue by queue; usage above a lowered max is left to shrink (CF-75)."""
    world = make_world(tree(queue("a", max={"vcore": 5}), queue("b", guaranteed={"vcore": 1})), [node("n1", vcore=9)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=3), ask("t2", "app-1", vcore=2), ask("t3", "app-1", vcore=1))
    before = len(world.facts)
    world.send(configure(tree(queue("a", max={"vcore": 3}), queue("b"))))
    world.expect("configuration accepted")
    assert changes(world, before) == ["root.a max {'vcore': 3}", "root.b guaranteed None"]
    world.send(release("t2"))
    assert world.placed() == []
    world.send(release("t1"))
    assert world.placed() == ["t3"]


def test_root_maxapplications_changes() -> None:
    """Also root's limit on applications (CF-75)."""
    world = make_world(tree(queue("a", maxapplications=1), maxapplications=1), [node("n1", vcore=9)])
    world.given(app("app-1"), app("app-2"), ask("t1", "app-1", vcore=1), ask("t2", "app-2", vcore=1))
    world.send(configure(tree(queue("a", maxapplications=2), maxapplications=2)))
    assert world.placed() == ["t2"]


def test_new_queue() -> None:
    """Created Active, with inherited properties, and usable at once (CF-76)."""
    world = make_world(tree(queue("c")), [node("n1", vcore=9)])
    before = len(world.facts)
    world.send(configure(tree(queue("c"), queue("d", queue("e", max={"vcore": 1})))), app("app-1", "root.d.e"))
    world.expect("configuration accepted", "app-1 New")
    assert changes(world, before) == ["root.d added", "root.d.e added", "root.d.e max {'vcore': 1}"]


def test_removed_queues_drain_and_go() -> None:
    """A queue missing from the text drains with all below it; the cleaner removes it when it is empty (QU-95, QU-96)."""
    world = make_world(THREE, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1))
    before = len(world.facts)
    world.given(configure(tree(queue("c"))), at=100)
    assert sorted(changes(world, before)) == ["root.p Draining", "root.p.a Draining", "root.p.b Draining"]
    world.wait(109)
    assert queues(world) == {
        "root": "Active", "root.c": "Active", "root.p": "Draining", "root.p.a": "Draining", "root.p.b": "Draining",
    }  # fmt: skip
    world.wait(110)  # the first round of the cleaner
    assert "root.p.b" not in queues(world)
    world.given(remove("app-1"), at=115)
    world.wait(124)
    assert "root.p.a" in queues(world)
    world.wait(125)  # children before parents: the whole chain in one pass
    assert queues(world) == {"root": "Active", "root.c": "Active"}
    assert changes(world, before)[-3:] == ["root.p.b removed", "root.p.a removed", "root.p removed"]
    before = len(world.facts)
    world.wait(1000)
    assert len(world.facts) == before


def test_ended_applications_do_not_hold_a_queue() -> None:
    """Completed applications leave the queue at once (QU-99)."""
    world = make_world(THREE)
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1), release("t1"), at=100)
    world.given(configure(tree(queue("c"))), at=120)
    world.wait(130)  # completed at 130 as well, before the cleaner looks
    assert queues(world) == {"root": "Active", "root.c": "Active"}


def test_drained_and_back() -> None:
    """A draining queue that is listed again is Active again, keeps its applications and has the settings of the text (CF-76)."""
    world = make_world(THREE, [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", vcore=1))
    world.given(configure(tree(queue("c"))), at=100)
    before = len(world.facts)
    world.given(configure(tree(queue("p", queue("a", max={"vcore": 2})), queue("c"))), at=105)
    assert changes(world, before) == ["root.p Active", "root.p.a Active", "root.p.a max {'vcore': 2}"]
    world.wait(200)
    assert queues(world) == dict.fromkeys(["root", "root.p", "root.p.a", "root.c"], "Active")
    world.heard()
    world.send(ask("t2", "app-1", vcore=2), app("app-2", "root.p.a"))
    world.expect("app-2 New")
    assert world.queue("root.p.a")["allocated"] == {"vcore": 1}


def test_drained_priority_goes() -> None:
    """Removal of a queue takes its priority out of its ancestors (QU-97); while it drains, it counts."""
    world = make_world(THREE)
    world.given(app("app-1", "root.p.a"), ask("t1", "app-1", priority=7, vcore=1), at=100)
    world.given(configure(tree(queue("c"))), at=100)
    assert world.priorities()["root"] == 7
    world.given(remove("app-1"))
    world.wait(110)
    assert world.priorities() == {"root": None, "root.c": None}


def test_leaf_with_applications_stays_a_leaf() -> None:
    """CF-61: the whole reload is refused with the queue's name, nothing of it took effect."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=9)])
    world.given(app("app-1", "root.a"))
    state = world.state()
    world.send(configure(tree(queue("a", queue("x")), queue("b", max={"vcore": 1}), queue("new"))))
    world.expect(
        "configuration rejected: queue root.a cannot become a parent: it is a leaf with 1 applications; "
        "wait for them to end or move them"
    )
    assert world.state() == state


def test_empty_leaf_becomes_a_parent() -> None:
    """A leaf without applications may become a parent (CF-61)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=9)])
    world.send(configure(tree(queue("a", queue("x")))), app("app-1", "root.a.x"), ask("t1", "app-1", vcore=1))
    assert world.placed() == ["t1"]
    assert world.queue("root.a")["isLeaf"] is False


def test_parent_without_children_becomes_a_leaf() -> None:
    """Once its last child is gone, not before: meanwhile its children's applications are scheduled (CF-60)."""
    world = make_world(tree(queue("p", queue("a"))), [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), at=100)
    world.given(configure(tree(queue("p"))))
    world.send(ask("t1", "app-1", vcore=1))
    assert world.placed() == ["t1"]
    world.given(remove("app-1"))
    world.wait(110)
    world.send(app("app-2", "root.p"), ask("t2", "app-2", vcore=1))
    assert world.placed() == ["t2"]
    assert world.queue("root.p")["isLeaf"] is True


def test_type_changes_tell_states_and_limits_too() -> None:
    """A queue that changes its type is reported like any other: Active again, and its new limits."""
    world = make_world(tree(queue("p", queue("a")), queue("c")), [node("n1", vcore=9)])
    world.given(app("app-1", "root.p.a"), configure(tree(queue("c"))), at=100)
    before = len(world.facts)
    world.send(configure(tree(queue("p", max={"vcore": 2}), queue("c", queue("d"), guaranteed={"vcore": 1}))))
    told = changes(world, before)
    assert told == ["root.p Active", "root.p max {'vcore': 2}", "root.c guaranteed {'vcore': 1}", "root.c.d added"]


@pytest.mark.parametrize("keys", [{}, {"parent": True}])
def test_parent_stays_a_parent_if_told(keys: dict[str, bool]) -> None:
    """``parent: true`` keeps a queue without children from becoming a leaf (QU-7)."""
    world = make_world(tree(queue("p", queue("a"), **keys)))
    world.given(configure(tree(queue("p", **keys))), at=100)
    world.wait(110)
    assert world.queue("root.p")["isLeaf"] is not keys.get("parent", False)


def test_reload_between_asks() -> None:
    """Earlier submissions of the same input are decided by the old settings, later ones by the new (CF-59)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=9)])
    world.send(app("app-1", "root.b"), configure(tree(queue("a"), queue("b"))), app("app-2", "root.b"))
    assert [line.split(":")[0] for line in world.heard()] == ["app-1 Rejected", "configuration accepted", "app-2 New"]


def test_waiting_asks_survive() -> None:
    """Orders begin anew on a reload; nobody who waits is forgotten, whatever was parked."""
    world = make_world(THREE, [node("n1", vcore=1)])
    leaves = {"root.p.a": "x", "root.p.b": "y", "root.c": "z"}
    world.given(*(app(name, path) for path, name in leaves.items()))
    world.given(*(ask(f"{name}{n}", name, priority=n, vcore=1) for name in "xyz" for n in range(3)))
    world.given(configure(tree(queue("p", queue("a", max={"vcore": 5}), queue("b")), queue("c"))))
    world.send(node("n2", vcore=20))
    assert len(world.placed()) == 8
    assert world.queue("root")["pending"] == {}
