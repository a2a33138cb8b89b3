"""The remembered answers of the resource manager: verdicts, deadlines, bounds."""

from ykactor.core.messages.changed import Changed
from ykactor.core.nodes import predicates as module
from ykactor.core.nodes.predicates import LOOKS_MAX, NO_ANSWER, OPEN_MAX, PATIENCE_NS, REASON_MAX, Answer, Predicates

GPU = ("gpu", True)
GPU_INSTEAD = ("gpu", False)


def test_verdicts():
    """Unknown, passed, refused; without a class everything passes; ``allocate`` is part of the question."""
    predicates = Predicates(Changed())
    assert predicates.verdict(("", True), "n1") is True
    assert predicates.verdict(GPU, "n1") is None
    assert predicates.answer(GPU, "n1", "")
    assert not predicates.answer(GPU, "n1", "")
    assert predicates.verdict(GPU, "n1") is True
    assert predicates.verdict(GPU_INSTEAD, "n1") is None
    assert predicates.answer(GPU, "n1", "no")
    assert not predicates.answer(GPU, "n1", "no")
    assert predicates.answer(GPU, "n1", "still no")
    assert predicates.verdict(GPU, "n1") is False
    assert predicates.refusals(GPU) == {"n1": "still no"}
    assert predicates.counts() == [(GPU, 0, 0, 1)]


def test_a_pass_for_some_placements():
    """SC-160: each placement uses up one of both answers of the class about the node; after the last it is unknown."""
    predicates = Predicates(Changed())
    predicates.answer(GPU, "n1", "", 2)
    predicates.answer(GPU_INSTEAD, "n1", "", 3)
    predicates.answer(GPU, "n2", "", 1)
    predicates.answer(("disk", True), "n1", "", 1)
    assert not predicates.answer(GPU, "n1", "", 2)
    predicates.place("gpu", "n1")
    assert predicates.answer_about(GPU, "n1") == Answer(has_passed=True, uses=1)
    changes = predicates.changes
    predicates.place("gpu", "n1")
    assert predicates.changes == changes + 1, "whoever keeps the nodes that pass hears that one does not any more"
    assert [predicates.verdict(question, "n1") for question in (GPU, GPU_INSTEAD, ("disk", True))] == [None, True, True]
    assert predicates.verdict(GPU, "n2") is True
    assert predicates.counted == 3
    predicates.answer(GPU_INSTEAD, "n1", "")
    for _ in range(5):
        predicates.place("gpu", "n1")
    assert predicates.verdict(GPU_INSTEAD, "n1") is True
    predicates.forget("", "")
    assert predicates.counted == 0


def test_what_is_left_is_restored():
    """The number of placements left is kept with the answer."""
    before, after = Predicates(Changed()), Predicates(Changed())
    before.answer(GPU, "n1", "", 2)
    before.place("gpu", "n1")
    after.restore(GPU, "n1", before.answer_about(GPU, "n1"))
    after.place("gpu", "n1")
    assert after.answer_about(GPU, "n1") is None


def test_an_answer_in_time_is_not_overdue():
    """The deadline of an answered question is void."""
    predicates = Predicates(Changed())
    predicates.ask(0, GPU, ["n1", "n2"])
    predicates.answer(GPU, "n1", "")
    predicates.answer(GPU, "n2", "no")
    assert predicates.due_ns() is None
    assert predicates.counts() == [(GPU, 0, 1, 1)]


