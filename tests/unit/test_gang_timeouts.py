"""The states and timers of gangs, and what happens when they time out (GA-40 to GA-42, GA-45 to GA-51)."""

import pytest
from gangs import GIVEN_UP, TIMEOUT, gang, holder, real, room, three
from world import RELEASED, app, ask, make_world, node, queue, release, tree


def test_all_real_tasks_end() -> None:
    """All placeholders were replaced and the tasks ended: Completing, 30 s later Completed (AP-41, AP-43)."""
    world = room()
    world.given(gang(), *three(), real("t1"), real("t2"), real("t3"))
    world.send(*(release(key, "gang") for key in ("t1", "t2", "t3")), at=10)
    assert [line for line in world.heard() if "gang" in line] == ["gang Completing"]
    world.wait(39)
    world.expect()
    world.wait(40)
    world.expect("gang Completed")


def test_the_last_placeholder_of_a_completing_gang() -> None:
    """The last placeholder ends before the 30 s are over, and nothing is left to come (AP-42): Completed at once."""
    world = room()
    world.given(gang(2), holder("p1"), holder("p2"), real("t1"))
    world.given(release("t1", "gang"), at=10)
    world.send(release("p2", "gang"), at=20)
    world.expect("gang Completed", f"p2 {RELEASED}")


def test_real_work_while_completing() -> None:
    """A new ask brings a completing gang back, also when its placeholders are being released (AP-50, AP-34)."""
    world = room(confirms=False)
    world.given(gang(2), holder("p1"), holder("p2"), real("t1"))
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.given(release("t1", "gang"))
    world.wait(30)
    world.expect("p2 releasing TIMEOUT (releasing placeholders on app complete)")
    world.send(ask("t2", "gang", vcore=1))
    world.expect("gang Running", "t2 on n1")
    world.send(release("p2", "gang", "TIMEOUT"))
    world.wait(1000)
    world.expect()


def test_the_last_real_task_ends_while_another_takes_its_place() -> None:
    """GA-60: Completing, because nothing waits or runs; Running again when the replacement is confirmed (AP-37)."""
    world = room(confirms=False)
    world.given(gang(2), holder("p1"), holder("p2"), real("t1"), real("t2"))
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.send(release("t1", "gang"))
    world.expect("gang Completing", f"t1 {RELEASED}")
    world.send(release("p2", "gang", "PLACEHOLDER_REPLACED"), at=40)
    world.expect("gang Running", "t2 on n1")


def test_an_ask_that_returns_while_completing() -> None:
    """An ask that returns brings the application back, as a new one does (AP-34), else it would be dropped with it (GA-36)."""
    world = room(2, confirms=False)
    world.given(gang(2), holder("p1"), holder("p2"), real("t1"), real("t2"))
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.given(release("t1", "gang"), app("other", "root.g"), ask("u1", "other", vcore=1))
    world.send(ask("u2", "other", vcore=1), release("p2", "gang", "TIMEOUT"))
    assert world.heard()[:1] == ["gang Running"]


def test_one_timer_from_the_first_placeholder_on() -> None:
    """Later placeholders do not restart it (GA-40); when none is left it stops, and new ones begin anew (GA-41)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    world.given(gang(timeout_s=60), holder("p1"))
    world.given(holder("p2"), at=50)
    world.wait(60)
    assert world.heard()[0] == "gang Resuming"
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    world.given(gang(timeout_s=60), holder("p1"), ask("big", "gang", vcore=9))
    world.given(release("p1", "gang"), at=50)
    world.given(holder("p2"), at=55)
    world.wait(114)
    world.expect()
    world.wait(115)
    assert world.heard()[0] == "gang Resuming"


def test_no_timer_for_pending_placeholders_and_none_for_running_gangs() -> None:
    """The timer begins with an allocation while the application is Accepted, not before and not later (GA-40)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    world.given(gang(timeout_s=60), holder("p1", vcore=3))
    world.wait(1000)
    world.expect()
    world.given(ask("t1", "gang", vcore=1), release("p1", "gang"), holder("p2"))
    world.wait(1000)
    world.wait(2000)
    assert "releasing" not in " ".join(world.heard())


@pytest.mark.parametrize(("created", "at"), [("20", 80), ("0", 60), ("soon", 90)])
def test_an_old_gang_has_less_time(created: str, at: float) -> None:
    """The application's creation time counts, and at least 1 ms is left (AP-61, GA-72)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    tags = {"yunikorn__apache__org/creationTime": created}
    world.given(app("gang", "root.g", placeholders={"vcore": 3}, timeout_ms=60_000, **tags), at=30)
    world.given(*three())
    world.wait(at - 0.001)
    world.expect()
    world.wait(at)
    assert world.heard()[0] == "gang Resuming"
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    world.given(app("gang", "root.g", placeholders={"vcore": 3}, timeout_ms=1000, **tags), *three(), at=2000)
    world.wait(2000.001)
    assert bool(world.heard()) is (created != "soon")


# ---- timeouts


def test_hard_timeout_ends_real_tasks_too() -> None:
    """Running tasks are released with the placeholders (GA-46), and so is a task that takes a place later (GA-47)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=3)], confirms=False)
    world.given(gang(4, style="Hard", timeout_s=60), *three(), real("t1"), real("t2"))
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.wait(60)
    world.expect("gang Failing", f"p3 releasing {TIMEOUT}", f"t1 releasing {TIMEOUT}")
    world.send(release("p2", "gang", "PLACEHOLDER_REPLACED"))
    world.expect("t2 on n1", f"t2 releasing {TIMEOUT}")
    world.send(*(release(key, "gang", "TIMEOUT") for key in ("p3", "t1", "t2")))
    world.expect("gang Failed")


