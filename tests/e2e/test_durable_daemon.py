"""A daemon with a journal, in this process, with real sockets: what clients get, and how it ends."""

import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from daemon import running_command
from daemonhere import apply_config, daemon_here
from forked import Forked
from memorystore import MemoryStore
from partitiontexts import several
from world import queue

from ykactor.client import RequestRefused, connect, follow
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.daemon import daemon as daemon_module
from ykactor.wire.si import messages as si

NODE = si.NodeRequest(nodes=[si.NodeInfo(node_id="n1", action="CREATE", schedulable_resource={"vcore": 1000})])


async def test_an_acknowledged_request_is_in_the_store() -> None:
    """The turn of a request and its acknowledgement are durable when the acknowledgement arrives."""
    store = MemoryStore()
    async with daemon_here(store=store) as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(NODE)
        facts = [fact for turn in store.turns for fact in turn["facts"]]
        assert "NodeAdded" in [name for name, _ in facts]
        assert b'"Ack"' in store.messages[-1]


async def test_a_removed_partition_leaves_no_rows() -> None:
    """Nor does its last turn: the next start would find a part of a partition."""
    store = MemoryStore()
    async with daemon_here(store=store) as (daemon, _):
        for text in several(default=[], gpu=[queue("a")]), several(default=[]):
            await apply_config(daemon, text, "")
            for name in daemon.partitions:
                await daemon.feed.published(name)
            await daemon._journal.flushed()  # type: ignore[union-attr]
            assert any(key.startswith(b'["gpu",') for key in store.records) == ("gpu" in daemon.partitions)


async def test_clients_are_told_that_the_disk_is_full() -> None:
    """DU-10: nothing is acknowledged and no event comes, both are told why; with room again, all that they lack comes."""
    store = MemoryStore()
    async with daemon_here(store=store) as (daemon, url), connect(url, rm_id="rm-1") as rm, follow(url) as follower:
        store.is_full = True
        await rm.send(NODE)
        stalled = [await rm.__anext__(), await follower.__anext__()]
        assert [(said.writable, said.reason) for said in stalled if isinstance(said, si.JournalStatus)] == [
            (False, "no room on the disk")
        ] * 2
        with pytest.raises(RequestRefused, match=r"the state after event .* was not durable within 5 s: no room on the disk"):
            async with follow(url, from_="snapshot", waits=False) as late:
                await late.__anext__()
        store.is_full = False
        assert [type(await rm.__anext__()) for _ in range(2)] == [si.JournalStatus, si.NodeResponse]
        said = [await follower.__anext__() for _ in range(2)]
        assert [type(message) for message in said] == [si.JournalStatus, si.EventRecord]
        assert rm.sequence == daemon.outboxes.current.sequence  # type: ignore[union-attr]


SCENARIO = """
name: small
config: ""
until: 1
messages:
  - {at: 0, type: NodeRequest, nodes: [{nodeID: s1, action: CREATE, schedulableResource: {vcore: "4"}}]}
"""


@asynccontextmanager
async def waiting(*arguments: str) -> AsyncIterator[Forked]:
    """A command that has said that it waits for the journal."""
    async with running_command(*arguments) as process:
        said = await process.stderr.receive_some()
        assert said == b"waiting for the journal of the daemon: no room on the disk\n"
        yield process


