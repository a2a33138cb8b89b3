"""A replica answers readers as its daemon does (DU-22), through all that a daemon does, and while it is away."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from daemon import RunningDaemon, application, asks, new_token, node, real_daemon
from replicas import ask, running_replica, until_equal
from trio_websocket import WebSocketRequest, serve_websocket

from ykactor.client import Follower, RequestRefused, connect, follow, operate
from ykactor.client.connection import open_connection
from ykactor.client.errors import Refused
from ykactor.client.resource_manager import ResourceManager
from ykactor.core.messages.states import PartitionState
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.cli import exit_codes
from ykactor.wire.build import BUILD
from ykactor.wire.seals import Seal
from ykactor.wire.si import messages as si
from ykactor.wire.turns import Configuration, Hello, Past, Process, encode, packed

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {guaranteed: {vcore: 3}}
            properties: {preemption.delay: 1s}
          - name: b
          - name: c
            resources: {max: {vcore: 1}}
            limits: [{limit: "", users: ["*"], maxresources: {vcore: 1}}]
"""
GPU = (
    CONFIG
    + """
  - name: gpu
    queues: [{name: root, submitacl: "*"}]
"""
)


GPU_NODE = si.NodeInfo(
    node_id="g1", action="CREATE", schedulable_resource={"vcore": 9000}, attributes={"si/node-partition": "gpu"}
)


PREEMPTOR = si.Allocation(
    allocation_key="a1",
    application_id="a-1",
    resource_per_alloc={"vcore": 1000},
    preemption_policy=si.PreemptionPolicy(allow_preempt_other=True),
)


async def history(rm: ResourceManager, url: str) -> None:
    """Placements, waiting, preemption, a reservation, a drain, a move, an end, a refusal, other configurations and partitions."""
    for request in (node(vcore=4000, memory=2**34), node("n2", vcore=1000), application("b-1", "root.b")):
        await rm.request(request)
    await rm.request(asks(*(f"b{number}" for number in range(6)), of="b-1", vcore=1000))
    await rm.request(application("c-1", "root.c"))
    await rm.request(asks("c1", "c2", of="c-1", vcore=1000))
    with pytest.raises(Refused):
        await rm.request(application("bad", "root.nowhere"))
    async with operate(url) as operator:
        await operator.request(si.NodeRequest(nodes=[si.NodeInfo(node_id="n2", action="DRAIN_NODE")]))
        await operator.request(si.UpdateConfigurationRequest(config=GPU))
        await rm.request(si.NodeRequest(nodes=[GPU_NODE]))
        await rm.request(application("a-1", "root.a"))
        await rm.request(si.AllocationRequest(allocations=[PREEMPTOR]))
        await operator.request(si.MoveApplication(application_id="c-1", queue_name="root.b"))
        with pytest.raises(RequestRefused):
            await operator.request(si.TerminateApplication(application_id="none"))


class Events:
    """The events that a follower gets, by number."""

    def __init__(self) -> None:
        self.found: dict[int, si.EventRecord] = {}
        self.others: list[object] = []
        #: Of the newest event.
        self.term = ""
        self._grown = trio.Event()

    async def _take(self, follower: Follower) -> None:
        async for message in follower:
            if isinstance(message, si.EventRecord):
                self.found[message.sequence] = message
            else:
                self.others.append(message)
            self.term = follower.term
            self._grown.set()
            self._grown = trio.Event()

    @classmethod
    @asynccontextmanager
    async def of(cls, served: RunningDaemon, after: int = 0, term: str = "") -> AsyncIterator[Events]:
        """The events that follow a number of a term, as long as the block lasts."""
        events = cls()
        async with follow(served.url, from_=after, term=term) as follower, trio.open_nursery() as nursery:
            nursery.start_soon(events._take, follower)
            yield events
            nursery.cancel_scope.cancel()

    async def has_preempted(self) -> None:
        """Wait until a preemption is told."""
        while all(event.preemption is None for event in self.found.values()):
            await self._grown.wait()

    async def up_to(self, number: int) -> list[si.EventRecord]:
        """All events, when there are so many."""
        while number not in self.found:
            await self._grown.wait()
        return [self.found[each] for each in sorted(self.found)]


