"""A daemon with a state directory that is killed and started again goes on as if nothing had happened (rules, durability)."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from daemon import RunningDaemon, next_allocated, real_daemon, run_command
from test_serve import NotifySocket

from ykactor.client import Disconnected, RequestRefused, connect, follow
from ykactor.client.resource_manager import ResourceManager
from ykactor.journal.files import Witness
from ykactor.journal.reading import Reader
from ykactor.journal.terms import Term
from ykactor.journal.transaction import Batch, change_text
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.files.daemon_rows import CHANGE, CONFIG, ChangeRow
from ykactor.surfaces.files.state_dir import StateSettings, open_state_dir
from ykactor.surfaces.net.systemd import EXTENSION_S
from ykactor.wire.queuefile import load
from ykactor.wire.si import messages as si

FIRST = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 8}}}
          - {name: b, parent: true}
    placementrules:
      - {name: provided, create: true}
"""
SECOND = FIRST.replace("vcore: 8", "vcore: 10")

NODES = si.NodeRequest(
    nodes=[si.NodeInfo(node_id=f"n{number}", action="CREATE", schedulable_resource={"vcore": 4000}) for number in range(3)]
)
BOB, ALICE = si.UserGroupInformation(user="bob"), si.UserGroupInformation(user="alice", groups=["dev"])
APPLICATIONS = si.ApplicationRequest(
    new=[
        si.AddApplicationRequest(application_id="app-1", queue_name="root.a", ugi=BOB),
        si.AddApplicationRequest(application_id="gang", queue_name="root.b.new", ugi=ALICE, placeholder_ask={"vcore": 2000}),
    ]
)
DRAIN = si.NodeRequest(nodes=[si.NodeInfo(node_id="n2", action="DRAIN_NODE")])


def ask(key: str, application_id: str, vcore: int = 1000, **fields: Any) -> si.Allocation:
    return si.Allocation(allocation_key=key, application_id=application_id, resource_per_alloc={"vcore": vcore}, **fields)


def asks(*entries: si.Allocation) -> si.AllocationRequest:
    return si.AllocationRequest(allocations=list(entries))


async def kill(daemon: RunningDaemon) -> None:
    """Kill the daemon with a signal that no handler can soften."""
    daemon.process.kill()
    await daemon.process.wait()


async def submit_something_of_everything(rm: ResourceManager) -> None:
    """Running, pending over quota, a gang that waits, a foreign allocation, a dynamic queue, a drained node."""
    await rm.request(NODES)
    await rm.request(APPLICATIONS)
    await rm.request(asks(*(ask(f"k{number}", "app-1") for number in range(12))))
    await rm.request(asks(*(ask(f"p{number}", "gang", placeholder=True, task_group_name="g") for number in range(2))))
    await next_allocated(rm, 10)
    await rm.request(asks(ask("f1", "", 500, node_id="n2", allocation_tags={"foreign": "default"})))
    await rm.request(DRAIN)
    await trio.sleep(0.3)  # what follows from these requests


async def test_everything_is_as_before(tmp_path: Path, queue_file: Path) -> None:
    """State, event numbers, messages and the registration; then work goes on (DU-1, DU-5, DU-7, DU-8)."""
    arguments = ("--state-dir", tmp_path / "state", "--config", queue_file)
    async with real_daemon(*arguments) as first:
        async with connect(first.url, rm_id="rm-1") as rm:
            await submit_something_of_everything(rm)
            seen, term = rm.sequence, rm.term
        before = await first.state()
        async with follow(first.url, from_="snapshot") as follower:
            snapshot = await follower.__anext__()
            assert follower.term == term
        await kill(first)
    async with real_daemon(*arguments) as second:
        (recovered,) = second.logged("state_recovered")
        assert (recovered["nodes"], recovered["apps"]) == (3, 2)
        assert await second.state() == before
        async with follow(second.url, from_=snapshot.sequence, term=term) as follower:
            async with connect(second.url, rm_id="rm-1", resume_from=seen, term=term) as rm:
                released = si.AllocationRelease(application_id="app-1", allocation_key="k0", termination_type="STOPPED_BY_RM")
                await rm.request(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[released])))
                placed = [message async for message in _until_allocated(rm)]
            assert [allocation.allocation_key for allocation in placed] == ["k8"]
            assert (await follower.__anext__()).sequence == snapshot.sequence + 1


