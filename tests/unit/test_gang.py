"""Gangs: placeholders hold space, real tasks take it over."""

import pytest
from gangs import CANCELLED, GIVEN_UP, TIMEOUT, gang, holder, real, room, three
from world import app, ask, configure, limit, make_world, node, queue, release, remove, tree

from ykactor.core.objects.gang import GROUPS_MAX


def test_complete_when_all_are_placed() -> None:
    """Accepted until the last placeholder, then Starting (AP-38); no placeholder but those that were sent (GA-1)."""
    world = room()
    world.send(gang(), *three())
    world.expect("gang New", "gang Accepted", "p1 on n1", "p2 on n1", "gang Starting", "p3 on n1")


def test_replacement() -> None:
    """Release, confirmation, ``new``, one after the other; Running with the second; usage stays (GA-76, GA-30 to GA-35)."""
    world = room()
    world.given(gang(), *three())
    world.send(real("t1"), real("t2"), real("t3"))
    world.expect(
        "p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)",
        "t1 on n1",
        "p2 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t2)",
        "gang Running",
        "t2 on n1",
        "p3 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t3)",
        "t3 on n1",
    )
    assert world.queue("root.g")["allocated"] == {"vcore": 3}


def test_surplus_is_ordinary_in_the_end() -> None:
    """The fourth real ask waits until the third replacement is confirmed (GA-3, GA-13)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"), real("t2"), real("t3"), real("t4"))
    assert world.why("t4") == "waits for a placeholder of task group g"
    for number in (1, 2, 3):
        world.send(release(f"p{number}", "gang", "PLACEHOLDER_REPLACED"))
    assert world.placed() == ["t1", "t2", "t3", "t4"]


def test_too_small_placeholders_go() -> None:
    """All placeholders of the group are cancelled, then the real ask is an ordinary one (GA-75)."""
    world = room()
    world.given(gang(), *three())
    world.send(real("t1", vcore=2))
    cancelled = [f"p{number} releasing {CANCELLED}" for number in (1, 2, 3)]
    assert [line for line in world.heard() if "gang" not in line] == [*cancelled, "t1 on n1"]


def test_usage_shrinks_with_confirmations() -> None:
    """Placeholders of 2, real tasks of 1: the difference is free when it is confirmed, not before (GA-33)."""
    world = room(confirms=False)
    world.given(gang(6), *(holder(f"p{n}", vcore=2) for n in (1, 2, 3)), real("t1"), real("t2"), real("t3"))
    seen = [world.queue("root.g")["allocated"]["vcore"]]
    for number in (1, 2, 3):
        world.send(release(f"p{number}", "gang", "PLACEHOLDER_REPLACED"))
        seen.append(world.queue("root.g")["allocated"]["vcore"])
    assert seen == [6, 5, 4, 3]
    assert world.node("n1")["allocated"] == {"vcore": 3}


def test_without_confirmation_nothing_runs() -> None:
    """The pair is not replaced twice, without a ``new`` (GA-22); duplicates of the confirmation are ignored."""
    world = room(confirms=False)
    world.given(gang(), *three())
    world.send(real("t1"))
    world.expect("p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)")
    world.send(real("t1"))
    world.wait(100)
    world.expect()
    world.send(release("p1", "gang", "PLACEHOLDER_REPLACED"), release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.expect("t1 on n1")


def test_soft_timeout() -> None:
    """Resuming, all placeholders go, Accepted, then an ordinary application (GA-42, AP-44)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    world.given(gang(timeout_s=60), *three(), ask("t1", "gang", vcore=1))
    world.wait(59)
    world.expect()
    world.wait(60)
    world.expect(
        "gang Resuming",
        f"p1 releasing {TIMEOUT}",
        f"p2 releasing {TIMEOUT}",
        f"p3 releasing {GIVEN_UP}",
        "gang Accepted",
        "gang Starting",
        "t1 on n1",
    )


