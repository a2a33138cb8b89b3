"""A preparation of several tasks: none continues before the outcome, and the outcome is one for all."""

import pytest
import trio
import trio.testing

from ykactor.actors.switch import TwoPhaseSwitch


class Preparing:
    """A switch whose participants are tasks; ``outcomes`` is what each was answered, in the order of the answers."""

    def __init__(self, count):
        self.participants = [f"p{number}" for number in range(count)]
        self.switch = TwoPhaseSwitch(self.participants)
        self.outcomes = []

    async def prepare(self, objection=""):
        self.outcomes.append(await self.switch.prepare(self.participants.pop(), objection))


@pytest.mark.parametrize("accepted", [True, False])
async def test_participants_wait_for_the_decision_and_hear_the_same(seed, autojump_clock, accepted):
    """All preparations together are not the decision: whoever holds the switch may still have something to do."""
    preparation = Preparing(3)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(preparation.prepare)
        assert await preparation.switch.outcome() == ""
        await trio.testing.wait_all_tasks_blocked()
        assert preparation.outcomes == []
        preparation.switch.commit(accepted=accepted)
    assert preparation.outcomes == [accepted] * 3


async def test_the_outcome_waits_for_every_preparation(seed, autojump_clock):
    """An objection is no reason to stop asking: all objections are reported, one per line."""
    preparation = Preparing(3)
    heard = []

    async def listen():
        heard.append(await preparation.switch.outcome())
        preparation.switch.commit(accepted=not heard[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        for objection in ("not now", "", "not here"):
            assert heard == []
            nursery.start_soon(preparation.prepare, objection)
            await trio.testing.wait_all_tasks_blocked()
    assert heard == ["not here\nnot now"]  # in the order of the participants, whoever came first
    assert preparation.outcomes == [False] * 3


async def test_only_the_first_decision_counts(seed, autojump_clock):
    """So that "no" may be said at the end in any case; it is also the answer to those who come late."""
    for first in (True, False):
        preparation = Preparing(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(preparation.prepare)
            await trio.testing.wait_all_tasks_blocked()
            preparation.switch.commit(accepted=first)
            preparation.switch.commit(accepted=not first)
            nursery.start_soon(preparation.prepare, "too late")
        assert preparation.outcomes == [first] * 2


async def test_without_participants_nothing_is_to_be_waited_for(autojump_clock):
    """A configuration may keep none of the partitions that run."""
    with trio.fail_after(1):
        assert await TwoPhaseSwitch([]).outcome() == ""
