"""``MessageQueue``: bounded by number and bytes, and taken in few steps."""

import pytest
import trio
import trio.testing

from ykactor.surfaces.sessions.connection import MESSAGE_WORK, STEP_WORK, WAITING_BYTES_MAX, WAITING_MAX, MessageQueue


async def put_all(queue: MessageQueue, messages: list[bytes], put: list[bytes]) -> None:
    """Put messages in; ``put`` gets those for which nothing had to be waited for any more."""
    for message in messages:
        await queue.add(message, len(message))
        put.append(message)


@pytest.mark.parametrize(
    ("size", "most"),
    [(1, WAITING_MAX), (WAITING_BYTES_MAX // 4, 5), (10 * WAITING_BYTES_MAX, 2)],
    ids=["number", "bytes", "large"],
)
async def test_queue_waits_for_its_session_when_it_is_full(size: int, most: int) -> None:
    """More messages, or more bytes, are put in only when the session has taken all but one; a single one may be large."""
    queue, put, messages = MessageQueue(), list[bytes](), [bytes(size)] * 3 * WAITING_MAX
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_all, queue, messages, put)
        await trio.testing.wait_all_tasks_blocked()
        assert len(put) == most - 1  # the last one waits in there
        for left in range(most - 1, 1, -1):
            assert await queue.take(1) == ([(messages[0], size)], size)
            await trio.testing.wait_all_tasks_blocked()
            assert len(put) == most - 1, left
        await queue.take(1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(put) >= most
        nursery.cancel_scope.cancel()


async def test_session_takes_small_messages_in_one_step() -> None:
    """Other tasks run when enough work was done, not after each message; fewer are taken if the session may take fewer."""
    queue = MessageQueue()
    for _ in range(WAITING_MAX - 1):
        await queue.add(b"", 0)
    step = STEP_WORK // MESSAGE_WORK + 1
    with trio.testing.assert_no_checkpoints():
        assert len((await queue.take(1))[0]) == 1
        assert len((await queue.take(WAITING_MAX))[0]) == step - 1
    with trio.testing.assert_checkpoints():
        assert len((await queue.take(3))[0]) == 3
    with trio.testing.assert_no_checkpoints():
        assert len((await queue.take(WAITING_MAX))[0]) == WAITING_MAX - 1 - step - 3


async def test_large_message_is_the_last_of_its_step() -> None:
    """Messages are taken together up to the one that makes the step long enough."""
    queue = MessageQueue()
    for size in (1, STEP_WORK, 1):
        await queue.add(bytes(size), size)
    first, second = await queue.take(WAITING_MAX), await queue.take(WAITING_MAX)
    assert [message.size for message in first[0]] == [1, STEP_WORK]
    assert (first[1], second[1]) == (1 + STEP_WORK, 1)


@pytest.mark.parametrize("is_dropped", [False, True])
async def test_nothing_comes_after_the_end(is_dropped: bool) -> None:
    """Messages that wait at the end can be taken unless they are dropped; later ones are not put in, and nobody waits."""
    queue = MessageQueue()
    await queue.add(b"1", 1)
    await queue.add(b"2", 1)
    if is_dropped:
        queue.drop()
    else:
        queue.end()
        assert await queue.take(2) == ([(b"1", 1), (b"2", 1)], 2)
    await queue.add(b"3", 1)
    await queue.drained()
    with pytest.raises(trio.EndOfChannel):
        await queue.take(1)


async def test_cancelled_wait_neither_loses_nor_repeats_a_message() -> None:
    """A session that gives up waiting gets the message later; a reader that gives up waiting for room has put its one in."""
    queue, put, messages = MessageQueue(), list[bytes](), [b"%d" % number for number in range(WAITING_MAX)]
    with trio.move_on_after(0):
        await queue.take(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_all, queue, messages, put)
        await trio.testing.wait_all_tasks_blocked()
        assert put == messages[:-1]
        nursery.cancel_scope.cancel()
    queue.end()
    taken = [await queue.take(WAITING_MAX), await queue.take(WAITING_MAX)]
    assert [message.content for step, _ in taken for message in step] == messages
    with pytest.raises(trio.EndOfChannel):
        await queue.take(1)


async def test_end_wakes_both_sides() -> None:
    """The task that waits for a message learns that none comes; the one that waits for room goes on."""
    empty, full, put = MessageQueue(), MessageQueue(), list[bytes]()

    async def take() -> None:
        with pytest.raises(trio.EndOfChannel):
            await empty.take(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        nursery.start_soon(put_all, full, [b"message"] * 2 * WAITING_MAX, put)
        await trio.testing.wait_all_tasks_blocked()
        assert len(put) < WAITING_MAX
        empty.end()
        full.end()
