"""The life of an application that is no gang, from its submission until it is forgotten."""

import pytest
from world import RELEASED, World, app, ask, node, queue, release, remove, tree, world

HOUR_S = 3600
STARTED = ("app-1 New", "app-1 Accepted", "app-1 Starting")


def room(**keys: object) -> World:
    return world(tree(queue("a", **keys)), [node("n1", vcore=10)])


@pytest.mark.parametrize("policy", ["fifo", "fair", "stateaware"])
def test_starting_lasts_five_minutes(policy: str) -> None:
    """One ask, one allocation (AP-52): Starting; still after 299 s, Running at 300 s, under every sort policy (AP-32, AP-43)."""
    it = room(p={"application.sort.policy": policy})
    it.send(app("app-1"), ask("t1", "app-1", vcore=1), at=1)
    it.expect(*STARTED, "t1 on n1")
    it.wait(1 + 299)
    it.expect()
    it.wait(1 + 300)
    it.expect("app-1 Running")
    it.wait(100_000)
    it.expect()


def test_second_allocation_runs() -> None:
    """Two asks: Starting with the first allocation, Running with the second, each before its allocation (AP-36, AP-96)."""
    it = room()
    it.send(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    it.expect(*STARTED, "t1 on n1", "app-1 Running", "t2 on n1")


@pytest.mark.parametrize("value", ["true", "TRUE", "1"])
def test_starting_takes_no_time(value: str) -> None:
    """With the tag Starting and Running are entered in one step, in this order (AP-40)."""
    it = room()
    it.send(app("app-1", application__stateaware__disable=value), ask("t1", "app-1", vcore=1))
    it.expect(*STARTED, "app-1 Running", "t1 on n1")


def test_false_is_false() -> None:
    """The tag's value ``false`` is as good as no tag (AP-40)."""
    it = room()
    it.send(app("app-1", application__stateaware__disable="false"), ask("t1", "app-1", vcore=1))
    it.expect(*STARTED, "t1 on n1")
    it.wait(300)
    it.expect("app-1 Running")


def test_released_in_starting() -> None:
    """Completing, no running slot any more, after 30 s Completed (AP-43); the timer of Starting does not ring."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=1))
    it.send(release("t1"), at=10)
    it.expect("app-1 Completing", f"t1 {RELEASED}")
    assert it.queue("root.a")["runningApplications"] == 0
    it.wait(39)
    it.expect()
    it.wait(40)
    it.expect("app-1 Completed")
    it.wait(1000)
    it.expect()


def test_work_comes_back_in_time() -> None:
    """A new ask 29 s into Completing: Running, not Completed at 30 s; a later Completing has full 30 s again (AP-51)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=1), release("t1"), at=0)
    it.given(ask("t0", "app-1", vcore=1), at=0)
    it.given(release("t0"), at=10)
    it.send(ask("t2", "app-1", vcore=1), at=39)
    it.expect("app-1 Running", "t2 on n1")
    it.wait(40)
    it.expect()
    it.given(release("t2"), at=50)
    it.wait(79)
    it.expect()
    it.wait(80)
    it.expect("app-1 Completed")


def test_at_the_very_moment() -> None:
    """A timer rings at its own time, before what is said at the same instant is heard (SC-5: deadlines are inclusive)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=1))
    it.given(release("t1"), at=0)
    it.send(ask("t2", "app-1", vcore=1), at=30)
    it.expect("app-1 Completed", "t2 rejected: failed to find application app-1")


def test_ask_removed_while_accepted() -> None:
    """The only ask is cancelled: Completing, Completed; the cancelled ask gives no decision (AP-39, AP-120)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=11))
    it.send(release("t1"), at=5)
    it.expect("app-1 Completing")
    it.wait(35)
    it.expect("app-1 Completed")


def test_same_id() -> None:
    """Refused while the first is live, taken at once after it completed (AP-13, AP-72)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=11))
    it.send(app("app-1"))
    it.expect("app-1 Rejected: adding application app-1 to partition default, but application already existed")
    it.given(release("t1"), at=0)
    it.send(app("app-1"), at=30)
    it.expect("app-1 Completed", "app-1 New")


def test_new_is_not_completed() -> None:
    """An application without asks stays New whatever is released, for ever (AP-30)."""
    it = room()
    it.given(app("app-1"))
    it.send(release(None), release("t9"))
    it.wait(100_000)
    it.expect()
    assert it.state_of("app-1") == "New"


def test_running_stays_running() -> None:
    """Further allocations of a Running application say nothing about its state (AP-31)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    it.send(ask("t3", "app-1", vcore=1))
    it.expect("t3 on n1")


