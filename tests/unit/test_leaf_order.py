"""Which application first in a leaf (section 6 of PR)."""

import pytest
from world import World, app, ask, configure, node, queue, release, tree, world

from ykactor.core.config.model import QueueConfig, QueueProperties
from ykactor.core.messages.asks import AllocationSpec, Ask
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.core.messages.states import ApplicationState
from ykactor.core.queueing.leaf_order import LeafOrder, usage_key
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource

BIG = node("n1", vcore=10**6, memory=10**6)


def properties(policy: str, enabled: bool) -> dict[str, str]:
    return {"application.sort.policy": policy, "application.sort.priority": "enabled" if enabled else "disabled"}


def order_of(text: str, *submissions: object) -> list[str]:
    """The order in which the asks are placed when room appears; one ask an application keeps the others where they are."""
    it = world(text, [BIG])
    it.given(node("n1", "DRAIN_NODE"), *submissions)  # type: ignore[arg-type]
    it.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    return it.placed()


# ---- fifo


@pytest.mark.parametrize("policy", ["fifo", "fair"])
@pytest.mark.parametrize(("enabled", "order"), [(True, "b c a"), (False, "a b c")])
def test_priority_then_age(policy: str, enabled: bool, order: str) -> None:
    """fifo: (priority, age) or (age, priority); fair with equal usage: priority, then age, either way (section 6.1)."""
    if policy == "fair" and not enabled:
        order = "b c a"
    text = tree(queue("a", p=properties(policy, enabled)))
    asks = [ask(name, name, priority=number, vcore=1) for name, number in [("a", 1), ("b", 2), ("c", 2)]]
    assert order_of(text, *(app(name) for name in "abc"), *asks) == order.split()


def test_age_is_moved_back_by_older_asks() -> None:
    """Submission time = time of arrival, moved back to the creation time of any older ask (PR-40); ties: registration."""
    text = tree(queue("a"))
    it = world(text, [BIG])
    it.given(node("n1", "DRAIN_NODE"))
    it.given(*(app(name) for name in "abcd"), at=100)
    asks = [ask("c", "c", created=50, vcore=1), ask("b", "b", created=60, vcore=1), ask("d", "d", created=50, vcore=1)]
    it.given(ask("a", "a", vcore=1), *asks)
    it.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    assert it.placed() == ["c", "d", "b", "a"]


def test_age_is_moved_back_by_recovered_allocations() -> None:
    """An older allocation moves the submission time back too (PR-40)."""
    it = world(tree(queue("a")), [BIG])
    it.given(app("a"), app("b"), ask("old", "b", on="n1", created=50, vcore=1), at=100)
    it.given(node("n1", "DRAIN_NODE"), ask("a1", "a", vcore=1), ask("b1", "b", vcore=1))
    it.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    assert it.placed() == ["b1", "a1"]


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
    """The table of section 6.2, with what the applications run as recovered allocations."""
    keys = {} if total is None else {"guaranteed": {"vcore": total}}
    text = tree(queue("a", p=properties("fair", enabled), **keys))
    numbers = [int(it) for it in priorities.split()] or [0] * 4
    used = [ask(f"used{n}", f"a{n}", on="n1", vcore=int(it)) for n, it in enumerate(allocated.split())]
    asks = [ask(f"a{n}", f"a{n}", priority=it, vcore=1) for n, it in enumerate(numbers)]
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
    """Shares or plain amounts, largest first; a list that runs out compares with zeros (section 6.2, PR-42)."""
    assert sorted(allocated, key=lambda name: usage_key(allocated[name], total)) == order.split()


def test_fair_takes_turns() -> None:
    """Usage grows with each placement: equal applications of a fair leaf alternate."""
    it = world(tree(queue("a", p={"application.sort.policy": "fair"})))
    it.given(app("x"), app("y"), *(ask(f"{name}{n}", name, vcore=1) for name in "xy" for n in range(3)))
    it.send(BIG)
    assert it.placed() == ["x0", "y0", "x1", "y1", "x2", "y2"]


# ---- stateaware


