"""What is remembered of the resource manager's answers: verdicts, deadlines, bounds."""

from ykactor.core.nodes import predicates as module
from ykactor.core.nodes.predicates import LOOKS_MAX, NO_ANSWER, OPEN_MAX, PATIENCE_NS, REASON_MAX, Predicates

GPU = ("gpu", True)
GPU_INSTEAD = ("gpu", False)


def test_verdicts():
    """Unknown, passed, refused; without a class everything passes; ``allocate`` is part of the question."""
    it = Predicates()
    assert it.verdict(("", True), "n1") is True
    assert it.verdict(GPU, "n1") is None
    assert it.answer(GPU, "n1", "")
    assert not it.answer(GPU, "n1", "")
    assert it.verdict(GPU, "n1") is True
    assert it.verdict(GPU_INSTEAD, "n1") is None
    assert it.answer(GPU, "n1", "no")
    assert not it.answer(GPU, "n1", "no")
    assert it.answer(GPU, "n1", "still no")
    assert it.verdict(GPU, "n1") is False
    assert it.refusals(GPU) == {"n1": "still no"}
    assert it.counts() == [(GPU, 0, 0, 1)]


def test_an_answer_in_time_is_not_overdue():
    """Its deadline is void."""
    it = Predicates()
    it.ask(0, GPU, ["n1", "n2"])
    it.answer(GPU, "n1", "")
    it.answer(GPU, "n2", "no")
    assert it.due_ns() is None
    assert it.counts() == [(GPU, 0, 1, 1)]


def test_silence():
    """Refused at the deadline, to be asked again after as long, then after twice as long; an answer ends it."""
    it = Predicates()
    it.ask(0, GPU, ["n1"])
    assert not it.expire(PATIENCE_NS - 1)
    assert it.expire(PATIENCE_NS)
    assert it.refusals(GPU) == {"n1": NO_ANSWER}
    assert it.to_ask_again(2 * PATIENCE_NS - 1, GPU) == []
    assert it.due_ns() == 2 * PATIENCE_NS
    assert it.expire(2 * PATIENCE_NS)
    assert it.to_ask_again(2 * PATIENCE_NS, GPU) == ["n1"]
    it.ask(2 * PATIENCE_NS, GPU, ["n1"])
    assert it.verdict(GPU, "n1") is False
    assert it.to_ask_again(10 * PATIENCE_NS, GPU) == []
    it.expire(3 * PATIENCE_NS)
    assert it.due_ns() == 5 * PATIENCE_NS
    it.answer(GPU, "n1", "")
    assert it.due_ns() is None
    assert it.verdict(GPU, "n1") is True


def test_open_questions_are_bounded():
    """As many as a question has room for, as many in all; an answer makes room."""
    it = Predicates()
    assert it.room(GPU) == 16
    it.ask(0, GPU, [f"n{number}" for number in range(16)])
    assert it.room(GPU) == 0
    for number in range(OPEN_MAX // 16 - 1):
        it.ask(0, (f"class-{number}", True), [f"n{node}" for node in range(16)])
    assert it.room(("one more", True)) == 0
    it.answer(GPU, "n0", "")
    assert it.room(("one more", True)) == 1


def test_memory_is_bounded(monkeypatch):
    """Of answers those are forgotten whose class was used longest ago; open questions and their deadlines stay."""
    monkeypatch.setattr(module, "KNOWN_MAX", 100)
    it = Predicates()
    it.ask(0, ("open", True), ["n0"])
    for number in range(1000):
        it.answer((f"class-{number}", True), "n1", "x" * 10 * REASON_MAX)
    counts = it.counts()
    assert 90 <= sum(asked + passed + refused for _, asked, passed, refused in counts) <= 100
    assert it.is_open(("open", True), "n0")
    assert it.due_ns() == PATIENCE_NS
    assert it.refusals(("class-999", True)) == {"n1": "x" * REASON_MAX}
    assert it.verdict(("class-0", True), "n1") is None


def test_classes_are_bounded():
    """Also those with one answer each."""
    it = Predicates()
    for number in range(3 * OPEN_MAX):
        it.answer((f"class-{number}", True), "n1", "")
    assert len(it.counts()) <= OPEN_MAX


def test_room_is_made_at_a_bounded_price():
    """With all classes open an answer to another one does not look through them all; those answered are still found and go."""
    it, looks = Predicates(), []
    for number in range(OPEN_MAX):
        it.ask(0, (f"open-{number}", True), ["n1"])
    forget = it._forget_known
    it._forget_known = lambda answers: (looks.append(answers), forget(answers))
    for number in range(2 * OPEN_MAX):
        it.answer((f"class-{number}", True), "n1", "")
    assert len(looks) <= 2 * OPEN_MAX * LOOKS_MAX
    assert len(it.counts()) <= 1.1 * OPEN_MAX
    assert all(it.is_open((f"open-{number}", True), "n1") for number in range(OPEN_MAX))


def test_deadlines_that_are_void_do_not_pile_up():
    """An answerer that is quick leaves no trail."""
    it = Predicates()
    for number in range(10 * OPEN_MAX):
        it.ask(number, GPU, ["n1"])
        it.answer(GPU, "n1", "no" if number % 2 else "")
    assert len(it._due) <= 2 * OPEN_MAX


def test_readmissions():
    """Whoever passed over refused nodes hears when one of them may be tried again, and of nothing else."""
    it = Predicates()
    it.answer(GPU, "n1", "")
    it.ask(0, GPU, ["n2"])
    it.answer(GPU, "n2", "no")
    assert it.readmissions == 0
    it.answer(GPU, "n2", "")
    it.answer(GPU, "n2", "no")
    it.forget("gpu", "n2")
    it.set_answered(True)
    assert it.readmissions == 3