def test_allocations_without_asks_keep_it_running() -> None:
    """Allocations without pending asks keep it as it is (AP-49); one pending ask keeps it from Completing (AP-41)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("big", "app-1", vcore=11))
    it.send(release("t1"))
    it.expect(f"t1 {RELEASED}")
    it.wait(100_000)
    it.expect("app-1 Running")


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ([], []),
        ([ask("t1", "app-1", vcore=11)], ["app-1 Completing", "app-1 Completed"]),
        (
            [ask("t1", "app-1", vcore=1)],
            ["app-1 Completing", "app-1 Completed", "t1 released STOPPED_BY_RM (Application app-1 Removed)"],
        ),
        ([ask("t1", "app-1", vcore=1), release("t1")], ["app-1 Completed"]),
    ],
    ids=["New", "pending ask only", "with allocation", "Completing"],
)
def test_removal(story: list[object], told: list[str]) -> None:
    """What is told (AP-81), that nothing is left (AP-80), that its id is free and that it is not kept (AP-82)."""
    it = room()
    for submission in [app("app-1"), *story]:
        it.given(submission)  # type: ignore[arg-type]
    it.send(remove("app-1"))
    it.expect(*told)
    root = it.queue("root")
    assert (root["allocated"], root["pending"], root["runningApplications"]) == ({}, {}, 0)
    assert it.node("n1")["available"] == {"vcore": 10}
    assert it.final()["applications"] == {}
    it.wait(100_000)
    it.expect()
    it.send(app("app-1"))
    it.expect("app-1 New")


def test_removal_of_nobody() -> None:
    """An unknown id is ignored; a Completed application is not touched (AP-83)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=11), release("t1"))
    it.wait(30)
    it.heard()
    it.send(remove("app-1"), remove("app-9"))
    it.expect()
    assert it.state_of("app-1") == "Completed"


def test_expiry() -> None:
    """72 h after Completed the application is Expired; then it is forgotten (AP-73, AP-74)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=11))
    it.given(release("t1"), at=0)
    it.wait(30)
    it.expect("app-1 Completed")
    it.wait(30 + 72 * HOUR_S - 1)
    it.expect()
    assert it.state_of("app-1") == "Completed"
    it.wait(30 + 72 * HOUR_S)
    it.expect("app-1 Expired")
    it.wait(30 + 97 * HOUR_S)
    assert it.final()["applications"] == {}


def test_expiry_of_a_namesake() -> None:
    """The expiry of an ended application does not touch a live one of the same id (AP-72)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=11), release("t1"))
    it.wait(30)
    it.given(app("app-1"), ask("t2", "app-1", vcore=11))
    it.wait(30 + 72 * HOUR_S)
    it.expect("app-1 Expired")
    assert it.state_of("app-1") == "Accepted"
    it.send(node("n2", vcore=11))
    it.expect("n2 accepted", "app-1 Starting", "t2 on n2")


def test_rejected_are_forgotten_too() -> None:
    """Rejected applications become Expired after 72 h without a message, and are deleted (AP-73, AP-74)."""
    it = room()
    it.send(app("app-1", "root.nowhere"))
    (line,) = it.heard()
    assert line.startswith("app-1 Rejected: failed to place application app-1: application rejected: no placement rule matched")
    assert it.state_of("app-1") == "Rejected"
    it.wait(97 * HOUR_S)
    it.expect()
    assert it.final()["applications"] == {}


def test_same_key() -> None:
    """The same ask again has no effect; a larger one moves pending by the difference on every level (AP-108, AP-110, AP-114)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=11))
    it.send(ask("t1", "app-1", vcore=11))
    assert it.queue("root")["pending"] == {"vcore": 11}
    it.send(ask("t1", "app-1", vcore=12, memory=3))
    it.expect()
    assert it.queue("root")["pending"] == it.queue("root.a")["pending"] == {"vcore": 12, "memory": 3}


def test_resized_allocation() -> None:
    """A running allocation's new size shows everywhere, without limit checks and without a word (AP-111)."""
    it = room(max={"vcore": 2})
    it.given(app("app-1"), ask("t1", "app-1", vcore=2))
    it.send(ask("t1", "app-1", vcore=12))
    it.expect()
    assert it.queue("root")["allocated"] == it.queue("root.a")["allocated"] == it.node("n1")["allocated"] == {"vcore": 12}
    assert it.node("n1")["available"] == {"vcore": -2}
    it.send(release("t1"))
    assert it.node("n1")["available"] == {"vcore": 10}


