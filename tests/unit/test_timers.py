"""The timers of a partition."""

from world import S_NS

from ykactor.core.messages.changed import Changed
from ykactor.core.messages.states import TERMINAL_TIMEOUT_NS, ApplicationState
from ykactor.core.partition.timers import REJECTED_MAX, SPARE, EndedApplication, Timers
from ykactor.core.values.ids import ApplicationID, QueuePath

A, B = QueuePath("root.a"), QueuePath("root.b")


def ended(finished_ns: int, name: str = "app-1") -> EndedApplication:
    return EndedApplication(ApplicationID(name), "root.a", ApplicationState.COMPLETED, finished_ns)


def test_earliest_of_all() -> None:
    """The one alarm clock rings for whatever comes first; None while nothing is to come."""
    timers = Timers(Changed())
    assert timers.next_ns() is None
    timers.note_ended(ended(0))
    assert timers.next_ns() == TERMINAL_TIMEOUT_NS
    timers.cleaning_ns = 50
    assert timers.next_ns() == 50
    timers.note_leaf(A, 60)
    timers.note_leaf(B, 40)
    timers.note_leaf(B, None)
    assert timers.next_ns() == 40


def test_each_leaf_once() -> None:
    """Leaves are woken earliest first, each once however often it was noted."""
    timers = Timers(Changed())
    for path, deadline_ns in [(A, 30), (B, 20), (A, 10), (A, 10), (B, 99)]:
        timers.note_leaf(path, deadline_ns)
    assert timers.due_leaves(9) == []
    assert timers.due_leaves(30) == [A, B]
    assert timers.next_ns() is None  # whoever wakes a leaf notes what it has next
    timers.note_leaf(B, 99)
    assert timers.next_ns() == 99


def test_deadlines_are_inclusive() -> None:
    """Due at exactly its deadline (SC-5)."""
    timers = Timers(Changed())
    timers.note_leaf(A, 30)
    assert timers.due_leaves(30) == [A]


def test_ended_applications_expire() -> None:
    """Visible for 72 h under ``<applicationID>-<unix seconds>``, a second end in one second gets a number (AP-71, AP-73)."""
    timers = Timers(Changed())
    for finished_ns in (5 * S_NS, 5 * S_NS + 1, 5 * S_NS + 2, 9 * S_NS):
        timers.note_ended(ended(finished_ns))
    assert list(timers.ended) == ["app-1-5", "app-1-5-2", "app-1-5-3", "app-1-9"]
    assert timers.due_expiries(5 * S_NS + TERMINAL_TIMEOUT_NS - 1) == []
    due = timers.due_expiries(5 * S_NS + TERMINAL_TIMEOUT_NS + 1)
    assert [application.finished_ns for application in due] == [5 * S_NS, 5 * S_NS + 1]
    assert list(timers.ended) == ["app-1-5-3", "app-1-9"]


def test_fresh_start() -> None:
    """Nothing that ended is visible any more, and nothing of it falls due (SC-141)."""
    timers = Timers(Changed())
    timers.note_ended(ended(0))
    timers.forget_ended()
    assert (timers.ended, timers.next_ns(), timers.due_expiries(TERMINAL_TIMEOUT_NS)) == ({}, None, [])


def test_refusals_do_not_fill_the_memory() -> None:
    """One refusal is kept for each id, and of many ids the newest; none of them touches what ended (AP-22, AP-71)."""
    timers = Timers(Changed())
    timers.note_ended(ended(31 * S_NS, "x"))
    for number in range(REJECTED_MAX + 5):
        timers.note_rejected(ended(number, f"y{number}"))
        timers.note_rejected(ended(number, "x-31"))
    assert len(timers.rejected) == REJECTED_MAX
    assert list(timers.ended) == ["x-31"]
    assert timers.next_ns() == next(iter(timers.rejected.values())).finished_ns + TERMINAL_TIMEOUT_NS
    assert [one.application_id for one in timers.due_expiries(31 * S_NS + TERMINAL_TIMEOUT_NS)] == ["x"]
    assert not timers.rejected


def test_removed_leaves_do_not_fill_the_memory() -> None:
    """A deadline in the far future does not outlive its leaf, and one that was brought forward does not stay."""
    timers = Timers(Changed())
    timers.note_leaf(A, 30)
    for number in range(10 * SPARE):
        timers.note_leaf(QueuePath(f"root.x{number}"), 10**18)
        timers.forget_leaf(QueuePath(f"root.x{number}"))
        timers.note_leaf(B, 10**18 - number)
    assert len(timers._leaves) <= 2 * 2 + SPARE
    assert len(timers._noted) == 2
    assert timers.due_leaves(10**18) == [A, B]
