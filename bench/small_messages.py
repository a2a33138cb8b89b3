"""Cost of small messages: a resource manager sends few asks in a message to ``ykactor serve``, with and without a journal.

The sender costs as little as possible, so that the daemon is measured: its frames are made before the time starts.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext
from time import perf_counter
from typing import NamedTuple

import trio
from msgspec import Struct, structs

from bench import measures
from bench.daemon import cpu_of, running_daemon
from bench.journal import state_dir
from bench.measures import Samples
from bench.readers import PING, PONG, frame_in
from bench.workloads import Workload, in_requests
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

#: The interval of the messages of the paced connection.
_PACED_S = 0.001
_HANDSHAKE = (
    b"GET /v1/rm HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: ykactor.v1.json\r\n\r\n"
)
_NO_MASK = bytes(4)
_TEXT = 0x81
_READ_MAX = 2**18


class Small(Struct, frozen=True):
    """Connections to a daemon, one after the other.

    Attributes:
        base: the workload that costs are compared with; it has no sockets.
        floods: the number of asks in a message, and that of the asks in all, sent as fast as the socket takes them.
        paced: the number of asks that arrive evenly, one in a message.
    """

    nodes: int
    applications: int
    base: Workload
    floods: dict[int, int]
    paced: int

    def workload(self, asks: int) -> Workload:
        """So many asks for this cluster."""
        return Workload(self.nodes, leaves=2, applications=self.applications, asks_each=asks // self.applications)


async def cost(small: Small) -> Samples:
    """The daemon's CPU time for each placement by the number of asks in a message, and as a ratio to that of the base.

    ``paced`` is one ask in a message, 1,000 in a second. The names of figures without a journal begin with ``without_``.
    """
    (base_us,) = (await measures.throughput(small.base))["cpu_us"]
    samples: Samples = {"base_cpu_us": [base_us]}
    for has_journal in (True, False):
        figures: dict[str, float] = {}
        for each, asks in small.floods.items():
            flood = await place(small.workload(asks), Sending(each), has_journal=has_journal)
            figures |= {f"per_second_{each}": asks / flood.seconds, f"cpu_us_{each}": flood.cpu_us}
        paced = await place(small.workload(small.paced), Sending(1, _PACED_S), has_journal=has_journal)
        figures |= {"cpu_us_paced": paced.cpu_us, "p50_ms": paced.latency_ms(50), "p99_ms": paced.latency_ms(99)}
        prefix = "" if has_journal else "without_"
        ratios = {
            name.replace("cpu_us", "ratio"): figure / base_us for name, figure in figures.items() if name.startswith("cpu_us")
        }
        samples |= {f"{prefix}{name}": [figure] for name, figure in (figures | ratios).items()}
    return samples


class Sending(NamedTuple):
    """The asks in a message, and the seconds between messages."""

    each: int
    interval_s: float = 0.0


class Placed(Struct):
    """The times at which one connection sent each ask and saw it placed, and the daemon's CPU time for each placement."""

    sent_s: dict[str, float]
    placed_s: dict[str, float]
    cpu_us: float

    @property
    def seconds(self) -> float:
        """Seconds from the first message to the last placement."""
        return max(self.placed_s.values()) - min(self.sent_s.values())

    def latency_ms(self, percent: int) -> float:
        """The time from sending an ask to receiving its allocation, which ``percent`` of the asks do not exceed."""
        took_s = sorted(placed_s - self.sent_s[key] for key, placed_s in self.placed_s.items())
        return took_s[len(took_s) * percent // 100] * 1e3


#: Runs beside a daemon with this URL and process id.
Beside = Callable[[str, int], AbstractAsyncContextManager[object]]


def nothing(_: str, __: int) -> AbstractAsyncContextManager[None]:
    """Nothing beside the daemon."""
    return nullcontext()


async def place(
    workload: Workload,
    sending: Sending,
    *,
    has_journal: bool,
    program: str = "ykactor",
    beside: Beside = nothing,
) -> Placed:
    """Place the asks of a workload; each message is acknowledged.

    Args:
        program: as of ``running_daemon``.
        beside: entered before the first message, and left after the last answer.
    """
    with ExitStack() as stack:
        arguments = stack.enter_context(state_dir()) if has_journal else ()
        async with running_daemon(workload.config(), *arguments, program=program) as (url, pid), connected(url) as line:
            await line.request(si.RegisterResourceManagerRequest(rm_id="bench"))
            for request in workload.setup():
                await line.request(request)
            asks = [ask for request in workload.requests() for ask in request.allocations]
            requests = in_requests(asks, sending.each)
            frames = [line.frame(request) for request in requests]
            placed = Placed({}, {}, 0.0)
            async with beside(url, pid):
                began_cpu_s = cpu_of(pid)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_send, line, list(zip(requests, frames, strict=True)), sending.interval_s, placed.sent_s)
                    await _receive(line, len(requests), len(asks), placed.placed_s)
                placed.cpu_us = (cpu_of(pid) - began_cpu_s) * 1e6 / len(asks)
            return placed


