"""Releases of the resource manager, releases that the scheduler starts, timers that are cancelled."""

import pytest
from gangs import gang, holder, real, room, three
from world import RELEASED, World, app, ask, make_world, node, queue, release, remove, terminate, tree

from ykactor.core.messages.facts import ApplicationChanged
from ykactor.core.messages.submissions import RemovePartition

DAY_S = 86_400
EXECUTION = "TIMEOUT (releasing allocations on application execution timeout)"
CONFIRMATIONS = ("TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED")


def plain(vcore: int = 10, **keys: int) -> World:
    """An application that runs ``t1`` and ``t2`` and waits for ``big``; what it is asked to end is not confirmed."""
    world = make_world(tree(queue("a")), [node("n1", vcore=vcore)], confirms=False)
    world.given(app("app-1", **keys), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1), ask("big", "app-1", vcore=99))
    return world


def why(world: World) -> dict[str, str]:
    """The message of the last entry into each state."""
    return {fact.state: fact.why for fact in world.facts if isinstance(fact, ApplicationChanged)}


# ---- the resource manager's releases


@pytest.mark.parametrize("termination_type", ["STOPPED_BY_RM", "UNKNOWN_TERMINATION_TYPE", *CONFIRMATIONS])
def test_all_of_an_application(termination_type: str) -> None:
    """An empty key with any type ends all; wishes are echoed, confirmations and asks are not (AP-126, AP-131)."""
    world = plain()
    world.send(release(None, "app-1", termination_type))
    echoes = [] if termination_type in CONFIRMATIONS else [f"t1 {RELEASED}", f"t2 {RELEASED}"]
    world.expect(*echoes, "app-1 Completing")
    assert (world.queue("root")["allocated"], world.queue("root")["pending"]) == ({}, {})
    world.send(release("t1", "app-1", termination_type), release("big"), release("t1", "app-9"))  # AP-122
    world.expect()


@pytest.mark.parametrize("termination_type", ["STOPPED_BY_RM", "UNKNOWN_TERMINATION_TYPE", *CONFIRMATIONS])
def test_a_pending_placeholder(termination_type: str) -> None:
    """The placeholder is cancelled without a word, and nobody waits for it any more (AP-120, GA-73)."""
    world = room()
    world.given(gang(), holder("p1", vcore=99), real("t1"))
    world.send(release("p1", "gang", termination_type))
    world.expect("gang Starting", "t1 on n1")


# ---- releases that the scheduler starts


def test_a_handshake_has_all_the_time() -> None:
    """Usage goes down with the confirmation and not before; there is no retry and no timeout (AP-128, AP-133)."""
    world = plain(timeout_ms=10_000)
    world.wait(10)
    world.expect("app-1 Failing", f"t1 releasing {EXECUTION}", f"t2 releasing {EXECUTION}")
    assert (world.queue("root")["allocated"], world.queue("root")["pending"]) == ({"vcore": 2}, {})
    world.wait(30 * DAY_S)
    world.expect()
    world.send(release("t1", "app-1", "TIMEOUT"))
    assert world.queue("root")["allocated"] == {"vcore": 1}
    world.send(release("t1", "app-1", "TIMEOUT"), release("t2", "app-1", "TIMEOUT"))
    world.expect("app-1 Failed")
    assert why(world)["Failing"] == "ExecutionTimeout"  # AP-95


def test_the_resource_manager_may_answer_as_it_likes() -> None:
    """A wish of its own that crosses ours is as good as the confirmation, and is echoed (AP-131)."""
    world = plain(timeout_ms=10_000)
    world.wait(10)
    world.heard()
    world.send(release("t2"), release(None))
    world.expect(f"t2 {RELEASED}", "app-1 Failed", f"t1 {RELEASED}")


@pytest.mark.parametrize("ends", [node("n1", "DECOMISSION"), remove("app-1")])
def test_what_is_done_needs_no_confirmation(ends: object) -> None:
    """Releases with a node or an application are done; a confirmation that comes anyway is nothing (AP-128, SC-116)."""
    world = plain()
    world.given(ends)  # type: ignore[arg-type]
    world.send(*(release(key, "app-1", "STOPPED_BY_RM") for key in ("t1", "t2", "t1")))
    world.expect()


