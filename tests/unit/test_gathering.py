"""Small messages of a peer that does not wait for answers gather before they are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from wsproto.connection import Connection, ConnectionType
from wsproto.events import TextMessage

from ykactor.access.limits import Limits as AccessLimits
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.net.transports import FrameStream, Transport
from ykactor.surfaces.sessions.connection import ANSWERED_S, GATHER_S, WebSocket

MS = 0.001
COUNT = 60


class Unlimited:
    """Limits of a session that refuse nothing."""

    path = "/v1/rm"

    def refusal(self, _: int) -> str:
        return ""


def websocket(stream: Any, nursery: trio.Nursery) -> WebSocket:
    """The daemon's end of a connection."""
    limits: Any = Unlimited()
    memory = InputMemory(AccessLimits)
    return WebSocket(stream, Connection(ConnectionType.SERVER), nursery, limits=limits, memory=memory, close_s=1.0)


@asynccontextmanager
async def connected(
    is_answering: Callable[[], bool], *, goes_on: bool = True
) -> AsyncIterator[tuple[WebSocket, Callable[[int], Awaitable[None]]]]:
    """A connection, and what sends a message of so many bytes through it, which says when it was sent."""
    near, far = trio.testing.memory_stream_pair()
    client = Connection(ConnectionType.CLIENT)

    async def send(size: int) -> None:
        await far.send_all(client.send(TextMessage(data=str(trio.current_time()).ljust(size))))

    async with trio.open_nursery() as nursery:
        stream: Any = SimpleNamespace(receive_next=near.receive_some, receive_now=lambda _: None, has_unread=lambda: False)
        socket = websocket(stream, nursery)
        socket.is_answering, socket.goes_on_gathering = is_answering, goes_on
        nursery.start_soon(socket.run)
        yield socket, send
        nursery.cancel_scope.cancel()


async def waits(socket: WebSocket) -> list[float]:
    """The seconds that each of the next messages has waited, which come together."""
    messages, _ = await socket.get_messages(64)
    return [trio.current_time() - float(str(message.content).strip()) for message in messages]


async def delays(
    sizes: list[int], is_answering: Callable[[], bool], *, apart_s: float = MS, goes_on: bool = True
) -> list[list[float]]:
    """Send a message of each size, one every ``apart_s``; the seconds that each waited, by the reads with which they came."""
    taken = list[list[float]]()
    async with connected(is_answering, goes_on=goes_on) as (socket, send), trio.open_nursery() as nursery:
        nursery.start_soon(_send, send, sizes, apart_s)
        while sum(map(len, taken)) < len(sizes):
            taken.append(await waits(socket))
    return taken


async def _send(send: Callable[[int], Awaitable[None]], sizes: list[int], apart_s: float) -> None:
    for size in sizes:
        await trio.sleep(apart_s)
        await send(size)


async def test_messages_before_answers_come_together(autojump_clock: trio.testing.MockClock) -> None:
    """The first is read at once; what follows while it has no answer waits for at most ``GATHER_S``, and comes together."""
    taken = await delays([20] * COUNT, lambda: True)
    assert taken[0] == [0.0]
    assert max(map(max, taken)) <= GATHER_S + 1e-9
    assert len(taken) <= COUNT * MS / GATHER_S + 2


@pytest.mark.parametrize(("size", "is_answering"), [(20, False), (2**13, True)], ids=["answered", "large"])
async def test_others_are_read_at_once(size: int, is_answering: bool, autojump_clock: trio.testing.MockClock) -> None:
    """A peer that has got all answers waits for nothing, as one that sends its next message then; nor does a large message."""
    assert await delays([size] * COUNT, lambda: is_answering) == [[0.0]] * COUNT


def lacking_once() -> Callable[[], bool]:
    """A peer that lacks answers when the second of its messages is read, and never again."""
    found = chain([False, True], repeat(False))
    return lambda: next(found)


async def test_messages_go_on_to_come_together(autojump_clock: trio.testing.MockClock) -> None:
    """A sender of several messages in a pause does not wait for answers, also if all have come: the next ones gather too."""
    taken = await delays([20] * COUNT, lacking_once())
    assert taken[:2] == [[0.0], [0.0]]
    assert max(map(max, taken)) <= GATHER_S + 1e-9
    assert len(taken) <= COUNT * MS / GATHER_S + 2


async def test_without_a_commit_messages_go_on_by_themselves(autojump_clock: trio.testing.MockClock) -> None:
    """A sender that has got all answers is read at once, whatever it sends, where there is nothing but a turn to share."""
    first, second, third, *rest = await delays([20] * COUNT, lacking_once(), goes_on=False)
    assert [first, second, len(third)] == [[0.0], [0.0], round(GATHER_S / MS)]
    assert rest == [[0.0]] * len(rest)


async def test_one_message_in_a_pause_is_the_last_that_waits(autojump_clock: trio.testing.MockClock) -> None:
    """A sender of one message in a pause may wait for its answer, so the next one is read at once."""
    taken = await delays([20] * COUNT, lacking_once(), apart_s=GATHER_S - MS)
    assert taken == [[0.0], [0.0], [pytest.approx(MS)], *[[0.0]] * (COUNT - 3)]


async def test_who_waits_for_answers_is_read_soon(autojump_clock: trio.testing.MockClock) -> None:
    """Two messages at a time, and two more when both have their answers: these gather for no more than ``ANSWERED_S``."""
    lacking, found = False, list[float]()
    async with connected(lambda: lacking) as (socket, send):
        for _ in range(COUNT):
            for _ in range(2):
                await send(20)
            answered = len(found)
            while len(found) < answered + 2:
                found += await waits(socket)
                lacking = True
            await trio.sleep(2 * MS)
            lacking = False
            socket.answered()
    assert max(found) <= ANSWERED_S + 1e-9 < GATHER_S - 2 * MS


async def test_a_connection_that_is_closed_in_a_pause_ends(autojump_clock: trio.testing.MockClock) -> None:
    """The end is the same as that of one that is closed while it is read: no error."""
    here, there = trio.socket.socketpair()
    stream, client = FrameStream(Transport(trio.SocketStream(here))), Connection(ConnectionType.CLIENT)
    async with trio.SocketStream(there) as peer, trio.open_nursery() as nursery:
        socket = websocket(stream, nursery)
        socket.is_answering = lambda: True
        nursery.start_soon(socket.run)
        await peer.send_all(client.send(TextMessage(data="one")))
        await socket.get_messages(64)
        await trio.aclose_forcefully(stream)
        socket.answered()
        await trio.sleep(GATHER_S)
        await trio.testing.wait_all_tasks_blocked()
    assert socket.has_ended