async def _until_allocated(rm: ResourceManager) -> Any:
    async for message in rm:
        if isinstance(message, si.AllocationResponse) and message.new:
            for allocation in message.new:
                yield allocation
            return


async def test_after_a_loss_who_knows_more_begins_anew(tmp_path: Path, queue_file: Path) -> None:
    """The whole part stays; the numbers that are lost stand for something else from now on (DU-3)."""
    full, cut = tmp_path / "full", tmp_path / "cut"
    async with real_daemon("--state-dir", full, "--config", queue_file) as first:
        async with connect(first.url, rm_id="rm-1") as rm:
            await rm.request(NODES)
            kept, term = rm.sequence, rm.term
            shutil.copytree(full, cut)  # all that the disk has when the power fails
            await rm.request(APPLICATIONS)
            seen = rm.sequence
        async with follow(first.url, from_="snapshot") as follower:
            snapshot = await follower.__anext__()
        await kill(first)
    shutil.copy(full / "witness", cut / "witness")
    async with real_daemon("--state-dir", cut, "--config", queue_file) as second:
        assert second.logged("journal_loss")
        with pytest.raises(RequestRefused, match="RESYNC_REQUIRED"):
            async with connect(second.url, rm_id="rm-1", resume_from=seen, term=term):
                pass
        async with follow(second.url, from_=snapshot.sequence, term=term) as follower:
            instead = await follower.__anext__()
        assert isinstance(instead, si.Snapshot)
        assert f" of term {term}, which has ended with event " in instead.reason
        assert set((await second.state())["nodes"]) == {"n0", "n1", "n2"}
        async with connect(second.url, rm_id="rm-1", resume_from=kept, term=term) as rm:
            await rm.request(APPLICATIONS)


async def test_a_configuration_of_the_resource_manager_stays(tmp_path: Path, queue_file: Path) -> None:
    """An acknowledged configuration stays until the queue file changes, also if it does so while nothing runs (DU-9)."""
    arguments = ("--state-dir", tmp_path / "state", "--config", queue_file)
    async with real_daemon(*arguments) as first:
        async with connect(first.url, rm_id="rm-1") as rm:
            await rm.request(si.UpdateConfigurationRequest(config=SECOND))
        await kill(first)
    async with real_daemon(*arguments) as second:
        assert await _max_of_a(second) == {"vcore": 10_000}
        await kill(second)
    await trio.Path(queue_file).write_text(FIRST.replace("vcore: 8", "vcore: 4"))
    async with real_daemon(*arguments) as third:
        assert await _max_of_a(third) == {"vcore": 4000}


async def test_without_a_queue_file_the_configuration_stays(tmp_path: Path, queue_file: Path) -> None:
    """A forgotten ``--config`` drains no queue (DU-9); the file counts as read, so it replaces nothing when it is back."""
    arguments = ("--state-dir", tmp_path / "state")
    async with real_daemon(*arguments, "--config", queue_file) as first:
        before = await first.state()
        async with connect(first.url, rm_id="rm-1") as rm:
            await rm.request(si.UpdateConfigurationRequest(config=SECOND))
        await kill(first)
    async with real_daemon(*arguments) as second:
        (loaded,) = second.logged("config_loaded")
        assert (loaded["source"], loaded["checksum"]) == ("journal", load(SECOND).checksum)
        assert set((await second.state())["queues"]) == set(before["queues"])
        await kill(second)
    async with real_daemon(*arguments, "--config", queue_file) as third:
        assert await _max_of_a(third) == {"vcore": 10_000}


