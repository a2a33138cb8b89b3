"""Readers of the REST API in a process of their own: ``python -m bench.rest_readers PORT RATE LOOPS BEGIN PHASE ROUNDS``
(``bench.rest``).

Some ask what dashboards and scripts ask, evenly, on connections that stay open, and take answers that are compressed, as
browsers and most libraries do. Others (``LOOPS``) ask for everything again and again, and take it as it is. Prints one JSON
object at the end.
"""

import sys
from collections import deque
from collections.abc import Iterable
from functools import partial
from http.client import HTTPConnection, RemoteDisconnected
from itertools import count
from time import perf_counter
from typing import NamedTuple

import msgspec
import trio
from msgspec import Struct

_P = "/ws/v1/partition/default"
#: What is asked, in turn: one of ten is large.
PATHS = (
    "/ws/v1/clusters",
    "/ws/v1/partitions",
    f"{_P}/node/n00001",
    f"{_P}/queue/root.q1",
    f"{_P}/application/app-{{number}}",
    f"{_P}/queue/root.q{{number}}/applications",
    "/ws/v1/events/batch?count=100",
    f"{_P}/usage/users",
    f"{_P}/node/n{{number:05}}",
    "large",
)
LARGE = (f"{_P}/queues", f"{_P}/nodes", f"{_P}/applications/active", "/ws/v1/scheduler/node-utilizations")
_CONNECTIONS = 32
#: Phases of a round; in the last one nobody asks.
ROUND = 4
#: Queues, and the first nodes and applications that are asked for.
_NUMBERS = 100


class Outcome(Struct, frozen=True):
    """Answers, those that were refused, and the slowest one."""

    answers: int
    refused: int
    slowest_ms: float


def is_read(phase: int) -> bool:
    """True if it is asked in this phase."""
    return (phase + 1) % ROUND != 0


class Phases(NamedTuple):
    """The phases of all processes.

    Attributes:
        begin_s: when the first one begins, of the system's monotonic clock, which all processes have.
        length_s: of each.
        rounds: of ``ROUND`` phases.
    """

    begin_s: float
    length_s: float
    rounds: int

    def read(self) -> Iterable[int]:
        """The phases in which it is asked."""
        return filter(is_read, range(ROUND * self.rounds))


async def read(port: int, rate: int, loops: int, phases: Phases) -> Outcome:
    """Ask ``rate`` times a second.

    Args:
        loops: how many ask for everything, each as soon as it has the answer before.
    """
    took_ms: list[float] = []
    refused = 0
    free = deque(HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(_CONNECTIONS))
    limit = trio.CapacityLimiter(_CONNECTIONS)

    async def ask(path: str) -> None:
        nonlocal refused
        async with limit:
            connection = free.popleft()  # in turn, so that none is idle for long
            began_s = perf_counter()
            status = await trio.to_thread.run_sync(partial(_get, connection, path))
            took_ms.append((perf_counter() - began_s) * 1e3)
            refused += status != 200
            free.append(connection)

    async def loop(since_s: float) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        for phase in phases.read():
            await trio.sleep_until(since_s + phase * phases.length_s)
            while trio.current_time() < since_s + (phase + 1) * phases.length_s:
                began_s = perf_counter()
                await trio.to_thread.run_sync(partial(_get, connection, LARGE[2], "identity"))
                took_ms.append((perf_counter() - began_s) * 1e3)

    async with trio.open_nursery() as nursery:
        since_s = trio.current_time() + phases.begin_s - perf_counter()
        numbers = count()
        for _ in range(loops):
            nursery.start_soon(loop, since_s)
        for phase in phases.read():
            for place in range(int(rate * phases.length_s)):
                await trio.sleep_until(since_s + phase * phases.length_s + place / rate)
                nursery.start_soon(ask, path_of(next(numbers)))
    return Outcome(len(took_ms), refused, max(took_ms))


def path_of(number: int) -> str:
    """The path of a request."""
    path = PATHS[number % len(PATHS)].format(number=number // len(PATHS) % _NUMBERS)
    return LARGE[number // len(PATHS) % len(LARGE)] if path == "large" else path


def _get(connection: HTTPConnection, path: str, encoding: str = "gzip") -> int:
    try:
        return _asked(connection, path, encoding)
    except RemoteDisconnected:  # it was idle for long
        return _asked(connection, path, encoding)


def _asked(connection: HTTPConnection, path: str, encoding: str) -> int:
    connection.request("GET", path, headers={"Accept-Encoding": encoding})
    response = connection.getresponse()
    while response.read(2**20):
        pass
    return response.status


if __name__ == "__main__":
    port, rate, loops, begin_s, phase_s, rounds = sys.argv[1:]
    outcome = trio.run(read, int(port), int(rate), int(loops), Phases(float(begin_s), float(phase_s), int(rounds)))
    print(msgspec.json.encode(outcome).decode(), flush=True)
