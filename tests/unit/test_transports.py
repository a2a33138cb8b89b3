"""Bytes over a socket to a peer that is slow, or has gone."""

import socket
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from ykactor.surfaces.net.transports import FrameStream, Transport

Pair = tuple[Transport, trio.SocketStream]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """Both ends; the first has little room for what is sent."""
    here, there = trio.socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    transport, peer = Transport(trio.SocketStream(here)), trio.SocketStream(there)
    async with transport, peer:
        yield transport, peer


async def test_an_answer_waits_for_a_peer_that_reads_slowly(pair: Pair) -> None:
    """All of it comes, in its order."""
    transport, peer = pair
    data, received = bytes(range(256)) * 2**10, bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.answer, data)
        while len(received) < len(data):
            received += await peer.receive_some(1000)
            await trio.lowlevel.checkpoint()
    assert received == data


async def test_an_answer_to_a_peer_that_has_gone_fails(pair: Pair) -> None:
    """Also if it has gone in the middle."""
    transport, peer = pair
    with pytest.RaisesGroup(trio.BrokenResourceError):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.answer, bytes(2**20))
            await peer.receive_some(1000)
            await peer.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await transport.answer(b"more")


async def test_the_next_bytes_are_waited_for(pair: Pair) -> None:
    """Then they are what has come, and b"" at the end."""
    transport, peer = pair
    received: list[bytes | bytearray] = []

    async def receive() -> None:
        while data := await transport.receive_next(100):
            received.append(data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        for part in b"one", b"two":
            await trio.testing.wait_all_tasks_blocked()
            await peer.send_all(part)
        await trio.testing.wait_all_tasks_blocked()
        assert received == [b"one", b"two"]
        await peer.send_eof()


async def test_the_next_bytes_of_a_peer_that_has_gone_fail(pair: Pair) -> None:
    """A peer that has not read what was sent has not ended."""
    transport, peer = pair
    await transport.answer(b"unread")
    await peer.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await transport.receive_next(100)


async def test_what_is_here_is_received_at_once(pair: Pair) -> None:
    """The bytes are unread until then; b"" says that the peer has ended, and None that there is nothing yet."""
    transport, peer = pair
    assert (transport.has_unread(), transport.receive_now(100)) == (False, None)
    await peer.send_all(b"one")
    assert transport.has_unread()
    assert (transport.receive_now(100), transport.has_unread()) == (b"one", False)
    await peer.send_eof()
    assert transport.receive_now(100) == b""


async def test_what_the_socket_takes_is_sent_at_once(pair: Pair) -> None:
    """The rest is sent as usual, behind it; while something is sent, nothing is taken."""
    transport, peer = pair
    stream, data, received = FrameStream(transport), bytes(range(256)) * 2**8, bytearray()
    sent = stream.send_now(data)
    assert 0 < sent < len(data)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, data[sent:])
        await trio.testing.wait_all_tasks_blocked()
        assert stream.send_now(b"between") == 0
        while len(received) < len(data):
            received += await peer.receive_some(1000)
    assert received == data


async def test_nothing_is_sent_at_once_to_a_peer_that_has_gone(pair: Pair) -> None:
    """The next waiting send learns that the peer has gone."""
    transport, peer = pair
    await peer.aclose()
    assert FrameStream(transport).send_now(b"more") == 0
    assert transport.receive_now(100) == b""


async def test_nothing_comes_from_a_socket_that_is_closed(pair: Pair) -> None:
    """Also if it was closed by this side between two looks at it."""
    transport, _ = pair
    await trio.aclose_forcefully(transport)
    assert (transport.has_unread(), transport.receive_now(100)) == (False, None)
    with pytest.raises(trio.ClosedResourceError):
        await transport.receive_next(100)
