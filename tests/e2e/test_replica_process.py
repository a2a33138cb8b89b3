"""DU-22: a replica shows what its daemon shows beside its partitions, and says that it is the daemon's."""

from __future__ import annotations

import re
from pathlib import Path

from daemon import RunningDaemon, node, real_daemon
from daemonhere import daemon_here
from memorystore import MemoryStore
from replicas import ask, running_replica, until_equal

from ykactor.client import check_health, connect, follow
from ykactor.wire.si import messages as si

HEALTH, METRICS = "/ws/v1/scheduler/healthcheck", "/ws/v1/metrics"


async def test_followers_of_a_replica_are_told_that_the_disk_of_the_daemon_is_full() -> None:
    """DU-10: they get no events then, and are told why; so is who asks for its health."""
    store = MemoryStore()
    async with (
        daemon_here(store=store) as (_, url),
        connect(url, rm_id="rm-1") as rm,
        running_replica(url) as replica,
        follow(replica.url) as follower,
    ):
        store.is_full = True
        await rm.send(node())
        stalled = await anext(follower)
        assert isinstance(stalled, si.JournalStatus)
        assert (stalled.writable, stalled.reason, stalled.since_nano > 0) == (False, "no room on the disk", True)
        async with follow(replica.url) as late:
            assert await anext(late) == stalled
        assert (await ask(replica, "/readyz")).status == 503
        assert "at the daemon: the journal cannot be written" in (await ask(replica, HEALTH)).body.decode()
        store.is_full = False
        told: dict[type[object], object] = {}
        while told.keys() != {si.JournalStatus, si.EventRecord}:  # in whatever order: the status comes within a second
            message = await anext(follower)
            told[type(message)] = message
        assert told[si.JournalStatus] == si.JournalStatus(writable=True)


async def metrics_of(served: RunningDaemon) -> set[str]:
    """The names of the metrics that are shown."""
    return set(re.findall(r"^# TYPE (\w+)", (await ask(served, METRICS)).body.decode(), re.MULTILINE))


async def problems_of(served: RunningDaemon) -> list[si.HealthCheck]:
    """The checks that have failed."""
    return [check for check in (await check_health(served.url)).checks if check.problem]


async def test_what_is_measured_of_the_daemon(tmp_path: Path) -> None:
    """Metrics of the process of the daemon have names of their own, and go when it does; cycles are those of the daemon."""
    (queues := tmp_path / "queues.yaml").write_text("partitions: [{name: default, queues: [{name: root, submitacl: '*'}]}]")
    async with real_daemon("--config", queues, "--state-dir", tmp_path / "state", http="127.0.0.1:0") as daemon:
        async with connect(daemon.url, rm_id="rm", build_info={"version": "7"}) as rm, running_replica(daemon.url) as replica:
            await rm.request(node())
            await until_equal(daemon, replica)
            own, told = await metrics_of(daemon), await metrics_of(replica)
            of_process = "journal|feed|loop|mailbox|turn_phase|connections|session|standbys|cycles|build"
            beside = re.compile(f"ykactor_({of_process})|process_")
            expected = {f"ykactor_daemon_{name.removeprefix('ykactor_')}" for name in own if beside.match(name)}
            assert len(expected) > 20
            assert expected == {name for name in told if name.startswith("ykactor_daemon_")}
            assert (await ask(replica, "/ws/v1/clusters")).content == (await ask(daemon, "/ws/v1/clusters")).content
            queues.write_text("no: configuration")
            await daemon.wait_logged("config_refused")
            while not (found := await problems_of(replica)):
                pass
            assert found[0].description.startswith("at the daemon: ")
            async with follow(replica.url, from_="snapshot") as here, follow(daemon.url, from_="snapshot") as there:
                shown, expected_state = await anext(here), await anext(there)
            assert isinstance(shown, si.Snapshot)
            assert isinstance(expected_state, si.Snapshot)
            assert shown.cycles == expected_state.cycles
            assert shown.standbys == expected_state.standbys
            assert shown.resource_manager == expected_state.resource_manager
            daemon.process.kill()
            await replica.wait_logged("replica_disconnected")
            while {name for name in await metrics_of(replica) if name.startswith("ykactor_daemon_")}:
                pass  # a scrape is shown for a second