def test_hard_timeout() -> None:
    """Failing, everything goes (GA-45, AP-133), Failed when the last release is confirmed (GA-51)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)], confirms=False)
    world.given(gang(style="Hard", timeout_s=60), *three(), ask("t1", "gang", vcore=1))
    world.wait(60)
    world.expect(
        "gang Failing",
        f"p1 releasing {TIMEOUT}",
        f"p2 releasing {TIMEOUT}",
        f"p3 releasing {GIVEN_UP}",
        f"t1 releasing {GIVEN_UP}",
    )
    world.send(release("p1", "gang", "TIMEOUT"))
    world.expect()
    world.send(release("p2", "gang", "TIMEOUT"), ask("t2", "gang", vcore=1))
    world.expect("gang Failed", "t2 rejected: failed to find application gang")
    assert world.state_of("gang") == "Failed"


def test_replacement_before_completion() -> None:
    """A real task takes a place before the gang is complete and stays at the timeout (GA-14, GA-46, GA-49)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    world.given(gang(timeout_s=60), *three())
    world.send(real("t1"))
    world.expect("p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)", "t1 on n1")
    world.wait(60)
    world.expect("gang Resuming", f"p2 releasing {TIMEOUT}", f"p3 releasing {GIVEN_UP}", "gang Accepted", "gang Starting")


def test_timeout_of_a_complete_gang() -> None:
    """Unused placeholders are released, the state stays (GA-42)."""
    world = room()
    world.given(gang(timeout_s=60), *three(), real("t1"))
    world.wait(60)
    world.expect(f"p2 releasing {TIMEOUT}", f"p3 releasing {TIMEOUT}")


def test_default_timeout() -> None:
    """15 minutes where nothing sensible is given (AP-60, AP-61)."""
    for timeout_s in (0, -1, 1e17):
        world = make_world(tree(queue("g")), [node("n1", vcore=2)])
        world.given(gang(timeout_s=timeout_s), *three())
        world.wait(899)
        world.expect()
        world.wait(900)
        assert world.heard()[0] == "gang Resuming"


def test_completion() -> None:
    """Real work is done, placeholders remain: Completing, 30 s later they go, then Completed (AP-41, AP-50, AP-42)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.send(release("t1", "gang"), at=10)
    assert world.heard()[0] == "gang Completing"
    world.wait(40)
    done = "TIMEOUT (releasing placeholders on app complete)"
    world.expect(f"p2 releasing {done}", f"p3 releasing {done}")
    world.send(release("p2", "gang", "TIMEOUT"))
    world.expect()
    world.send(release("p3", "gang", "TIMEOUT"))
    world.expect("gang Completed")


def test_admission() -> None:
    """A fair queue cannot run gangs; the total must fit the configured max (AP-18 to AP-20, PL-50, PL-52)."""
    world = room(p={"application.sort.policy": "fair"})
    world.send(gang())
    world.expect("gang Rejected: queue root.g cannot run application gang with task group request: unsupported sort type")
    world = room(max={"vcore": 2})
    world.send(gang())
    reason = "task group request map[vcore:3] larger than max queue allocation map[vcore:2]"
    world.expect(f"gang Rejected: queue root.g cannot fit application gang: {reason}")


def test_node_lost_with_both() -> None:
    """Placeholder and the real task that would take its place on the lost node: the real ask waits again (GA-78, SC-115)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    world.given(node("n2", vcore=10))
    world.send(node("n1", "DECOMISSION"))
    assert world.placed() == ["t1"]
    assert world.node("n2")["allocated"] == {"vcore": 1}


def test_groups_are_apart() -> None:
    """A real ask takes the place of a placeholder of its own group only (GA-74)."""
    world = room()
    world.given(gang(), holder("a1", group="a"), holder("a2", group="a"), holder("b1", group="b"))
    world.send(real("t1", group="b"), real("t2", group="b"))
    replaced = [line for line in world.heard() if "releasing" in line]
    assert replaced == ["b1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)"]
    assert world.queue("root.g")["allocated"] == {"vcore": 4}


def test_slots_of_waiting_gangs() -> None:
    """An Accepted application with its first placeholder keeps a slot on every level (QU-54)."""
    text = tree(queue("g", maxapplications=1), maxapplications=2)
    world = make_world(text, [node("n1", vcore=10)])
    world.given(gang(9), *three(), app("other", "root.g"), ask("t1", "other", vcore=1))
    assert world.why("t1") == "queue root.g runs 1 of at most 1 application"
    world.send(configure(tree(queue("g", maxapplications=2), maxapplications=2)))
    assert world.placed() == ["t1"]


