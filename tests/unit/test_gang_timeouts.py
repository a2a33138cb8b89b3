"""The states and timers of gangs, and what happens when they time out (GA-40 to GA-42, GA-45 to GA-51)."""

import pytest
from gangs import GIVEN_UP, TIMEOUT, gang, holder, real, room, three
from world import RELEASED, app, ask, node, queue, release, tree, world


def test_all_real_tasks_end() -> None:
    """Everything was replaced and ended: Completing, 30 s later Completed (AP-41, AP-43)."""
    it = room()
    it.given(gang(), *three(), real("t1"), real("t2"), real("t3"))
    it.send(*(release(key, "gang") for key in ("t1", "t2", "t3")), at=10)
    assert [line for line in it.heard() if "gang" in line] == ["gang Completing"]
    it.wait(39)
    it.expect()
    it.wait(40)
    it.expect("gang Completed")


def test_the_last_placeholder_of_a_completing_gang() -> None:
    """It ends before the 30 s are over, and nothing is left to come (AP-42): Completed at once."""
    it = room()
    it.given(gang(2), holder("p1"), holder("p2"), real("t1"))
    it.given(release("t1", "gang"), at=10)
    it.send(release("p2", "gang"), at=20)
    it.expect("gang Completed", f"p2 {RELEASED}")


def test_real_work_while_completing() -> None:
    """A new ask brings a completing gang back, also when its placeholders have been told to go (AP-50, AP-34)."""
    it = room(confirms=False)
    it.given(gang(2), holder("p1"), holder("p2"), real("t1"))
    it.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    it.given(release("t1", "gang"))
    it.wait(30)
    it.expect("p2 releasing TIMEOUT (releasing placeholders on app complete)")
    it.send(ask("t2", "gang", vcore=1))
    it.expect("gang Running", "t2 on n1")
    it.send(release("p2", "gang", "TIMEOUT"))
    it.wait(1000)
    it.expect()


def test_the_last_real_task_ends_while_another_takes_its_place() -> None:
    """GA-60: Completing, because nothing waits or runs; Running again when the replacement is confirmed (AP-37)."""
    it = room(confirms=False)
    it.given(gang(2), holder("p1"), holder("p2"), real("t1"), real("t2"))
    it.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    it.send(release("t1", "gang"))
    it.expect("gang Completing", f"t1 {RELEASED}")
    it.send(release("p2", "gang", "PLACEHOLDER_REPLACED"), at=40)
    it.expect("gang Running", "t2 on n1")


def test_an_ask_that_returns_while_completing() -> None:
    """As a new one it brings the application back (AP-34), else it would be dropped with it (GA-36)."""
    it = room(2, confirms=False)
    it.given(gang(2), holder("p1"), holder("p2"), real("t1"), real("t2"))
    it.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    it.given(release("t1", "gang"), app("other", "root.g"), ask("u1", "other", vcore=1))
    it.send(ask("u2", "other", vcore=1), release("p2", "gang", "TIMEOUT"))
    assert it.heard()[:1] == ["gang Running"]


def test_one_timer_from_the_first_placeholder_on() -> None:
    """Later placeholders do not restart it (GA-40); when none is left it stops, and new ones begin anew (GA-41)."""
    it = world(tree(queue("g")), [node("n1", vcore=2)])
    it.given(gang(timeout_s=60), holder("p1"))
    it.given(holder("p2"), at=50)
    it.wait(60)
    assert it.heard()[0] == "gang Resuming"
    it = world(tree(queue("g")), [node("n1", vcore=2)])
    it.given(gang(timeout_s=60), holder("p1"), ask("big", "gang", vcore=9))
    it.given(release("p1", "gang"), at=50)
    it.given(holder("p2"), at=55)
    it.wait(114)
    it.expect()
    it.wait(115)
    assert it.heard()[0] == "gang Resuming"


def test_no_timer_for_pending_placeholders_and_none_for_running_gangs() -> None:
    """It begins with an allocation while the application is Accepted, not before and not later (GA-40)."""
    it = world(tree(queue("g")), [node("n1", vcore=2)])
    it.given(gang(timeout_s=60), holder("p1", vcore=3))
    it.wait(1000)
    it.expect()
    it.given(ask("t1", "gang", vcore=1), release("p1", "gang"), holder("p2"))
    it.wait(1000)
    it.wait(2000)
    assert "releasing" not in " ".join(it.heard())


@pytest.mark.parametrize(("created", "at"), [("20", 80), ("0", 60), ("soon", 90)])
def test_an_old_gang_has_less_time(created: str, at: float) -> None:
    """The application's creation time counts, and at least 1 ms is left (AP-61, GA-72)."""
    it = world(tree(queue("g")), [node("n1", vcore=2)])
    tags = {"yunikorn__apache__org/creationTime": created}
    it.given(app("gang", "root.g", placeholders={"vcore": 3}, timeout_ms=60_000, **tags), at=30)
    it.given(*three())
    it.wait(at - 0.001)
    it.expect()
    it.wait(at)
    assert it.heard()[0] == "gang Resuming"
    it = world(tree(queue("g")), [node("n1", vcore=2)])
    it.given(app("gang", "root.g", placeholders={"vcore": 3}, timeout_ms=1000, **tags), *three(), at=2000)
    it.wait(2000.001)
    assert bool(it.heard()) is (created != "soon")


# ---- timeouts