class Wire:
    """A way to a daemon that is cut after so many bytes of what the daemon sends, in the middle of a frame."""

    def __init__(self, port: int) -> None:
        self.left = sys.maxsize
        self._port = port

    async def carry(self, near: trio.SocketStream) -> None:
        """Carry the bytes of a connection until one side has gone, or it is cut."""
        with suppress(OSError, trio.BrokenResourceError):
            async with near, await trio.open_tcp_stream("127.0.0.1", self._port) as far, trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, near, far, nursery.cancel_scope)
                async for data in far:
                    await near.send_all(data[: self.left])
                    self.left -= len(data)
                    if self.left <= 0:
                        self.left = sys.maxsize
                        break
                nursery.cancel_scope.cancel()

    async def _pass_on(self, near: trio.SocketStream, far: trio.SocketStream, both: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError):
            async for data in near:
                await far.send_all(data)
        both.cancel()


async def newest(served: Any) -> int:
    """The number of the newest event; ids of the REST API begin at 0."""
    content = (await ask(served, "/ws/v1/events/batch")).content
    return int(content["HighestID"]) + 1


@pytest.mark.parametrize("is_kept", [True, False])
async def test_shows_what_its_daemon_shows(tmp_path: Path, is_kept: bool) -> None:
    """DU-22: every answer and every event, of a replica that was there from the begin and of one that joins at the end.

    Without a journal turns are recorded as long as a replica is there.
    """
    (tmp_path / "queues.yaml").write_text(CONFIG)
    arguments = ("--config", tmp_path / "queues.yaml", *(("--state-dir", tmp_path / "state") if is_kept else ()))
    async with real_daemon(*arguments, http="127.0.0.1:0") as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        async with running_replica(daemon.url) as early, Events.of(daemon) as there, Events.of(early) as here:
            await history(rm, daemon.url)
            await there.has_preempted()
            assert await until_equal(daemon, early) > 40
            last = await newest(daemon)
            assert await there.up_to(last) == await here.up_to(last)
            assert [*here.found] == [*range(1, last + 1)]
            async with running_replica(daemon.url) as late:
                await until_equal(daemon, late)
                async with operate(daemon.url) as operator:  # a partition leaves
                    await operator.request(si.UpdateConfigurationRequest(config=CONFIG))
                await until_equal(daemon, early)
                await until_equal(daemon, late)
                last = await newest(daemon)
                async with Events.of(late) as again:
                    assert await again.up_to(last) == await there.up_to(last)


async def test_a_daemon_that_is_killed(tmp_path: Path) -> None:
    """Followers and readers of the replica notice nothing but the pause: what it has shown, the next daemon has too."""
    arguments = ("--state-dir", tmp_path / "state")
    async with real_daemon(*arguments, http="127.0.0.1:0") as daemon:
        async with running_replica(daemon.url) as replica, Events.of(replica) as here:
            async with connect(daemon.url, rm_id="rm-1") as rm:
                await rm.request(node(vcore=4000))
                await rm.request(application())
                for number in range(20):
                    await rm.request(asks(f"t{number}"))
            await until_equal(daemon, replica)
            daemon.process.kill()
            await daemon.process.wait()
            await replica.wait_logged("replica_disconnected")
            answer = await ask(replica, "/ws/v1/partition/default/application/app-1")
            assert answer.status == 200  # it shows what it has
            health = (await ask(replica, "/ws/v1/scheduler/healthcheck")).content
            assert health["HealthChecks"][0]["DiagnosisMessage"].startswith("the replica is not connected")
            address = daemon.url.removeprefix("ws://")
            async with real_daemon(*arguments, ws=["--ws", address], http="127.0.0.1:0") as again:
                async with connect(again.url, rm_id="rm-1") as rm:
                    await rm.request(application("app-2"))
                    await until_equal(again, replica)
                    last = await newest(again)
                    found = await here.up_to(last)
                    async with Events.of(again) as there:
                        assert await there.up_to(last) == found
                    assert here.term == there.term  # with which they resume
                    assert [*here.found] == [*range(1, last + 1)]
                    assert (await ask(replica, "/readyz")).status == 200
                    assert len(replica.logged("partition_copied")) == 1  # the copy went on


