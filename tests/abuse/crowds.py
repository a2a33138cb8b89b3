"""Many followers, of which some do not read: the others get every event in order, as fast as without them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import msgspec
import trio
from rawframes import CLOSE, PING, PONG, frame, handshake
from rawpeers import RawPeer, raw_peer
from target import Target

from ykactor.client import ResourceManager, connect
from ykactor.surfaces.sessions.peer import STALLED, Limits
from ykactor.wire.si import messages as si

#: Nodes whose names are so long that each event has more than 1,000 bytes; a request changes all of them.
NODES = 200
_NAME_BYTES = 1000
#: Bytes of events after which a follower that does not read is stalled: more than the sockets of both sides take.
STALLING_BYTES = 2 * 2**20
#: Memory for all events that the feed keeps, as they are and encoded, and for each follower.
FEED_BYTES, FOLLOWER_BYTES = 2**27, 2**17
#: A stalled follower is dropped after ``send_s``; a busy machine may be late.
LATE_S = 60.0


class _Event(msgspec.Struct):
    sequence: int


class _Message(msgspec.Struct):
    type: str
    events: list[_Event] = []
    sequence: int = 0
    from_: int = msgspec.field(default=0, name="from")
    to: int = 0


_decode = msgspec.json.Decoder(_Message).decode


class Follower:
    """Reads, and checks that no event is missing; ``last`` is the number of the newest one that it knows."""

    def __init__(self, peer: RawPeer) -> None:
        self._peer = peer
        self.last = 0
        self._grown = trio.Event()
        self.lagged: list[tuple[int, int]] = []

    async def subscribe(self) -> None:
        """Subscribe to the events from now on."""
        await self._peer.stream.send_all(handshake() + frame(b'{"type":"Subscribe"}'))
        await self._peer.accepted()
        self.last = (await self._receive()).sequence

    async def reach(self, last: int) -> None:
        """Wait until it has read up to this event."""
        while self.last < last:
            await self._grown.wait()

    async def read(self) -> None:
        """Read until cancelled."""
        while True:
            message = await self._receive()
            if message.type == "Lagged":
                assert message.from_ == self.last + 1
                self.lagged.append((message.from_, message.to))
                self.last = message.to
            for event in message.events:
                assert event.sequence == self.last + 1, f"found event {event.sequence} after {self.last}"
                self.last = event.sequence
            self._grown.set()
            self._grown = trio.Event()

    async def _receive(self) -> _Message:
        while (received := await self._peer.receive()).opcode == PING:
            await self._peer.stream.send_all(frame(received.payload, PONG))
        assert received.opcode != CLOSE, f"the daemon has ended a follower that reads: {received.payload!r}"
        return _decode(received.payload)


async def crowd(abused: Target, followers: int, stalled: int, requests: int) -> str:
    """Compare a crowd without stalled followers and the same with them. Returns figures."""
    memory = abused.memory()
    async with AsyncExitStack() as stack:
        # One more follows now and then, to see how far the feed is (``_all_read``).
        readers = [await stack.enter_async_context(_following(abused)) for _ in range(followers - stalled - 1)]
        rm = await stack.enter_async_context(_changing(abused))
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.read)
            alone_s, alone_cpu_s = await _play(abused, rm, readers, requests)
            for _ in range(stalled):
                await stack.enter_async_context(_following(abused, buffer_bytes=4096))
            await _play(abused, rm, readers, 2 * STALLING_BYTES // (NODES * _NAME_BYTES))
            together_s, together_cpu_s = await _play(abused, rm, readers, requests)
            cost = abused.memory() - memory
            assert cost < FEED_BYTES + followers * FOLLOWER_BYTES
            await _all_dropped(abused, stalled)
            await _play(abused, rm, readers, 1)
            nursery.cancel_scope.cancel()
    ratio, cpu_ratio = together_s / alone_s, together_cpu_s / alone_cpu_s
    told = f"the others are {ratio:.1f} times as slow, with {cpu_ratio:.1f} times the CPU time"
    assert together_s < 2 * alone_s or together_cpu_s < 2 * alone_cpu_s, told
    rate = requests * NODES / together_s
    return (
        f"{followers} followers with {stalled} stalled: the others get {rate:.0f} events/s each, {1 / ratio:.2f} of the rate"
        f" without stalled ones (CPU time {cpu_ratio:.2f}); {cost >> 20} MiB"
    )


@asynccontextmanager
async def _following(abused: Target, buffer_bytes: int | None = None) -> AsyncIterator[Follower]:
    async with raw_peer(abused, buffer_bytes=buffer_bytes) as peer:
        follower = Follower(peer)
        await follower.subscribe()
        yield follower


class _Changes:
    """Makes events: each request changes the capacity of every node."""

    def __init__(self, rm: ResourceManager) -> None:
        self._rm = rm
        self._numbers = count(1)

    async def make(self, action: str = "UPDATE") -> None:
        """One request, which is acknowledged."""
        capacity: dict[str, int | str] = {"vcore": next(self._numbers)}
        names = [f"{number:04}".ljust(_NAME_BYTES, "n") for number in range(NODES)]
        nodes = [si.NodeInfo(node_id=name, action=action, schedulable_resource=capacity) for name in names]
        await self._rm.request(si.NodeRequest(nodes=nodes))


@asynccontextmanager
async def _changing(abused: Target) -> AsyncIterator[_Changes]:
    async with connect(abused.daemon.url, rm_id="rm-1", resume_from="now", tls=abused.login.tls) as rm:
        changes = _Changes(rm)
        await changes.make("CREATE_DRAIN")
        yield changes
        await changes.make("DECOMISSION")


async def _play(abused: Target, changes: _Changes, readers: list[Follower], requests: int) -> tuple[float, float]:
    """Make events until all readers have them; the time and the CPU time of the daemon that it took, in seconds."""
    await _all_read(abused, readers)
    began_s, began_cpu_s = trio.current_time(), abused.daemon.cpu_s()
    last = readers[0].last + requests * NODES
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.reach, last)
        for _ in range(requests):
            await changes.make()
    return trio.current_time() - began_s, abused.daemon.cpu_s() - began_cpu_s


async def _all_read(abused: Target, readers: list[Follower]) -> None:
    """Read everything up to now."""
    async with _following(abused) as newest, trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.reach, newest.last)


async def _all_dropped(abused: Target, stalled: int) -> None:
    """Whoever did not read was dropped; the log says why."""
    limits = Limits()
    with trio.fail_after(limits.send_s + limits.close_s + LATE_S):
        await abused.daemon.wait_logged("peer_dropped", stalled)
    dropped = abused.daemon.logged("peer_dropped")
    assert {(line["path"], line["code"], line["reason"]) for line in dropped} == {
        ("/v1/feed", STALLED, f"a message was not read within {limits.send_s:g} s")
    }
    assert len(dropped) == stalled