async def _max_of_a(daemon: RunningDaemon) -> dict[str, int]:
    found: dict[str, int] = (await daemon.state())["queues"]["root.a"]["max"]
    return found


@pytest.mark.parametrize("size", [None, 0, 9000])
async def test_nothing_is_acknowledged_after_the_log_was_changed(tmp_path: Path, size: int | None) -> None:
    """The write-ahead log is removed or cut off under a daemon (DU-11); the next one goes on with what is whole (DU-12)."""
    async with real_daemon("--state-dir", tmp_path) as first:
        async with connect(first.url, rm_id="rm-1") as rm:
            await rm.request(NODES)
            wal = tmp_path / "journal.db-wal"
            if size is None:
                wal.unlink()
            else:
                with wal.open("r+b") as file:
                    file.truncate(size)
            with pytest.raises(Disconnected):
                await rm.request(APPLICATIONS)
        assert await first.process.wait() == exit_codes.SOFTWARE
    async with real_daemon("--state-dir", tmp_path) as second, connect(second.url, rm_id="rm-1") as rm:
        await rm.request(NODES)


async def test_one_daemon_for_a_directory(tmp_path: Path) -> None:
    """The second one is refused, and names the first; when that has been killed, its lock is gone (DU-13)."""
    async with real_daemon("--state-dir", tmp_path) as first:
        _, errors = await run_command("serve", "--ws", "127.0.0.1:0", "--state-dir", tmp_path, expect=exit_codes.TEMPORARY)
        assert f"in use by process {first.process.pid}" in errors
        await kill(first)
    async with real_daemon("--state-dir", tmp_path) as second:
        assert second.logged("state_recovered")


async def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path: Path) -> None:
    """The daemon ends as after a failure of the disk (DU-11), and the next start does not begin with nothing (DU-12)."""
    async with real_daemon("--state-dir", tmp_path) as first:
        async with connect(first.url, rm_id="rm-1") as rm:
            (tmp_path / "journal.db").unlink()
            (tmp_path / "journal.db-wal").unlink()
            with pytest.raises(Disconnected):
                await rm.request(NODES)
        assert await first.process.wait() == exit_codes.SOFTWARE
    _, errors = await run_command("serve", "--ws", "127.0.0.1:0", "--state-dir", tmp_path, expect=exit_codes.USAGE)
    assert f"Error: {tmp_path}/journal.db: found no journal, although {tmp_path}/witness says " in errors


async def test_another_resource_manager_is_still_refused(tmp_path: Path) -> None:
    """The registration holds over a restart (SC-142); with another number than those that exist it must register anew."""
    async with real_daemon("--state-dir", tmp_path) as first:
        async with connect(first.url, rm_id="rm-1"):
            pass
        await kill(first)
    async with real_daemon("--state-dir", tmp_path) as second:
        with pytest.raises(RequestRefused, match="rm-1 has been registered before"):
            async with connect(second.url, rm_id="rm-2"):
                raise NotImplementedError
        with pytest.raises(RequestRefused, match="RESYNC_REQUIRED"):
            async with connect(second.url, rm_id="rm-1", resume_from=1000):
                raise NotImplementedError


async def test_a_number_that_was_lost_stays_lost(tmp_path: Path) -> None:
    """New messages get the numbers of those that were lost: who has those registers anew, also after more restarts (DU-3)."""
    arguments = ("--state-dir", tmp_path, "--durability", "normal")
    async with real_daemon(*arguments) as first:
        async with connect(first.url, rm_id="rm-1") as rm:
            await rm.request(NODES)
            seen, term = rm.sequence, rm.term
        await kill(first)
    with closing(Witness(tmp_path, "normal")) as witness:
        witness.note(1000, Term.parse(term))
    for losses in (1, 0):
        async with real_daemon(*arguments) as daemon:
            assert len(daemon.logged("journal_loss")) == losses
            with pytest.raises(RequestRefused, match="RESYNC_REQUIRED"):
                async with connect(daemon.url, rm_id="rm-1", resume_from=seen + 1, term=term):
                    raise NotImplementedError
            async with connect(daemon.url, rm_id="rm-1", resume_from="now") as rm:
                await rm.request(DRAIN)
            await kill(daemon)
    async with real_daemon(*arguments) as last, connect(last.url, rm_id="rm-1", resume_from=seen, term=term) as rm:
        await rm.request(DRAIN)


