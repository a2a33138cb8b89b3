"""Replicas and standbys beyond a bad network: damage ends in a new connection, and never in a wrong answer (DU-19 to DU-21)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from badnetwork import BadNetwork
from certificates import Authority
from daemon import RunningDaemon, application, asks, node, real_daemon, run_command
from replicas import ask, running_replica, until_equal
from seeds import scaled, seeds
from test_replica_readers import Events
from test_replica_readers import newest as newest_event
from test_standby import assert_same, churn, newest, standby_of

from ykactor.client import connect
from ykactor.client.resource_manager import ResourceManager
from ykactor.journal.reading import Reader
from ykactor.wire.si import messages as si

QUEUES = "/ws/v1/partition/default/queues"
#: The connections that are used up.
ROUNDS = 3 + scaled(7)


class Way:
    """The addresses of a daemon: of clients, and of those beyond a bad network, with TLS or without."""

    def __init__(self, place: Path, has_tls: bool) -> None:
        self.here = f"unix:{place / 'daemon.sock'}"
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        self.ws = ["--ws", self.here, "--ws", f"127.0.0.1:{self.port}"]
        self.serving = list[str | Path]()
        self.trusting, self.following = list[str | Path](), list[str | Path]()
        self._scheme = "ws"
        if has_tls:
            authority = Authority(place)
            authority.write()
            self.serving = ["--tls-cert", authority.cert, "--tls-key", authority.key]
            self.trusting, self.following = ["--tls-ca", authority.ca], ["--standby-tls-ca", authority.ca]
            self._scheme = "wss"

    def through(self, network: BadNetwork) -> str:
        """The address beyond the network."""
        return f"{self._scheme}://127.0.0.1:{network.port}"


@asynccontextmanager
async def running(network: BadNetwork) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(network.run)
        yield
        nursery.cancel_scope.cancel()


def ended(*keys: str) -> si.AllocationRequest:
    """Tasks that have ended."""
    kind: si.TerminationType = "STOPPED_BY_RM"
    releases = [si.AllocationRelease(application_id="app-1", allocation_key=key, termination_type=kind) for key in keys]
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=releases))


async def work(rm: ResourceManager, number: int) -> None:
    """Let a task begin and another one end."""
    await rm.request(asks(f"t{number}", vcore=1))
    await rm.request(ended(f"t{number - 5}"))


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("seed", seeds(2))
async def test_a_replica_shows_the_truth_or_nothing(tmp_path: Path, seed: int, has_tls: bool) -> None:
    """Whatever is damaged, its turns are those of the daemon, and its followers get each event once; it goes on by itself."""
    way = Way(tmp_path, has_tls)
    network = BadNetwork(seed, way.port, has_tls=has_tls)
    async with (
        real_daemon("--state-dir", tmp_path / "state", *way.serving, ws=way.ws),
        connect(way.here, rm_id="rm-1") as rm,
        running(network),
        running_replica(way.here) as calm,
        running_replica(way.through(network), *way.trusting) as replica,
        Events.of(replica) as here,
    ):
        await rm.request(node(vcore=100_000))
        await rm.request(application())
        await replica.wait_logged("partition_copied")
        network.is_bad = True
        number = 0
        while len(replica.logged("replica_connected")) < ROUNDS:
            await work(rm, number := number + 1)
            assert (await ask(replica, QUEUES)).status in (200, 503)
        network.heal()
        await assert_equal(calm, replica, here)
        assert len([fault for fault in network.counts if fault]) > 3


async def assert_equal(calm: RunningDaemon, replica: RunningDaemon, here: Events) -> None:
    """Check that a replica has become what one without a bad network is, and that all its turns were decided the same."""
    await until_equal(calm, replica)
    last = await newest_event(calm)
    found = await here.up_to(last)
    assert [*here.found] == [*range(1, last + 1)]
    async with Events.of(calm) as there:
        assert await there.up_to(last) == found
    assert replica.logged("turn_differed") == []


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("seed", seeds(2))
async def test_a_standby_has_what_was_acknowledged(tmp_path: Path, seed: int, has_tls: bool) -> None:
    """Whatever is damaged, its journal is the beginning of that of the daemon, and has all that anybody was told."""
    way, ours, theirs = Way(tmp_path, has_tls), tmp_path / "standby", tmp_path / "daemon"
    network = BadNetwork(seed, way.port, has_tls=has_tls)
    stops = ("--standbys", "1", "--standbys-wait", "0.1s", "--state-dir", theirs)
    async with running(network), standby_of(way.through(network), ours, *way.following) as standby:
        async with real_daemon(*stops, *way.serving, ws=way.ws) as daemon, connect(way.here, rm_id="rm-1") as rm:
            await rm.request(node(vcore=100_000))
            network.is_bad = True
            number = 0
            while len(standby.daemon.logged("standby_not_connected")) < ROUNDS:
                await churn(rm, number := number + 1)
                assert knows(ours, f"app-{number}")
            network.heal()
            await standby.has(newest(theirs))
            await daemon.stop()
        await standby.stop()
    assert_same(ours, theirs)


def knows(directory: Path, name: str) -> bool:
    """True if the history of a journal is about something with this name."""
    with Reader.open(directory) as reader:
        return bool(reader.mentions(name))


class Acknowledged:
    """A resource manager that asks for one application after the other, and notes which of them were acknowledged."""

    def __init__(self, name: str) -> None:
        self.names: list[str] = []
        self._name = name
        self._grown = trio.Event()

    async def ask(self, url: str, *, task_status: trio.TaskStatus[None]) -> None:
        """Ask until cancelled."""
        async with connect(url, rm_id="rm-1") as rm:
            await rm.request(node(self._name, vcore=100_000))
            task_status.started()
            number = 0
            while True:
                name = f"{self._name}-{(number := number + 1)}"
                await rm.request(application(name, "root.default"))
                self.names.append(name)
                self._grown.set()
                self._grown = trio.Event()

    async def has(self, count: int) -> None:
        """Wait until so many were acknowledged."""
        while len(self.names) < count:
            await self._grown.wait()


@pytest.mark.parametrize("seed", seeds(7))
async def test_a_split_network(tmp_path: Path, seed: int) -> None:
    """DU-21, DU-23: never two daemons acknowledge; the one that has taken over has all that the other one has acknowledged."""
    way, ours, theirs = Way(tmp_path, has_tls=False), tmp_path / "standby", tmp_path / "daemon"
    network, there, here = BadNetwork(seed, way.port, has_tls=False), Acknowledged("there"), Acknowledged("here")
    stops = ("--standbys", "1", "--standbys-wait", "0.1s", "--without-standby", "stop", "--state-dir", theirs)
    async with running(network), trio.open_nursery() as nursery:
        async with standby_of(way.through(network), ours) as standby, real_daemon(*stops, ws=way.ws) as daemon:
            await nursery.start(there.ask, way.here)
            network.is_bad = True
            await there.has(5 + seed)
            network.split()
            await run_command("take-over", "--state-dir", ours)
            told = list(there.names)
            await nursery.start(here.ask, standby.url)
            await here.has(5)
            network.heal()
            await here.has(10)
            assert there.names == told
            assert all(knows(ours, name) for name in told)
            nursery.cancel_scope.cancel()
            await daemon.wait_logged("journal_stalled")
