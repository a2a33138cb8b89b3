"""Bounds below the level of messages: frames, pings and bytes that no session has handled."""

from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
import trio
from costs import Memory
from doubles import running_daemon
from trio_websocket import ConnectionClosed
from wsproto.frame_protocol import FrameProtocol, Opcode

from ykactor.access.limits import Limits as AccessLimits
from ykactor.client.connection import open_connection
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.sessions.connection import CONTROL_FRAMES_MAX, FRAMES_MAX
from ykactor.surfaces.sessions.peer import Limits

SUBSCRIBE = b'{"type":"Subscribe"}'


class Peer:
    """A peer that sends raw frames."""

    def __init__(self, connection):
        self.connection = connection
        self._frames = FrameProtocol(client=True, extensions=[])

    def frame(self, payload=b"", opcode=Opcode.CONTINUATION, *, fin=False):
        return self._frames._serialize_frame(opcode, payload, fin=fin)

    async def send(self, *frames):
        with suppress(trio.BrokenResourceError):
            await self.connection._stream.send_all(b"".join(frames))

    async def receive(self):
        return msgspec.json.decode(await self.connection.get_message())

    async def closed(self):
        """Wait until the server closes; the code and reason."""
        while True:
            try:
                await self.connection.get_message()
            except ConnectionClosed as closed:
                return closed.reason.code, closed.reason.reason


@asynccontextmanager
async def peer(daemon, path="/v1/feed"):
    async with open_connection(daemon.url, path) as connection:
        yield Peer(connection)


async def subscribed(daemon):
    """Others still get what they ask for."""
    async with peer(daemon) as other:
        await other.send(other.frame(SUBSCRIBE, Opcode.TEXT, fin=True))
        assert (await other.receive())["type"] == "Bookmark"


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG])
async def test_a_flood_of_pings_ends_its_session(opcode, caplog):
    """A hundred control frames in a second are taken, with one more the session ends with 1008; the log says so once."""
    with caplog.at_level("INFO"):
        async with running_daemon() as daemon:
            async with peer(daemon) as flood:
                await flood.send(*[flood.frame(b"", opcode, fin=True)] * (CONTROL_FRAMES_MAX * 20))
                reason = "more than 100 pings and pongs came in a second"
                assert await flood.closed() == (1008, reason)
            await subscribed(daemon)
    (record,) = [record for record in caplog.records if record.getMessage() == "peer_dropped"]
    assert record.keys == {"path": "/v1/feed", "code": 1008, "reason": reason}


async def test_pings_within_the_limit_are_taken(mock_clock):
    """The limit is one for each second, not for a connection."""
    async with running_daemon() as daemon, peer(daemon) as lively:
        for _ in range(2):
            await lively.send(*[lively.frame(b"", Opcode.PING, fin=True)] * CONTROL_FRAMES_MAX)
            await lively.send(lively.frame(SUBSCRIBE, Opcode.TEXT, fin=True))
            assert (await lively.receive())["type"] == "Bookmark"
            mock_clock.jump(1)


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed"])
async def test_a_message_of_endless_frames_ends_its_session(path):
    """Frames without content would be kept without bound: a message has a largest number of frames."""
    async with running_daemon() as daemon:
        async with peer(daemon, path) as endless, trio.open_nursery() as nursery:
            await endless.send(endless.frame(b"", Opcode.TEXT))
            nursery.start_soon(endless.send, *[endless.frame()] * (FRAMES_MAX + 1))
            assert await endless.closed() == (1008, f"a message has more than {FRAMES_MAX} frames")
        await subscribed(daemon)


async def test_a_message_of_many_frames_is_put_together():
    """Whatever the frames are, also a character that is cut in two; a message after it is not affected."""
    queue = "root.ü"
    parts = [f'{{"type":"Subscribe","queues":["{queue}"]}}'.encode()[position : position + 1] for position in range(42)]
    async with running_daemon() as daemon, peer(daemon) as slow:
        for _ in range(2):
            await slow.send(slow.frame(b"", Opcode.TEXT), *map(slow.frame, parts))
            await slow.send(slow.frame(b"", fin=True))
            answer = await slow.receive()
            assert (answer["type"], answer["missingQueues"]) == ("Bookmark", [queue])


