"""Token buckets, and whose turn it is to take of one."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing

from ykactor.access.limits import Limits
from ykactor.surfaces.admission.pacing import FairQueue, TokenBucket
from ykactor.surfaces.admission.slots import BURST, REQUESTS_PER_S, ConnectionSlots, Slot


def seconds(burst_s: float = 0.0) -> FairQueue:
    """A queue for seconds of the time."""
    return FairQueue(TokenBucket(lambda: 1.0, burst_s))


async def test_requests_have_a_pace(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: so many in a second, after a burst."""
    queue, since_s = FairQueue(TokenBucket(lambda: REQUESTS_PER_S, BURST / REQUESTS_PER_S)), trio.current_time()
    for _ in range(BURST + 10 * REQUESTS_PER_S):
        await queue.take("a", 1)
    assert 9.9 <= trio.current_time() - since_s <= 10.3


async def test_holders_take_turns(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: one that has sent a thousand requests holds up its own only; each of the others waits for one of it."""
    order: list[str] = []

    async def ask(holder: str) -> None:
        await queue.take(holder, 1.0)
        order.append(holder)

    async with trio.open_nursery() as nursery:
        queue = seconds()
        queue.bucket.take(1.0)
        for holder in ["many"] * 1000 + ["few"] * 2 + ["one"]:
            nursery.start_soon(ask, holder)
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(20.5)
        assert order[:6] == ["many", "few", "one", "many", "few", "many"]
        assert len(order) == 20
        nursery.cancel_scope.cancel()


async def test_who_has_gone_takes_no_turn(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: a connection that ends while it waits delays nobody, and nothing is kept of it."""
    queue = seconds()
    queue.bucket.take(1.0)
    async with trio.open_nursery() as gone:
        for holder in ("a", "a", "b"):
            gone.start_soon(queue.take, holder, 100.0)
        await trio.testing.wait_all_tasks_blocked()
        assert len(queue._entries) == 2
        gone.cancel_scope.cancel()
    assert not queue._entries
    await queue.take("c", 1.0)
    assert trio.current_time() == autojump_clock.current_time()
    await queue.take("c", 1.0)
    assert queue.bucket.tokens == pytest.approx(-1.0)


async def test_what_was_said_wrongly_is_made_up_for(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: who has taken more than was expected delays the next by so much, and less the other way round."""
    queue, since_s = seconds(), trio.current_time()
    for correction in (3.0, -1.0, 0.0):
        await queue.take("a", 2.0)
        queue.bucket.take(correction)
    await queue.take("a", 0.0)
    assert trio.current_time() - since_s == pytest.approx(8.0, abs=0.01)


async def test_what_is_owed_is_paid_at_the_rate_of_the_moment(autojump_clock: trio.testing.MockClock) -> None:
    """SE-49: a higher rate is noticed within a second, however long the wait would have been."""
    rates, since_s = [1.0], trio.current_time()
    bucket = TokenBucket(lambda: rates[-1])
    bucket.take(1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bucket.wait, 1)
        await trio.sleep(5.5)
        rates.append(1000.0)
    assert 6.0 <= trio.current_time() - since_s <= 7.5


async def test_kinds_of_connections_have_paces_of_their_own(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: 240 connections that ask for ``/livez`` in a loop slow neither readers nor scrapes; those have the whole pace."""
    answered: Counter[str] = Counter()
    slots = ConnectionSlots(Limits)

    async def loop(slot: Slot) -> None:
        while True:
            await slots.wait_for_request(slot)
            answered[slot.holder] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(240):
            nursery.start_soon(loop, slots.unproven.take("crowd"))
        await trio.sleep(1)
        reader, scrape, probe = slots.readers.take("reader"), slots.metrics.take("scrape"), slots.unproven.take("probe")
        for slot in (reader, scrape):
            since_s = trio.current_time()
            for _ in range(BURST):
                await slots.wait_for_request(slot)
            assert trio.current_time() == since_s
        since_s = trio.current_time()
        await slots.wait_for_request(probe)
        assert trio.current_time() - since_s <= 3 / REQUESTS_PER_S
        await trio.sleep(10)
        assert 0.9 <= answered["crowd"] / (11 * REQUESTS_PER_S + BURST) <= 1.1
        nursery.cancel_scope.cancel()
