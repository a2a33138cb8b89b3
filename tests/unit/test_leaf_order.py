"""The order of applications in a leaf (PR-73)."""

from typing import Any

import pytest
from world import World, app, ask, configure, make_world, node, queue, release, tree

from ykactor.core.config.model import QueueConfig
from ykactor.core.config.properties import SORT_POLICIES, QueueProperties
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import Allocated, ApplicationAdded
from ykactor.core.messages.states import ApplicationState
from ykactor.core.queueing.equivalence import EquivalenceClass
from ykactor.core.queueing.leaf_order import KEYS, LeafOrder, usage_key
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.waiting_classes import OpenedNodes
from ykactor.core.queueing.waits import Waits
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource

BIG = node("n1", vcore=10**6, memory=10**6)

LEAF = QueueUsage(QueueConfig(QueuePath("root.a"), is_parent=False), None)


def properties(policy: str, enabled: bool) -> dict[str, str]:
    return {"application.sort.policy": policy, "application.sort.priority": "enabled" if enabled else "disabled"}


def order_of(text: str, *submissions: object) -> list[str]:
    """The order in which the asks are placed when room appears; one ask an application keeps the others where they are."""
    world = make_world(text, [BIG])
    world.given(node("n1", "DRAIN_NODE"), *submissions)  # type: ignore[arg-type]
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    return world.placed()


# ---- fifo


@pytest.mark.parametrize("policy", ["fifo", "fair"])
@pytest.mark.parametrize(("enabled", "order"), [(True, "b c a"), (False, "a b c")])
def test_priority_then_age(policy: str, enabled: bool, order: str) -> None:
    """fifo: (priority, age) or (age, priority); fair with equal usage: priority, then age; all run (PR-41, PR-73)."""
    if policy == "fair" and not enabled:
        order = "b c a"
    text = tree(queue("a", p=properties(policy, enabled)))
    asks = [ask(name, name, priority=number, vcore=1) for name, number in [("a", 1), ("b", 2), ("c", 2)]]
    assert order_of(text, *(app(name) for name in "abc"), *asks) == order.split()


def test_age_is_moved_back_by_older_asks() -> None:
    """Submission time = time of arrival, moved back to the creation time of any older ask (PR-40); ties: registration."""
    text = tree(queue("a"))
    world = make_world(text, [BIG])
    world.given(node("n1", "DRAIN_NODE"))
    world.given(*(app(name) for name in "abcd"), at=100)
    asks = [ask("c", "c", created=50, vcore=1), ask("b", "b", created=60, vcore=1), ask("d", "d", created=50, vcore=1)]
    world.given(ask("a", "a", vcore=1), *asks)
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    assert world.placed() == ["c", "d", "b", "a"]


def test_age_is_moved_back_by_recovered_allocations() -> None:
    """An older allocation moves the submission time back too (PR-40)."""
    world = make_world(tree(queue("a")), [BIG])
    world.given(app("a"), app("b"), ask("old", "b", on="n1", created=50, vcore=1), at=100)
    world.given(node("n1", "DRAIN_NODE"), ask("a1", "a", vcore=1), ask("b1", "b", vcore=1))
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    assert world.placed() == ["b1", "a1"]


def test_every_policy_has_a_key() -> None:
    """PR-73: what a queue file may name is in both tables."""
    assert KEYS.keys() == SORT_POLICIES.keys()


# ---- fair

#: total (the leaf's guarantee), allocated of a0..a3, priorities (enabled or not), order.
FAIR = [
    (None, "100 200 300 400", "", True, "a0 a1 a2 a3"),
    (500, "100 200 300 400", "", True, "a0 a1 a2 a3"),
    (500, "100 1000 300 400", "", True, "a0 a2 a3 a1"),
    (500, "100 1000 300 1000", "0 2 0 3", False, "a0 a2 a3 a1"),
    (500, "100 200 300 400", "0 5 0 0", True, "a1 a0 a2 a3"),
    (500, "100 200 300 400", "0 5 0 0", False, "a0 a1 a2 a3"),
]


@pytest.mark.parametrize(("total", "allocated", "priorities", "enabled", "order"), FAIR)
def test_fair(total: int | None, allocated: str, priorities: str, enabled: bool, order: str) -> None:
    """PR-73, PR-74, with what the applications run as recovered allocations."""
    keys = {} if total is None else {"guaranteed": {"vcore": total}}
    text = tree(queue("a", p=properties("fair", enabled), **keys))
    numbers = [int(word) for word in priorities.split()] or [0] * 4
    used = [ask(f"used{n}", f"a{n}", on="n1", vcore=int(entry)) for n, entry in enumerate(allocated.split())]
    asks = [ask(f"a{n}", f"a{n}", priority=entry, vcore=1) for n, entry in enumerate(numbers)]
    assert order_of(text, *(app(f"a{n}") for n in range(4)), *used, *asks) == order.split()


