"""What waits in one application: the order of asks (section 7 of PR), their shapes, and what the index answers."""

import random

import pytest
from world import app, ask, foreign, node, queue, tree, world

from ykactor.core.messages.asks import AllocationSpec, Ask, order_of, shape_of
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.core.queueing.equivalence import RESERVES, AskQueue
from ykactor.core.queueing.pending import WaitingApplication


def waiting(key: str, arrival: int, priority: int = 0, created: int = 0, **resource: int) -> Ask:
    spec = AllocationSpec(key, "app-1", resource or {"vcore": 1}, priority)  # type: ignore[arg-type]
    return Ask(spec, created, arrival)


def application(submission_ns: int = 100) -> WaitingApplication:
    return WaitingApplication(ApplicationAdded(0, "app-1", "root.a", "", submission_ns, 1))  # type: ignore[arg-type]


def keys(asks: list[Ask]) -> str:
    return " ".join(it.spec.allocation_key for it in asks)


def test_order_of_asks() -> None:
    """Higher priority, then earlier creation, then arrival (PR-50, PR-51, AP-55): T17 of AP and a tie."""
    asks = [
        waiting("first", 1, created=1),
        waiting("second", 2, priority=5, created=2),
        waiting("third", 3, created=0),
        waiting("fourth", 4, created=1),
    ]
    assert keys(sorted(asks, key=order_of)) == "second third first fourth"


def test_order_holds_in_a_world() -> None:
    """The tag ``creationTime`` orders asks of equal priority, whatever their shapes; the arrival breaks ties (PR-52)."""
    it = world(tree(queue("a")))
    it.given(
        app("app-1"),
        ask("t1", "app-1", created=1, vcore=1),
        ask("t2", "app-1", priority=5, created=2, vcore=2),
        ask("t3", "app-1", created=0, vcore=1),
        ask("t4", "app-1", created=1, vcore=3),
        ask("t5", "app-1", created=1, vcore=1),
        ask("t6", "app-1", priority=-1, created=0, vcore=1),
        at=10,
    )
    it.send(node("n1", vcore=100))
    assert it.placed() == ["t2", "t3", "t1", "t4", "t5", "t6"]


def test_priority_order_of_asks_is_not_configurable() -> None:
    """Asks inside one application are in order of priority although the queue's setting is disabled (PR-21)."""
    it = world(tree(queue("a", p={"application.sort.priority": "disabled"})))
    it.given(app("app-1"), ask("low", "app-1", vcore=1), ask("high", "app-1", priority=1, vcore=1))
    it.send(node("n1", vcore=100))
    assert it.placed() == ["high", "low"]


@pytest.mark.parametrize(
    ("tags", "required"),
    [
        ({}, None),
        ({"kubernetes.io/meta/requiredNode": "n1"}, "n1"),
        ({"yunikorn.apache.org/requiredNode": "n2"}, "n2"),
        ({"yunikorn.apache.org/requiredNode": "n2", "kubernetes.io/meta/requiredNode": "n1"}, "n1"),
        ({"kubernetes.io/meta/requiredNode": "", "yunikorn.apache.org/requiredNode": "n2"}, "n2"),
        ({"creationTime": "5"}, None),
    ],
)
def test_required_node(tags: dict[str, str], required: str | None) -> None:
    """Two spellings of the tag; the first of AP-54 wins."""
    assert shape_of(AllocationSpec("t", "app-1", {"vcore": 1}, tags=tags))[1] == required  # type: ignore[arg-type]


def test_shape_does_not_depend_on_the_order_of_types() -> None:
    """Asks that want the same are interchangeable, however their resources were written."""
    one, other = ({"vcore": 1, "memory": 2}, {"memory": 2, "vcore": 1})
    shapes = {shape_of(AllocationSpec("t", "app-1", it, priority)) for priority, it in enumerate((one, other))}  # type: ignore[arg-type]
    assert len(shapes) == 1


def test_ask_queue_against_sorting() -> None:
    """Thousands of random additions, removals and turns agree with a sorted list."""
    chance = random.Random(3)
    first = waiting("t0", 0)
    asks, present = AskQueue((shape_of(first.spec), RESERVES)), [first]
    asks.add(order_of(first), first)
    for arrival in range(1, 5000):
        match chance.randrange(5):
            case 0 | 1 | 2:
                present.append(come := waiting(f"t{arrival}", arrival, chance.randrange(3), chance.randrange(3)))
                asks.add(order_of(come), come)
            case 3 if len(present) > 1:
                present.remove(gone := chance.choice(present))
                assert asks.remove(order_of(gone)) is gone
            case 4 if len(present) > 1:
                assert asks.pop() is min(present, key=order_of)
                present.remove(min(present, key=order_of))
        assert len(asks) == len(present)
        if arrival % 97 == 0:
            assert asks.items() == sorted(present, key=order_of)
    while present:
        assert asks.pop() is min(present, key=order_of)
        present.remove(min(present, key=order_of))
    assert not asks


def test_application_knows_its_highest_priority() -> None:
    """10 and 20: 20; the 20 is placed: 10; the 10 too: n/a; put back: 10 again (PR-3, PR-4)."""
    it = application()
    ten, twenty = waiting("t10", 1, 10), waiting("t20", 2, 20)
    assert it.priorities.highest is None
    it.add(ten)
    it.add(twenty)
    assert it.priorities.highest == 20
    it.discard(twenty)
    it.begin(twenty)
    assert it.priorities.highest == 10
    it.discard(ten)
    it.begin(ten)
    assert it.priorities.highest is None
    assert it.allocated == {"vcore": 2}
    it.put_back(ten)
    assert it.priorities.highest == 10
    assert it.allocated == {"vcore": 1}


def test_application_forgets_what_is_discarded() -> None:
    """A cancelled ask leaves nothing behind; a shape without asks is gone."""
    it = application()
    one, other = waiting("t1", 1), waiting("t2", 2, gpu=1)
    it.add(one)
    it.add(other)
    it.discard(one)
    assert [asks.needs for asks in it.queues.values()] == [(("gpu", 1),)]
    it.discard(other)
    assert not it.asks
    assert not it.queues
    assert it.lineup.first(0) is None


def test_older_asks_make_the_application_older() -> None:
    """The submission time moves back, never forward (PR-40)."""
    it = application(submission_ns=100)
    it.add(waiting("t1", 1, created=150))
    assert it.submission_ns == 100
    it.add(waiting("t2", 2, created=50))
    assert it.submission_ns == 50


def test_required_node_is_the_only_candidate() -> None:
    """T7, T8 of SC: pending while the node is unknown, then placed there, cordoned or not; never elsewhere (SC-70 to SC-72)."""
    it = world(tree(queue("a")), [node("n1", vcore=10)])
    it.given(app("app-1"), ask("pinned", "app-1", requires="n2", vcore=1), ask("free", "app-1", vcore=1))
    assert it.why("pinned") == "required node n2 is not registered"
    it.send(node("n2", "CREATE_DRAIN", vcore=1))
    it.expect("n2 accepted", "app-1 Running", "pinned on n2")


def test_required_node_waits_for_room() -> None:
    """A full required node: the ask waits although others are free, and goes when there is room."""
    it = world(tree(queue("a")), [node("n1", vcore=10), node("n2", vcore=10)])
    it.given(foreign("daemon", "n2", vcore=10), app("app-1"))
    it.send(ask("pinned", "app-1", requires="n2", vcore=1), ask("free", "app-1", vcore=1))
    assert it.placed() == ["free"]
    it.send(foreign("daemon", "n2", vcore=9))
    it.expect("app-1 Running", "pinned on n2", "pinned leaves n2")