def test_slots_of_removed_gangs() -> None:
    """A gang that is removed while it is Accepted gives its slot back on every level (QU-44, QU-54)."""
    world = make_world(
        tree(queue("g", maxapplications=1), queue("h", maxapplications=1), maxapplications=1), [node("n1", vcore=10)]
    )
    world.given(gang(9), *three(), app("other", "root.h"), ask("t1", "other", vcore=1))
    assert world.why("t1") == "queue root runs 1 of at most 1 application"
    world.send(remove("gang"))
    assert world.placed() == ["t1"]
    assert world.queue("root.g")["allocated"] == {}
    assert world.queue("root")["allocated"] == {"vcore": 1}


def test_a_cut_replacement() -> None:
    """The real ask is cancelled while its placeholder's end is awaited: that is then a plain removal (AP-125)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    world.send(release("t1", "gang"), release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.expect()
    assert world.queue("root.g")["allocated"] == {"vcore": 2}


def test_another_answer_returns_the_ask() -> None:
    """The resource manager ends the placeholder in another way: the real ask waits again (GA-36)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    world.send(release("p1", "gang", "STOPPED_BY_RM"))
    assert "p2 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)" in world.heard()


def test_a_real_ask_resized_while_it_waits_for_its_place() -> None:
    """The new size counts when the ask begins: if it still fits it takes the place (AP-110), else it waits again (GA-33)."""
    for size, told in [(1, ["t1 on n1"]), (2, ["t1 on n1"]), (3, [])]:
        world = room(2, confirms=False)
        world.given(gang(2), holder("p1", vcore=2), real("t1", vcore=2))
        world.send(real("t1", vcore=size))
        world.expect()
        assert world.queue("root.g")["allocated"] == {"vcore": 2}
        world.send(release("p1", "gang", "PLACEHOLDER_REPLACED"))
        world.expect(*told)
        queue_state = world.queue("root.g")
        assert (queue_state["allocated"], queue_state["pending"]) == (({"vcore": size}, {}) if told else ({}, {"vcore": 3}))


def test_a_placeholder_shrunk_while_it_is_replaced() -> None:
    """A smaller placeholder holds less (AP-111): an ask that takes more waits again, never above what was held (GA-33)."""
    world = room(2, confirms=False)
    world.given(gang(2), holder("p1", vcore=2), real("t1", vcore=2))
    world.send(holder("p1", vcore=1), ask("big", "gang", vcore=1, priority=9))
    world.expect("gang Running", "big on n1")
    world.send(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.expect()
    assert world.why("t1") == "wants 0.002, has 0.001 of 0.002 vcore in the cluster"
    world.send(release("big", "gang"))
    assert world.placed() == ["t1"]


@pytest.mark.parametrize("size", [1, 3])
def test_a_resized_placeholder_is_gone_when_it_has_ended(size: int) -> None:
    """Nothing is in use any more: the application completes, and the timer of placeholders stops (AP-111, AP-42, GA-41)."""
    world = room(confirms=False)
    world.given(gang(2, timeout_s=900), holder("p1", vcore=2))
    world.given(holder("p1", vcore=size))
    assert world.queue("root.g")["allocated"] == {"vcore": size}
    world.given(release("p1", "gang"))
    assert world.queue("root.g")["allocated"] == {}
    assert world.state_of("gang") == "Completing"
    world.wait(30)
    assert world.state_of("gang") == "Completed"
    world.wait(1000)
    assert "TIMEOUT" not in str(world.heard())


def test_a_real_task_that_runs_elsewhere_already() -> None:
    """The resource manager placed it itself (AP-112): it waits for no place, and the placeholder just goes (AP-125)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    world.given(node("n2", vcore=10))
    world.send(ask("t1", "gang", group="g", vcore=1, on="n2"))
    world.expect("gang Running", "t1 on n2")
    world.send(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.expect()
    assert (world.node("n1")["allocated"], world.node("n2")["allocated"]) == ({"vcore": 2}, {"vcore": 1})


def test_removal_takes_all() -> None:
    """Placeholders and what was to take their place disappear (AP-84)."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"))
    world.send(remove("gang"))
    assert world.queue("root.g")["allocated"] == {}
    assert world.node("n1")["allocated"] == {}


