"""The order of child queues (PR-71), and lineups with parking."""

import random
from typing import Any

import pytest
from world import app, ask, make_world, node, queue, release, tree

from ykactor.core.messages.submissions import Submission
from ykactor.core.queueing.equivalence import SchedulingQueue
from ykactor.core.queueing.sibling_order import ChildOrder, ChildPlace, Effort
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource, ahead
from ykactor.core.values.sorted_list import SortKey

#: Nothing but priorities, shares and pending is to decide: more room than anybody wants.
BIG = node("n1", v=10**6, m=10**6)
PRIORITIES_OFF = {"application.sort.priority": "disabled"}


def order_of_queues(queues: list[dict[str, Any]], asks: list[Submission], used: list[Submission], **root: Any) -> list[str]:
    """The order in which sibling queues are served: one ask each, so that serving one does not move the others."""
    world = make_world(tree(*queues, **root), [BIG])
    names = [entry["name"] for entry in queues]
    world.given(node("n1", "DRAIN_NODE"), *(app(name, f"root.{name}") for name in names), *used, *asks)
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    return world.placed()


@pytest.mark.parametrize(
    ("pending", "order"),
    [
        ({"a": {"v": 10}, "b": {"v": 20}}, "b a"),
        ({"a": {"v": 10, "m": 5}, "b": {"v": 20, "m": 1}}, "a b"),
        ({"a": {"v": 2, "m": 2}, "b": {"v": 5}, "c": {"v": 1, "m": 1}}, "a b c"),
        ({"c": {"v": 2, "m": 2}, "b": {"v": 5}, "a": {"v": 1, "m": 1}}, "b c a"),
        ({"b": {"v": 10}, "a": {"v": 10}}, "a b"),
        ({"b": {"m": 1}, "a": {"v": 1}}, "a b"),
    ],
)
def test_more_pending(pending: dict[str, dict[str, Any]], order: str) -> None:
    """Strictly more pending first (PR-72), counted within the group (PR-36); what is left goes by name (PR-31)."""
    queues = [queue(name) for name in pending]
    asks = [ask(name, name, **resource) for name, resource in pending.items()]
    assert order_of_queues(queues, asks, []) == order.split()


#: guarantee, allocated, priority of q0, q1, ...; the order with priorities enabled, and disabled.
TABLE = [
    ("500;300;1 300;200;1 200;100;1 200;100;3", "q3 q2 q0 q1", "q3 q2 q0 q1"),
    ("500;200;1 300;300;1 200;100;1 200;100;3", "q3 q0 q2 q1", "q0 q3 q2 q1"),
    ("500;150;1 300;120;1 200;100;1 200;100;3", "q3 q0 q1 q2", "q0 q1 q3 q2"),
    ("-;300;1 -;200;0 -;100;2 -;100;3", "q3 q2 q0 q1", "q3 q2 q1 q0"),
]


@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "disabled"])
@pytest.mark.parametrize(("table", "with_priorities", "without"), TABLE)
def test_examples(table: str, with_priorities: str, without: str, enabled: bool) -> None:
    """PR-71: priority, share, pending, name; or share, pending, priority, name. Each share by its own guarantee (PR-35)."""
    queues, used, asks = [], [], []
    for number, row in enumerate(table.split()):
        name = f"q{number}"
        guaranteed, allocated, priority = row.split(";")
        queues.append(queue(name, **({} if guaranteed == "-" else {"guaranteed": dict.fromkeys("vm", int(guaranteed))})))
        used.append(ask(f"{name}-used", name, on="n1", v=int(allocated), m=int(allocated)))
        asks.append(ask(name, name, priority=int(priority), v=1, m=1))
    order = order_of_queues(queues, asks, used, p={} if enabled else PRIORITIES_OFF)
    assert order == (with_priorities if enabled else without).split()


def test_order_of_the_text_does_not_matter() -> None:
    """Queues that the comparators leave equal go by name, never by the order in which they came to be (PR-31)."""
    names = [f"q{number}" for number in range(8)]
    for seed in range(4):
        shuffled = random.Random(seed).sample(names, len(names))
        assert order_of_queues([queue(name) for name in shuffled], [ask(name, name, v=1) for name in shuffled], []) == names


def test_order_of_the_types_does_not_matter() -> None:
    """Queues with the same amounts have the same pending resources, whichever type came first (PR-36)."""
    asks = [ask("a1", "a", m=1), ask("a2", "a", v=1), ask("b1", "b", priority=1, v=1), ask("b2", "b", m=1)]
    order = order_of_queues([queue("a"), queue("b")], asks, [], p=PRIORITIES_OFF)
    assert order[0] == "b1"


def test_priority_before_pending_only_when_enabled() -> None:
    """Disabled: equal shares, so more pending precedes the higher priority (PR-71)."""
    asks = [ask("a", "a", priority=9, v=1), ask("b", "b", priority=1, v=2)]
    for enabled, order in [(True, ["a", "b"]), (False, ["b", "a"])]:
        queues = [queue("a"), queue("b")]
        assert order_of_queues(queues, asks, [], p={} if enabled else PRIORITIES_OFF) == order


