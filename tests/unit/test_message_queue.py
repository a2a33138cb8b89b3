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
            assert await queue.take() == (messages[0], size)
            await trio.testing.wait_all_tasks_blocked()
            assert len(put) == most - 1, left
        await queue.take()
        await trio.testing.wait_all_tasks_blocked()
        assert len(put) >= most
        nursery.cancel_scope.cancel()


async def test_session_takes_small_messages_in_one_step() -> None:
    """Other tasks run when enough work was done, not after each message."""
    queue, taken = MessageQueue(), 0
    for _ in range(WAITING_MAX - 1):
        await queue.add(b"", 0)
    with trio.testing.assert_no_checkpoints():
        while taken * MESSAGE_WORK <= STEP_WORK:
            await queue.take()
            taken += 1
    with trio.testing.assert_checkpoints():
        await queue.take()
    with trio.testing.assert_no_checkpoints():
        await queue.take()


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
        assert [await queue.take(), await queue.take()] == [(b"1", 1), (b"2", 1)]
    await queue.add(b"3", 1)
    await queue.drained()
    with pytest.raises(trio.EndOfChannel):
        await queue.take()


async def test_cancelled_wait_neither_loses_nor_repeats_a_message() -> None:
    """A session that gives up waiting gets the message later; a reader that gives up waiting for room has put its one in."""
    queue, put, messages = MessageQueue(), list[bytes](), [b"%d" % number for number in range(WAITING_MAX)]
    with trio.move_on_after(0):
        await queue.take()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_all, queue, messages, put)
        await trio.testing.wait_all_tasks_blocked()
        assert put == messages[:-1]
        nursery.cancel_scope.cancel()
    queue.end()
    assert [(await queue.take())[0] for _ in messages] == messages
    with pytest.raises(trio.EndOfChannel):
        await queue.take()


async def test_end_wakes_both_sides() -> None:
    """The task that waits for a message learns that none comes; the one that waits for room goes on."""
    empty, full, put = MessageQueue(), MessageQueue(), list[bytes]()

    async def take() -> None:
        with pytest.raises(trio.EndOfChannel):
            await empty.take()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        nursery.start_soon(put_all, full, [b"message"] * 2 * WAITING_MAX, put)
        await trio.testing.wait_all_tasks_blocked()
        assert len(put) < WAITING_MAX
        empty.end()
        full.end()