def test_soft_timeout_lets_replacements_finish() -> None:
    """A replacement in flight is neither released nor forgotten (GA-47, GA-48), and Accepted waits for it (GA-42)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)], confirms=False)
    world.given(gang(3, timeout_s=60), holder("p1"), holder("p2", vcore=9), real("t1"))
    world.wait(60)
    world.expect("gang Resuming", f"p2 releasing {GIVEN_UP}")
    world.send(ask("t2", "gang", vcore=1))
    world.expect("t2 on n1")  # Resuming goes on scheduling, and stays (GA-49)
    world.send(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    world.expect("gang Accepted", "gang Starting", "gang Running", "t1 on n1")
    world.send(release("p2", "gang", "TIMEOUT"))  # needs no confirmation (AP-128)
    world.expect()


@pytest.mark.parametrize("again", [1, 2])
def test_the_key_of_a_placeholder_that_timed_out_is_free(again: int) -> None:
    """The key may come again as a real ask, of the same size or of another (AP-127)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)])
    world.given(gang(2, timeout_s=60), holder("p1"), holder("p2"), real("t1"))
    world.wait(60)
    assert f"p2 releasing {TIMEOUT}" in world.heard()
    world.given(release("t1", "gang"))
    world.send(ask("p2", "gang", vcore=again))
    assert world.placed() == ["p2"]
    assert world.queue("root.g")["allocated"] == {"vcore": again}


def test_placeholders_after_a_soft_timeout() -> None:
    """The announced total is history: it does not move the state again (GA-50)."""
    world = room(2)
    world.given(gang(3, timeout_s=60), *three())
    world.wait(60)
    world.heard()
    world.send(node("n2", vcore=9), *(holder(f"q{n}") for n in (1, 2, 3)))
    assert [line for line in world.heard() if "gang" in line] == []
    world.send(ask("t1", "gang", vcore=1))
    world.expect("gang Starting", "t1 on n2")


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_placeholders_that_come_too_late(style: str) -> None:
    """A gang that has timed out uses none: the resource manager gets its placement, and then its release (GA-80)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)], confirms=False)
    world.given(gang(style=style, timeout_s=60), *three())
    world.wait(60)
    world.heard()
    world.send(holder("p4", on="n1"), holder("p5"), node("n2", vcore=2))
    told = ["p4 on n1", f"p4 releasing {TIMEOUT}", "n2 accepted"]
    world.expect(*told, *(["p5 on n2", f"p5 releasing {TIMEOUT}"] if style == "Soft" else []))


def test_real_tasks_that_come_too_late() -> None:
    """An allocation that is reported for a failing application has to end like everything else of it (AP-47)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=2)], confirms=False)
    world.given(gang(style="Hard", timeout_s=60), *three())
    world.wait(60)
    world.given(ask("t1", "gang", vcore=1))
    world.send(ask("t1", "gang", vcore=1, on="n1"), ask("t2", "gang", vcore=1, on="n1"))
    world.expect("t1 on n1", f"t1 releasing {TIMEOUT}", "t2 on n1", f"t2 releasing {TIMEOUT}")
    world.send(release("t1", "gang"), holder("t1", on="n1"))  # the same key begins anew
    world.expect(f"t1 {RELEASED}", "t1 on n1", f"t1 releasing {TIMEOUT}")


def test_placeholders_that_were_not_announced() -> None:
    """Placeholders without a total never reach it: the application waits, and they end by timeout (GA-79)."""
    world = room()
    world.send(app("gang", "root.g"), holder("p1"))
    world.expect("gang New", "gang Accepted", "p1 on n1")
    world.wait(900)
    world.expect("gang Resuming", f"p1 releasing {TIMEOUT}", "gang Accepted")


def test_what_waited_for_placeholders_that_never_came() -> None:
    """They are given up, and the real asks of their group are ordinary ones (GA-42, GA-45)."""
    world = room(confirms=False)
    world.given(gang(timeout_s=60), holder("p1"), holder("b1", group="b", vcore=99), real("t1", group="b"))
    world.wait(60)
    world.expect("gang Resuming", f"p1 releasing {TIMEOUT}", f"b1 releasing {GIVEN_UP}", "t1 on n1")


def test_a_placeholder_too_late_for_a_completing_gang() -> None:
    """All are being released because nothing is left to do: what is reported afterwards is released as well (AP-50)."""
    world = room(confirms=False)
    world.given(gang(2), holder("p1"), holder("p2"), real("t1"))
    world.given(release("p1", "gang", "PLACEHOLDER_REPLACED"), release("t1", "gang"))
    world.wait(29)
    world.given(holder("p3", on="n1"))
    world.wait(30)
    done = "TIMEOUT (releasing placeholders on app complete)"
    world.expect(f"p2 releasing {done}", f"p3 releasing {done}")
    world.send(holder("p4", on="n1"))
    world.expect("p4 on n1", f"p4 releasing {done}")
