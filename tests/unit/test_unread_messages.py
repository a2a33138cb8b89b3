"""A client receives no more when much is unread, and TCP back pressure stops the daemon."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from ykactor.client.connection import WAITING_BYTES_MAX, WAITING_MAX, _Taken, _Unread

LARGE = bytes(WAITING_BYTES_MAX // 2)


def queue() -> tuple[_Unread, _Taken]:
    unread = _Unread(*trio.open_memory_channel[str | bytes](WAITING_MAX))
    return unread, _Taken(unread)


async def put(unread: _Unread, count: int, told: list[int]) -> None:
    for number in range(count):
        await unread.send(LARGE)
        told.append(number)


async def test_bytes_are_bounded(nursery: trio.Nursery) -> None:
    """A message beyond the bound is not added, until so much was read; one message may be larger than the bound."""
    (unread, taken), told = queue(), list[int]()
    nursery.start_soon(put, unread, 6, told)
    await wait_all_tasks_blocked()
    assert told == [0, 1, 2]
    assert await taken.receive() == LARGE
    await wait_all_tasks_blocked()
    assert told == [0, 1, 2, 3]
    for _ in range(5):
        assert len(taken.receive_nowait()) == len(LARGE)
        await wait_all_tasks_blocked()
    await unread.send(bytes(3 * WAITING_BYTES_MAX))
    assert len(await taken.receive()) == 3 * WAITING_BYTES_MAX


async def test_the_end_of_reading_ends_the_wait(nursery: trio.Nursery) -> None:
    """Else the connection would never close."""
    unread, taken = queue()

    async def fill() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await put(unread, 6, [])

    async with trio.open_nursery() as filling:
        filling.start_soon(fill)
        await wait_all_tasks_blocked()
        await taken.aclose()
