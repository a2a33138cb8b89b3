"""The life of an application that is no gang, from its submission until it is forgotten."""

import pytest
from world import RELEASED, World, app, ask, limit, make_world, node, queue, release, remove, tree

HOUR_S = 3600
STARTED = ("app-1 New", "app-1 Accepted", "app-1 Starting")


def room(**keys: object) -> World:
    return make_world(tree(queue("a", **keys)), [node("n1", vcore=10)])


@pytest.mark.parametrize("policy", ["fifo", "fair", "stateaware"])
def test_starting_lasts_five_minutes(policy: str) -> None:
    """One ask, one allocation (AP-52): Starting; still after 299 s, Running at 300 s, under every sort policy (AP-32, AP-43)."""
    world = room(p={"application.sort.policy": policy})
    world.send(app("app-1"), ask("t1", "app-1", vcore=1), at=1)
    world.expect(*STARTED, "t1 on n1")
    world.wait(1 + 299)
    world.expect()
    world.wait(1 + 300)
    world.expect("app-1 Running")
    world.wait(100_000)
    world.expect()


def test_second_allocation_runs() -> None:
    """Two asks: Starting with the first allocation, Running with the second, each before its allocation (AP-36, AP-96)."""
    world = room()
    world.send(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    world.expect(*STARTED, "t1 on n1", "app-1 Running", "t2 on n1")


@pytest.mark.parametrize("value", ["true", "TRUE", "1"])
def test_starting_takes_no_time(value: str) -> None:
    """Starting and Running are entered in one step with the tag, in this order (AP-40)."""
    world = room()
    world.send(app("app-1", application__stateaware__disable=value), ask("t1", "app-1", vcore=1))
    world.expect(*STARTED, "app-1 Running", "t1 on n1")


def test_false_is_false() -> None:
    """The tag's value ``false`` is as good as no tag (AP-40)."""
    world = room()
    world.send(app("app-1", application__stateaware__disable="false"), ask("t1", "app-1", vcore=1))
    world.expect(*STARTED, "t1 on n1")
    world.wait(300)
    world.expect("app-1 Running")


def test_released_in_starting() -> None:
    """Completing, no running slot any more, after 30 s Completed (AP-43); the timer of Starting does not ring."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    world.send(release("t1"), at=10)
    world.expect("app-1 Completing", f"t1 {RELEASED}")
    assert world.queue("root.a")["runningApplications"] == 0
    world.wait(39)
    world.expect()
    world.wait(40)
    world.expect("app-1 Completed")
    world.wait(1000)
    world.expect()


def test_work_comes_back_in_time() -> None:
    """A new ask 29 s into Completing: Running, not Completed at 30 s; a later Completing has full 30 s again (AP-51)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), release("t1"), at=0)
    world.given(ask("t0", "app-1", vcore=1), at=0)
    world.given(release("t0"), at=10)
    world.send(ask("t2", "app-1", vcore=1), at=39)
    world.expect("app-1 Running", "t2 on n1")
    world.wait(40)
    world.expect()
    world.given(release("t2"), at=50)
    world.wait(79)
    world.expect()
    world.wait(80)
    world.expect("app-1 Completed")


def test_at_the_very_moment() -> None:
    """A timer rings at its own time, before what is said at the same instant is heard (SC-5: deadlines are inclusive)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    world.given(release("t1"), at=0)
    world.send(ask("t2", "app-1", vcore=1), at=30)
    world.expect("app-1 Completed", "t2 rejected: failed to find application app-1")


def test_ask_removed_while_accepted() -> None:
    """The only ask is cancelled: Completing, Completed; the cancelled ask gives no decision (AP-39, AP-120)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=11))
    world.send(release("t1"), at=5)
    world.expect("app-1 Completing")
    world.wait(35)
    world.expect("app-1 Completed")


def test_same_id() -> None:
    """Refused while the first is live, taken at once after it completed (AP-13, AP-72)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=11))
    world.send(app("app-1"))
    world.expect("app-1 Rejected: adding application app-1 to partition default, but application already existed")
    world.given(release("t1"), at=0)
    world.send(app("app-1"), at=30)
    world.expect("app-1 Completed", "app-1 New")


def test_new_is_not_completed() -> None:
    """An application without asks stays New whatever is released, for ever (AP-30)."""
    world = room()
    world.given(app("app-1"))
    world.send(release(None), release("t9"))
    world.wait(100_000)
    world.expect()
    assert world.state_of("app-1") == "New"


def test_running_stays_running() -> None:
    """Further allocations of a Running application say nothing about its state (AP-31)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    world.send(ask("t3", "app-1", vcore=1))
    world.expect("t3 on n1")


