"""The in-flight batch of a partition: the order in which it is handled, and what is left of it after a failure."""

import pytest
from world import app, ask

from ykactor.actors.commands import Answers, Intake, Read, RunCycles, TakeSnapshot
from ykactor.actors.hand import CHUNK_MAX, TEXTS_MAX, Culprit, Hand
from ykactor.actors.receipts import Accepted
from ykactor.core.messages.submissions import HeldLimits

A, B, C, D = (ask(key, "app-1", vcore=1) for key in "abcd")


def intake(*submissions):
    """Equal to no other one."""
    return Intake(list(submissions), Answers())


def handled(hand):
    """Handle everything; each part with the commands that it finished."""
    story = []
    while hand:
        wanted = hand.next()
        story.append((wanted, hand.finish()))
    return story


def test_submissions_are_handled_together_up_to_the_next_command():
    """And a command is finished with the last of its submissions."""
    first, second, third = intake(A, B), intake(C), intake(D)
    steps = RunCycles(1)
    hand = Hand()
    hand.take([first, second, steps, third])
    assert handled(hand) == [([A, B, C], [first, second]), (steps, []), ([D], [third])]


def test_readers_do_not_cut_input():
    """SE-96: what is read waits for the rest of the batch; everything else keeps its order."""
    first, second, snapshot = intake(A), intake(B), TakeSnapshot(1)
    reads = [Read(lambda *_: None, lambda _: None) for _ in range(2)]
    hand = Hand()
    hand.take([reads[0], first, reads[1], second, snapshot])
    assert handled(hand) == [([A, B], [first, second]), (snapshot, []), (reads[0], []), (reads[1], [])]


def test_submissions_with_other_limits_are_handled_apart():
    """Each with those of its sender; a command without submissions has no say."""
    few, many = HeldLimits("few", 1, 1, 1, 1), HeldLimits("many", 9, 9, 9, 9)
    hand = Hand()
    hand.take([Intake([A], limits=few), Intake([], limits=many), Intake([B], limits=few), Intake([C], limits=many), Intake([D])])
    story = []
    while hand:
        story.append((hand.next(), hand.sender().limits))
        hand.finish()
    assert story == [([A, B], few), ([C], many), ([D], None)]


def test_a_command_without_submissions_is_finished_too():
    """First, last and between others."""
    empty, other = intake(), intake(A)
    hand = Hand()
    hand.take([empty, TakeSnapshot(1), empty, other, empty])
    assert [finished for _, finished in handled(hand)] == [[empty], [empty], [other, empty]]


def test_many_submissions_are_handled_in_chunks():
    """A command ends with the chunk that has its last submission."""
    large, small = intake(*(app(f"app-{number}") for number in range(CHUNK_MAX + 1))), intake(A)
    hand = Hand()
    hand.take([large, small])
    assert [(len(wanted), finished) for wanted, finished in handled(hand)] == [(CHUNK_MAX, []), (2, [large, small])]


def test_submissions_with_many_texts_are_handled_in_smaller_chunks():
    """Each turn has about as many groups, tags and attributes; one submission may have more of them alone."""
    groups = tuple(f"g{number}" for number in range(TEXTS_MAX // 10))
    tagged = {f"t{number}": "v" for number in range(TEXTS_MAX + 1)}
    hand = Hand()
    hand.take([intake(*(app(f"app-{number}", groups=groups) for number in range(25)), A, B), intake(app("large", **tagged), C)])
    assert [len(wanted) for wanted, _ in handled(hand)] == [10, 10, 7, 2]


def test_after_a_failure_each_message_of_the_turn_is_handled_alone():
    """And those behind them together again, when none of the others fails."""
    hand = Hand()
    hand.take([intake(A, B)])
    assert hand.next() == [A, B]
    assert hand.fail() is None
    hand.take([intake(C, D)])
    assert [wanted for wanted, _ in handled(hand)] == [[A], [B], [C, D]]


@pytest.mark.parametrize("bad", [A, B, C])
def test_the_message_that_fails_alone_is_found(bad):
    """The failing message is taken out; its command finishes with its other submissions, none of which is handled twice."""
    commands = [intake(A), intake(B, C)]
    hand = Hand()
    hand.take(commands)
    hand.next()
    hand.fail()
    story, culprits = [], []
    while hand:
        wanted = hand.next()
        if wanted == [bad]:
            culprits.append(hand.fail())
            hand.take_out()
        else:
            story.append((wanted, hand.finish()))
    assert culprits == [Culprit(bad, commands[0] if bad is A else commands[1])]
    assert [submission for wanted, _ in story for submission in wanted] == [each for each in (A, B, C) if each is not bad]
    assert [intake for _, finished in story for intake in finished] == commands


def test_a_command_that_fails_twice_is_its_own_culprit():
    """The messages behind the culprit stay."""
    snapshot, behind = TakeSnapshot(1), intake(A)
    hand = Hand()
    hand.take([snapshot, behind])
    hand.next()
    assert hand.fail() is None
    hand.next()
    assert hand.fail() == Culprit(snapshot, snapshot)
    hand.take_out()
    assert handled(hand) == [([A], [behind])]


def test_a_failure_between_messages_accuses_nobody():
    """A timer or a cycle has failed: what is in hand is handled together, as if nothing had been."""
    both = intake(A, B)
    hand = Hand()
    hand.take([both])
    assert hand.fail() is None
    assert handled(hand) == [([A, B], [both])]


def test_what_is_given_up_are_commands_that_are_not_finished():
    """Also one of which a part was handled."""
    first, second = intake(*(app(f"app-{number}") for number in range(CHUNK_MAX + 1))), RunCycles(1)
    empty = intake()
    hand = Hand()
    hand.take([empty, first, second])
    hand.next()
    assert hand.finish() == [empty]
    assert hand.give_up() == [first, second]
    assert not hand


def test_a_turn_knows_which_requests_it_is_about():
    """And whether it handles the rest of each: the receipt in its transaction says so."""
    accepted = [Accepted(number, f"r{number}") for number in range(4)]
    many = [app(f"app-{number}") for number in range(CHUNK_MAX)]
    hand = Hand()
    hand.take([Intake([A], accepted=accepted[0]), intake(), intake(B), Intake(many, accepted=accepted[1])])
    hand.take([Intake([C], accepted=accepted[2]), RunCycles(1), Intake([D], accepted=accepted[3])])
    story = []
    while hand:
        if isinstance(hand.next(), list):
            story.append([(request.number, is_done) for request, is_done in hand.parts()])
        hand.finish()
    assert story == [[(0, True), (1, False)], [(1, True), (2, True)], [(3, True)]]