def test_placeholders_need_a_group() -> None:
    """A placeholder without a task group is refused (AP-107)."""
    world = room()
    world.given(gang())
    world.send(holder("p1", group=""))
    world.expect("p1 rejected: placeholder without task group")


def test_execution_timeout() -> None:
    """An application that is no gang may name how long it runs (AP-46, AP-62)."""
    world = room()
    world.given(app("one", "root.g", timeout_ms=10_000), ask("t1", "one", vcore=1), ask("t2", "one", vcore=99))
    world.wait(10)
    told = "TIMEOUT (releasing allocations on application execution timeout)"
    world.expect("one Failing", f"t1 releasing {told}", "one Failed")
    assert world.queue("root.g")["allocated"] == {}


# ---- which placeholder a real ask replaces


def test_order_of_placeholders() -> None:
    """The oldest first, then by key (GA-74)."""
    world = room(confirms=False)
    old = {"p3": 5, "p1": 9, "p2": 5}
    world.given(
        gang(), *(ask(key, "gang", group="g", placeholder=True, vcore=1, created=entry) for key, entry in old.items()), at=10
    )
    world.send(real("t1"), real("t2"), real("t3"))
    assert [line.split()[0] for line in world.heard()] == ["p2", "p3", "p1"]


def test_groups_of_several_sizes() -> None:
    """A real ask of 8 cancels the placeholder of 5 and takes the place of the one of 10 (GA-2, GA-24, GA-26)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=20)], confirms=False)
    world.given(gang(15), holder("p1", vcore=5), holder("p2", vcore=10))
    world.send(real("t1", vcore=8))
    world.expect(f"p1 releasing {CANCELLED}", "p2 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)")


def test_ordinary_asks_of_a_gang() -> None:
    """A real ask without a group, or of a group that has no placeholders, waits for none of them (GA-4, GA-13)."""
    world = room()
    world.given(gang(), *three())
    world.send(ask("t1", "gang", vcore=1), real("t2", group="other"))
    world.expect("gang Running", "t1 on n1", "t2 on n1")


def test_a_draining_node_keeps_its_gang() -> None:
    """A place on it is taken over as on any other (GA-20, SC-110)."""
    world = room()
    world.given(gang(), *three())
    world.given(node("n1", "DRAIN_NODE"))
    world.send(real("t1"))
    assert world.placed() == ["t1"]


@pytest.mark.parametrize("termination_type", ["STOPPED_BY_RM", "TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED"])
def test_placeholders_that_end_otherwise(termination_type: str) -> None:
    """Placeholders that end otherwise are not replaced; with none left asks are ordinary (GA-73, GA-25, GA-78, AP-123)."""
    world = room(3, confirms=False)
    world.given(gang(), holder("p1", group="a"), holder("p2", group="a"), holder("p3", group="b", vcore=9))
    world.given(real("t1", group="b"))
    world.send(release("p1", "gang", termination_type), release("p3", "gang", termination_type))
    assert world.placed() == ["t1"]
    group = world.direct.core.registry.leaf_of("gang").applications["gang"].gang.groups["a"]  # type: ignore[arg-type,index]
    assert (group.count, group.replaced, group.timed_out) == (2, 0, 1)


# ---- when a gang is complete


@pytest.mark.parametrize(("total", "sizes", "starts_at"), [(3, (2, 2, 2), 2), (3, (1, 1, 1), 3), (9, (1, 1, 1), None)])
def test_complete_when_the_total_is_reached(total: int, sizes: tuple[int, ...], starts_at: int | None) -> None:
    """Also where the sum jumps over it (GA-61); with less the gang waits (GA-12)."""
    world = room()
    world.given(gang(total))
    started = None
    for number, size in enumerate(sizes, 1):
        world.send(holder(f"p{number}", vcore=size))
        if "gang Starting" in world.heard():
            started = number
    assert started == starts_at


def test_complete_after_early_replacements() -> None:
    """Placeholders that were replaced before the gang was complete count as well (GA-14, GA-61)."""
    world = room()
    world.given(gang(), holder("p1"), real("t1"), holder("p2"))
    world.send(holder("p3"))
    world.expect("gang Starting", "p3 on n1")


# ---- recovery


def test_recovered_placeholders() -> None:
    """They count, keep the gang Accepted until all are there, and the first starts the timer (GA-70, AP-99)."""
    world = room()
    world.send(gang(timeout_s=60), holder("p1", on="n1"), at=100)
    world.expect("gang New", "gang Accepted", "p1 on n1")
    world.wait(159)
    world.expect()
    world.wait(160)
    world.expect("gang Resuming", f"p1 releasing {TIMEOUT}", "gang Accepted")
    world = room()
    world.given(gang(2), holder("p1", on="n1"))
    world.send(holder("p2", on="n1"))
    world.expect("gang Starting", "p2 on n1")
    world.send(real("t1"))
    world.expect("p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)", "t1 on n1")


def test_recovered_real_tasks_of_a_group() -> None:
    """They take no placeholder's place and wait for none (GA-71)."""
    world = room()
    world.given(gang(2), holder("p1", on="n1"))
    world.send(ask("t1", "gang", group="g", vcore=1, on="n1"))
    world.expect("gang Starting", "t1 on n1")
    group = world.direct.core.registry.leaf_of("gang").applications["gang"].gang.groups["g"]  # type: ignore[arg-type,index]
    assert (group.count, group.replaced, group.timed_out) == (1, 0, 0)