def test_allocations_without_asks_keep_it_running() -> None:
    """Allocations without pending asks keep it as it is (AP-49); one pending ask keeps it from Completing (AP-41)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("big", "app-1", vcore=11))
    world.send(release("t1"))
    world.expect(f"t1 {RELEASED}")
    world.wait(100_000)
    world.expect("app-1 Running")


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
    """Removal is reported (AP-81), leaves nothing (AP-80), frees the id and keeps no record (AP-82)."""
    world = room()
    for submission in [app("app-1"), *story]:
        world.given(submission)  # type: ignore[arg-type]
    world.send(remove("app-1"))
    world.expect(*told)
    root = world.queue("root")
    assert (root["allocated"], root["pending"], root["runningApplications"]) == ({}, {}, 0)
    assert world.node("n1")["available"] == {"vcore": 10}
    assert world.final()["applications"] == {}
    world.wait(100_000)
    world.expect()
    world.send(app("app-1"))
    world.expect("app-1 New")


def test_removal_of_nobody() -> None:
    """An unknown id is ignored; a Completed application is not touched (AP-83)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=11), release("t1"))
    world.wait(30)
    world.heard()
    world.send(remove("app-1"), remove("app-9"))
    world.expect()
    assert world.state_of("app-1") == "Completed"


def test_expiry() -> None:
    """72 h after Completed the application is Expired; then it is forgotten (AP-73, AP-74)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=11))
    world.given(release("t1"), at=0)
    world.wait(30)
    world.expect("app-1 Completed")
    world.wait(30 + 72 * HOUR_S - 1)
    world.expect()
    assert world.state_of("app-1") == "Completed"
    world.wait(30 + 72 * HOUR_S)
    world.expect("app-1 Expired")
    world.wait(30 + 97 * HOUR_S)
    assert world.final()["applications"] == {}


def test_expiry_of_a_namesake() -> None:
    """The expiry of an ended application does not touch a live one of the same id (AP-72)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=11), release("t1"))
    world.wait(30)
    world.given(app("app-1"), ask("t2", "app-1", vcore=11))
    world.wait(30 + 72 * HOUR_S)
    world.expect("app-1 Expired")
    assert world.state_of("app-1") == "Accepted"
    world.send(node("n2", vcore=11))
    world.expect("n2 accepted", "app-1 Starting", "t2 on n2")


def test_rejected_are_forgotten_too() -> None:
    """Rejected applications become Expired after 72 h without a message, and are deleted (AP-73, AP-74)."""
    world = room()
    world.send(app("app-1", "root.nowhere"))
    (line,) = world.heard()
    assert line.startswith("app-1 Rejected: failed to place application app-1: application rejected: no placement rule matched")
    assert world.state_of("app-1") == "Rejected"
    world.wait(97 * HOUR_S)
    world.expect()
    assert world.final()["applications"] == {}


def test_same_key() -> None:
    """The same ask again has no effect; a larger one moves pending by the difference on every level (AP-108, AP-110, AP-114)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=11))
    world.send(ask("t1", "app-1", vcore=11))
    assert world.queue("root")["pending"] == {"vcore": 11}
    world.send(ask("t1", "app-1", vcore=12, memory=3))
    world.expect()
    assert world.queue("root")["pending"] == world.queue("root.a")["pending"] == {"vcore": 12, "memory": 3}


def test_resized_allocation() -> None:
    """A running allocation's new size shows everywhere, without limit checks and without a word (AP-111)."""
    world = room(max={"vcore": 2})
    world.given(app("app-1"), ask("t1", "app-1", vcore=2))
    world.send(ask("t1", "app-1", vcore=12))
    world.expect()
    assert (
        world.queue("root")["allocated"] == world.queue("root.a")["allocated"] == world.node("n1")["allocated"] == {"vcore": 12}
    )
    assert world.node("n1")["available"] == {"vcore": -2}
    world.send(release("t1"))
    assert world.node("n1")["available"] == {"vcore": 10}


def test_recovered_above_max() -> None:
    """Accepted above the queue's max and sent in ``new``; no headroom for others until usage is below (QU-41, AP-109)."""
    world = room(max={"vcore": 2})
    world.send(app("app-1"), ask("r1", "app-1", on="n1", vcore=3))
    world.expect(*STARTED, "r1 on n1")
    world.send(ask("r2", "app-1", on="n1", vcore=1), ask("t1", "app-1", vcore=1))
    world.expect("app-1 Running", "r2 on n1")
    world.send(release("r2"))
    world.expect(f"r2 {RELEASED}")
    world.send(release("r1"))
    world.expect(f"r1 {RELEASED}", "t1 on n1")


