"""SE-96: connections go on together while the loop is busy."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from ykactor.surfaces.http import load
from ykactor.surfaces.http import server as arrivals
from ykactor.surfaces.http.server import ReadinessBatch


@pytest.fixture
def is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is."""
    monkeypatch.setattr(load.LoopLoad, "is_busy", lambda _: True)


@pytest.fixture
def is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is, whatever else this machine does."""
    monkeypatch.setattr(load.LoopLoad, "is_busy", lambda _: False)


@pytest.fixture
async def waiting(nursery: trio.Nursery) -> ReadinessBatch:
    """Serves the connections of a test."""
    waiting = ReadinessBatch()
    nursery.start_soon(waiting.run)
    return waiting


async def moments(waiting: ReadinessBatch, connections: int, every_s: float) -> list[float]:
    """The moments at which connections go on, each of which has waited, and to which something is sent one after the other."""
    passed_s = list[float]()
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        peers = []
        for _ in range(connections):
            here, there = trio.socket.socketpair()
            stack.callback(here.close)
            stack.callback(there.close)
            peers.append(there)

            async def go_on(here: trio.socket.SocketType = here) -> None:
                await waiting.wait(here)
                passed_s.append(trio.current_time())

            nursery.start_soon(go_on)
        await trio.testing.wait_all_tasks_blocked()
        since_s = trio.current_time()
        for peer in peers:
            await peer.send(b"x")
            await trio.sleep(every_s)
    return [moment - since_s for moment in passed_s]


@pytest.mark.usefixtures("is_busy")
async def test_a_busy_loop_lets_connections_go_on_together(
    autojump_clock: trio.testing.MockClock, waiting: ReadinessBatch
) -> None:
    """Once in each ``TOGETHER_S``, of the second for which something is sent."""
    passed_s = await moments(waiting, connections=20, every_s=0.05)
    assert len(passed_s) == 20
    assert len(set(passed_s)) == round(1 / arrivals.TOGETHER_S)


@pytest.mark.usefixtures("is_idle")
async def test_an_idle_loop_lets_each_connection_go_on_at_once(
    autojump_clock: trio.testing.MockClock, waiting: ReadinessBatch
) -> None:
    """An idle loop has time for each connection."""
    passed_s = await moments(waiting, connections=20, every_s=0.021)
    assert passed_s == pytest.approx([number * 0.021 for number in range(20)])


@pytest.mark.usefixtures("is_busy")
async def test_few_connections_go_on_at_once(autojump_clock: trio.testing.MockClock, waiting: ReadinessBatch) -> None:
    """More would hold the loop: they go on a little later."""
    count = 10 * arrivals.GROUP_MAX
    passed_s = await moments(waiting, connections=count, every_s=0)
    assert [passed_s.count(moment) for moment in sorted(set(passed_s))] == [arrivals.GROUP_MAX] * 10
    assert max(passed_s) < 2 * arrivals.TOGETHER_S


async def test_a_connection_that_has_gone_goes_on(autojump_clock: trio.testing.MockClock, waiting: ReadinessBatch) -> None:
    """A connection that has gone can be read to its end."""
    here, there = trio.socket.socketpair()
    with here:
        there.close()
        await waiting.wait(here)
        assert await here.recv(1) == b""


@pytest.mark.usefixtures("is_busy")
async def test_who_gives_up_is_forgotten(autojump_clock: trio.testing.MockClock, waiting: ReadinessBatch) -> None:
    """Also when something has arrived, and in a group that goes on; the next connection has the same descriptor."""
    for sent in b"", b"x":
        here, there = trio.socket.socketpair()
        with here, there:
            with trio.move_on_after(arrivals.TOGETHER_S / 2) as scope:
                await there.send(sent)
                await waiting.wait(here)
            assert scope.cancelled_caught
    assert not waiting._waiting
    assert len(await moments(waiting, connections=3, every_s=0.05)) == 3


@pytest.fixture
async def crowd() -> AsyncIterator[list[tuple[trio.socket.SocketType, trio.socket.SocketType]]]:
    """More connections than go on at once, on all of which something has arrived."""
    pairs = [trio.socket.socketpair() for _ in range(3 * arrivals.GROUP_MAX)]
    for _, there in pairs:
        await there.send(b"x")
    yield pairs
    for pair in pairs:
        for end in pair:
            end.close()


@pytest.mark.usefixtures("is_busy")
async def test_who_gives_up_between_two_groups_is_not_woken(
    autojump_clock: trio.testing.MockClock,
    waiting: ReadinessBatch,
    crowd: list[tuple[trio.socket.SocketType, trio.socket.SocketType]],
) -> None:
    """The others are."""
    gone_on, scopes = list[int](), dict[int, trio.CancelScope]()

    async def go_on(number: int) -> None:
        with trio.CancelScope() as scopes[number]:
            await waiting.wait(crowd[number][0])
            gone_on.append(number)
            for scope in scopes.values():
                scope.cancel()

    async with trio.open_nursery() as nursery:
        for number in range(len(crowd)):
            nursery.start_soon(go_on, number)
    assert len(gone_on) == arrivals.GROUP_MAX
    assert not waiting._waiting