@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
async def test_small_parts_take_no_more_memory_than_their_bytes(opcode):
    """A message that comes byte by byte: as objects of their own the bytes would take forty times as much."""
    async with running_daemon(limits=Limits(unused_s=3600, ping_s=3600)) as daemon, peer(daemon) as slow:
        whole = slow.frame(b"x" * 100_000)
        await slow.send(slow.frame(b"", opcode), whole[:14])
        with Memory() as memory:
            for place in range(14, 5_014):
                # An error if the daemon has ended the connection.
                await slow.connection._stream.send_all(whole[place : place + 1])
                await trio.lowlevel.checkpoint()
        assert memory.peak < 150_000


@pytest.mark.parametrize("frames", [1, 2])
async def test_the_size_of_a_message_is_that_of_its_bytes(frames):
    """4,000 characters of three bytes each are more than 10,000 bytes."""
    async with running_daemon(limits=Limits(subscription_bytes_max=10_000)) as daemon, peer(daemon) as large:
        payload = ("€" * 4000).encode()
        await large.send(large.frame(payload[:-1000], Opcode.TEXT), large.frame(payload[-1000:], fin=True))
        assert await large.closed() == (1009, "a message has more than 10000 bytes")


# ---- the memory of all peers together


class Reader:
    """A connection of which only its refusal is known."""

    def __init__(self, memory):
        self.memory = memory
        self.reason = ""

    def refuse(self, code, reason):
        self.memory.forget(self)
        self.reason = f"{code} {reason}"


def test_the_largest_reader_is_dropped():
    """Too much input in all ends the connection with most of it, not the last one; requests that were taken do not count."""
    memory = InputMemory(lambda: AccessLimits(waiting_bytes=100))
    small, large, idle = Reader(memory), Reader(memory), Reader(memory)
    memory.add(idle, 0)
    memory.add(large, 60)
    memory.add(small, 40)
    assert not large.reason
    memory.add(small, 1)
    assert large.reason == "1013 limit waitingBytes = 100: all peers have sent more, this one most"
    memory.add_requests(49)
    assert not small.reason
    memory.release(small, 41)
    memory.add_requests(100)
    memory.add(idle, 0)
    assert not small.reason + idle.reason


async def test_unfinished_messages_of_all_peers_are_bounded():
    """Peers that never finish their messages are dropped in favour of others, which go on; what is finished does not count."""
    async with running_daemon(in_force=lambda: AccessLimits(waiting_bytes=1_000_000)) as daemon:
        async with peer(daemon) as first, peer(daemon, "/v1/rm") as second, peer(daemon) as third:
            for large in (first, third):
                await large.send(large.frame(bytes(400_000 if large is first else 350_000), Opcode.BINARY))
            await third.send(third.frame(b"", Opcode.PING, fin=True))
            await second.send(second.frame(b"x" * 300_000, Opcode.TEXT))
            assert await first.closed() == (1013, "limit waitingBytes = 1000000: all peers have sent more, this one most")
            await second.send(second.frame(b"", fin=True))
            assert (await second.receive())["code"] == "MALFORMED"
            for _ in range(10):
                await second.send(second.frame(b"x" * 300_000, Opcode.TEXT, fin=True))
                assert (await second.receive())["code"] == "MALFORMED"
            await subscribed(daemon)


async def test_what_a_connection_has_sent_counts_no_more_when_it_has_ended():
    """Each connection leaves half of a message behind; after many of them there is as much room as before."""
    async with running_daemon(limits=Limits(close_s=0.1), in_force=lambda: AccessLimits(waiting_bytes=1_000_000)) as daemon:
        async with peer(daemon, "/v1/rm") as honest:
            await honest.send(honest.frame(b"x" * 600_000, Opcode.TEXT))
            for _ in range(10):
                async with peer(daemon) as rude:
                    await rude.send(rude.frame(bytes(150_000), Opcode.BINARY), rude.frame(b"", Opcode.PING, fin=True))
            await honest.send(honest.frame(b"", fin=True))
            assert (await honest.receive())["code"] == "MALFORMED"