def test_release_all() -> None:
    """An empty key: everything goes, one echo for each allocation, none for asks (AP-126)."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=5), ask("t2", "app-1", vcore=5), ask("t3", "app-1", vcore=5))
    world.send(release(None))
    world.expect(f"t1 {RELEASED}", f"t2 {RELEASED}", "app-1 Completing")
    assert (world.queue("root")["allocated"], world.queue("root")["pending"]) == ({}, {})


@pytest.mark.parametrize("waits", [True, False])
def test_after_releasing_all_an_application_completes(waits: bool) -> None:
    """The application is Completing for 30 s, as after any last release; its user has everything back (AP-126, AP-51, QU-74)."""
    limited = limit("alice", vcore=4, applications=1)
    world = make_world(tree(queue("a", limits=[limited])), [node("n1", vcore=10)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=4), *([ask("t2", "app-1", vcore=9)] if waits else []))
    world.given(release(None), at=30)
    assert world.state_of("app-1") == "Completing"
    world.send(app("app-2"), ask("u1", "app-2", vcore=4), at=31)
    assert world.placed() == ["u1"]
    world.wait(59.999)
    assert world.state_of("app-1") == "Completing"
    world.wait(60)
    assert world.state_of("app-1") == "Completed"


def test_order_of_asks() -> None:
    """Asks (priority 0, t=1), (5, t=2), (0, t=0) go in the order second, third, first (AP-55)."""
    world = make_world(tree(queue("a")))
    world.given(
        app("app-1"),
        ask("first", "app-1", created=1, vcore=1),
        ask("second", "app-1", priority=5, created=2, vcore=1),
        ask("third", "app-1", created=0, vcore=1),
        at=10,
    )
    world.send(node("n1", vcore=10))
    assert world.placed() == ["second", "third", "first"]


def test_node_lost() -> None:
    """The key of what went with its node is free: sent again it is a new ask (AP-127); late releases are nothing."""
    world = room()
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    world.given(node("n2", vcore=10))
    world.send(node("n1", "DECOMISSION"))
    world.expect(
        "app-1 Completing",
        "t1 released STOPPED_BY_RM (Node n1 Removed)",
        "t2 released STOPPED_BY_RM (Node n1 Removed)",
    )
    world.send(release("t1"), release("t2", termination_type="TIMEOUT"))
    world.expect()
    world.send(ask("t1", "app-1", vcore=1))
    world.expect("app-1 Running", "t1 on n2")


def test_recovery_of_a_whole_application() -> None:
    """One recovered allocation: Starting, two: Running (AP-99); the timer of Starting runs from then on."""
    world = room()
    world.send(app("app-1"), ask("r1", "app-1", on="n1", vcore=1), at=100)
    world.expect(*STARTED, "r1 on n1")
    world.wait(400)
    world.expect("app-1 Running")
    world.send(app("app-2"), ask("r2", "app-2", on="n1", vcore=1), ask("r3", "app-2", on="n1", vcore=1))
    world.expect("app-2 New", "app-2 Accepted", "app-2 Starting", "r2 on n1", "app-2 Running", "r3 on n1")


def test_two_ends_in_one_second() -> None:
    """Both are kept and both expire, although they end in the same second under the same id (AP-71)."""
    world = room()
    for number in (1, 2):
        world.given(app("app-1"), ask("t1", "app-1", vcore=11), at=30 * number - 30 + 0.1 * number)
        world.given(release("t1"))
        world.wait(30 * number + 0.2 * number)
    world.wait(100 * HOUR_S)
    assert world.heard().count("app-1 Expired") == 2


def test_typical_sequence() -> None:
    """Responses to the resource manager about a short life, in this order (AP-134)."""
    world = room()
    world.send(app("app-1"), at=0)
    world.send(ask("t1", "app-1", vcore=1), at=1)
    world.wait(301)
    world.send(release("t1"), at=400)
    world.wait(430 + 72 * HOUR_S)
    world.expect(
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
    world = make_world(tree(queue("a")), [node("n1", vcore=10)])
    world.given(app("app-1", timeout_ms=10_000), ask("t1", "app-1", vcore=1))
    world.given(release("t1"), at=5)
    world.wait(10)
    world.expect("app-1 Failing", "app-1 Failed")
