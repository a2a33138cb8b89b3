"""Mutants of messages, given to the decoders and sent to a daemon in frames that are mutants too."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from time import thread_time

import trio
from costs import loop_s
from mutants import OPERATIONS, REQUESTS, SUBSCRIPTIONS, Mutator
from rawframes import BINARY, CLOSE, FEED_PATH, OPERATOR_PATH, PING, PONG, RM_PATH, TEXT, frame, handshake
from rawpeers import RawPeer, raw_peer
from target import HELD_MAX_STEPS, Target, round_trips

from ykactor.access.limits import IdentityLimits
from ykactor.core.values.parts import Pausing, Steps, paced
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, Encoding
from ykactor.wire.si.protocol_error import ProtocolError

#: Frames on one connection, and the largest message that is sent often.
_FRAMES, _OFTEN_BYTES = 50, 2**16
#: A connection ends in this time after its last frame.
_END_S = 60


def mutators(rng: random.Random) -> list[tuple[str, Encoding, Mutator]]:
    """One for each path and encoding."""
    messages = {RM_PATH: REQUESTS, FEED_PATH: SUBSCRIPTIONS, OPERATOR_PATH: OPERATIONS}
    return [(path, encoding, Mutator(rng, encoding, messages[path])) for path in messages for encoding in ENCODINGS.values()]


def decode_mutants(count: int, seed: int) -> str:
    """Each is decoded, or refused with ``ProtocolError``, in a bounded time. Returns figures."""
    codes: Counter[str] = Counter()
    longest_s = 0.0
    kinds = mutators(random.Random(seed))
    for path, encoding, mutator in kinds:
        for _ in range(count // len(kinds)):
            work = _decoding(path, encoding, mutator.draw()[: IdentityLimits().message_bytes])
            code = ""
            while not code:
                began_s = thread_time()
                code = _step(work)
                longest_s = max(longest_s, thread_time() - began_s)
            codes[code] += 1
    assert longest_s < loop_s(HELD_MAX_STEPS)
    shown = ", ".join(f"{number} {code}" for code, number in codes.most_common())
    return f"{count} messages are decoded, the longest step takes {1e3 * longest_s:.0f} ms: {shown}"


def _decoding(path: str, encoding: Encoding, data: bytes) -> Pausing[object]:
    if path == OPERATOR_PATH:
        return paced(encoding.decoding_operator_request(data))
    return paced(encoding.decoding_request(data) if path == RM_PATH else _decoding_subscribe(encoding, data))


def _decoding_subscribe(encoding: Encoding, data: bytes) -> Steps[object]:
    yield from ()
    return encoding.decode_feed_request(data)


def _step(work: Pausing[object]) -> str:
    """Decode on until a pause; the code of the error if there is one, ``right`` at the end, else nothing."""
    try:
        next(work)
    except StopIteration:
        return "right"
    except ProtocolError as error:
        return error.code
    return ""


async def send_mutants(abused: Target, count: int, seed: int) -> str:
    """Send mutants, which neither end the daemon nor change anything, while others are served. Returns figures."""
    rng = random.Random(seed)
    before = await abused.state_hash()
    kinds = mutators(rng)
    for first in range(0, count, _FRAMES):
        path, encoding, mutator = rng.choice(kinds)
        frames = [_mutant_frames(rng, encoding, mutator) for _ in range(min(_FRAMES, count - first))]
        await _send(abused, path, encoding, frames, rng)
    await round_trips(abused, 1)
    assert await abused.state_hash() == before
    return f"{count} messages in frames have no effect; the longest hold is {1e3 * abused.check():.0f} ms"


async def _send(abused: Target, path: str, encoding: Encoding, frames: list[bytes], rng: random.Random) -> None:
    """Send all on one connection after the other, because the daemon ends those with wrong frames."""
    while frames:
        async with raw_peer(abused) as peer:
            await peer.stream.send_all(handshake(path, encoding.name, compresses=rng.random() < 0.5))
            await peer.accepted()
            with trio.fail_after(_END_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_read_to_the_end, peer, nursery.cancel_scope)
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                        if path == RM_PATH:
                            await peer.stream.send_all(_registration(abused, encoding))
                        while frames:
                            await peer.stream.send_all(frames.pop())
                        await peer.socket.send_eof()


async def _read_to_the_end(peer: RawPeer, connection: trio.CancelScope) -> None:
    """The end is a close frame, after which the daemon waits for ours, or that of the connection."""
    with suppress(trio.BrokenResourceError):
        while (await peer.receive()).opcode != CLOSE:
            pass
    connection.cancel()


def _registration(abused: Target, encoding: Encoding) -> bytes:
    data = encoding.encode(si.RegisterResourceManagerRequest(rm_id="rm-1", resume_from=abused.resume_from))
    return frame(data, TEXT if encoding is JSON else BINARY)


def _mutant_frames(rng: random.Random, encoding: Encoding, mutator: Mutator) -> bytes:
    """One message; a few are sent in frames that are wrong."""
    data = mutator.draw()
    if len(data) > _OFTEN_BYTES and rng.random() < 0.9:
        data = data[:_OFTEN_BYTES]
    opcode = TEXT if encoding is JSON else BINARY
    match rng.randrange(40):
        case 0:
            return frame(data, TEXT + BINARY - opcode)
        case 1:
            return frame(data, opcode, rsv=rng.randrange(1, 8))
        case 2:
            return frame(data, opcode, declared=rng.choice((len(data) + 1, 2**16, 2**31, 2**62, 2**63)))
        case 3:
            return frame(data, rng.randrange(3, 16))
        case 4:
            return frame(data[:125], rng.choice((PING, PONG, CLOSE)))
        case 5:
            return frame(data, 0)
        case 6:
            return rng.randbytes(rng.randrange(1, 200))
        case 7:
            return frame(_compressed(data), opcode, rsv=4)
        case 8:
            return frame(_compressed(rng.choice((b"[", b" ", b"\x91")) * rng.choice((2**16, 2**22, 2**23))), opcode, rsv=4)
        case number if number < 16:
            return _fragments(rng, data, opcode)
    return frame(data, opcode)


def _fragments(rng: random.Random, data: bytes, opcode: int) -> bytes:
    """The message in several frames, with pings between them."""
    cuts = [0, *sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((1, 2, 5)))), len(data)]
    parts = [data[start:end] for start, end in pairwise(cuts)]
    frames = [frame(part, 0 if number else opcode, fin=number == len(parts) - 1) for number, part in enumerate(parts)]
    return (frame(b"", PING) if rng.random() < 0.3 else b"").join(frames)


def _compressed(data: bytes) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]