async def test_a_connection_that_is_cut(tmp_path: Path) -> None:
    """Wherever the connection of a replica is cut: followers get each event once, and its copy can be read and goes on."""
    async with (
        real_daemon("--state-dir", tmp_path / "state", http="127.0.0.1:0") as daemon,
        connect(daemon.url, rm_id="rm-1") as rm,
        trio.open_nursery() as nursery,
    ):
        wire = Wire(int(daemon.url.rpartition(":")[2]))
        server = await nursery.start(partial(trio.serve_tcp, wire.carry, 0, host="127.0.0.1"))
        port = server[0].socket.getsockname()[1]
        await rm.request(node(vcore=100_000))
        await rm.request(application())
        async with running_replica(f"ws://127.0.0.1:{port}") as replica, Events.of(replica) as here:
            await replica.wait_logged("partition_copied")
            for number, left in enumerate((1, 40, 300, 1000, 2500), 2):
                wire.left = left
                while len(replica.logged("replica_connected")) < number:
                    await rm.request(asks(f"t{number}-{len(here.found)}-{trio.current_time()}", vcore=1))
                    assert (await ask(replica, "/ws/v1/partition/default/queues")).status == 200
            await until_equal(daemon, replica)
            last = await newest(daemon)
            found = await here.up_to(last)
            assert [*here.found] == [*range(1, last + 1)]
            async with Events.of(daemon) as there:
                assert await there.up_to(last) == found
            assert replica.logged("turn_differed") == []
            assert len(replica.logged("partition_copied")) == 1
        nursery.cancel_scope.cancel()


async def test_the_address_that_has_answered(tmp_path: Path) -> None:
    """The log names the address of several at which the daemon is."""
    async with real_daemon() as daemon, running_replica(f"unix:{tmp_path}/nobody,{daemon.url}") as replica:
        await replica.wait_logged("replica_connected")
        assert [found["daemon"] for found in replica.logged("replica_connected")] == [daemon.url]


async def test_followers_move_between_both(tmp_path: Path) -> None:
    """EV-55: a number of a term is the same at daemon and replica; one that the replica has not reached is waited for."""
    async with (
        real_daemon("--state-dir", tmp_path / "state", http="127.0.0.1:0") as daemon,
        connect(daemon.url, rm_id="rm") as rm,
    ):
        await rm.request(node(vcore=4000))
        async with running_replica(daemon.url) as replica:
            await rm.request(application())
            async with follow(daemon.url, from_=2) as follower:
                term = follower.term
            replica.process.send_signal(signal.SIGSTOP)
            await rm.request(asks("t1", "t2"))
            last = await newest(daemon)

            async def go_on() -> None:
                replica.process.send_signal(signal.SIGCONT)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(go_on)
                async with Events.of(replica, last - 1, term) as here:
                    await here.up_to(last)
            async with Events.of(daemon, last - 1, term) as there:
                await there.up_to(last)
            assert min(here.found) == min(there.found) == last
            assert here.found[last] == there.found[last]
            assert [other for other in here.others if not isinstance(other, si.Bookmark)] == []


async def test_who_acts_goes_to_the_daemon(tmp_path: Path) -> None:
    """DU-22: a replica takes nothing from resource managers and operators, gives no turns, and names its daemon."""
    async with real_daemon("--state-dir", tmp_path / "state", http="127.0.0.1:0") as daemon:
        async with running_replica(daemon.url) as replica:
            said = f"this is a replica, which only answers readers: connect to the daemon at {daemon.url}"
            for path in ("/v1/rm", "/v1/operator", "/v1/turns"):
                with pytest.raises(RequestRefused, match=said):
                    async with open_connection(replica.url, path):
                        pass
            session = (await ask(replica, "/ws/v1/session")).content
            assert session["roles"] == ["metrics", "reader"]
            assert session["websockets"] == replica.url
            assert (await ask(replica, "/")).status == 200
            assert (await ask(replica, "/ws/v1/partitions", "POST")).status == 405
            metrics = (await ask(replica, "/ws/v1/metrics")).body.decode()
            assert "ykactor_replica_connected 1" in metrics
            assert "ykactor_replica_mismatches_total 0" in metrics
            assert (await replica.wait_logged("handshake_failed"))["reason"] == said


ACCESS = """
identities:
  - {name: copy, roles: [replica]}
  - {name: all, roles: [reader]}
  - {name: some, roles: [reader], queues: [root.a]}
"""


async def refusal_of(path: str, served: RunningDaemon, token: str) -> si.EventRecord:
    """The event that says that somebody was refused a path."""
    async with follow(served.url, from_=0, token=token, kinds=["AUDIT"]) as follower:
        async for event in follower:
            if isinstance(event, si.EventRecord) and event.object_id == path:
                return event
    raise AssertionError("a follower does not end")