def test_recovered_above_max() -> None:
    """Accepted above the queue's max and told in ``new``; no headroom for others until usage is below (QU-41, AP-109)."""
    it = room(max={"vcore": 2})
    it.send(app("app-1"), ask("r1", "app-1", on="n1", vcore=3))
    it.expect(*STARTED, "r1 on n1")
    it.send(ask("r2", "app-1", on="n1", vcore=1), ask("t1", "app-1", vcore=1))
    it.expect("app-1 Running", "r2 on n1")
    it.send(release("r2"))
    it.expect(f"r2 {RELEASED}")
    it.send(release("r1"))
    it.expect(f"r1 {RELEASED}", "t1 on n1")


def test_release_all() -> None:
    """An empty key: everything goes, one echo for each allocation, none for asks (AP-126)."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=5), ask("t2", "app-1", vcore=5), ask("t3", "app-1", vcore=5))
    it.send(release(None))
    it.expect(f"t1 {RELEASED}", f"t2 {RELEASED}", "app-1 Completing")
    assert (it.queue("root")["allocated"], it.queue("root")["pending"]) == ({}, {})


def test_order_of_asks() -> None:
    """Asks (priority 0, t=1), (5, t=2), (0, t=0) go in the order second, third, first (AP-55)."""
    it = world(tree(queue("a")))
    it.given(
        app("app-1"),
        ask("first", "app-1", created=1, vcore=1),
        ask("second", "app-1", priority=5, created=2, vcore=1),
        ask("third", "app-1", created=0, vcore=1),
        at=10,
    )
    it.send(node("n1", vcore=10))
    assert it.placed() == ["second", "third", "first"]


def test_node_lost() -> None:
    """The key of what went with its node is free: sent again it is a new ask (AP-127); late releases are nothing."""
    it = room()
    it.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    it.given(node("n2", vcore=10))
    it.send(node("n1", "DECOMISSION"))
    it.expect(
        "app-1 Completing",
        "t1 released STOPPED_BY_RM (Node n1 Removed)",
        "t2 released STOPPED_BY_RM (Node n1 Removed)",
    )
    it.send(release("t1"), release("t2", termination_type="TIMEOUT"))
    it.expect()
    it.send(ask("t1", "app-1", vcore=1))
    it.expect("app-1 Running", "t1 on n2")


def test_recovery_of_a_whole_application() -> None:
    """One recovered allocation: Starting, two: Running (AP-99); the timer of Starting runs from then on."""
    it = room()
    it.send(app("app-1"), ask("r1", "app-1", on="n1", vcore=1), at=100)
    it.expect(*STARTED, "r1 on n1")
    it.wait(400)
    it.expect("app-1 Running")
    it.send(app("app-2"), ask("r2", "app-2", on="n1", vcore=1), ask("r3", "app-2", on="n1", vcore=1))
    it.expect("app-2 New", "app-2 Accepted", "app-2 Starting", "r2 on n1", "app-2 Running", "r3 on n1")


def test_two_ends_in_one_second() -> None:
    """Both are kept and both expire, although they end in the same second under the same id (AP-71)."""
    it = room()
    for number in (1, 2):
        it.given(app("app-1"), ask("t1", "app-1", vcore=11), at=30 * number - 30 + 0.1 * number)
        it.given(release("t1"))
        it.wait(30 * number + 0.2 * number)
    it.wait(100 * HOUR_S)
    assert it.heard().count("app-1 Expired") == 2


def test_typical_sequence() -> None:
    """What the resource manager hears of a short life, in this order (AP-134)."""
    it = room()
    it.send(app("app-1"), at=0)
    it.send(ask("t1", "app-1", vcore=1), at=1)
    it.wait(301)
    it.send(release("t1"), at=400)
    it.wait(430 + 72 * HOUR_S)
    it.expect(
        *STARTED,
        "t1 on n1",
        "app-1 Running",
        "app-1 Completing",
        f"t1 {RELEASED}",
        "app-1 Completed",
        "app-1 Expired",
    )


def test_execution_timeout_while_completing() -> None:
    """An application that has nothing left to end fails, and leaves its queue once (AP-47, AP-62, AP-70)."""
    it = world(tree(queue("a")), [node("n1", vcore=10)])
    it.given(app("app-1", timeout_ms=10_000), ask("t1", "app-1", vcore=1))
    it.given(release("t1"), at=5)
    it.wait(10)
    it.expect("app-1 Failing", "app-1 Failed")
