"""The waiting asks of one application: their order (PR-50 to PR-52), their shapes, and the answers of the index."""

import random

import pytest
from msgspec import structs
from world import app, ask, foreign, make_world, node, queue, tree

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.asks import Ask, order_of, shape_of
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.core.queueing.equivalence import RESERVES, AskQueue, EquivalenceClass, SchedulingQueue
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.queueing.waits import CodeHistory, Waits
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.sorted_list import SortedList
from ykactor.core.values.times import S_NS

LEAF = QueueUsage(QueueConfig(QueuePath("root.a"), is_parent=False), None)


def waiting(key: str, arrival: int, priority: int = 0, created: int = 0, **resource: int) -> Ask:
    return Ask(key, "app-1", resource or {"vcore": 1}, priority, created_ns=created, arrival=arrival)  # type: ignore[arg-type]


def application(name: str = "app-1", submission_ns: int = 100) -> PendingApplication:
    return PendingApplication(ApplicationAdded(0, name, "root.a", "", submission_ns, 1), LEAF, Waits(Changed()))  # type: ignore[arg-type]


#: The class of asks that want a vcore.
CLASS_KEY = ((shape_of(waiting("t", 0)), RESERVES), 0, (), None)


def keys(asks: list[Ask]) -> str:
    return " ".join(ask.allocation_key for ask in asks)


def test_order_of_asks() -> None:
    """Higher priority, then earlier creation, then arrival (PR-50, PR-51, AP-55), and a tie."""
    asks = [
        waiting("first", 1, created=1),
        waiting("second", 2, priority=5, created=2),
        waiting("third", 3, created=0),
        waiting("fourth", 4, created=1),
    ]
    assert keys(sorted(asks, key=order_of)) == "second third first fourth"


def test_order_holds_in_a_world() -> None:
    """The tag ``creationTime`` orders asks of equal priority, whatever their shapes; the arrival breaks ties (PR-52)."""
    world = make_world(tree(queue("a")))
    world.given(
        app("app-1"),
        ask("t1", "app-1", created=1, vcore=1),
        ask("t2", "app-1", priority=5, created=2, vcore=2),
        ask("t3", "app-1", created=0, vcore=1),
        ask("t4", "app-1", created=1, vcore=3),
        ask("t5", "app-1", created=1, vcore=1),
        ask("t6", "app-1", priority=-1, created=0, vcore=1),
        at=10,
    )
    world.send(node("n1", vcore=100))
    assert world.placed() == ["t2", "t3", "t1", "t4", "t5", "t6"]


def test_priority_order_of_asks_is_not_configurable() -> None:
    """Asks inside one application are in order of priority although the queue's setting is disabled (PR-21)."""
    world = make_world(tree(queue("a", p={"application.sort.priority": "disabled"})))
    world.given(app("app-1"), ask("low", "app-1", vcore=1), ask("high", "app-1", priority=1, vcore=1))
    world.send(node("n1", vcore=100))
    assert world.placed() == ["high", "low"]


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
    assert shape_of(Ask("t", "app-1", {"vcore": 1}, tags=tags))[1] == required  # type: ignore[arg-type]


def test_shape_does_not_depend_on_the_order_of_types() -> None:
    """Asks that want the same are interchangeable, however their resources were written."""
    one, other = ({"vcore": 1, "memory": 2}, {"memory": 2, "vcore": 1})
    shapes = {shape_of(Ask("t", "app-1", entry, priority)) for priority, entry in enumerate((one, other))}  # type: ignore[arg-type]
    assert len(shapes) == 1


def test_ask_queue_against_sorting() -> None:
    """Thousands of random additions, removals and turns agree with a sorted list."""
    chance = random.Random(3)
    first = waiting("t0", 0)
    asks, present = AskQueue((shape_of(first), RESERVES), 1, SchedulingQueue(), first), [first]
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


class Chances:
    """Asks may from some age on; some of them were tried, and may again at a later time. None may before ``from_ns``."""

    delay_ns = 5

    def __init__(self) -> None:
        self.again_ns: dict[str, int] = {}
        self.from_ns = 0
        self.stamp: int | None = 0
        #: How often it was asked about an ask.
        self.count = 0

    def at_ns(self, ask: Ask) -> int:
        self.count += 1
        return max(ask.since_ns + self.delay_ns, self.again_ns.get(ask.allocation_key, 0), self.from_ns)

    def change(self, chance: random.Random, now_ns: int) -> None:
        """Let tried asks try again at once, as when others were placed; or let none for a while."""
        self.from_ns = now_ns + chance.randrange(1, 4) if chance.random() < 0.2 else 0
        self.stamp = chance.choice((*[self.stamp] * 18, now_ns, None))
        if self.stamp in (None, now_ns):
            self.again_ns.clear()


