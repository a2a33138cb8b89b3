"""Wakes of asks: one that could not be placed is tried again as soon as, and only because, something changed."""

import pytest
from world import World, app, ask, configure, foreign, make_world, node, queue, release, remove, tree

from ykactor.core.messages.submissions import Submission

A = {"max": {"vcore": 5}}


def stuck(text: str) -> World:
    """app-1 uses 4 of 8 vcores on n1, and 5 more wait, also behind root.a's max of 5 if the text says so."""
    world = make_world(text, [node("n1", vcore=8)])
    world.given(app("app-0"), ask("t0", "app-0", vcore=4), app("app-1"), ask("t1", "app-1", vcore=5))
    assert world.queue("root.a")["pending"] == {"vcore": 5}
    return world


CLUSTER = tree(queue("a"))


@pytest.mark.parametrize(
    "change",
    [
        release("t0", "app-0"),
        release(None, "app-0"),
        remove("app-0"),
        node("n2", vcore=5),
        node("n1", "UPDATE", vcore=9),
        ask("t0", "app-0", vcore=3),
    ],
    ids=["release", "release all", "removal", "new node", "larger node", "smaller allocation"],
)
def test_room_wakes(change: Submission) -> None:
    """Freed or added capacity: whatever waited is tried again (generation)."""
    world = stuck(CLUSTER)
    world.send(change)
    assert world.placed() == ["t1"]


def test_smaller_ask_wakes() -> None:
    """A resized ask is tried with its new size (AP-110)."""
    world = stuck(CLUSTER)
    world.send(ask("t1", "app-1", vcore=4))
    assert world.placed() == ["t1"]
    assert world.queue("root.a")["pending"] == {}


def test_quota_wakes() -> None:
    """A raised, and a removed, max let go what waited for it (CF-75)."""
    for raised in (tree(queue("a", max={"vcore": 9})), CLUSTER):
        world = stuck(tree(queue("a", **A)))
        world.given(node("n2", vcore=8))
        world.send(configure(raised))
        assert world.placed() == ["t1"]


def test_cordoned_node_wakes() -> None:
    """A node that becomes schedulable is capacity."""
    world = stuck(CLUSTER)
    world.given(node("n2", "CREATE_DRAIN", vcore=9))
    world.send(node("n2", "DRAIN_TO_SCHEDULABLE"))
    assert world.placed() == ["t1"]


def test_foreign_room_wakes() -> None:
    """A foreign task that ends or shrinks is capacity."""
    for change in (release("f1", ""), foreign("f1", "n2", vcore=1)):
        world = stuck(CLUSTER)
        world.given(node("n2", vcore=6), foreign("f1", "n2", vcore=6))
        assert world.queue("root.a")["pending"] == {"vcore": 5}
        world.send(change)
        assert world.placed() == ["t1"]


def test_new_shape_wakes_its_path_only() -> None:
    """An ask of another shape is tried although its application, leaf and parent had nothing to offer; the old ones stay."""
    world = make_world(tree(queue("p", queue("a"), queue("b"))), [node("n1", vcore=8)])
    world.given(app("app-1", "root.p.a"), ask("big", "app-1", vcore=9), app("app-2", "root.p.b"), ask("big2", "app-2", vcore=9))
    world.send(ask("small", "app-1", vcore=1))
    assert world.placed() == ["small"]
    world.send(ask("same", "app-2", priority=100, vcore=9))  # of the shape that is known not to fit
    assert world.placed() == []


def test_priority_of_a_waiting_shape_is_kept() -> None:
    """Parked asks go in order of priority when room comes, the later but more important ask first."""
    world = stuck(CLUSTER)
    world.given(ask("t2", "app-1", priority=1, vcore=5), app("app-2"), ask("t3", "app-2", priority=2, vcore=5))
    world.send(node("n2", vcore=10))
    assert world.placed() == ["t3", "t2"]


def test_pending_follows_every_change() -> None:
    """Pending and allocated of every level through submission, resize, cancel, placement and end (QU-43, QU-47)."""
    world = make_world(tree(queue("p", queue("a"), queue("b"))), [node("n1", vcore=2)])

    def numbers(path: str) -> tuple[int, int]:
        found = world.queue(path)
        return found["allocated"].get("vcore", 0), found["pending"].get("vcore", 0)

    world.given(app("app-1", "root.p.a"), app("app-2", "root.p.b"))
    story: list[tuple[Submission, tuple[int, int], tuple[int, int]]] = [
        (ask("t1", "app-1", vcore=5), (0, 5), (0, 5)),
        (ask("t1", "app-1", vcore=7), (0, 7), (0, 7)),
        (ask("t2", "app-2", vcore=2), (0, 7), (2, 7)),
        (ask("t2", "app-2", vcore=3), (0, 7), (3, 7)),
        (ask("t3", "app-2", on="n1", vcore=4), (0, 7), (7, 7)),
        (release("t1", "app-1"), (0, 0), (7, 0)),
        (release("t2", "app-2"), (0, 0), (4, 0)),
        (remove("app-2"), (0, 0), (0, 0)),
    ]
    for submission, leaf, parent in story:
        world.send(submission)
        assert (numbers("root.p.a"), numbers("root.p"), numbers("root")) == (leaf, parent, parent)


def test_placement_by_the_resource_manager() -> None:
    """A waiting ask that comes with a node is allocated there without checks and is no longer pending (AP-112)."""
    world = stuck(tree(queue("a", **A)))
    world.send(ask("t1", "app-1", on="n1", vcore=6))
    world.expect("app-1 Starting", "t1 on n1")
    assert world.queue("root.a")["allocated"] == {"vcore": 10}
    assert world.queue("root.a")["pending"] == {}
