"""Peers that never finish what they begin, and connections that come and go."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial

import trio
from rawframes import FEED_PATH, RM_PATH, frame, handshake
from rawpeers import RawPeer, raw_peer, reset, until_closed
from target import Target, returns, round_trips

from ykactor.access.limits import Limits as AccessLimits
from ykactor.surfaces.sessions.peer import Limits

#: What the daemon may take longer than its own limits on a busy machine.
LATE_S = 60.0
#: Memory that one peer may cost: what the daemon has for a connection, and for the half of a message.
PEER_BYTES = 2**18
#: How far memory may be from where it was: the allocator keeps some.
KEPT_BYTES = 2**24
_HALF = 2**16


async def slow_peers(abused: Target, count: int) -> str:
    """Peers of each kind begin, and go on byte by byte or not at all. Returns figures.

    Those whose time limit is the shortest are waited for: handshakes have ``handshakeSeconds``.
    """
    limits, memory, descriptors = Limits(), abused.memory(), abused.descriptors()
    async with trio.open_nursery() as nursery:
        ends = [trio.Event() for _ in range(2 * count)]
        for number in range(count):
            nursery.start_soon(_byte_by_byte, abused, ends[number])
            nursery.start_soon(_silent, abused, ends[count + number])
            path = (RM_PATH, FEED_PATH)[number % 2 if number < 8 else 1]
            nursery.start_soon(_half_of_a_message, abused, path)
        await trio.sleep(1)
        latencies = await round_trips(abused, 100)
        cost = abused.memory() - memory
        assert cost < KEPT_BYTES + 3 * count * PEER_BYTES
        with trio.fail_after(AccessLimits().handshake_seconds + limits.close_s + LATE_S):
            for end in ends:
                await end.wait()
        nursery.cancel_scope.cancel()
    await returns(abused.descriptors, descriptors)
    # The allocator keeps some of what so many needed at once; how much is left of each is seen by ``many_connections``.
    await returns(abused.memory, memory + KEPT_BYTES + 2 * count * PEER_BYTES)
    return f"{3 * count} slow peers cost {cost >> 20} MiB; a calm follower waits {1e3 * latencies[50]:.1f} ms"


async def _byte_by_byte(abused: Target, end: trio.Event) -> None:
    """Half of a handshake, one byte in a moment, until the daemon has enough."""
    async with raw_peer(abused) as peer:
        with suppress(trio.BrokenResourceError):
            for byte in handshake().replace(b"GET /", b"GET /" + b"a" * 4000):
                await peer.stream.send_all(bytes([byte]))
                with trio.move_on_after(0.25):
                    await until_closed(peer)
                    break
    end.set()


async def _silent(abused: Target, end: trio.Event) -> None:
    """Not a byte."""
    async with raw_peer(abused) as peer:
        await until_closed(peer)
    end.set()


async def _half_of_a_message(abused: Target, path: str) -> None:
    """A frame that begins a message, half of the next, and then nothing."""
    async with raw_peer(abused) as peer:
        await peer.stream.send_all(handshake(path))
        await peer.accepted()
        await peer.stream.send_all(frame(b"{" * _HALF, fin=False) + frame(b"{" * _HALF, 0, declared=2 * _HALF))
        await until_closed(peer)


async def many_connections(abused: Target, count: int, rng: random.Random) -> str:
    """Connections that are dropped at any moment; what they used is free again. Returns figures."""
    await _drop_some(abused, min(count, 200), rng)  # so that memory is there which the allocator keeps
    memory, descriptors = abused.memory(), abused.descriptors()
    await _drop_some(abused, count, rng)
    await returns(abused.descriptors, descriptors)
    await returns(abused.memory, memory + KEPT_BYTES)
    await round_trips(abused, 1)
    return f"{count} connections came and went; memory changed by {(abused.memory() - memory) >> 10} KiB"


async def _drop_some(abused: Target, count: int, rng: random.Random) -> None:
    places = trio.CapacityLimiter(50)
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            await places.acquire_on_behalf_of(token := object())
            nursery.start_soon(partial(_drop_one, abused, rng, places, token))


async def _drop_one(abused: Target, rng: random.Random, places: trio.CapacityLimiter, token: object) -> None:
    data = handshake(rng.choice((FEED_PATH, FEED_PATH, RM_PATH, "/")))
    async with raw_peer(abused) as peer:
        match rng.randrange(4):
            case 0:
                await peer.stream.send_all(data[: rng.randrange(len(data))])
            case 1:
                await peer.stream.send_all(data)
            case 2:
                await _subscribe(peer)
        reset(peer, rng)
    places.release_on_behalf_of(token)


async def _subscribe(peer: RawPeer) -> None:
    await peer.stream.send_all(handshake() + frame(b'{"type":"Subscribe"}'))
    await peer.accepted()
    await peer.receive()
