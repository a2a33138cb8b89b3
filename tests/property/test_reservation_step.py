"""Nodes that are kept for asks: the scheduler and the naive reading of the rules agree, and the histories get everywhere."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from checked import ONE_BY_ONE, NaiveWorld, World, check_history
from fragments import draw_fragments
from seeds import scaled, seeds
from world import app, ask, configure, limit, load, node, queue, release, remove, tree

from ykactor.core.messages.facts import Allocated, Fact, Reserved, Unreserved
from ykactor.core.messages.submissions import Submission

SEEDS = seeds(260)
#: Every way in which a reservation is made or ends and a placeholder is used, and how often the histories below must get there.
WAYS = {
    "normal made": 200,
    "required made": 80,
    "required made, shared": 6,
    "normal, allocated there": 15,
    "normal, allocated elsewhere": 25,
    "required, allocated there": 15,
    "required by another ask": 10,
    "without quota for too long": 10,
    "placed by the resource manager": 10,
    "application left": 8,
    "ask cancelled": 20,
    "ask resized": 20,
    "ask too large": 6,
    "node drained": 8,
    "node removed": 10,
    "node shrunk": 4,
    "placeholder made": 30,
    "placeholder came": 4,
    "placeholder too small": 10,
    "replaced": 12,
}


@cache
def ways_of(seed: int) -> Counter[str]:
    """Check one history; returns how often it went which way."""
    return check_history(draw_fragments(seed)).reference.keeping.ways


@pytest.mark.parametrize("seed", SEEDS)
def test_fragmented_clusters(seed: int) -> None:
    """Each reservation is made, used and cancelled as the rules demand, in cycles of any size."""
    ways_of(seed)


@pytest.mark.parametrize("seed", seeds(40))
def test_disabled(seed: int) -> None:
    """Only asks that require their node reserve with DISABLE_RESERVATION (SC-50)."""
    check_history(draw_fragments(1000 + seed), reserves=False)


def test_the_histories_get_everywhere() -> None:
    """Every way is gone often enough for the tests above to mean something."""
    ways: Counter[str] = Counter()
    for seed in SEEDS:
        ways += ways_of(seed)
    assert ways.keys() == WAYS.keys()
    assert {way: (ways[way], scaled(count)) for way, count in WAYS.items() if ways[way] < scaled(count)} == {}


# ---- stories, for the scheduler and for the reference itself


def told(fact: Fact) -> str:
    match fact:
        case Allocated(_, ask, _, node_id):
            return f"{ask.allocation_key} on {node_id}"
        case Reserved(_, ask, _, node_id):
            return f"{ask.allocation_key} keeps {node_id}"
        case Unreserved(_, ask, _, node_id):
            return f"{ask.allocation_key} leaves {node_id}"
    return ""


class Story:
    """A partition, and what it reserves and places in words."""

    def __init__(self, scheduled_by: str, text: str) -> None:
        config = load(text)
        self.world = NaiveWorld(config) if scheduled_by == "reference" else World(config, ONE_BY_ONE, compare=True)
        self.seen = 0

    def at(self, seconds: float, *submissions: Submission) -> Story:
        self.world.tell(*submissions, at_s=seconds)
        return self

    def expect(self, *expected: str) -> None:
        found = [line for fact in self.world.facts[self.seen :] if (line := told(fact))]
        self.seen = len(self.world.facts)
        assert found == list(expected)


TEN = {"vcore": 10, "memory": 10}


@pytest.fixture(params=["scheduler", "reference"])
def empty(request: pytest.FixtureRequest) -> Story:
    """Two leaves with three applications, no node."""
    story = Story(request.param, tree(queue("a"), queue("b")))
    return story.at(0, app("one"), app("two"), app("ds", "root.b"))


@pytest.fixture
def story(empty: Story) -> Story:
    """n1 has {4, 1} left and n2 {7, 10}; k asks for {8, 1} and has waited for 2 seconds."""
    empty.at(0, node("n1", **TEN), node("n2", **TEN))
    empty.at(0, ask("u1", "two", on="n1", vcore=6, memory=9), ask("u2", "two", on="n2", vcore=3))
    empty.at(0, ask("k", "one", vcore=8, memory=1))
    empty.expect("u1 on n1", "u2 on n2")
    empty.at(1.9).expect()
    empty.at(2).expect("k keeps n2")
    return empty


def test_what_frees_goes_to_the_reserved_ask(story: Story) -> None:
    """SC-150: meanwhile nobody else is placed on the node."""
    story.at(3, ask("small", "two", vcore=4)).expect("small on n1")
    story.at(4, ask("other", "two", vcore=1)).expect()
    story.at(5, ask("u2", "two", vcore=2, memory=0)).expect("k on n2", "k leaves n2")


def test_the_order_of_a_pass(story: Story) -> None:
    """SC-10: reserved asks, then placeholders, then all others."""
    story.at(3, app("gang", "root.b", placeholders={"vcore": 2}), ask("p", "gang", placeholder=True, group="g", vcore=2))
    story.expect("p on n1")
    room = ask("u2", "two", vcore=2)
    story.at(4, ask("small", "two", vcore=1), ask("t", "gang", group="g", vcore=2), room)
    story.expect("k on n2", "k leaves n2", "t on n1", "small on n1")


def test_room_elsewhere(story: Story) -> None:
    """SC-44: the ask does not insist on its node."""
    story.at(3, node("n3", **TEN)).expect("k on n3", "k leaves n2")


def test_an_hour_without_quota(story: Story) -> None:
    """SC-60: to the second, and with no quota nothing is reserved again."""
    story.at(3, configure(tree(queue("a", max={"vcore": 12}), queue("b")))).expect()
    story.at(3601.9).expect()
    story.at(3602).expect("k leaves n2")
    story.at(9000).expect()


def test_required_before_normal(story: Story) -> None:
    """SC-74: an ask that requires the node takes it over, although it does not fit."""
    story.at(3, ask("d", "ds", requires="n2", vcore=9)).expect("k leaves n2", "d keeps n2", "k keeps n1")


def test_a_required_node_that_is_not_there_yet(empty: Story) -> None:
    """The ask waits until the node is there (SC-71)."""
    empty.at(1, node("n1", **TEN), ask("d", "ds", requires="n2", vcore=9)).expect()
    empty.at(9, node("n2", **TEN)).expect("d on n2")


def test_required_on_a_drained_node(empty: Story) -> None:
    """The flag of the node is not looked at (SC-72)."""
    empty.at(1, node("n1", **TEN), node("n1", "DRAIN_NODE"), ask("d", "ds", requires="n1", vcore=9)).expect("d on n1")


def test_required_on_a_full_cluster(empty: Story) -> None:
    """The cluster's size is not looked at (SC-73)."""
    empty.at(1, node("n1", **TEN), ask("u", "one", vcore=8)).expect("u on n1")
    empty.at(1, ask("d", "ds", requires="n1", vcore=8)).expect("d keeps n1")
    empty.at(2, release("u", "one")).expect("d on n1", "d leaves n1")