def test_hard_timeout_ends_real_tasks_too() -> None:
    """What runs already is released with the placeholders (GA-46); what takes a place later is, too (GA-47)."""
    it = world(tree(queue("g")), [node("n1", vcore=3)], confirms=False)
    it.given(gang(4, style="Hard", timeout_s=60), *three(), real("t1"), real("t2"))
    it.given(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    it.wait(60)
    it.expect("gang Failing", f"p3 releasing {TIMEOUT}", f"t1 releasing {TIMEOUT}")
    it.send(release("p2", "gang", "PLACEHOLDER_REPLACED"))
    it.expect("t2 on n1", f"t2 releasing {TIMEOUT}")
    it.send(*(release(key, "gang", "TIMEOUT") for key in ("p3", "t1", "t2")))
    it.expect("gang Failed")


def test_soft_timeout_lets_replacements_finish() -> None:
    """In flight: it is neither released nor forgotten (GA-47, GA-48), and Accepted waits for it (GA-42)."""
    it = world(tree(queue("g")), [node("n1", vcore=2)], confirms=False)
    it.given(gang(3, timeout_s=60), holder("p1"), holder("p2", vcore=9), real("t1"))
    it.wait(60)
    it.expect("gang Resuming", f"p2 releasing {GIVEN_UP}")
    it.send(ask("t2", "gang", vcore=1))
    it.expect("t2 on n1")  # Resuming goes on scheduling, and stays (GA-49)
    it.send(release("p1", "gang", "PLACEHOLDER_REPLACED"))
    it.expect("gang Accepted", "gang Starting", "gang Running", "t1 on n1")
    it.send(release("p2", "gang", "TIMEOUT"))  # needs no confirmation (AP-128)
    it.expect()


def test_placeholders_after_a_soft_timeout() -> None:
    """The announced total is history: it does not move the state again (GA-50)."""
    it = room(2)
    it.given(gang(3, timeout_s=60), *three())
    it.wait(60)
    it.heard()
    it.send(node("n2", vcore=9), *(holder(f"q{n}") for n in (1, 2, 3)))
    assert [line for line in it.heard() if "gang" in line] == []
    it.send(ask("t1", "gang", vcore=1))
    it.expect("gang Starting", "t1 on n2")


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_placeholders_that_come_too_late(style: str) -> None:
    """A gang that has timed out uses none: the resource manager is told of it, and then that it has to go (GA-80)."""
    it = world(tree(queue("g")), [node("n1", vcore=2)], confirms=False)
    it.given(gang(style=style, timeout_s=60), *three())
    it.wait(60)
    it.heard()
    it.send(holder("p4", on="n1"), holder("p5"), node("n2", vcore=2))
    told = ["p4 on n1", f"p4 releasing {TIMEOUT}", "n2 accepted"]
    it.expect(*told, *(["p5 on n2", f"p5 releasing {TIMEOUT}"] if style == "Soft" else []))


def test_real_tasks_that_come_too_late() -> None:
    """What the resource manager reports for a failing application has to end like everything else of it (AP-47)."""
    it = world(tree(queue("g")), [node("n1", vcore=2)], confirms=False)
    it.given(gang(style="Hard", timeout_s=60), *three())
    it.wait(60)
    it.given(ask("t1", "gang", vcore=1))
    it.send(ask("t1", "gang", vcore=1, on="n1"), ask("t2", "gang", vcore=1, on="n1"))
    it.expect("t1 on n1", f"t1 releasing {TIMEOUT}", "t2 on n1", f"t2 releasing {TIMEOUT}")
    it.send(release("t1", "gang"), holder("t1", on="n1"))  # the same key begins anew
    it.expect(f"t1 {RELEASED}", "t1 on n1", f"t1 releasing {TIMEOUT}")


def test_placeholders_that_were_not_announced() -> None:
    """No total is never reached: the application waits, and the placeholders end by timeout (GA-79)."""
    it = room()
    it.send(app("gang", "root.g"), holder("p1"))
    it.expect("gang New", "gang Accepted", "p1 on n1")
    it.wait(900)
    it.expect("gang Resuming", f"p1 releasing {TIMEOUT}", "gang Accepted")


def test_what_waited_for_placeholders_that_never_came() -> None:
    """They are given up, and the real asks of their group are ordinary ones (GA-42, GA-45)."""
    it = room(confirms=False)
    it.given(gang(timeout_s=60), holder("p1"), holder("b1", group="b", vcore=99), real("t1", group="b"))
    it.wait(60)
    it.expect("gang Resuming", f"p1 releasing {TIMEOUT}", f"b1 releasing {GIVEN_UP}", "t1 on n1")


def test_a_placeholder_too_late_for_a_completing_gang() -> None:
    """All have been told to go because nothing is left to do: what is reported afterwards has to go as well (AP-50)."""
    it = room(confirms=False)
    it.given(gang(2), holder("p1"), holder("p2"), real("t1"))
    it.given(release("p1", "gang", "PLACEHOLDER_REPLACED"), release("t1", "gang"))
    it.wait(29)
    it.given(holder("p3", on="n1"))
    it.wait(30)
    done = "TIMEOUT (releasing placeholders on app complete)"
    it.expect(f"p2 releasing {done}", f"p3 releasing {done}")
    it.send(holder("p4", on="n1"))
    it.expect("p4 on n1", f"p4 releasing {done}")
