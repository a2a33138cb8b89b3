"""Cost of replicas and standbys: a daemon whose turns or transactions another process takes, beside the same daemon without.

The reader only counts bytes, so that what the daemon does for it is measured, and not what two processes do to each other.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import msgspec
import trio
from msgspec import Struct

from bench.daemon import cpu_of, python_process, read_line
from bench.journal import OneByOne, acknowledged, state_dir
from bench.measures import Samples
from bench.small_messages import Beside, Sending, nothing, place
from bench.workloads import Workload
from ykactor.client import follow
from ykactor.client.connection import SealedStream, open_connection
from ykactor.surfaces.admission.slots import TURNS_PATH
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.turns import Base, Wanted, encode, unpacked

#: The event in the log with which a replica says that it runs the turns of a partition from now on.
_HAS_BEGUN = b"partition_copied"


class Replicated(Struct, frozen=True):
    """Asks that are sent as fast as the socket takes them, ``each`` in a message, to a daemon with a journal.

    Attributes:
        rounds: how often each of the daemons is measured, in turn.
    """

    workload: Workload
    each: int
    rounds: int


class _Seen(Struct):
    """The bytes of the stream, and the CPU seconds of a replica."""

    bytes: int = 0
    cpu_s: float = 0.0


async def cost(replicated: Replicated) -> Samples:
    """The daemon's CPU time for each placement with a reader of its turns, and with a replica; and what they take.

    ``cpu_us`` is that without either, ``stream_ratio`` and ``replica_ratio`` compare with it; ``bytes`` are those of the stream
    for each placement, and ``replica_share`` is the replica's CPU time by that of the daemon beside it.
    """
    samples: Samples = {}
    for _ in range(replicated.rounds):
        seen = _Seen()
        alone_us = await _cpu_us(replicated, nothing)
        read_us = await _cpu_us(replicated, partial(_reader, seen))
        beside_us = await _cpu_us(replicated, partial(_replica, seen))
        asks = replicated.workload.asks
        figures = {
            "cpu_us": alone_us,
            "stream_ratio": read_us / alone_us,
            "bytes": seen.bytes / asks,
            "replica_ratio": beside_us / alone_us,
            "replica_share": seen.cpu_s * 1e6 / asks / beside_us,
        }
        for name, figure in figures.items():
            samples.setdefault(name, []).append(figure)
    return samples


async def _cpu_us(replicated: Replicated, beside: Beside) -> float:
    placed = await place(replicated.workload, Sending(replicated.each), has_journal=True, beside=beside)
    return placed.cpu_us


@asynccontextmanager
async def _reader(seen: _Seen, url: str, _: int) -> AsyncIterator[None]:
    """A reader of the stream that has its base, and counts from now on."""
    async with open_connection(url, TURNS_PATH, subprotocols=[MSGPACK.name]) as connection, trio.open_nursery() as nursery:
        stream = SealedStream(connection)
        await stream.send(encode(Wanted(0)))
        while not any(isinstance(message, Base) for message in unpacked(await stream.receive())):
            pass
        nursery.start_soon(_count, stream, seen)
        yield
        nursery.cancel_scope.cancel()


async def _count(stream: SealedStream, seen: _Seen) -> None:
    while True:
        seen.bytes += len(await stream.receive())


@asynccontextmanager
async def _replica(seen: _Seen, url: str, _: int) -> AsyncIterator[None]:
    """A replica that has its base."""
    async with python_process("ykactor", "replica", "--url", url, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while _HAS_BEGUN not in (line := await read_line(process.stderr)):
            if not line:
                raise RuntimeError("the replica has ended")
        began_s = cpu_of(process.pid)
        yield
        seen.cpu_s = cpu_of(process.pid) - began_s


# ---- how far behind a replica is, and what its readers cost the daemon


class Delayed(Struct, frozen=True):
    """Asks of which followers of the daemon and of a replica are told.

    Attributes:
        bulk: asks that are sent as fast as the socket takes them, ``each`` in a message, and as much as paced ones.
        paced: asks that arrive evenly, 1,000 in a second, one in a message.
        read: such asks while four readers ask the replica for everything again and again: of the REST API, and one for snapshots.
    """

    bulk: Workload
    each: int
    paced: Workload
    read: Workload


async def lag(delayed: Delayed) -> Samples:
    """The ms by which a follower of a replica has each event after a follower of the daemon; both are in this process."""
    samples: Samples = {}
    for name, workload, sending, is_read in (
        ("paced", delayed.paced, Sending(1, 0.001), False),
        ("bulk", delayed.bulk, Sending(delayed.each), False),
        ("read", delayed.read, Sending(1, 0.001), True),
    ):
        arrivals = _Arrivals({}, {})
        await place(workload, sending, has_journal=True, beside=partial(_followed, arrivals, is_read))
        both = arrivals.at_daemon.keys() & arrivals.at_replica.keys()
        behind_ms = sorted((arrivals.at_replica[number] - arrivals.at_daemon[number]) * 1e3 for number in both)
        samples |= {f"{name}_p{percent}_ms": [behind_ms[len(behind_ms) * percent // 100]] for percent in (50, 99)}
        samples[f"{name}_max_ms"] = [behind_ms[-1]]
    return samples


class _Arrivals(NamedTuple):
    """The time at which each event has arrived, by its number."""

    at_daemon: dict[int, float]
    at_replica: dict[int, float]


@asynccontextmanager
async def _followed(arrivals: _Arrivals, is_read: bool, url: str, _: int) -> AsyncIterator[None]:
    """Followers of a daemon and of its replica, until the replica has told all that the daemon has."""
    async with _serving_replica(url) as replica, AsyncExitStack() as stack, trio.open_nursery() as nursery:
        if is_read:
            await stack.enter_async_context(_reading(replica, 3))
            await stack.enter_async_context(python_process("bench.snapshots", replica.ws))
        for address, seen in ((url, arrivals.at_daemon), (replica.ws, arrivals.at_replica)):
            await nursery.start(_note, address, seen)
        yield
        wanted = set(arrivals.at_daemon)
        while not wanted <= arrivals.at_replica.keys():  # noqa: ASYNC110 - nothing tells it
            await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


async def _note(url: str, seen: dict[int, float], *, task_status: trio.TaskStatus[None]) -> None:
    async with follow(url, encoding="msgpack") as events:
        task_status.started()
        async for event in events:
            if isinstance(event, si.EventRecord):
                seen[event.sequence] = perf_counter()


class Greedy(Struct, frozen=True):
    """The asks of ``Replicated`` while readers ask a replica for everything again and again.

    Attributes:
        loops: the number of these readers.
    """

    replicated: Replicated
    loops: int


async def greedy(asked: Greedy) -> Samples:
    """The daemon's CPU time for each placement, and ``read_ratio``: that with such readers at its replica, by that without."""
    samples: Samples = {"cpu_us": [], "read_ratio": []}
    for _ in range(asked.replicated.rounds):
        without_us = await _cpu_us(asked.replicated, partial(_read_again_and_again, 0))
        with_us = await _cpu_us(asked.replicated, partial(_read_again_and_again, asked.loops))
        samples["cpu_us"].append(without_us)
        samples["read_ratio"].append(with_us / without_us)
    return samples