async def test_its_access_file_limits_its_readers(tmp_path: Path) -> None:
    """SE-60, SE-88: nobody reads without a proof, and a limited reader sees of a replica what it sees of the daemon."""
    (tmp_path / "queues.yaml").write_text(CONFIG)
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)
    access.chmod(0o600)
    tokens = {name: new_token(name, access) for name in ("copy", "all", "some")}
    proof = tmp_path / "token"
    proof.write_text(tokens["copy"])
    proof.chmod(0o600)
    limits = ("--config", tmp_path / "queues.yaml", "--state-dir", tmp_path / "state", "--access", access)
    async with real_daemon(*limits, http="127.0.0.1:0") as daemon:
        async with running_replica(daemon.url, "--token-file", proof, "--access", access) as replica:
            queues = "/ws/v1/partition/default/queues"
            assert (await ask(replica, queues)).status == 401
            for name in ("all", "some"):
                asked = {"authorization": f"Bearer {tokens[name]}"}
                while (found := await ask(replica, queues, **asked)).status == 503:
                    assert found.headers["retry-after"] == "2"
                    await trio.sleep(0.05)
                assert found.body == (await ask(daemon, queues, **asked)).body
            shown = await ask(replica, "/ws/v1/config", authorization=f"Bearer {tokens['some']}")
            assert shown.status == 403
            audited = [await refusal_of("/ws/v1/config", served, tokens["all"]) for served in (daemon, replica)]
            assert audited[0] == audited[1]  # SE-74: the daemon audits it, so it has a number
            assert "at the replica copy from" in audited[0].message


async def test_no_answer_before_there_is_a_copy() -> None:
    """A partition of which there is no copy: 503 with the reason and Retry-After, and health says so; no snapshot either."""

    async def greet(request: WebSocketRequest) -> None:
        connection = await request.accept(subprotocol=request.proposed_subprotocols[0])
        process = Process({PartitionName("default"): (PartitionState.ACTIVE, 1)}, None, [])
        told = [Hello(BUILD, [("1-aa", 1)], 1, 1), Past(1, []), process, Configuration("", "sum")]
        await connection.send_message(Seal().close(packed([*map(encode, told)])))
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve_websocket, greet, "127.0.0.1", 0, None))
        async with running_replica(f"ws://127.0.0.1:{server.port}") as replica:
            why = "the replica has no copy of partition default yet"
            for path in ("/ws/v1/partition/default/queues", "/ws/v1/partitions", "/ws/v1/partition/default/queue/root"):
                answer = await ask(replica, path)
                assert (answer.status, answer.headers["retry-after"]) == (503, "2")
                assert why in answer.body.decode()
            answer = await ask(replica, "/ws/v1/scheduler/healthcheck")
            assert answer.status == 503
            assert why in answer.content["HealthChecks"][0]["DiagnosisMessage"]
            assert (await ask(replica, "/ws/v1/partition/none/queues")).status == 404
            with pytest.raises(RequestRefused, match=why):
                async with follow(replica.url, from_="snapshot") as follower:
                    await follower.__anext__()
        nursery.cancel_scope.cancel()


async def test_a_connection_that_is_lost_before_the_daemon_has_told_everything() -> None:
    """The replica tries again: it knows that a daemon is there; only a first connection that fails ends it."""
    connections = 0

    async def greet(request: WebSocketRequest) -> None:
        nonlocal connections
        connections += 1
        connection, seal = await request.accept(subprotocol=request.proposed_subprotocols[0]), Seal()
        process = Process({PartitionName("default"): (PartitionState.ACTIVE, 1)}, None, [])
        await connection.send_message(seal.close(packed([encode(Hello(BUILD, [("1-aa", 1)], 1, 1))])))
        await connection.get_message()
        if connections < 3:
            await connection.aclose()
            return
        await connection.send_message(seal.close(packed([*map(encode, [Past(1, []), process, Configuration("", "sum")])])))
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve_websocket, greet, "127.0.0.1", 0, None))
        async with running_replica(f"ws://127.0.0.1:{server.port}") as replica:
            assert connections == 3
            assert len(replica.logged("replica_disconnected")) == 2
        nursery.cancel_scope.cancel()


async def test_a_revoked_token_ends_a_replica(tmp_path: Path) -> None:
    """A replica that may be told nothing any more shows nothing of before either."""
    access, proof = tmp_path / "access.yaml", tmp_path / "token"
    access.write_text(ACCESS)
    access.chmod(0o600)
    proof.write_text(new_token("copy", access))
    proof.chmod(0o600)
    async with real_daemon("--access", access) as daemon:
        async with running_replica(daemon.url, "--token-file", proof) as replica:
            (tmp_path / "tokens.json").unlink()
            daemon.process.send_signal(signal.SIGHUP)
            with trio.fail_after(60):
                assert await replica.process.wait() == exit_codes.FAILED
