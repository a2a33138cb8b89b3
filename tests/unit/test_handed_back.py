"""AP-144: what the resource manager could not start is handed back, and waits again without that node."""

from collections.abc import ItemsView, ValuesView
from functools import partial

import pytest
import world as told
from world import S_NS, World, ask, hand_back, hold, make_world, node, queue, release, tree

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import AskRemoved, Preempted, Released
from ykactor.core.values.ids import AllocationKey

#: Its state does not depend on how often something was placed.
app = partial(told.app, application__stateaware__disable="true")

QUEUES = tree(queue("a"), queue("b"))
TWO = [node("n1", vcore=4), node("n2", vcore=2)]


def ask_of(world: World, key: str = "t1") -> Ask:
    """A pending ask of app-1."""
    return world.direct.core.registry.leaf("root.a").applications["app-1"].tasks.asks[key]  # type: ignore[index, arg-type]


def made(*nodes: object) -> World:
    """t1 has waited for 5 seconds and runs on n1."""
    world = make_world(QUEUES, [app("app-1"), ask("t1", "app-1", vcore=1)])
    world.given(*(nodes or TWO), at=5)  # type: ignore[arg-type]
    return world


def test_it_runs_elsewhere() -> None:
    """Nothing is removed, and nothing is said but the next placement."""
    world = made()
    world.send(hand_back("t1", "n1"), at=6)
    world.expect("t1 on n2")
    assert not any(isinstance(fact, AskRemoved) for fact in world.facts)
    assert [fact.message for fact in world.facts if isinstance(fact, Released)] == [""]


def test_it_waits_with_its_age() -> None:
    """Created and arrived as before, so it comes before what was submitted meanwhile."""
    world = made(node("n1", vcore=1))
    before = next(iter(world.direct.core.registry.leaf("root.a").applications.values())).tasks.allocations["t1"][0]  # type: ignore[arg-type, index]
    world.given(ask("t2", "app-1", vcore=1), at=7)
    world.given(hand_back("t1"), at=8)
    after = ask_of(world)
    assert (after.created_ns, after.arrival, after.since_ns) == (before.created_ns, before.arrival, before.since_ns)
    assert world.waiting() == ["t1"], "t2 has the node, which is left out for t1"
    world.given(release("t2"), at=9)
    world.given(ask("t3", "app-1", vcore=2), at=10)
    world.wait(38)
    world.expect("t1 on n1")


@pytest.mark.parametrize(("times", "seconds"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 600), (7, 600)])
def test_how_long_the_node_is_left_out(times: int, seconds: int) -> None:
    """30 s, doubled with each further failure there, at most 10 minutes."""
    world = made(node("n1", vcore=1))
    at = 10
    for number in range(times):
        world.given(hand_back("t1"), at=at)
        at += 1000 * (number + 1 < times)
        world.wait(at)
    world.heard()
    world.wait(at + seconds - 1)
    world.expect()
    world.wait(at + seconds)
    world.expect("t1 on n1")


def test_a_node_whose_time_is_over_meanwhile() -> None:
    """While the task ran elsewhere: it is not left out when the task is handed back again, and no timer is in the past."""
    world = made()
    world.given(hand_back("t1", "n1"), at=10)
    world.given(node("n1", "DRAIN_NODE"), at=11)
    world.given(hand_back("t1", "n2"), at=50)
    assert [(failure.node_id, failure.until_ns) for failure in ask_of(world).failures] == [("n1", 0), ("n2", 80 * S_NS)]
    assert world.direct.core.timers.next_ns() == 80 * S_NS
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"), at=51)
    world.expect("t1 on n1")


def test_why_it_waits() -> None:
    """The node and the end of its back-off are told."""
    world = made(node("n1", vcore=1))
    world.given(hand_back("t1"), at=10)
    until = "n1 until 1970-01-01T00:00:40Z"
    assert world.why("t1") == f"there is no other node that it may use; back-off: it could not start on {until}"
    assert world.remarks() == ["Request 't1' could not start on node n1, which is left out for it until 1970-01-01T00:00:40Z"]


