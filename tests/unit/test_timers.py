"""When something falls due in a partition."""

from world import S_NS

from ykactor.core.messages.states import TERMINAL_TIMEOUT_NS, ApplicationState
from ykactor.core.partition.timers import REJECTED_MAX, EndedApplication, Timetable
from ykactor.core.values.ids import ApplicationID, QueuePath

A, B = QueuePath("root.a"), QueuePath("root.b")


def ended(finished_ns: int, name: str = "app-1") -> EndedApplication:
    return EndedApplication(ApplicationID(name), "root.a", ApplicationState.COMPLETED, finished_ns)


def test_earliest_of_all() -> None:
    """The one alarm clock rings for whatever comes first; None while nothing is to come."""
    it = Timetable()
    assert it.next_ns() is None
    it.note_ended(ended(0))
    assert it.next_ns() == TERMINAL_TIMEOUT_NS
    it.cleaning_ns = 50
    assert it.next_ns() == 50
    it.note_leaf(A, 60)
    it.note_leaf(B, 40)
    it.note_leaf(B, None)
    assert it.next_ns() == 40


def test_each_leaf_once() -> None:
    """Leaves are woken earliest first, each once however often it was noted."""
    it = Timetable()
    for path, deadline_ns in [(A, 30), (B, 20), (A, 10), (A, 10), (B, 99)]:
        it.note_leaf(path, deadline_ns)
    assert it.due_leaves(9) == []
    assert it.due_leaves(30) == [A, B]
    assert it.next_ns() is None  # whoever wakes a leaf notes what it has next
    it.note_leaf(B, 99)
    assert it.next_ns() == 99


def test_deadlines_are_inclusive() -> None:
    """Due at exactly its deadline (SC-5)."""
    it = Timetable()
    it.note_leaf(A, 30)
    assert it.due_leaves(30) == [A]


def test_ended_applications_expire() -> None:
    """Visible for 72 h under ``<applicationID>-<unix seconds>``, a second end in one second gets a number (AP-71, AP-73)."""
    it = Timetable()
    for finished_ns in (5 * S_NS, 5 * S_NS + 1, 5 * S_NS + 2, 9 * S_NS):
        it.note_ended(ended(finished_ns))
    assert list(it.ended) == ["app-1-5", "app-1-5-2", "app-1-5-3", "app-1-9"]
    assert it.due_expiries(5 * S_NS + TERMINAL_TIMEOUT_NS - 1) == []
    due = it.due_expiries(5 * S_NS + TERMINAL_TIMEOUT_NS + 1)
    assert [application.finished_ns for application in due] == [5 * S_NS, 5 * S_NS + 1]
    assert list(it.ended) == ["app-1-5-3", "app-1-9"]


def test_fresh_start() -> None:
    """Nothing that ended is visible any more, and nothing of it falls due (SC-141)."""
    it = Timetable()
    it.note_ended(ended(0))
    it.forget_ended()
    assert (it.ended, it.next_ns(), it.due_expiries(TERMINAL_TIMEOUT_NS)) == ({}, None, [])


def test_refusals_do_not_fill_the_memory() -> None:
    """One refusal is kept for each id, and of many ids the newest; none of them touches what ended (AP-22, AP-71)."""
    it = Timetable()
    it.note_ended(ended(31 * S_NS, "x"))
    for number in range(REJECTED_MAX + 5):
        it.note_rejected(ended(number, f"y{number}"))
        it.note_rejected(ended(number, "x-31"))
    assert len(it.rejected) == REJECTED_MAX
    assert list(it.ended) == ["x-31"]
    assert it.next_ns() == next(iter(it.rejected.values())).finished_ns + TERMINAL_TIMEOUT_NS
    assert [one.application_id for one in it.due_expiries(31 * S_NS + TERMINAL_TIMEOUT_NS)] == ["x"]
    assert not it.rejected