@pytest.mark.parametrize("created", [1, 8], ids=["by age", "in any order"])
@pytest.mark.parametrize("priorities", [1, 3])
def test_the_first_ask_whose_turn_it_is_against_trying_all(created: int, priorities: int) -> None:
    """The time that is said without one is not after that of any ask."""
    chance = random.Random(created * priorities)
    asks, present = AskQueue((shape_of(waiting("t", 0)), RESERVES), 1, SchedulingQueue(), waiting("t", 0)), list[Ask]()
    chances, counts = Chances(), {True: 0, False: 0}
    for now_ns in range(1, 4000):
        chances.change(chance, now_ns)
        if chance.random() < 0.5:
            since_ns = now_ns - chance.randrange(created)
            some = waiting(f"t{now_ns}", now_ns, chance.randrange(priorities), since_ns)
            present.append(structs.replace(some, since_ns=since_ns))
            asks.add(order_of(some), present[-1])
        elif present:
            gone = chance.choice(present)
            present.remove(gone)
            asks.remove(order_of(gone))
        found, at_ns = asks.first_eligible(now_ns, chances)
        expected = [ask for ask in sorted(present, key=order_of) if chances.at_ns(ask) <= now_ns]
        assert found is (expected[0] if expected else None)
        assert at_ns == chances.at_ns(found) if found else now_ns < at_ns <= min(map(chances.at_ns, present), default=at_ns)
        if found:
            chances.again_ns[found.allocation_key] = now_ns + chance.randrange(1, 60)
        if present:
            assert asks.oldest_ns() == min(ask.since_ns for ask in present)
            counts[asks.is_by_age] += 1
    assert bool(counts[False]) is (created > 1 or priorities > 1)
    assert counts[True] > 20


@pytest.mark.parametrize("cancelled", [(), (3,), (3, 8)], ids=["none", "one", "all behind it"])
def test_an_ask_that_comes_among_those_that_have_tried_has_its_turn(cancelled: tuple[int, ...]) -> None:
    """t1, t3 and t8 have tried, and t2 comes between them, whatever is left of them: its turn is now."""
    chances, asks = Chances(), AskQueue((shape_of(waiting("t", 0)), RESERVES), 1, SchedulingQueue(), waiting("t", 0))
    tried = {number: waiting(f"t{number}", number) for number in (1, 3, 8)}
    for each in tried.values():
        asks.add(order_of(each), each)
        chances.again_ns[each.allocation_key] = 100
    assert asks.first_eligible(10, chances) == (None, 100)
    for number in cancelled:
        asks.remove(order_of(tried[number]))
    asks.add(order_of(come := waiting("t2", 2)), come)
    assert asks.first_eligible(10, chances)[0] is come


def test_a_class_has_one_way_in_and_one_way_out() -> None:
    """The applications of a class and their positions are one fact: no method of a list changes the order alone."""
    of_lists = {name for name in vars(SortedList) if not name.startswith("_")}
    assert of_lists & set(dir(EquivalenceClass)) == set()
    assert {"put", "leave"} <= set(dir(EquivalenceClass))


@pytest.mark.parametrize("seed", range(3))
def test_the_first_application_whose_turn_it_is_against_trying_all(seed: int) -> None:
    """Applications of a class come and go, get asks, and try: the class finds the first one that has an ask which may."""
    chance, chances, arrival = random.Random(seed), Chances(), 0
    applications = [application(f"app-{number}") for number in range(6)]
    ask_class: AskClass = EquivalenceClass(CLASS_KEY, 0, CodeHistory())
    members: dict[PendingApplication, AskQueue] = {}
    for now_ns in range(1, 1500):
        chances.change(chance, now_ns)
        some, arrival = chance.choice(applications), arrival + 1
        if chance.random() < 0.6:
            some.sort_key = (chance.randrange(3), some.application_id) if some not in members else some.sort_key
            some.add(structs.replace(waiting(f"t{arrival}", arrival, chance.randrange(2)), since_ns=now_ns - chance.randrange(8)))
            (queue,) = some.queues.values()
            members[some] = queue
            queue.ask_class = ask_class
            ask_class.put(some)
        elif some in members:
            members.pop(some).ask_class = None
            ask_class.leave(some)
            for task, _ in list(some.asks.values()):
                some.discard(task)
        at_ns = ask_class.find_representative(now_ns, chances)
        ordered = [(each, task) for each in sorted(members, key=lambda each: each.sort_key or ()) for task in members[each]]
        expected = [(each, task) for each, task in ordered if chances.at_ns(task) <= now_ns]
        if expected:
            first, task = expected[0]
            assert ask_class.representative is first
            chances.again_ns[task.allocation_key] = now_ns + chance.randrange(1, 30)
        else:
            assert now_ns < at_ns <= min((chances.at_ns(task) for _, task in ordered), default=at_ns)
        ask_class.representative = None