def test_a_node_that_is_left_out_is_told_beside_what_else_keeps_the_ask_back() -> None:
    """AP-150: also of a held application, and of an ask that has another node reserved; programs get node and time."""
    world = made(node("n1", vcore=1))
    world.given(hand_back("t1"), at=10)
    world.administer(hold("app-1"))
    left_out = "back-off: it could not start on n1 until 1970-01-01T00:00:40Z"
    assert world.why("t1").startswith("held by ops since ")
    assert world.why("t1").endswith(f"; {left_out}")
    world.administer(hold("app-1", ends=True))
    world.given(node("n2", vcore=1), told.app("app-2"), ask("u1", "app-2", vcore=1, on="n2"), at=11)
    world.wait(14)
    assert world.why("t1").startswith("node n2 is reserved for it; ")
    assert left_out in world.why("t1")
    (group,) = world.state()["applications"]["app-1"]["pending"]
    assert group["leftOut"] == {"n1": 40 * S_NS}


def test_only_its_own_ask_is_held_back() -> None:
    """Other asks run on the node at once."""
    world = made(node("n1", vcore=1))
    world.given(hand_back("t1"), at=10)
    world.send(ask("t2", "app-1", vcore=1))
    world.expect("t2 on n1")


@pytest.mark.parametrize("again", [hand_back("t1", "n2"), hand_back("t9"), hand_back("t1", "n1", "app-9")])
def test_what_does_not_run_there_is_ignored(again: object) -> None:
    """A late or repeated message changes nothing (AP-122, AP-132)."""
    world = made()
    world.send(again)  # type: ignore[arg-type]
    world.expect()
    assert world.waiting() == []


def test_a_second_time_is_ignored() -> None:
    """The ask is pending already."""
    world = made(node("n1", vcore=1))
    world.given(hand_back("t1", "n1"), at=10)
    world.send(hand_back("t1", "n1"), hand_back("t1"))
    world.expect()
    assert [failure.count for failure in ask_of(world).failures] == [1]


def test_what_is_to_end_has_ended() -> None:
    """AP-121: of a task that is being released it is the confirmation."""
    world = make_world(
        tree(queue("a", guaranteed={"vcore": 1}), queue("b"), preemption={"enabled": True}),
        [node("n1", vcore=1), app("app-1", "root.b"), app("app-2", "root.a"), ask("t1", "app-1", vcore=1)],
        confirms=False,
    )
    world.given(ask("p1", "app-2", preempt_other=True, vcore=1), at=1)
    world.run(40)
    assert [line for line in world.heard() if "releasing" in line]
    world.send(hand_back("t1", "n1"))
    assert "p1 on n1" in world.heard()
    assert world.waiting() == []


def test_it_preempts_again_15_seconds_later() -> None:
    """PE-15: a task that can start nowhere does not preempt on one node after the other."""
    world = make_world(
        tree(queue("a", guaranteed={"vcore": 4}), queue("b"), preemption={"enabled": True}),
        [*(node(f"n{number}", vcore=1) for number in range(4)), app("app-1", "root.b"), app("app-2", "root.a")],
    )
    world.given(*(ask(f"t{number}", "app-1", vcore=1) for number in range(4)))
    world.given(ask("p1", "app-2", preempt_other=True, vcore=1), at=1)
    world.run(40)
    for second in (40, 60):
        world.given(hand_back("p1", application_id="app-2"), ask(f"x{second}", "app-1", vcore=1), at=second)
        world.run(second + 18)
    found = [fact.at_ns / S_NS for fact in world.facts if isinstance(fact, Preempted)]
    assert found == [31, 55, 75]


def test_an_ask_that_requires_its_node() -> None:
    """The ask waits until its node is no longer left out, and reserves nothing meanwhile."""
    world = make_world(QUEUES, [*TWO, app("app-1"), ask("t1", "app-1", requires="n2", vcore=1)])
    world.given(hand_back("t1"), at=1)
    world.wait(30)
    world.expect()
    world.wait(31)
    world.expect("t1 on n2")


def test_a_placeholder() -> None:
    """The gang is complete when it has run again, elsewhere."""
    world = make_world(QUEUES, [node("n1", vcore=1), node("n2", vcore=1), app("app-1", placeholders={"vcore": 2})])
    world.given(ask("p1", "app-1", group="g", placeholder=True, vcore=1), at=1)
    world.given(hand_back("p1"))
    assert world.heard() == []
    assert world.state_of("app-1") == "Accepted"
    world.given(ask("p2", "app-1", group="g", placeholder=True, vcore=1), at=2)
    assert world.state_of("app-1") in ("Starting", "Running")


def gang() -> World:
    """A complete gang of p1 and p2, on two nodes, that times out at second 6."""
    world = make_world(
        QUEUES, [node("n1", vcore=1), node("n2", vcore=1), app("app-1", placeholders={"vcore": 2}, timeout_ms=5000)]
    )
    world.given(*(ask(f"p{n}", "app-1", group="g", placeholder=True, vcore=1) for n in (1, 2)), at=1)
    return world


