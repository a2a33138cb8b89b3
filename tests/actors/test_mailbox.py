"""A bounded inbox: order, room, and what happens when it is full or closed."""

import pytest
import trio
import trio.testing

from ykactor.actors.mailbox import Mailbox, MailboxOverflow


def filled(count, capacity=10):
    box = Mailbox("box", capacity)
    for number in range(count):
        box.put_nowait(number)
    return box


async def test_batches_are_bounded_and_in_order():
    """``take_batch`` takes what is there, at most as much as asked for, the oldest first."""
    box = filled(5)
    assert await box.take_batch(3) == [0, 1, 2]
    assert await box.take_batch(3) == [3, 4]


async def test_take_batch_waits_for_the_first_message(seed):
    """An actor sleeps until something comes, and then gets what has come meanwhile too."""
    box = Mailbox("box", 10)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def owner():
            assert await box.take_batch(10) == [1, 2]

        await trio.testing.wait_all_tasks_blocked()
        box.put_nowait(1)
        box.put_nowait(2)


async def test_take_nowait_never_waits():
    """``take_nowait`` may return nothing."""
    box = filled(2)
    assert box.take_nowait(10) == [0, 1]
    assert box.take_nowait(10) == []


async def test_put_waits_for_room(seed):
    """Commands of several senders wait when the inbox is full; none is lost, and each sender's keep their order."""
    box = Mailbox("box", 3)
    taken = []

    async def send(name):
        for number in range(20):
            await box.put((name, number))

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(send, name)
        await trio.testing.wait_all_tasks_blocked()
        assert box.messages_waiting() == 3
        assert box.senders_waiting() == 3
        while len(taken) < 60:
            taken += await box.take_batch(2)
    for name in "abc":
        assert [number for sender, number in taken if sender == name] == list(range(20))


async def test_offer_takes_room_and_never_waits():
    """``offer`` says whether there was room, and lets no other task run."""
    box = filled(1, capacity=2)
    with trio.testing.assert_no_checkpoints():
        assert box.offer(1)
        assert not box.offer(2)
    assert await box.take_batch(10) == [0, 1]
    box.close()
    with pytest.raises(trio.ClosedResourceError):
        box.offer(3)


async def test_give_waits_only_for_room():
    """``give`` is a checkpoint only if the inbox is full; then it waits for its turn, and learns of the end, like ``put``."""
    box = filled(1, capacity=2)
    with trio.testing.assert_no_checkpoints():
        await box.give(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.put, 2)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(box.give, 3)
        await trio.testing.wait_all_tasks_blocked()
        assert [await box.get() for _ in range(4)] == [0, 1, 2, 3]
    box.close()
    with pytest.raises(trio.ClosedResourceError):
        await box.give(4)


async def test_message_without_room_is_our_mistake():
    """``put_nowait`` counts on reserved room: the overflow names the inbox and its bound, and leaves it as it was."""
    box = filled(3, capacity=3)
    with pytest.raises(MailboxOverflow, match="box: more than 3 messages wait"):
        box.put_nowait("too much")
    assert box.take_nowait(10) == [0, 1, 2]


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_closed_inbox_gives_what_is_left_and_then_ends(count):
    """Messages accepted before the end are still handed out, those of the last batch too."""
    waited, polled = filled(count), filled(count)
    waited.close()
    polled.close()
    for expected in ([0, 1, 2], [3, 4]) if count == 5 else ([0],) * count:
        assert await waited.take_batch(3) == expected
        assert polled.take_nowait(3) == expected
    with pytest.raises(trio.EndOfChannel):
        await waited.take_batch(3)
    with pytest.raises(trio.EndOfChannel):
        polled.take_nowait(3)


async def test_closed_inbox_refuses_senders(seed):
    """Senders learn that nobody is left, also those that wait for room at that moment."""
    box = filled(3, capacity=3)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def sender():
            with pytest.raises(trio.ClosedResourceError):
                await box.put("late")

        await trio.testing.wait_all_tasks_blocked()
        box.close()
    with pytest.raises(trio.ClosedResourceError):
        await box.put("later")


async def test_cancelled_put_leaves_nothing_behind():
    """A sender that gives up has sent nothing."""
    box = filled(3, capacity=3)
    with trio.move_on_after(0):
        await box.put("given up")
    assert box.take_nowait(10) == [0, 1, 2]