@pytest.mark.parametrize(
    ("total", "allocated", "order"),
    [
        ({"vcore": 0}, {"a0": {"vcore": 100}, "a1": {"vcore": 200}}, "a0 a1"),
        ({"vcore": 500},
         {"a0": {"vcore": 100}, "a1": {"vcore": 1000}, "a2": {"vcore": 300}, "a3": {"vcore": -1000}}, "a3 a0 a2 a1"),
        ({"vcore": 10, "memory": 100},
         {"x": {"vcore": 5, "memory": 10}, "y": {"vcore": 5, "memory": 20}, "z": {"vcore": 5}}, "z x y"),
        ({"vcore": 10}, {"x": {"vcore": 5, "gpu": 0}, "y": {"vcore": 5}}, "x y"),
        (None, {"x": {"memory": 2}, "y": {"vcore": 1}}, "y x"),
    ],
)  # fmt: skip
def test_usage_compares(total: Resource | None, allocated: dict[str, Resource], order: str) -> None:
    """Shares or plain amounts, largest first; a list that runs out compares with zeros (PR-42, PR-74)."""
    assert sorted(allocated, key=lambda name: usage_key(allocated[name], total)) == order.split()


def test_fair_takes_turns() -> None:
    """Usage grows with each placement: equal applications of a fair leaf alternate."""
    world = make_world(tree(queue("a", p={"application.sort.policy": "fair"})))
    world.given(app("x"), app("y"), *(ask(f"{name}{n}", name, vcore=1) for name in "xy" for n in range(3)))
    world.send(BIG)
    assert world.placed() == ["x0", "y0", "x1", "y1", "x2", "y2"]


# ---- stateaware


def chosen(states: str, *, enabled: bool = False, priorities: str = "") -> str:
    """The applications offered, in order: ``states`` names one application each, a trailing ``-`` has nothing pending.

    Each asks for something else, so that parking what was offered leaves the others.
    """
    order = LeafOrder(QueueConfig("root.a", False, QueueProperties("stateaware", enabled)), Waits(Changed()))  # type: ignore[arg-type]
    numbers = [int(word) for word in priorities.split()] or [0] * 9
    for number, (state, priority) in enumerate(zip(states.split(), numbers, strict=False)):
        name = f"a{number}"
        pending_application = PendingApplication(ApplicationAdded(0, name, "root.a", "", number, number), LEAF, Waits(Changed()))  # type: ignore[arg-type]
        pending_application.state = ApplicationState(state.rstrip("-"))
        if not state.endswith("-"):
            pending_application.add(Ask("t", name, {"vcore": 1 + number}, priority, created_ns=10**9, arrival=number))  # type: ignore[arg-type]
        order.update(pending_application)
    offered = []
    while (first := order.first(0, OpenedNodes(reserves=True))) is not None:
        offered.append(first.application_id)
        (line,) = {asks.ask_class for asks in first.queues.values()}
        order.park(line)
    return " ".join(offered)


@pytest.mark.parametrize(
    ("states", "result"),
    [
        ("Accepted Accepted Accepted Accepted", "a0"),
        ("Accepted- Accepted Accepted Accepted", "a1"),
        ("Starting- Accepted Accepted Accepted", ""),
        ("Running- Accepted Accepted Starting", "a3"),
        ("Running Accepted Accepted Starting", "a0 a3"),
        ("Running Accepted Accepted Running", "a0 a1 a3"),
        ("Completing Accepted", "a0 a1"),
        ("Accepted Running", "a0 a1"),  # by age alone, though Accepted (PR-48)
        ("Starting- Starting Accepted", "a1"),  # several Starting: one, rather with pending asks (PR-47)
        ("Starting Starting", "a0"),
    ],
)
def test_stateaware_filter(states: str, result: str) -> None:
    """PR-75, with priorities disabled, and the rules related to it (PR-45, PR-47, PR-48)."""
    assert chosen(states) == result


def test_stateaware_choice_with_priorities() -> None:
    """Enabled: the most important Accepted application, then the oldest (PR-46); disabled: the oldest (PR-45)."""
    assert chosen("Accepted Accepted Accepted", enabled=True, priorities="1 5 5") == "a1"
    assert chosen("Accepted Accepted Accepted", enabled=False, priorities="1 5 5") == "a0"