def test_required_asks_share_a_node(empty: Story) -> None:
    """SC-77: a smaller one does not slip past the others."""
    empty.at(1, node("n1", **TEN), ask("u", "one", vcore=8)).expect("u on n1")
    empty.at(1, ask("d", "ds", requires="n1", vcore=8), ask("e", "ds", requires="n1", vcore=1))
    empty.expect("d keeps n1", "e keeps n1", "e on n1", "e leaves n1")


def test_drained(story: Story) -> None:
    """SC-61: the ask reserves what is left."""
    story.at(3, node("n2", "DRAIN_NODE")).expect("k leaves n2", "k keeps n1")


def test_removed(story: Story) -> None:
    """SC-151: what is left of the cluster has no room, so nothing is kept (SC-31)."""
    story.at(3, node("n2", "DECOMISSION")).expect("k leaves n2")


def test_shrunk(story: Story) -> None:
    """SC-104."""
    story.at(3, node("n2", "UPDATE", vcore=7, memory=10)).expect("k leaves n2", "k keeps n1")


def test_shrunk_and_resized_at_once(story: Story) -> None:
    """SC-104: each by itself would leave the reservation alone."""
    story.at(3, node("n2", "UPDATE", vcore=9, memory=10), ask("k", "one", vcore=10)).expect("k leaves n2", "k keeps n1")