async def _send(
    line: Line, requests: list[tuple[si.AllocationRequest, bytes]], interval_s: float, sent_s: dict[str, float]
) -> None:
    """Send the frame of each request when it is due, or as soon as possible after that."""
    began_s = trio.current_time()
    for number, (request, frame) in enumerate(requests):
        if interval_s:
            await trio.sleep_until(began_s + number * interval_s)
        sent_s |= dict.fromkeys((ask.allocation_key for ask in request.allocations), perf_counter())
        await line.send(frame)


async def _receive(line: Line, acks: int, asks: int, placed_s: dict[str, float]) -> None:
    """Note when allocations come, until so many acknowledgements and allocations have come."""
    while acks or len(placed_s) < asks:
        for response in await line.receive():
            if isinstance(response, si.AllocationResponse):
                placed_s |= dict.fromkeys((allocation.allocation_key for allocation in response.new), perf_counter())
            acks -= isinstance(response, si.Ack)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Line]:
    """A connection to a daemon, closed at the end."""
    stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
    async with stream:
        await stream.send_all(_HANDSHAKE)
        unread = bytearray()
        while b"\r\n\r\n" not in unread:
            unread += await stream.receive_some(_READ_MAX)
        del unread[: unread.index(b"\r\n\r\n") + 4]
        yield Line(stream, unread)


def _frame(kind: int, payload: bytes) -> bytes:
    if len(payload) < 126:
        return bytes([kind, 0x80 | len(payload)]) + _NO_MASK + payload
    size, width = (126, 2) if len(payload) < 2**16 else (127, 8)
    return bytes([kind, 0x80 | size]) + len(payload).to_bytes(width, "big") + _NO_MASK + payload


class Line:
    """An open websocket whose frames cost little."""

    def __init__(self, stream: trio.SocketStream, unread: bytearray) -> None:
        self._stream = stream
        self._unread = unread
        self._sending = trio.Lock()
        self._ids = itertools.count(1)

    def frame(self, request: si.Request) -> bytes:
        """A request that wants an acknowledgement, as a frame; its mask changes nothing."""
        return _frame(_TEXT, JSON.encode(structs.replace(request, id=str(next(self._ids)))))

    async def send(self, frame: bytes) -> None:
        """Send a frame; waits while the socket takes nothing."""
        async with self._sending:
            await self._stream.send_all(frame)

    async def receive(self) -> list[si.Response]:
        """Wait for messages; all that have come. Pings are answered."""
        self._unread += await self._stream.receive_some(_READ_MAX)
        responses: list[si.Response] = []
        at = 0
        while (frame := frame_in(self._unread, at)) is not None:
            payload, at = bytes(self._unread[frame.start : frame.end]), frame.end
            if frame.kind == PING:
                await self.send(_frame(PONG, payload))
            else:
                responses.append(JSON.decode_response(payload))
        del self._unread[:at]
        return responses

    async def request(self, request: si.Request) -> None:
        """Send a request and wait for its acknowledgement."""
        await self.send(self.frame(request))
        while not any(isinstance(response, si.Ack) for response in await self.receive()):
            pass