def drivers() -> World:
    """Two applications that each ask for a driver, in a stateaware leaf."""
    world = make_world(tree(queue("a", p={"application.sort.policy": "stateaware"})), [BIG])
    world.given(app("app-1"), app("app-2"))
    return world


def test_stateaware_example_run() -> None:
    """PR-75: D2 waits until App1 runs."""
    world = drivers()
    world.send(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1))
    assert world.placed() == ["D1"]
    world.send(ask("E11", "app-1", vcore=1), ask("E12", "app-1", vcore=1))
    assert world.placed() == ["E11", "E12", "D2"]
    assert (world.state_of("app-1"), world.state_of("app-2")) == ("Running", "Starting")
    world.send(ask("E21", "app-2", vcore=1))
    assert world.placed() == ["E21"]
    assert world.state_of("app-2") == "Running"


def test_stateaware_next_starts_when_the_timer_fires() -> None:
    """Five minutes after Starting the application runs, and the next one may start (PR-75)."""
    world = drivers()
    world.given(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1), at=10)
    world.wait(309)
    world.expect()
    world.wait(310)
    world.expect("app-1 Running", "app-2 Starting", "D2 on n1")


def test_stateaware_next_starts_when_the_first_ends() -> None:
    """An application that leaves Starting for Completing makes way."""
    world = drivers()
    world.given(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1))
    world.send(release("D1"))
    assert world.placed() == ["D2"]


def test_policy_changes_on_reload() -> None:
    """The applications of a leaf are in the new policy's order at once (CF-38, CF-75)."""
    world = drivers()
    world.given(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1))
    world.send(configure(tree(queue("a"))))
    assert world.placed() == ["D2"]


def test_a_failed_shape_is_tried_once_for_all_applications() -> None:
    """An equivalence class is parked as one: a full queue costs one try for each shape, however many applications wait."""
    world = make_world(tree(queue("a", resources={"max": {"vcore": "1"}})), [BIG])
    world.given(*[app(f"app-{number}") for number in range(50)])
    world.given(*[ask(f"t{number}", f"app-{number}", vcore=1000) for number in range(50)])
    world.send(release("t0", "app-0"))
    assert world.placed() == ["t1"]
    lines = world.direct.scheduler.state.tree.nodes[QueuePath("root.a")].applications.classes
    assert [len(line) for line in lines.values()] == [48]
    assert all(line.parked for line in lines.values())


# ---- the first placement of an application, after which its asks belong to other classes


def first_placement(
    *applications: str, sizes: tuple[int, ...], **limits: int
) -> tuple[list[EquivalenceClass[Any]], list[EquivalenceClass[Any]]]:
    """The classes of a leaf with these limits before and after the first placement; each application has an ask of each size."""
    world = make_world(tree(queue("a", **limits)), [node("n1", vcore=10)], placements_max=1)
    asks = [ask(f"{name}{size}", name, vcore=size) for name in applications for size in sizes]
    world.direct.ingest(world.now_ns, [*(app(name, "root.a") for name in applications), *asks])
    leaf = world.direct.scheduler.state.tree.nodes[QueuePath("root.a")].applications
    before = list(leaf.classes.values())
    cycle, _ = world.direct.cycle(world.now_ns)
    assert any(isinstance(fact, Allocated) for fact in cycle.facts)
    assert all(ask_class.key == key for key, ask_class in leaf.classes.items())
    assert violations(world.direct.core, world.direct.scheduler) == []
    return before, list(leaf.classes.values())


def test_a_class_without_other_members_is_kept() -> None:
    """An application with asks of hundreds of shapes would otherwise leave and make as many classes in one step."""
    before, after = first_placement("x", sizes=(1, 2, 3), maxapplications=9)
    assert after == before[1:]


def test_a_class_with_other_members_is_left() -> None:
    before, after = first_placement("x", "y", sizes=(1, 2), maxapplications=9)
    assert after[:2] == before
    assert len(after) == 3


def test_a_class_is_kept_where_nothing_limits_running_applications() -> None:
    """An application that has started is no different from one that has not."""
    before, after = first_placement("x", "y", sizes=(1, 2))
    assert after == before


def test_a_class_that_was_found_short_is_left() -> None:
    """The result of a class does not hold for the new key."""
    before, after = first_placement("x", sizes=(20, 1, 2), maxapplications=9)
    assert before[0] not in after
    assert before[2] in after
    assert len(after) == 2