@pytest.mark.parametrize("is_whole", [True, False], ids=["one application", "an application for each ask"])
def test_those_that_have_tried_are_not_looked_at_for_each_that_tries(is_whole: bool) -> None:
    """Each of 2,000 asks that try in turn, ten in each pass, is looked at a few times, not once for each before it."""
    chances, alike = Chances(), [waiting(f"t{arrival}", arrival) for arrival in range(2000)]
    ask_class: AskClass = EquivalenceClass(CLASS_KEY, 0, CodeHistory())
    queues = list[AskQueue]()
    for number, each in enumerate(alike):
        if not number or not is_whole:
            member = application(f"app-{number}")
            member.sort_key = (number,)
        member.add(each)
        (queue,) = member.queues.values()
        queues.append(queue)
        ask_class.put(member)
    for number, each in enumerate(alike, 1):
        chances.from_ns = 0
        assert ask_class.find_representative(S_NS + number, chances) <= S_NS + number
        assert queues[number - 1].first_eligible(S_NS + number, chances)[0] is each
        chances.again_ns[each.allocation_key] = 2 * S_NS
        if number % 10 == 0 and number < len(alike):  # the pass ends
            chances.from_ns = S_NS + number + 1
            assert ask_class.find_representative(S_NS + number, chances) == chances.from_ns
    assert chances.count < 6 * len(alike)


def test_application_knows_its_highest_priority() -> None:
    """10 and 20: 20; the 20 is placed: 10; the 10 too: n/a; handed back: 10 again (PR-3, PR-4)."""
    pending_application = application()
    ten, twenty = waiting("t10", 1, 10), waiting("t20", 2, 20)
    assert pending_application.priorities.highest is None
    pending_application.add(ten)
    pending_application.add(twenty)
    assert pending_application.priorities.highest == 20
    pending_application.discard(twenty)
    pending_application.begin(twenty)
    assert pending_application.priorities.highest == 10
    pending_application.discard(ten)
    pending_application.begin(ten)
    assert pending_application.priorities.highest is None
    assert pending_application.allocated == {"vcore": 2}
    pending_application.end(ten)
    pending_application.add(ten)
    assert pending_application.priorities.highest == 10
    assert pending_application.allocated == {"vcore": 1}


def test_application_forgets_what_is_discarded() -> None:
    """A cancelled ask leaves nothing behind; a shape without asks is gone."""
    pending_application = application()
    one, other = waiting("t1", 1), waiting("t2", 2, gpu=1)
    pending_application.add(one)
    pending_application.add(other)
    pending_application.discard(one)
    assert [asks.needs for asks in pending_application.queues.values()] == [(("gpu", 1),)]
    pending_application.discard(other)
    assert not pending_application.asks
    assert not pending_application.queues
    assert pending_application.ask_queues.first() is None


def test_older_asks_make_the_application_older() -> None:
    """The submission time moves back, never forward (PR-40)."""
    pending_application = application(submission_ns=100)
    pending_application.add(waiting("t1", 1, created=150))
    assert pending_application.submission_ns == 100
    pending_application.add(waiting("t2", 2, created=50))
    assert pending_application.submission_ns == 50


def test_required_node_is_the_only_candidate() -> None:
    """Pending while the node is unknown, then placed there, cordoned or not; never elsewhere (SC-70 to SC-72)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)])
    world.given(app("app-1"), ask("pinned", "app-1", requires="n2", vcore=1), ask("free", "app-1", vcore=1))
    assert world.why("pinned") == "its required node n2 is not registered"
    world.send(node("n2", "CREATE_DRAIN", vcore=1))
    world.expect("n2 accepted", "app-1 Running", "pinned on n2")


def test_required_node_waits_for_room() -> None:
    """A full required node: the ask waits although others are free, and goes when there is room."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10), node("n2", vcore=10)])
    world.given(foreign("daemon", "n2", vcore=10), app("app-1"))
    world.send(ask("pinned", "app-1", requires="n2", vcore=1), ask("free", "app-1", vcore=1))
    assert world.placed() == ["free"]
    world.send(foreign("daemon", "n2", vcore=9))
    world.expect("app-1 Running", "pinned on n2", "pinned leaves n2")