def test_a_placeholder_that_waits_at_the_timeout_is_given_up() -> None:
    """GA-42: nothing else would end it, nor the application."""
    world = gang()
    world.given(hand_back("p1"), at=2)
    world.run(100)
    heard = [line.split(" (")[0] for line in world.heard()]
    assert [line for line in heard if "p1 releasing" in line or "app-1" in line] == [
        "p1 releasing TIMEOUT",
        "app-1 Completing",
        "app-1 Completed",
    ]


def test_an_application_of_which_nothing_is_left_completes() -> None:
    """AP-39: the placeholder that waits at the timeout was its only task."""
    world = gang()
    world.given(release("p2"), node("n2", "DECOMISSION"), hand_back("p1"), at=2)
    assert (world.state_of("app-1"), world.waiting()) == ("Running", ["p1"])
    world.run(7)
    assert (world.state_of("app-1"), world.waiting()) == ("Completing", [])


def test_a_placeholder_that_runs_again_after_the_others_have_ended() -> None:
    """GA-41: the timer has stopped with the last placeholder, and runs again for this one."""
    world = gang()
    world.given(hand_back("p1"), node("n1", "DECOMISSION"), at=2)
    world.given(ask("t1", "app-1", group="g", vcore=1), at=3)
    world.send(node("n3", vcore=1), at=4)
    assert "p1 on n3" in world.heard()
    world.run(8)
    assert world.heard() == []
    world.run(9)
    assert [line for line in world.heard() if "p1 releasing TIMEOUT" in line]


def test_a_real_task_takes_no_place_where_it_could_not_start() -> None:
    """A placeholder on a node that is left out is passed over; another one of the group is replaced."""
    world = make_world(QUEUES, [node("n1", vcore=1), node("n2", vcore=1), app("app-1", placeholders={"vcore": 2})])
    world.given(*(ask(f"p{n}", "app-1", group="g", placeholder=True, vcore=1) for n in (1, 2)), at=1)
    world.given(ask("t1", "app-1", group="g", vcore=1), at=2)
    world.heard()
    world.send(hand_back("t1"), at=3)
    (placed,) = [line for line in world.heard() if line.startswith("t1 on")]
    assert placed == "t1 on n2"


def test_only_the_last_nodes_are_remembered() -> None:
    """An ask that fails everywhere does not grow without end."""
    world = make_world(QUEUES, [node(f"n{number:02}", vcore=1) for number in range(20)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    for _ in range(20):
        world.given(hand_back("t1"))
    assert len(world.direct.core.registry.leaf("root.a").applications["app-1"].tasks.allocations) == 1  # type: ignore[index, arg-type]
    ((task, _),) = world.direct.core.registry.leaf("root.a").applications["app-1"].tasks.allocations.values()  # type: ignore[index, arg-type]
    assert len(task.failures) == 16


def test_asks_are_looked_at_when_their_time_is_over() -> None:
    """Each is looked at once, however many others were handed back or wait: a large job on a broken cluster is not slow."""
    count = 300
    world = make_world(QUEUES, [node("n1", vcore=count), app("app-1")], checked=False)
    world.given(*(ask(f"t{number}", "app-1", vcore=1) for number in range(count)))
    world.given(node("n1", "DRAIN_NODE"))
    for number in range(count):
        world.given(hand_back(f"t{number}"), at=10 + number / 1000)
    application = world.direct.core.registry.leaf("root.a").applications["app-1"]  # type: ignore[index, arg-type]
    application.tasks.asks = CountingAsks(application.tasks.asks)
    world.run(50)
    assert application.backoffs.due_ns(application.tasks.asks) is None
    assert application.tasks.asks.looks <= 4 * count


class CountingAsks(dict[AllocationKey, Ask]):
    """Counts how many asks are looked at."""

    looks = 0

    def get(self, key: AllocationKey, default: Ask | None = None) -> Ask | None:  # type: ignore[override]
        """One ask."""
        self.looks += 1
        return super().get(key, default)

    def items(self) -> ItemsView[AllocationKey, Ask]:  # type: ignore[override]
        """All of them."""
        self.looks += len(self)
        return super().items()

    def values(self) -> ValuesView[Ask]:  # type: ignore[override]
        """All of them."""
        self.looks += len(self)
        return super().values()