def chosen(states: str, *, enabled: bool = False, priorities: str = "") -> str:
    """Who is offered, in order: ``states`` names one application each, a trailing ``-`` has nothing pending.

    Each asks for something else, so that parking what was offered leaves the others.
    """
    order = LeafOrder(QueueConfig("root.a", False, QueueProperties("stateaware", enabled)))  # type: ignore[arg-type]
    numbers = [int(it) for it in priorities.split()] or [0] * 9
    for number, (state, priority) in enumerate(zip(states.split(), numbers, strict=False)):
        name = f"a{number}"
        it = WaitingApplication(ApplicationAdded(0, name, "root.a", "", number, number))  # type: ignore[arg-type]
        it.state = ApplicationState(state.rstrip("-"))
        if not state.endswith("-"):
            it.add(Ask(AllocationSpec("t", name, {"vcore": 1 + number}, priority), 10**9, number))  # type: ignore[arg-type]
        order.update(it)
    offered = []
    while (first := order.first(0)) is not None:
        offered.append(first.application_id)
        (line,) = {asks.line for asks in first.queues.values()}
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
    """The test sequence of section 6.3 (priorities disabled), and the rules beside it."""
    assert chosen(states) == result


def test_stateaware_choice_with_priorities() -> None:
    """Enabled: the most important Accepted application, then the oldest (PR-46); disabled: the oldest (PR-45)."""
    assert chosen("Accepted Accepted Accepted", enabled=True, priorities="1 5 5") == "a1"
    assert chosen("Accepted Accepted Accepted", enabled=False, priorities="1 5 5") == "a0"


def drivers() -> World:
    """Two applications that each ask for a driver, in a stateaware leaf."""
    it = world(tree(queue("a", p={"application.sort.policy": "stateaware"})), [BIG])
    it.given(app("app-1"), app("app-2"))
    return it


def test_stateaware_example_run() -> None:
    """The example run of section 6.3: D2 waits until App1 runs."""
    it = drivers()
    it.send(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1))
    assert it.placed() == ["D1"]
    it.send(ask("E11", "app-1", vcore=1), ask("E12", "app-1", vcore=1))
    assert it.placed() == ["E11", "E12", "D2"]
    assert (it.state_of("app-1"), it.state_of("app-2")) == ("Running", "Starting")
    it.send(ask("E21", "app-2", vcore=1))
    assert it.placed() == ["E21"]
    assert it.state_of("app-2") == "Running"


def test_stateaware_next_starts_when_the_timer_fires() -> None:
    """Five minutes after Starting the application runs, and the next one may start (section 6.3, state background)."""
    it = drivers()
    it.given(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1), at=10)
    it.wait(309)
    it.expect()
    it.wait(310)
    it.expect("app-1 Running", "app-2 Starting", "D2 on n1")


def test_stateaware_next_starts_when_the_first_ends() -> None:
    """An application that leaves Starting for Completing makes way."""
    it = drivers()
    it.given(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1))
    it.send(release("D1"))
    assert it.placed() == ["D2"]


def test_policy_changes_on_reload() -> None:
    """The applications of a leaf are in the new policy's order at once (CF section 9.2)."""
    it = drivers()
    it.given(ask("D1", "app-1", vcore=1), ask("D2", "app-2", vcore=1))
    it.send(configure(tree(queue("a"))))
    assert it.placed() == ["D2"]


def test_a_failed_shape_is_tried_once_for_all_applications() -> None:
    """What fares alike is parked as one: a full queue costs one try for each shape, however many applications wait."""
    it = world(tree(queue("a", resources={"max": {"vcore": "1"}})), [BIG])
    it.given(*[app(f"app-{number}") for number in range(50)])
    it.given(*[ask(f"t{number}", f"app-{number}", vcore=1000) for number in range(50)])
    it.send(release("t0", "app-0"))
    assert it.placed() == ["t1"]
    lines = it.direct.scheduler.indexes.ledger.accounts[QueuePath("root.a")].applications.lines
    assert [len(line) for line in lines.values()] == [48]
    assert all(line.parked for line in lines.values())