async def test_systemd_gives_a_recovery_time(tmp_path: Path) -> None:
    """The daemon asks for more time before anything else, says when the state is there, and feeds the watchdog."""
    arguments = ("--state-dir", tmp_path / "state")
    async with real_daemon(*arguments) as first, connect(first.url, rm_id="rm-1") as rm:
        await rm.request(NODES)
        await kill(first)
    systemd = NotifySocket(str(tmp_path / "notify"))
    with systemd._socket:
        await systemd._socket.bind(systemd.path)
        async with real_daemon(*arguments, environment={"NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "400000"}):
            extended = await systemd.wait_for("EXTEND_TIMEOUT_USEC=")
            assert int(extended["EXTEND_TIMEOUT_USEC"]) == EXTENSION_S * 1_000_000
            assert "3 nodes" in (await systemd.wait_for("READY=1"))["STATUS"]
            await systemd.wait_for("WATCHDOG=1")
    assert systemd.heard[0].startswith("EXTEND_TIMEOUT_USEC=")


TWO = (
    FIRST
    + """
  - name: second
    queues: [{name: root, submitacl: "*", queues: [{name: a}]}]
"""
)


async def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """Time goes on after the last transaction, and the log says by how much it is ahead (DU-6)."""
    arguments = ("--state-dir", tmp_path / "state")
    async with real_daemon(*arguments) as first:
        await first.stop()
    with open_state_dir(StateSettings(tmp_path / "state", "off", 2**30, 10**18), reserves=True) as state:
        assert state.recovered is not None
        last = state.recovered
        state.store.commit(Batch(last.last_event + 1, last.last_message + 1, last.at_ns + 3600 * 10**9))
    async with real_daemon(*arguments) as second, follow(second.url) as follower:
        (warned,) = second.logged("clock_set_back")
        assert "the journal is 3" in warned["reason"]  # 3600 s, but for what has passed meanwhile
        async with connect(second.url, rm_id="rm-1") as rm:
            await rm.request(NODES)
        assert (await follower.__anext__()).timestamp_nano > last.at_ns + 3600 * 10**9


async def test_a_partition_that_ended_with_the_daemon_leaves_nothing(tmp_path: Path, queue_file: Path) -> None:
    """DU-9: the daemon was killed after the switch that removed a partition, and before its rows were deleted."""
    arguments = ("--state-dir", tmp_path / "state", "--config", queue_file)
    await trio.Path(queue_file).write_text(TWO)
    async with real_daemon(*arguments) as first:
        async with follow(first.url, from_="snapshot") as follower:
            await follower.__anext__()  # what a snapshot shows is durable
        await kill(first)
    await trio.Path(queue_file).write_text(FIRST)
    settings = StateSettings(tmp_path / "state", "off", 2**30, 10**18)
    with open_state_dir(settings, reserves=True) as state:
        assert state.recovered is not None
        assert set(state.recovered.partitions) == {"default", "second"}
        one = load(FIRST)
        puts = {CONFIG: msgspec.json.encode(one), CHANGE: msgspec.json.encode(ChangeRow(one.checksum))}
        last = state.recovered
        changes = [change_text(*row) for row in puts.items()]
        state.store.commit(Batch(last.last_event + 1, last.last_message + 1, last.at_ns, changes=changes))
    async with real_daemon(*arguments) as second:
        await second.stop()
    with Reader.open(tmp_path / "state") as reader:
        assert not [key for key, _ in reader.records() if key.startswith(b'["second"')]
