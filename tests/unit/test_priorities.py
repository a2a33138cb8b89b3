"""Dynamic priorities of queues (PR-10)."""

import random

import pytest
from world import app, ask, configure, make_world, node, queue, release, tree

from ykactor.core.config.properties import QueueProperties
from ykactor.core.queueing.priorities import PRIORITY_MAX, PRIORITY_MIN, Priority, PriorityBag, queue_priority, sort_rank

#: policy, offset, ask priorities, what the leaf shows, what a default parent with offset 5 shows.
TABLE: list[tuple[str, int | None, list[int], Priority, Priority]] = [
    ("default", 3, [], None, None),
    ("default", 3, [0], 3, 8),
    ("default", 3, [0, 5], 8, 13),
    ("fence", 3, [0], 3, 8),
    ("fence", 3, [0, 5], 3, 8),
    ("default", 5, [10, 20], 25, 30),
    ("default", 5, [10], 15, 20),
    ("fence", None, [2000000000], 0, 5),
    ("default", 2000000000, [2000000000], PRIORITY_MAX, PRIORITY_MAX),
    ("default", -2000000000, [-2000000000], PRIORITY_MIN, PRIORITY_MIN + 5),
    ("fence", 10, [PRIORITY_MIN], 10, 15),
]


@pytest.mark.parametrize(("policy", "offset", "asks", "leaf", "parent"), TABLE)
def test_queue_priority(policy: str, offset: int | None, asks: list[int], leaf: Priority, parent: Priority) -> None:
    """PR-11 and PR-12: n/a stays n/a, also behind a fence; clamped at every level; MIN is a number (PR-16)."""
    properties = QueueProperties(priority_fence=policy == "fence", priority_offset=offset or 0)
    found = queue_priority(max(asks, default=None), properties)
    assert found == leaf
    assert queue_priority(found, QueueProperties(priority_offset=5)) == parent


@pytest.mark.parametrize(("policy", "offset", "asks", "leaf", "parent"), TABLE)
def test_queues_show_it(policy: str, offset: int | None, asks: list[int], leaf: Priority, parent: Priority) -> None:
    """The same table through a configuration and waiting asks; one application holds them all (PR-3, PR-10)."""
    properties = {"priority.policy": policy} | ({} if offset is None else {"priority.offset": offset})
    world = make_world(tree(queue("p", queue("leaf", p=properties), p={"priority.offset": 5})))
    world.send(app("app-1", "root.p.leaf"), *(ask(f"t{n}", "app-1", priority=n, vcore=1) for n in asks))
    final = world.final()["queues"]
    assert final["root.p.leaf"]["priority"] == (PRIORITY_MIN if leaf is None else leaf)
    assert final["root.p"]["priority"] == (PRIORITY_MIN if parent is None else parent)


def test_priority_follows_the_asks() -> None:
    """Adding, allocating and removing an ask changes the priority at once (PR-4, AP-2)."""
    world = make_world(tree(queue("a")))
    world.send(app("app-1"), ask("t10", "app-1", priority=10, vcore=1), ask("t20", "app-1", priority=20, vcore=1))
    assert world.priorities()["root.a"] == 20
    world.send(node("n1", vcore=1))  # room for the important one
    assert world.priorities()["root.a"] == 10
    world.send(release("t10"))
    assert world.priorities() == {"root": None, "root.a": None}


def test_update_keeps_the_priority() -> None:
    """A different priority in an update of a known ask is ignored (PR-2)."""
    world = make_world(tree(queue("a")))
    world.send(app("app-1"), ask("t1", "app-1", priority=10, vcore=1))
    world.send(ask("t1", "app-1", priority=99, vcore=2))
    assert world.priorities()["root.a"] == 10
    assert world.queue("root.a")["pending"] == {"vcore": 2}


def test_what_cannot_run_counts() -> None:
    """A child counts for its parent's priority while it has pending asks, even if it cannot run anything now (PR-17)."""
    world = make_world(tree(queue("a", max={"vcore": 0}), queue("b")), [node("n1", vcore=10)])
    world.send(app("app-1", "root.a"), ask("t1", "app-1", priority=7, vcore=1))
    assert world.priorities()["root"] == 7


def test_reload_changes_priorities_up_to_root() -> None:
    """A new offset or policy shows at once at every ancestor (PR-18)."""
    world = make_world(tree(queue("p", queue("a"))))
    world.send(app("app-1", "root.p.a"), ask("t1", "app-1", priority=7, vcore=1))
    world.send(configure(tree(queue("p", queue("a", p={"priority.offset": 100})))))
    assert world.priorities() == {"root": 107, "root.p": 107, "root.p.a": 107}
    world.send(configure(tree(queue("p", queue("a", p={"priority.policy": "fence", "priority.offset": 3})))))
    assert world.priorities() == {"root": 3, "root.p": 3, "root.p.a": 3}


def test_root_reports_its_own_offset() -> None:
    """Offset and policy of root have no effect on decisions, but PR-11 applies to what it reports (PR-13)."""
    world = make_world(tree(queue("a"), p={"priority.offset": 5}))
    world.send(app("app-1"), ask("t1", "app-1", priority=7, vcore=1))
    assert world.priorities() == {"root": 12, "root.a": 7}


def test_no_priority_sorts_below_every_number() -> None:
    """n/a sorts below every number, MIN included (PR-16)."""
    assert sorted([None, PRIORITY_MIN, 0, PRIORITY_MAX], key=sort_rank) == [PRIORITY_MAX, 0, PRIORITY_MIN, None]


def test_bag_knows_the_highest() -> None:
    """Against a plain list under thousands of random changes; equal priorities are counted."""
    chance = random.Random(1)
    bag = PriorityBag()
    members: list[int] = []
    for _ in range(3000):
        if members and chance.random() < 0.5:
            members.remove(gone := chance.choice(members))
            bag.remove(gone)
        else:
            members.append(come := chance.randint(-5, 5))
            bag.add(come)
        assert bag.highest == max(members, default=None)


def test_bag_replaces() -> None:
    """An item that is None in ``replace`` is not in the bag."""
    bag = PriorityBag()
    for old, new, highest in [(None, None, None), (None, 3, 3), (3, 1, 1), (1, 1, 1), (1, None, None)]:
        bag.replace(old, new)
        assert bag.highest == highest


def test_bag_does_not_grow_below_its_highest() -> None:
    """Priorities that come and go under a higher one leave nothing behind for ever."""
    bag = PriorityBag()
    bag.add(100)
    for _ in range(20_000):
        bag.add(5)
        bag.remove(5)
    assert len(bag._heap) < 200
    assert bag.highest == 100
