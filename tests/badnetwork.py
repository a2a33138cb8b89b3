"""A network that delays, drops, cuts, repeats and reorders what it carries, and that splits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import trio

#: The bytes of a connection, in each direction, that come through as they are, without TLS and with: damaged handshakes are tried
#: again less and less often.
HANDSHAKE_BYTES, TLS_HANDSHAKE_BYTES = 1000, 5000
#: The probability of each fault for a chunk, while the network is bad.
FAULTS = {"delayed": 0.04, "dropped": 0.01, "repeated": 0.01, "reordered": 0.01, "cut": 0.01}
#: The longest delay.
DELAY_S = 0.02
#: A connection that lacks something ends after so long: nobody may send anything more that shows it.
SILENT_S = 0.2
#: The longest chunk.
CHUNK_BYTES = 2000


class BadNetwork:
    """A way to a port of this machine that damages what it carries, in both directions, while ``is_bad``.

    Args:
        target: the port.
        has_tls: True if what it carries is encrypted.

    Attributes:
        port: where it listens, when it runs.
        counts: of faults.
    """

    def __init__(self, seed: int, target: int, *, has_tls: bool) -> None:
        self.is_bad = False
        self.port = 0
        self.counts: Counter[str] = Counter()
        self._target = target
        self._whole_bytes = TLS_HANDSHAKE_BYTES if has_tls else HANDSHAKE_BYTES
        self._is_split = False
        self._rng = random.Random(seed)
        self._connections: set[trio.CancelScope] = set()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Carry until cancelled."""
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, self._carry, 0, host="127.0.0.1"))
            self.port = listeners[0].socket.getsockname()[1]
            task_status.started()

    def split(self) -> None:
        """Let nobody through any more, and end no connection: both sides wait."""
        self._is_split = True

    def heal(self) -> None:
        """Let everything through as it is, over new connections: the present ones may lack something."""
        self.is_bad = self._is_split = False
        for connection in self._connections:
            connection.cancel()

    async def _carry(self, near: trio.SocketStream) -> None:
        if self._is_split:
            await trio.aclose_forcefully(near)
            return
        with suppress(OSError), trio.CancelScope() as both:
            self._connections.add(both)
            async with near, await trio.open_tcp_stream("127.0.0.1", self._target) as far, trio.open_nursery() as nursery:
                nursery.start_soon(self._carry_one_way, near, far, both)
                nursery.start_soon(self._carry_one_way, far, near, both)
        self._connections.discard(both)

    async def _carry_one_way(self, source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope) -> None:
        """Carry until this direction ends or is cut; then the other one ends too."""
        carried, kept = 0, b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                for chunk in self._chunks(data, carried):
                    if self._is_split:
                        await trio.sleep_forever()
                    match self._fault(carried):
                        case "cut":
                            await sink.send_all(chunk[: len(chunk) // 2])
                            both.cancel()
                        case "dropped":
                            both.deadline = trio.current_time() + SILENT_S
                        case "reordered":
                            kept += chunk
                            both.deadline = trio.current_time() + SILENT_S
                        case fault:
                            await trio.sleep(self._rng.uniform(0, DELAY_S) if fault == "delayed" else 0)
                            await sink.send_all(chunk * (1 + (fault == "repeated")) + kept)
                            kept = b""
                    carried += len(chunk)
        both.cancel()

    def _chunks(self, data: bytes | bytearray, carried: int) -> Iterator[bytes]:
        """The data in parts, whose borders are anywhere."""
        while data:
            size = self._whole_bytes - carried if carried < self._whole_bytes else self._rng.randint(1, CHUNK_BYTES)
            yield bytes(data[:size])
            carried += len(data[:size])
            data = data[size:]

    def _fault(self, carried: int) -> str:
        """The fault of the next chunk; "" for none."""
        if not self.is_bad or carried < self._whole_bytes:
            return ""
        (fault,) = self._rng.choices([*FAULTS, ""], [*FAULTS.values(), 1 - sum(FAULTS.values())])
        self.counts[fault] += 1
        return fault
