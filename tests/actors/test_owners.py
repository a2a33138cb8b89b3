"""Tasks that own queues and nodes: one for each, commands in order, answers in order, never an overflow."""

from itertools import pairwise

import pytest
import trio
import trio.testing

from ykactor.actors.owners import IN_FLIGHT_MAX, Owners
from ykactor.core.objects.commands import Close, SubmitBatch


class Owner:
    """A core that answers ``(its name, command)`` and remembers the commands."""

    def __init__(self, path):
        self.path = path
        self.heard = []

    def handle(self, command):
        self.heard.append(command)
        if command == "break":
            raise RuntimeError(f"{self.path} is broken")
        return self.path, command


def rounds(*rounds_of_sends):
    """A core's generator: sends each round, and returns all answers."""
    answers = []
    for sends in rounds_of_sends:
        answers += yield sends
    return answers


async def test_answers_come_in_the_order_of_the_commands(seed):
    """Whatever order trio runs the owners in, answers are where their commands were; more than may be under way are fine."""
    cores = [Owner(f"q{number}") for number in range(3 * IN_FLIGHT_MAX + 7)]
    async with trio.open_nursery() as nursery:
        owners = Owners(nursery)
        answers = await owners.carry_out(rounds([(core, "a") for core in cores], [(core, "b") for core in cores]))
        nursery.cancel_scope.cancel()
    assert answers == [(core.path, command) for command in "ab" for core in cores]


@pytest.mark.parametrize("entries", [0, 1, 10, 100, IN_FLIGHT_MAX, 500])
async def test_not_too_much_is_handled_between_two_checks_of_the_sockets(seed, entries):
    """Commands and the submissions in them count, whoever gets them; a single command is not cut."""
    cores, heard = [Owner(f"q{number}") for number in range(100)], []

    class Watch(trio.abc.Instrument):
        def before_io_wait(self, _):
            heard.append(sum(len(core.heard) for core in cores))

    trio.lowlevel.add_instrument(Watch())
    async with trio.open_nursery() as nursery:
        owners = Owners(nursery)
        answers = await owners.carry_out(rounds([(core, SubmitBatch(0, [None] * entries)) for core in cores]))
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert [path for path, _ in answers] == [core.path for core in cores]
    assert heard[-1] == 100
    assert max(after - before for before, after in pairwise(heard)) * (1 + entries) <= max(IN_FLIGHT_MAX, 1 + entries)


async def test_one_owner_gets_its_commands_in_order(seed):
    """Many commands to one owner do not overflow its inbox and do not overtake each other."""
    core = Owner("q")
    commands = list(range(2 * IN_FLIGHT_MAX + 1))
    async with trio.open_nursery() as nursery:
        await Owners(nursery).carry_out(rounds([(core, command) for command in commands]))
        nursery.cancel_scope.cancel()
    assert core.heard == commands


async def test_requesters_do_not_get_each_others_answers(seed):
    """The partition and its scheduler may talk to the same owners; each gets its own answers."""
    cores = [Owner(f"q{number}") for number in range(50)]
    told = {}

    async def ask(owners, command):
        told[command] = await owners.carry_out(rounds(*[[(core, command) for core in cores]] * 5))

    async with trio.open_nursery() as nursery:
        owners = Owners(nursery)
        async with trio.open_nursery() as requesters:
            requesters.start_soon(ask, owners, "a")
            requesters.start_soon(ask, owners, "b")
        nursery.cancel_scope.cancel()
    assert told == {command: [(core.path, command) for core in cores] * 5 for command in "ab"}


async def test_each_owner_has_one_task_from_its_first_command_to_its_last(seed):
    """A task begins when somebody has something to say, and ends with ``Close`` or ``Decommission``."""
    one, other = Owner("one"), Owner("other")
    async with trio.open_nursery() as nursery:
        owners = Owners(nursery)
        assert not nursery.child_tasks
        await owners.carry_out(rounds([(one, 1), (other, 1), (one, 2)]))
        assert sorted(task.name for task in nursery.child_tasks) == ["queue one", "queue other"]
        await owners.carry_out(rounds([(one, Close())]))
        await trio.testing.wait_all_tasks_blocked()
        assert [task.name for task in nursery.child_tasks] == ["queue other"]
        await owners.carry_out(rounds([(other, Close())]))
    assert [type(command) for command in one.heard] == [int, int, Close]


async def test_requester_that_gives_up_does_not_disturb_the_owners(seed):
    """A requester that is cancelled while it waits is not woken by the answers; the owners serve the next requester."""
    core = Owner("q")
    async with trio.open_nursery() as nursery:
        owners = Owners(nursery)
        with trio.CancelScope() as scope:
            scope.cancel()
            await owners.carry_out(rounds([(core, "a")]))
        assert scope.cancelled_caught
        assert await owners.carry_out(rounds([(core, "b")])) == [("q", "b")]
        nursery.cancel_scope.cancel()
    assert core.heard == ["a", "b"]


async def test_generator_without_commands_ends_at_once():
    """A round may have nothing to say."""
    async with trio.open_nursery() as nursery:
        assert await Owners(nursery).carry_out(rounds()) == []
        assert await Owners(nursery).carry_out(rounds([], [])) == []


async def test_broken_owner_is_not_silently_missed(seed):
    """An owner that raises takes everybody down: who waits for its answer does not wait for ever."""
    with pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            await Owners(nursery).carry_out(rounds([(Owner("q"), 1), (Owner("p"), "break")]))
    assert [str(error) for error in caught.value.exceptions] == ["p is broken"]