def test_order_is_fresh_for_every_step() -> None:
    """A queue's share grows with each placement, so equal siblings take turns (PR-25)."""
    world = make_world(tree(queue("a"), queue("b")))
    asks = [ask(f"{name}{n}", name, v=1) for name in "ab" for n in range(3)]
    world.send(app("a", "root.a"), app("b", "root.b"), *asks)
    world.send(node("n1", v=100))
    assert world.placed() == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_preference_is_not_exclusion() -> None:
    """A more important queue, application or ask that can place nothing does not block the others (PR-28, PR-53, SC-30)."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", v=10)])
    world.send(
        app("big", "root.a"), ask("big", "big", priority=9, v=11),
        app("small", "root.a"), ask("small-big", "small", priority=8, v=12), ask("small", "small", v=1),
        app("other", "root.b"), ask("other", "other", v=1),
    )  # fmt: skip
    assert sorted(world.placed()) == ["other", "small"]
    world.send(node("n2", v=12))  # what was skipped is not forgotten
    assert world.placed() == ["big"]
    world.send(release("big", "big"))
    assert world.placed() == ["small-big"]


class Sibling:
    """A queue among its siblings."""

    def __init__(self, path: str) -> None:
        self.path = QueuePath(path)
        self.priority: int | None = None
        self.share = 0.0
        self.pending: Resource = {}
        self.parked = False
        self.place: ChildPlace[Sibling] = ChildPlace()


@pytest.mark.parametrize("types", ["v", "vm", "vmg"], ids=["one-type", "two-types", "three-types"])
@pytest.mark.parametrize("by_priority", [True, False], ids=["enabled", "disabled"])
def test_children_against_sorting(by_priority: bool, types: str) -> None:
    """Thousands of random changes agree with PR-71 applied anew to all siblings each time (PR-36 counts parked ones too)."""
    chance = random.Random(len(types))
    siblings = [Sibling(f"q{number}") for number in range(9)]
    order, generation = ChildOrder[Sibling](Effort(), by_priority=by_priority), 0

    def expected(sibling: Sibling) -> tuple[object, ...]:
        first = (-(sibling.priority or 0), sibling.share) if by_priority else (sibling.share,)
        rivals = [other for other in siblings if other.priority is not None and other.share == sibling.share]
        group = [other for other in rivals if not by_priority or other.priority == sibling.priority]
        return first, sum(ahead(other.pending, sibling.pending) for other in group), -(sibling.priority or 0), sibling.path

    for _ in range(3000):
        sibling = chance.choice(siblings)
        match chance.randrange(6):
            case 0 | 1 | 2:
                sibling.priority, sibling.share = chance.randrange(2), chance.choice([0.0, 0.0, 0.5, chance.random()])
                sibling.pending = {name: amount for name in types if (amount := chance.randrange(3))} or {types[0]: 1}
                order.update(sibling)
            case 3:
                sibling.priority, sibling.pending = None, {}
                order.update(sibling)
            case 4 if sibling.priority is not None:
                order.park(sibling)
            case 5:
                generation += chance.random() < 0.2
                order.wake(sibling)
        best = order.first(generation)
        waiting = [other for other in siblings if other.priority is not None]
        assert best is min((other for other in waiting if not other.parked), key=expected, default=None)
        if chance.random() < 0.3:
            assert sorted(waiting, key=order.rank) == sorted(waiting, key=expected)


# ---- lineups


class Runner:
    """A candidate with a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sort_key: SortKey | None = None
        self.parked = False

    def __repr__(self) -> str:
        return self.name


def test_lineup_offers_the_best() -> None:
    """``put`` gives a place, moves it, and with None takes out of the order."""
    a, b, line = Runner("a"), Runner("b"), SchedulingQueue[Runner]()
    assert line.first() is None
    line.put(a, (2,))
    line.put(b, (1,))
    assert line.first() is b
    line.put(b, (3,))
    assert line.first() is a
    line.put(a, None)
    line.put(b, None)
    assert line.first() is None
    line.put(b, None)  # twice is harmless
    assert line.first() is None


def test_parked_is_not_offered_until_it_is_woken() -> None:
    """Parking keeps the place in the order."""
    a, b, line = Runner("a"), Runner("b"), SchedulingQueue[Runner]()
    line.put(a, (1,))
    line.put(b, (2,))
    line.park(a)
    assert line.first() is b
    line.put(a, (3,))  # moving does not wake
    assert line.first() is b
    line.park(b)
    assert line.first() is None
    assert line.wake_all() == [a, b]
    assert line.first() is b  # a moved behind b meanwhile
    line.park(b)
    assert line.first() is a
    line.wake(b)
    assert line.first() is b


def test_parked_may_leave() -> None:
    """Whoever leaves while parked is not woken later, and comes back unparked."""
    a, line = Runner("a"), SchedulingQueue[Runner]()
    line.put(a, (1,))
    line.park(a)
    line.put(a, None)
    line.wake_all()
    assert line.first() is None
    line.put(a, (1,))
    assert line.first() is a


def test_lineup_against_sorting() -> None:
    """Thousands of random moves agree with sorting all candidates anew each time."""
    chance = random.Random(7)
    runners = [Runner(str(n)) for n in range(12)]
    line, keys, parked = SchedulingQueue[Runner](), dict[Runner, tuple[int, int]](), set[Runner]()
    for _ in range(4000):
        runner = chance.choice(runners)
        match chance.randrange(5):
            case 0 | 1:
                keys[runner] = (chance.randrange(5), int(runner.name))
                line.put(runner, keys[runner])
            case 2:
                if keys.pop(runner, None):
                    parked.discard(runner)
                line.put(runner, None)
            case 3:
                if runner in keys and runner not in parked:
                    line.park(runner)
                    parked.add(runner)
            case 4 if chance.random() < 0.2:
                assert set(line.wake_all()) == parked
                parked.clear()
        best = min((word for word in keys if word not in parked), key=keys.__getitem__, default=None)
        assert line.first() is best