def test_resized(story: Story) -> None:
    """AP-110: a size that the node could have leaves the reservation, another one does not."""
    story.at(3, ask("k", "one", vcore=10)).expect()
    story.at(4, ask("k", "one", vcore=11)).expect("k leaves n2")
    story.at(5, ask("k", "one", vcore=6)).expect("k on n2")


def test_cancelled(story: Story) -> None:
    """AP-120: others may have the node."""
    story.at(3, ask("k2", "two", vcore=5)).expect()
    story.at(4, release("k", "one")).expect("k leaves n2", "k2 on n2")


def test_removed_with_its_application(story: Story) -> None:
    """AP-80."""
    story.at(3, remove("one")).expect("k leaves n2")


def test_placed_by_the_resource_manager(story: Story) -> None:
    """AP-112."""
    story.at(3, ask("k", "one", on="n1", vcore=8, memory=1)).expect("k on n1", "k leaves n2")


def test_a_type_that_no_node_has(story: Story) -> None:
    """SC-149: it waits for ever, and nothing is kept for it."""
    story.at(3, ask("odd", "two", fpga=1)).expect()
    story.at(9000).expect()


def test_ages(empty: Story) -> None:
    """AP-56: created long ago is old at once, created in the future is as old as it has been here."""
    empty.at(10, node("n1", **TEN), node("n2", **TEN), ask("u1", "two", vcore=5), ask("u2", "two", vcore=5))
    empty.expect("u1 on n1", "u2 on n2")
    empty.at(20, ask("late", "one", created=100, vcore=6), ask("old", "one", created=1, vcore=6)).expect("old keeps n1")
    empty.at(21.9).expect()
    empty.at(22).expect("late keeps n2")


@pytest.mark.parametrize("scheduled_by", ["scheduler", "reference"])
def test_a_reservation_takes_a_slot(scheduled_by: str) -> None:
    """SC-24: nobody else begins in the place of an Accepted application that has, or had, a node kept for it."""
    story = Story(scheduled_by, tree(queue("a", maxapplications=1), queue("b")))
    story.at(0, node("n1", **TEN), node("n2", **TEN), app("one"), app("two"), app("u", "root.b"))
    story.at(0, ask("u1", "u", on="n1", vcore=6), ask("u2", "u", on="n2", vcore=6)).expect("u1 on n1", "u2 on n2")
    story.at(0, ask("k", "one", vcore=8)).at(2).expect("k keeps n1")
    story.at(3, ask("small", "two", vcore=1)).expect()
    story.at(4, node("n1", "DRAIN_NODE"), node("n2", "DRAIN_NODE")).expect("k leaves n1")
    story.at(5, node("n2", "DRAIN_TO_SCHEDULABLE")).expect("k keeps n2")
    story.at(6, node("n1", "DRAIN_TO_SCHEDULABLE")).expect()
    story.at(7, release("k", "one")).expect("k leaves n2")  # until it is gone (QU-54)
    story.at(37).expect("small on n1")


@pytest.mark.parametrize("scheduled_by", ["scheduler", "reference"])
def test_a_reservation_does_not_count_for_its_user(scheduled_by: str) -> None:
    """QU-73, QU-74: a user's applications count from their first allocation on, so another one may take the place of this one."""
    story = Story(scheduled_by, tree(queue("a", limits=[limit("alice", applications=1)]), queue("b")))
    story.at(0, node("n1", **TEN), node("n2", **TEN), app("one"), app("two"), app("u", "root.b", user="bob"))
    story.at(0, ask("u1", "u", on="n1", vcore=6), ask("u2", "u", on="n2", vcore=6)).expect("u1 on n1", "u2 on n2")
    story.at(0, ask("k", "one", vcore=8)).at(2).expect("k keeps n1")
    story.at(3, ask("small", "two", vcore=1)).expect("small on n2")
    story.at(4, release("u1", "u")).expect()
    story.at(5, release("small", "two")).expect("k on n1", "k leaves n1")
