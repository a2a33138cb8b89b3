"""The channel of the client, in trio and asyncio: each item is taken once, whoever is cancelled."""

import asyncio
from functools import partial
from random import Random

import anyio
import pytest

from ykactor.client.channel import Channel

COUNT = 200


async def put_all(channel, items):
    for item in items:
        await channel.put(item)
    channel.close(EOFError())


async def take_all(channel, taken):
    try:
        while True:
            taken.append(await channel.take())
    except EOFError:
        return


async def take_for_a_moment(channel, taken, rng):
    with anyio.move_on_after(rng.choice((0, 0.0001, 0.0005))):
        taken.append(await channel.take())


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_no_item_is_lost_by_who_is_cancelled(backend, size):
    taken = []

    async def program():
        channel = Channel(size)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(put_all, channel, range(COUNT))
            rng = Random(1)
            for _ in range(COUNT // 2):
                await take_for_a_moment(channel, taken, rng)
            tasks.start_soon(take_all, channel, taken)

    anyio.run(program, backend=backend)
    assert taken == list(range(COUNT))


def test_no_item_is_lost_that_comes_when_asyncio_cancels():
    """It wakes the task that waits, and the task is cancelled before it runs."""

    async def program():
        channel = Channel(1)
        task = asyncio.create_task(channel.take())
        await anyio.wait_all_tasks_blocked()
        await channel.put("item")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with anyio.fail_after(60):
            assert await channel.take() == "item"

    asyncio.run(program())


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_an_item_whose_sender_is_cancelled_is_not_sent(backend):
    """Unless somebody has taken it: ``put`` returns when it is taken."""

    async def program():
        channel = Channel()
        with anyio.move_on_after(0.001) as waited:
            await channel.put("never")
        assert waited.cancelled_caught
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.put, "taken")
            assert await channel.take() == "taken"

    anyio.run(program, backend=backend)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_who_waits_gets_the_error_with_which_the_channel_is_closed(backend):
    """Who wants to take and who wants to put, at once and later; what is left is taken first."""

    async def fails(function):
        with pytest.raises(EOFError):
            await function()

    async def program():
        for waiting in ("take", "put"):
            channel = Channel()
            function = channel.take if waiting == "take" else partial(channel.put, 1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fails, function)
                await anyio.wait_all_tasks_blocked()
                channel.close(EOFError())
            await fails(function)
        channel = Channel(1)
        await channel.put("left")
        channel.close(EOFError())
        assert await channel.take() == "left"
        await fails(channel.take)

    anyio.run(program, backend=backend)