@asynccontextmanager
async def _read_again_and_again(loops: int, url: str, _: int) -> AsyncIterator[None]:
    async with _serving_replica(url) as replica, _reading(replica, loops) if loops else nullcontext():
        yield


def _reading(replica: _Addresses, loops: int) -> AbstractAsyncContextManager[object]:
    """A process with so many readers that ask the REST API for everything again and again."""
    arguments = ("bench.rest_readers", replica.http.rpartition(":")[2], "0", str(loops), str(perf_counter()), "3600", "1")
    return python_process(*arguments, stdout=subprocess.DEVNULL)


class _Addresses(NamedTuple):
    """The addresses of a replica that serves readers."""

    ws: str
    http: str


@asynccontextmanager
async def _serving_replica(url: str) -> AsyncIterator[_Addresses]:
    """A replica that serves readers, when it has its base."""
    arguments = ("replica", "--url", url, "--ws", "127.0.0.1:0", "--http", "127.0.0.1:0")
    async with python_process("ykactor", *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        log = b""
        while b'"replica_started"' not in log or _HAS_BEGUN not in log:
            line = await read_line(process.stderr)
            if not line:
                raise RuntimeError(f"the replica has ended: {log!r}")
            log += line
        started = next(line for line in map(msgspec.json.decode, log.splitlines()) if line["event"] == "replica_started")
        yield _Addresses(*started["addresses"].split(", "))


# ---- standbys


class Standing(Struct, frozen=True):
    """Requests one by one to a daemon that waits for a standby on the same disk.

    Attributes:
        rounds: how often it is measured, in turn with a daemon without.
    """

    requests: OneByOne
    rounds: int


async def standby_latency(standing: Standing) -> Samples:
    """The median time until a request is acknowledged, with and without a standby, and their ratio."""
    samples: Samples = {"p50_without_ms": [], "p50_ms": [], "p50_ratio": []}
    for _ in range(standing.rounds):
        with state_dir() as arguments:
            without = await acknowledged(standing.requests, *arguments)
        with_standby = await _acknowledged_by_both(standing.requests)
        medians_ms = [times_s[len(times_s) // 2] * 1e3 for times_s in (without, with_standby)]
        for name, figure in zip(samples, (*medians_ms, medians_ms[1] / medians_ms[0]), strict=True):
            samples[name].append(figure)
    return samples


async def _acknowledged_by_both(requests: OneByOne) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "ws")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep, socket, Path(folder))
            arguments = ("--ws", f"unix:{socket}", "--state-dir", str(Path(folder, "daemon")), "--standbys", "1")
            times_s = await acknowledged(requests, *arguments)
            nursery.cancel_scope.cancel()
    return times_s


async def _keep(socket: Path, folder: Path) -> None:
    """Be the standby of the daemon that listens on this socket, as soon as it does."""
    while not await trio.Path(socket).exists():  # noqa: ASYNC110 - another process makes it
        await trio.sleep(0.01)
    where = ("--state-dir", str(folder / "standby"), "--ws", f"unix:{folder / 'ws-standby'}", "--http", "none")
    arguments = ("serve", "--standby-of", f"unix:{socket}", *where)
    async with python_process("ykactor", *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        await trio.sleep_forever()