def test_all_of_a_failing_application() -> None:
    """The end comes with the last allocation and takes the pending asks with it, once (AP-47, AP-117)."""
    world = plain(timeout_ms=10_000)
    world.wait(10)
    world.given(ask("t3", "app-1", vcore=1))
    world.send(release(None))
    world.expect(f"t1 {RELEASED}", "app-1 Failed", f"t2 {RELEASED}")
    assert (world.queue("root")["allocated"], world.queue("root")["pending"]) == ({}, {})


def test_all_of_a_gang_in_the_middle_of_a_replacement() -> None:
    """Places of what ends as a whole stay free, whatever its type (AP-126)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    world.send(release(None, "gang", "PLACEHOLDER_REPLACED"))
    world.expect("gang Completing")


def test_all_of_nothing() -> None:
    """An application completes only when an ask is removed (AP-39): a gang that timed out goes on waiting for work (GA-50)."""
    world = room(2)
    world.given(gang(timeout_s=60), *three())
    world.wait(60)
    assert world.heard()[-1] == "gang Accepted"
    world.send(release(None, "gang"))
    world.expect()


def test_a_lost_node_ends_the_handshake() -> None:
    """A release that was requested is over when the node leaves (SC-113, AP-47)."""
    world = plain(timeout_ms=10_000)
    world.wait(10)
    world.heard()
    world.send(node("n1", "DECOMISSION"))
    world.expect("app-1 Failed", *(f"{key} released STOPPED_BY_RM (Node n1 Removed)" for key in ("t1", "t2")))


def test_a_partition_that_is_removed() -> None:
    """The applications fail, and what they run is released without a confirmation (AP-45, AP-33)."""
    world = plain()
    world.direct.ingest(world.now_ns, [RemovePartition()])
    world.expect(
        "app-1 Failing", "app-1 Failed", *(f"{key} released STOPPED_BY_RM (Partition default Removed)" for key in ("t1", "t2"))
    )
    assert why(world)["Failing"] == "PartitionRemoved"


# ---- asks and allocations of applications that are on their way out


def test_asks_of_a_failing_application() -> None:
    """They are taken and wait, are not scheduled, may be resized and released, and go with it (AP-117, SC-25)."""
    world = plain(timeout_ms=10_000)
    world.wait(10)
    world.heard()
    world.send(ask("t3", "app-1", vcore=1), ask("t4", "app-1", vcore=1))
    world.send(ask("t3", "app-1", vcore=2), release("t4"))
    world.expect()
    assert world.queue("root")["pending"] == {"vcore": 2}
    world.send(release("t1", "app-1", "TIMEOUT"), release("t2", "app-1", "TIMEOUT"))
    world.expect("app-1 Failed")
    assert world.queue("root")["pending"] == {}


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_removal_of_a_gang_that_has_timed_out(style: str) -> None:
    """The state is not told in Resuming and Failing (AP-81); what ran is reported once, and the id is free (AP-82)."""
    world = room(2, confirms=False)
    world.given(gang(style=style, timeout_s=60), *three())
    world.wait(60)
    world.heard()
    world.send(remove("gang"), release("p1", "gang", "TIMEOUT"))
    world.expect(*(f"{key} released STOPPED_BY_RM (Application gang Removed)" for key in ("p1", "p2")))
    world.send(gang())
    world.expect("gang New")
    assert why(world)["Resuming" if style == "Soft" else "Failing"] == "ResourceReservationTimeout"  # AP-95


def test_recovered_while_completing() -> None:
    """A real allocation that the resource manager reports brings it back (AP-36), the end of the last ask does not (AP-39)."""
    world = plain()
    world.given(release(None))
    world.send(ask("r1", "app-1", vcore=1, on="n1"), at=29)
    world.expect("app-1 Running", "r1 on n1")
    world.given(ask("big", "app-1", vcore=99))
    world.send(release("big"), at=100)
    world.expect()


# ---- placement by the resource manager


def test_placed_by_the_resource_manager() -> None:
    """A waiting ask that comes with a node is resized first, then runs there without any check (AP-112)."""
    world = make_world(tree(queue("a", max={"vcore": 2})), [node("n1", vcore=2)])
    world.given(app("app-1"), ask("big", "app-1", vcore=99))
    world.send(ask("big", "app-1", vcore=5, on="n9"))
    world.expect("big rejected: failed to find node n9")  # AP-104, and it still waits
    assert world.queue("root.a")["pending"] == {"vcore": 99}
    world.send(ask("big", "app-1", vcore=5, on="n1"))
    world.expect("app-1 Starting", "big on n1")
    assert (world.queue("root.a")["pending"], world.queue("root.a")["allocated"]) == ({}, {"vcore": 5})
    assert world.node("n1")["available"] == {"vcore": -3}


# ---- timers


@pytest.mark.parametrize("seconds", [30, 60, 300])
def test_no_timer_outlives_its_application(seconds: int) -> None:
    """Removal cancels Starting, Completing, placeholders and execution; a namesake has its own (AP-43, AP-44, AP-46)."""
    world = room(2)
    world.given(gang(timeout_s=60), *three(), app("one", "root.g", timeout_ms=60_000), app("two", "root.g"))
    world.given(ask("r1", "one", vcore=1, on="n1"), ask("r2", "two", vcore=1, on="n1"), release("r2", "two"), at=0)
    world.given(*(remove(name) for name in ("gang", "one", "two")), at=10)
    world.given(gang(), app("one", "root.g"), app("two", "root.g"), *(ask(f"b{n}", n, vcore=9) for n in ("gang", "one", "two")))
    world.wait(seconds)
    world.expect()


def test_the_execution_timer_runs_on() -> None:
    """The timer counts from the first start, not before, also through Completing and back (AP-62); the end stops it."""
    world = make_world(tree(queue("a")))
    world.given(app("app-1", timeout_ms=60_000), ask("t1", "app-1", vcore=1))
    world.given(node("n1", vcore=1), at=50)
    world.wait(109.999)
    world.expect()
    world.wait(110)
    assert world.heard()[0] == "app-1 Failing"
    world = plain(timeout_ms=60_000)
    world.given(release(None), at=20)
    world.given(ask("t3", "app-1", vcore=1), at=40)
    world.wait(59.999)
    world.expect()
    world.wait(60)
    world.expect("app-1 Failing", f"t3 releasing {EXECUTION}")
    world = plain(timeout_ms=60_000)
    world.given(release(None), at=20)
    world.wait(50)
    world.expect("app-1 Completed")
    world.wait(60)
    world.expect()


def test_a_gang_has_no_execution_timeout() -> None:
    """The timeout is that of the placeholders only (AP-63)."""
    world = room()
    world.given(gang(1, timeout_s=60), holder("p1"), real("t1"))
    world.wait(299)
    world.expect()


def test_execution_timeout_in_the_middle_of_a_replacement() -> None:
    """Placeholders of an application that announced none: a task that takes a place too late is released at once (GA-47)."""
    world = room(confirms=False)
    world.given(app("one", "root.g", timeout_ms=60_000), ask("t1", "one", vcore=1), holder("p1", "one"), real("t2", "one"))
    world.wait(60)
    world.expect("one Failing", f"t1 releasing {EXECUTION}")
    world.send(release("t1", "one", "TIMEOUT"), release("p1", "one", "PLACEHOLDER_REPLACED"))
    world.expect("t2 on n1", f"t2 releasing {EXECUTION}")
    world.send(release("t2", "one", "TIMEOUT"))
    world.expect("one Failed")


def test_termination_of_a_gang() -> None:
    """Termination ends a gang like an execution timeout; the timer of its placeholders has nothing left to do (AP-47)."""
    world = room(2, confirms=False)
    world.given(gang(timeout_s=60), *three())
    assert world.administer(terminate("gang")) == ""
    group = world.direct.core.registry.leaf_of("gang").applications["gang"].gang.groups["g"]  # type: ignore[arg-type]
    assert (group.count, group.timed_out) == (3, 1)  # the one that waited has ended
    told = "TIMEOUT (releasing allocations on application termination)"
    world.expect("gang Failing", f"p1 releasing {told}", f"p2 releasing {told}")
    world.wait(60)
    world.expect()


def test_a_timeout_waits_for_what_is_on_its_way() -> None:
    """All placeholders are being replaced: nothing more to release; Accepted comes with the last confirmation (GA-48)."""
    world = room(2, confirms=False)
    world.given(gang(timeout_s=60), holder("p1"), holder("p2"), real("t1"), real("t2"))
    world.wait(60)
    world.expect("gang Resuming")
    world.send(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.expect("t1 on n1")
    world.send(release("p2", "gang", "PLACEHOLDER_REPLACED"))
    world.expect("gang Accepted", "gang Starting", "gang Running", "t2 on n1")