# ---- placeholders are asks like others


def test_placeholders_stand_in_line() -> None:
    """One order with real asks (GA-16, AP-55), and the same ceilings (GA-10): node, queue, user."""
    world = room(10, max={"vcore": 4}, limits=[limit("alice", vcore=3)])
    world.send(gang(4), ask("t1", "gang", vcore=1), holder("p1", vcore=2), ask("t2", "gang", priority=1, vcore=1), holder("p2"))
    world.expect("gang New", "gang Accepted", "gang Starting", "t2 on n1", "gang Running", "t1 on n1", "p2 on n1")
    assert world.why("p1") == "wants 0.002, has 0 of 0.003 vcore in the limit of user alice in queue root.g"
    assert world.queue("root.g")["allocated"] == world.node("n1")["allocated"] == {"vcore": 3}  # GA-11


def test_a_recovered_placeholder_holds_a_slot() -> None:
    """Above the maximum, too (QU-52, QU-54): its gang replaces (GA-15) and goes on, and others wait for that slot."""
    world = room(maxapplications=1)
    world.given(app("other", "root.g"), ask("t0", "other", vcore=1))
    world.send(gang(), holder("p1", on="n1"), holder("p2"), real("t1"))
    replaced = "p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: t1)"
    world.expect("gang New", "gang Accepted", "p1 on n1", replaced, "t1 on n1", "p2 on n1")
    world.given(release("t0", "other"), app("third", "root.g"), ask("t3", "third", vcore=1))
    assert world.why("t3") == "queue root.g runs 1 of at most 1 application"


def test_row_1_of_a_pass_with_nothing_to_replace() -> None:
    """Each ask is compared with each placeholder of its group only, and nobody is cancelled twice (GA-75)."""
    world = room(confirms=False)
    world.given(gang(), holder("p1", group="a"), holder("p2", group="b"))
    world.send(real("t1", group="a", vcore=2), real("t2", group="a", vcore=2))
    world.expect(f"p1 releasing {CANCELLED}")
    world.send(real("t3", group="a"))
    world.expect()
    world.send(release("p1", "gang", "TIMEOUT"))
    assert world.placed() == ["t1", "t2", "t3"]


def test_the_number_of_task_groups() -> None:
    """AP-107: groups are kept as long as the application is, also if their placeholders have gone."""
    world = make_world(tree(queue("a")))
    world.given(app("app-1", placeholders={"vcore": 1}))
    world.given(*(ask(f"p{n}", "app-1", vcore=1, placeholder=True, group=f"g{n}") for n in range(GROUPS_MAX)))
    world.given(*(release(f"p{n}") for n in range(GROUPS_MAX)))
    placed = [ask(key, "app-1", vcore=1, placeholder=True, group=group) for key, group in (("p", "one-more"), ("q", "g7"))]
    world.send(*placed)
    assert [line for line in world.heard() if "rejected" in line] == ["p rejected: found 1000 task groups, no room for one more"]
    assert "q" in world.direct.core.registry.leaf_of("app-1").applications["app-1"].tasks.asks
