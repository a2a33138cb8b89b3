"""Turns: how fast, and whose is next."""

from __future__ import annotations

import math
from collections import Counter

import trio
import trio.testing

from ykactor.access.limits import Limits
from ykactor.surfaces.admission.slots import BURST, REQUESTS_PER_S, ConnectionSlots, Paces, Slot, Turns


async def test_requests_have_a_pace(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: so many in a second, after a burst."""
    async with trio.open_nursery() as nursery:
        turns, since_s = Turns(BURST / REQUESTS_PER_S), trio.current_time()
        nursery.start_soon(turns.run)
        for _ in range(BURST + 10 * REQUESTS_PER_S):
            await turns.wait("a", 1 / REQUESTS_PER_S)
        assert 9.9 <= trio.current_time() - since_s <= 10.3
        nursery.cancel_scope.cancel()


async def test_holders_take_turns(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: one that has sent a thousand requests holds up its own only; each of the others waits for one of it."""
    order: list[str] = []

    async def ask(holder: str) -> None:
        await turns.wait(holder, 1.0)
        order.append(holder)

    async with trio.open_nursery() as nursery:
        turns = Turns(0.0)
        turns.take(1.0)
        nursery.start_soon(turns.run)
        for holder in ["many"] * 1000 + ["few"] * 2 + ["one"]:
            nursery.start_soon(ask, holder)
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(20.5)
        assert order[:6] == ["many", "few", "one", "many", "few", "many"]
        assert len(order) == 20
        nursery.cancel_scope.cancel()


async def test_who_has_gone_takes_no_turn(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: a connection that ends while it waits delays nobody, and nothing is kept of it."""
    async with trio.open_nursery() as nursery:
        turns = Turns(0.0)
        turns.take(1.0)
        nursery.start_soon(turns.run)
        async with trio.open_nursery() as gone:
            for holder in ("a", "a", "b"):
                gone.start_soon(turns.wait, holder, 100.0)
            await trio.testing.wait_all_tasks_blocked()
            gone.cancel_scope.cancel()
        assert not turns._waiting
        await turns.wait("c", 1.0)
        assert trio.current_time() == autojump_clock.current_time()
        await turns.wait("c", 1.0)
        assert math.isclose(turns._even_at_s - trio.current_time(), 1.0)
        nursery.cancel_scope.cancel()


async def test_what_was_said_wrongly_is_made_up_for(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: who has taken more than was expected delays the next by so much, and less the other way round."""
    async with trio.open_nursery() as nursery:
        turns, since_s = Turns(0.0), trio.current_time()
        nursery.start_soon(turns.run)
        for correction in (3.0, -1.0, 0.0):
            await turns.wait("a", 2.0)
            turns.take(correction)
        await turns.wait("a", 0.0)
        assert math.isclose(trio.current_time() - since_s, 8.0, abs_tol=0.01)
        nursery.cancel_scope.cancel()


async def test_kinds_of_connections_have_paces_of_their_own(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: 240 connections that ask for ``/livez`` in a loop slow neither readers nor scrapes; those have the whole pace."""
    answered: Counter[str] = Counter()
    slots = ConnectionSlots(Limits)
    paces = Paces(slots)

    async def loop(slot: Slot) -> None:
        while True:
            await paces.wait(slot)
            answered[slot.holder] += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(paces.run)
        for _ in range(240):
            nursery.start_soon(loop, slots.unproven.take("crowd"))
        await trio.sleep(1)
        reader, scrape, probe = slots.readers.take("reader"), slots.metrics.take("scrape"), slots.unproven.take("probe")
        for slot in (reader, scrape):
            since_s = trio.current_time()
            for _ in range(BURST):
                await paces.wait(slot)
            assert trio.current_time() == since_s
        since_s = trio.current_time()
        await paces.wait(probe)
        assert trio.current_time() - since_s <= 3 / REQUESTS_PER_S
        await trio.sleep(10)
        assert 0.9 <= answered["crowd"] / (11 * REQUESTS_PER_S + BURST) <= 1.1
        nursery.cancel_scope.cancel()