@pytest.mark.parametrize("events_max", [50_000, 0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_who_comes_while_the_disk_is_full_is_told(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, events_max: int, number: int
) -> None:
    """Commands say what they wait for, also if the partitions take no more input, and when interrupted what may come of it."""
    store = MemoryStore()
    async with daemon_here(store=store) as (_, url), connect(url, rm_id="rm-1") as rm, follow(url) as follower:
        store.is_full = True
        await rm.send(NODE)
        await follower.__anext__()
        monkeypatch.setattr("ykactor.actors.journal.EVENTS_MAX", events_max)
        async with follow(url) as late:
            assert isinstance(await late.__anext__(), si.JournalStatus)
        async with waiting("rm", "release", "rm-1", "--url", url) as process:
            process.send_signal(signal.SIGINT)
            assert await process.wait() == exit_codes.INTERRUPTED
            assert await process.stderr.receive_some() == b"interrupted: the daemon has not confirmed that rm-1 is deregistered\n"
        async with waiting("submit", str(scenario), "--rm-id", "rm-1", "--url", url) as process:
            process.send_signal(number)
            assert await process.wait() == exit_codes.INTERRUPTED
            expected = b"interrupted: rm-1 may be registered all the same, 'ykactor rm release rm-1' ends this\n"
            assert (await process.stdout.receive_some(), await process.stderr.receive_some()) == (b"", expected)
        monkeypatch.setattr("ykactor.actors.journal.EVENTS_MAX", 50_000)
        store.is_full = False


async def test_a_full_disk_stays_in_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log repeats the message while the disk is full, and not afterwards."""
    monkeypatch.setattr("ykactor.surfaces.daemon.reports.REPEAT_S", 0.3)
    store = MemoryStore()
    with caplog.at_level(logging.INFO):
        async with daemon_here(store=store) as (_, url), connect(url, rm_id="rm-1") as rm:
            store.is_full = True
            await rm.send(NODE)
            while len(said_of_the_journal(caplog)) < 3:  # noqa: ASYNC110 (a log tells nobody)
                await trio.sleep(0.01)
            store.is_full = False
            await rm.request(NODE)
            await trio.sleep(0.5)
    *stalled, last = said_of_the_journal(caplog)
    assert last == "journal_resumed"
    assert stalled == ["journal_stalled"] * len(stalled)


def said_of_the_journal(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.message.startswith("journal_")]


async def test_clients_are_told_that_the_disk_does_not_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DU-16: as when it is full; a snapshot is refused in time, and the log says once when it began and when it was over."""
    monkeypatch.setattr("ykactor.actors.journal.ANSWER_S", 0.2)
    monkeypatch.setattr("ykactor.actors.feed.SNAPSHOT_S", 0.5)
    store = MemoryStore()
    with caplog.at_level(logging.INFO):
        async with daemon_here(store=store) as (_, url), connect(url, rm_id="rm-1") as rm, follow(url) as follower:
            store.answers = trio.Event()
            await rm.send(NODE)
            for said in await rm.__anext__(), await follower.__anext__():
                assert isinstance(said, si.JournalStatus)
                assert (said.writable, said.reason) == (False, "the disk has not answered for 0.2 s")
            with pytest.raises(RequestRefused, match=r"the state after event .* was not durable within 0.5 s: the disk has not"):
                async with follow(url, from_="snapshot", waits=False) as late:
                    await late.__anext__()
            store.answers.set()
            assert [type(await rm.__anext__()) for _ in range(2)] == [si.JournalStatus, si.NodeResponse]
            assert [type(await follower.__anext__()) for _ in range(2)] == [si.JournalStatus, si.EventRecord]
    said = [record.message for record in caplog.records if record.message.startswith("journal_")]
    assert said == ["journal_stalled", "journal_resumed"]


async def test_the_end_waits_for_the_disk() -> None:
    """Messages that clients have not got yet come before the daemon has stopped, if the disk takes no longer than usual."""
    store = MemoryStore(lambda: 0.3)
    async with daemon_here(store=store) as (daemon, url):
        async with connect(url, rm_id="rm-1") as rm:
            await rm.send(NODE)
            while not daemon.registry("default").nodes:
                await trio.lowlevel.checkpoint()
            daemon.stop()
            assert isinstance(await rm.__anext__(), si.NodeResponse)


@pytest.mark.parametrize("events_max", [1, 50_000], ids=["partition waits", "partition is idle"])
async def test_a_dead_disk_does_not_keep_the_daemon(
    events_max: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends although the disk never answers, and says how much was not durable."""
    monkeypatch.setattr("ykactor.actors.journal.EVENTS_MAX", events_max)
    monkeypatch.setattr(daemon_module, "PARTITIONS_STOP_S", 0.3)
    monkeypatch.setattr("ykactor.surfaces.sessions.websocket.STOP_S", 0.3)
    store = MemoryStore()
    with caplog.at_level(logging.ERROR):
        async with daemon_here(store=store) as (daemon, url), connect(url, rm_id="rm-1") as rm:
            store.answers = trio.Event()
            await rm.send(NODE)
            await rm.send(NODE)
            while not daemon.registry("default").nodes:
                await trio.lowlevel.checkpoint()
            daemon.stop()
            await daemon.stopped.wait()
    (line,) = (record for record in caplog.records if record.message == "not_durable")
    keys = vars(line)["keys"]
    assert keys["events"] > 0
    assert keys["messages"] > 0


async def test_a_failed_disk_ends_the_daemon() -> None:
    """DU-11: the error comes out of ``run``, for exit code 70; nothing was acknowledged."""
    store, acknowledged = MemoryStore(), []

    async def fail() -> None:
        async with daemon_here(store=store) as (_, url), connect(url, rm_id="rm-1") as rm:
            store.failure = OSError("input/output error")
            await rm.send(NODE)
            acknowledged.append(await rm.__anext__())

    with pytest.raises(BaseExceptionGroup) as failure:
        await fail()
    assert not acknowledged
    assert failure.group_contains(OSError, match="input/output error")


async def test_waiting_for_the_disk_is_no_lack_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog is fed while a partition waits for room, and not because of the journal alone."""
    monkeypatch.setattr("ykactor.actors.journal.EVENTS_MAX", 1)
    store = MemoryStore()
    async with daemon_here(store=store) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        store.answers, before = trio.Event(), daemon.feed.ring.sequence
        await rm.send(NODE)
        while daemon.feed.ring.sequence == before:  # else a session would take both together
            await trio.lowlevel.checkpoint()
        await rm.send(NODE)
        while daemon._is_idle():
            await trio.lowlevel.checkpoint()
        while not daemon._has_no_work():
            await trio.lowlevel.checkpoint()
        assert not daemon._is_idle()
        store.answers.set()