def test_silence():
    """Refused at the deadline, to be asked again after as long, then after twice as long; an answer ends it."""
    predicates = Predicates(Changed())
    predicates.ask(0, GPU, ["n1"])
    assert not predicates.expire(PATIENCE_NS - 1)
    assert predicates.expire(PATIENCE_NS)
    assert predicates.refusals(GPU) == {"n1": NO_ANSWER}
    assert predicates.to_ask_again(2 * PATIENCE_NS - 1, GPU) == []
    assert predicates.due_ns() == 2 * PATIENCE_NS
    assert predicates.expire(2 * PATIENCE_NS)
    assert predicates.to_ask_again(2 * PATIENCE_NS, GPU) == ["n1"]
    predicates.ask(2 * PATIENCE_NS, GPU, ["n1"])
    assert predicates.verdict(GPU, "n1") is False
    assert predicates.to_ask_again(10 * PATIENCE_NS, GPU) == []
    predicates.expire(3 * PATIENCE_NS)
    assert predicates.due_ns() == 5 * PATIENCE_NS
    predicates.answer(GPU, "n1", "")
    assert predicates.due_ns() is None
    assert predicates.verdict(GPU, "n1") is True


def test_open_questions_are_bounded():
    """Open questions are bounded per question and in all; an answer makes room."""
    predicates = Predicates(Changed())
    assert predicates.room(GPU) == 16
    predicates.ask(0, GPU, [f"n{number}" for number in range(16)])
    assert predicates.room(GPU) == 0
    for number in range(OPEN_MAX // 16 - 1):
        predicates.ask(0, (f"class-{number}", True), [f"n{node}" for node in range(16)])
    assert predicates.room(("one more", True)) == 0
    predicates.answer(GPU, "n0", "")
    assert predicates.room(("one more", True)) == 1


def test_memory_is_bounded(monkeypatch):
    """The answers of the least recently used classes are forgotten first; open questions and their deadlines stay."""
    monkeypatch.setattr(module, "KNOWN_MAX", 100)
    predicates = Predicates(Changed())
    predicates.ask(0, ("open", True), ["n0"])
    for number in range(1000):
        predicates.answer((f"class-{number}", True), "n1", "x" * 10 * REASON_MAX)
    counts = predicates.counts()
    assert 90 <= sum(asked + passed + refused for _, asked, passed, refused in counts) <= 100
    assert predicates.is_open(("open", True), "n0")
    assert predicates.due_ns() == PATIENCE_NS
    assert predicates.refusals(("class-999", True)) == {"n1": "x" * REASON_MAX}
    assert predicates.verdict(("class-0", True), "n1") is None


def test_classes_are_bounded():
    """Also those with one answer each."""
    predicates = Predicates(Changed())
    for number in range(3 * OPEN_MAX):
        predicates.answer((f"class-{number}", True), "n1", "")
    assert len(predicates.counts()) <= OPEN_MAX


def test_room_is_made_at_a_bounded_price():
    """An answer to a class that all others keep open does not look through them all; those answered are still found and go."""
    world, looks = Predicates(Changed()), []
    for number in range(OPEN_MAX):
        world.ask(0, (f"open-{number}", True), ["n1"])
    forget = world._forget_known
    world._forget_known = lambda question, answers: (looks.append(answers), forget(question, answers))
    for number in range(2 * OPEN_MAX):
        world.answer((f"class-{number}", True), "n1", "")
    assert len(looks) <= 2 * OPEN_MAX * LOOKS_MAX
    assert len(world.counts()) <= 1.1 * OPEN_MAX
    assert all(world.is_open((f"open-{number}", True), "n1") for number in range(OPEN_MAX))


def test_deadlines_that_are_void_do_not_pile_up():
    """An answerer that is quick leaves no trail."""
    predicates = Predicates(Changed())
    for number in range(10 * OPEN_MAX):
        predicates.ask(number, GPU, ["n1"])
        predicates.answer(GPU, "n1", "no" if number % 2 else "")
    assert len(predicates.deadlines) <= 2 * OPEN_MAX


def test_readmissions():
    """Whoever passed over refused nodes hears when one of them may be tried again, and of nothing else."""
    predicates = Predicates(Changed())
    predicates.answer(GPU, "n1", "")
    predicates.ask(0, GPU, ["n2"])
    predicates.answer(GPU, "n2", "no")
    assert predicates.readmissions == 0
    predicates.answer(GPU, "n2", "")
    predicates.answer(GPU, "n2", "no")
    predicates.forget("gpu", "n2")
    predicates.set_answered(True)
    assert predicates.readmissions == 3
