"""A daemon with bugs, in a process of its own: what clients are told, what is kept, and how it ends and begins again."""

import json
from pathlib import Path

import pytest
import trio
from daemon import RunningDaemon, application, asks, next_allocated, next_event, node, real_daemon, run_command
from daemonhere import daemon_here
from faulting import watch_partitions
from memorystore import MemoryStore
from partitiontexts import several
from test_reload_partitions import replace
from test_rest import ask, read
from world import queue

import ykactor
from ykactor.actors.supervision import RESTARTS_MAX
from ykactor.client import RequestRefused, connect, follow
from ykactor.surfaces.cli import exit_codes
from ykactor.wire.queuefile import load
from ykactor.wire.si import messages as si

#: Bugs, by the name of the environment variable that turns them on; imported by every Python process that finds the file.
BUGS = """
import os

if "NEVER_SOON" in os.environ:
    from ykactor.actors import supervision

    supervision.WITHIN_S = 0.0  # no failure is soon after the start

if "BAD_CONFIG" in os.environ:
    from ykactor.core.messages.submissions import ApplyConfig
    from ykactor.core.partition.partition import PartitionCore

    ingest = PartitionCore.ingest

    def refusing(self, now_ns, submissions, limits=None):
        if self.name == os.environ["BAD_CONFIG"] and type(submissions[-1]) is ApplyConfig:
            if any(queue.path == "root.c" for queue in submissions[-1].config.root.children):
                raise ZeroDivisionError("no queue")
        return (yield from ingest(self, now_ns, submissions, limits))

    PartitionCore.ingest = refusing

if "BAD_ASK" in os.environ or "BAD_PLAN" in os.environ:
    from ykactor.core.turn import scheduler
    from ykactor.core.turn.scheduler import Decide

    handle = scheduler.SchedulerCore.handle

    def failing(self, phase, *options):
        text = repr(phase)
        if os.environ.get("BAD_ASK") and os.environ["BAD_ASK"] in text:
            raise ZeroDivisionError("a bad ask")
        if isinstance(phase, Decide) and os.environ.get("BAD_PLAN", "?") in self.state.registry.nodes:
            raise ZeroDivisionError("no plan")
        return (yield from handle(self, phase, *options))

    scheduler.SchedulerCore.handle = failing
"""


@pytest.fixture
def bugs(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has the bugs."""
    (tmp_path / "sitecustomize.py").write_text(BUGS)
    return {"PYTHONPATH": f"{tmp_path}:{Path(ykactor.__file__).parents[1]}"}


async def test_a_bad_message_is_refused_and_kept(bugs: dict[str, str], tmp_path: Path) -> None:
    """The request of a bad message gets one error, followers an event; the partition goes on without it."""
    state = tmp_path / "state"
    async with real_daemon("--state-dir", state, environment=bugs | {"BAD_ASK": "evil"}) as daemon:
        async with follow(daemon.url) as followed, connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node())
            await rm.request(application())
            with pytest.raises(RequestRefused, match="SubmitAllocation evil app-1") as refused:
                await rm.request(asks("t1", "evil", "t2"))
            assert refused.value.code == "QUARANTINED"
            event = await next_event(followed, "PARTITION_QUARANTINED")
            assert event.message == "SubmitAllocation evil app-1: ZeroDivisionError: a bad ask"
            await rm.request(asks("t3"))
            assert sorted(await next_allocated(rm, 3)) == [("t1", "n1"), ("t2", "n1"), ("t3", "n1")]
        assert await daemon.stop() == 0
    story = (await run_command("story", "root", "--state-dir", state))[0].splitlines()
    told = [line for line in story if "PARTITION_" in line]
    assert len(told) == 2
    assert all(line.endswith("because of an error in the partition") for line in told)
    (kept,) = (state / "quarantine").iterdir()
    content = json.loads(kept.read_text())
    assert (content["partition"], content["cause"]["input"][0][1]["spec"]["allocation_key"]) == ("default", "evil")
    assert "a bad ask" in content["traceback"]
    assert len(list(state.glob("post-mortem-default-*.json"))) == 2


STOPPED = (
    "partition gpu is stopped: SwitchConfig: ZeroDivisionError: no queue; "
    "start the daemon again, or remove the partition from the configuration"
)
LEAVES = [queue("a")]
FIRST = several(default=LEAVES, gpu=LEAVES)
WIDER = several(default=[*LEAVES, queue("c")], gpu=[*LEAVES, queue("c")])


async def queues(daemon: RunningDaemon) -> dict[str, set[str]]:
    """The queues below root in each partition."""
    async with follow(daemon.url, from_="snapshot") as messages:
        first = await messages.__anext__()
    assert isinstance(first, si.Snapshot)
    return {state.name: set(state.queues) - {"root"} for state in first.partitions}


async def test_a_configuration_that_one_partition_cannot_apply(bugs: dict[str, str], tmp_path: Path, queue_file: Path) -> None:
    """The configuration is in force in the others, its sender is told, and each start tries again to have it in all (DU-17)."""
    arguments, environment = ["--config", queue_file, "--state-dir", tmp_path / "state"], bugs | {"BAD_CONFIG": "gpu"}
    told = {"default": {"root.a", "root.c"}, "gpu": {"root.a"}}
    async with real_daemon(*arguments, environment=environment) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        with pytest.raises(RequestRefused) as partly:
            await rm.request(si.UpdateConfigurationRequest(config=WIDER))
        expected = f"update of configuration failed: the configuration is in force, but for one part: {STOPPED}"
        assert (partly.value.code, partly.value.message) == ("INTERRUPTED", expected)
        assert (await daemon.wait_logged("config_incomplete"))["reason"].endswith(STOPPED)
        assert await queues(daemon) == told
        with pytest.raises(RequestRefused) as refused:
            await rm.request(si.UpdateConfigurationRequest(config=FIRST))
        assert (refused.value.code, refused.value.message) == ("CONFIG_REFUSED", f"update of configuration failed: {STOPPED}")
        assert await queues(daemon) == told
        daemon.process.kill()
    async with real_daemon(*arguments, environment=environment) as daemon:
        assert daemon.logged("config_incomplete")
        assert await queues(daemon) == told
        assert await daemon.stop() == 0
    async with real_daemon(*arguments) as daemon:
        assert await queues(daemon) == {"default": {"root.a", "root.c"}, "gpu": {"root.a", "root.c"}}
        assert await daemon.stop() == 0
    async with real_daemon(*arguments) as daemon:
        assert not daemon.logged("config_applied")
        assert await daemon.stop() == 0


async def test_followers_hear_of_a_refusal_by_a_stopped_partition(bugs: dict[str, str], tmp_path: Path, queue_file: Path) -> None:
    """A running partition reports the refusal, although configurations are otherwise reported by the first one."""
    arguments, environment = ["--config", queue_file, "--state-dir", tmp_path / "state"], bugs | {"BAD_CONFIG": "default"}
    async with real_daemon(*arguments, environment=environment) as daemon, follow(daemon.url) as followed:
        replace(queue_file, WIDER)
        await next_event(followed, "PARTITION_STOPPED", "; start the daemon again, or remove the partition")
        await daemon.wait_logged("config_incomplete")
        replace(queue_file, FIRST)
        event = await next_event(followed, "QUEUE_CONFIG", "configuration rejected")
        assert "partition default is stopped: SwitchConfig: ZeroDivisionError: no queue" in event.message


async def test_a_queue_file_that_is_changed_back(bugs: dict[str, str], tmp_path: Path, queue_file: Path) -> None:
    """A partition that failed to apply it runs again after the next start."""
    arguments, environment = ["--config", queue_file, "--state-dir", tmp_path / "state"], bugs | {"BAD_CONFIG": "gpu"}
    async with real_daemon(*arguments, environment=environment) as daemon:
        replace(queue_file, WIDER)
        await daemon.wait_logged("config_incomplete")
        replace(queue_file, FIRST)
        assert (await daemon.wait_logged("config_refused"))["reason"] == STOPPED
        assert await daemon.stop() == 0
    async with real_daemon(*arguments, environment=environment) as daemon:
        assert daemon.logged("config_applied")[0]["checksum"] == load(FIRST).checksum
        assert (await queues(daemon))["gpu"] == {"root.a"}
        assert not daemon.logged("partition_stopped")
        assert await daemon.stop() == 0


async def test_a_queue_file_that_has_ended_the_daemon(bugs: dict[str, str], tmp_path: Path, queue_file: Path) -> None:
    """The file is tried again by the next daemon, and no more by the one after it if the file has been changed back."""
    arguments, environment = ["--config", queue_file, "--state-dir", tmp_path / "state"], bugs | {"BAD_CONFIG": "default"}
    replace(queue_file, several(default=LEAVES))
    async with real_daemon(*arguments, environment=environment | {"NEVER_SOON": "1"}) as daemon:
        replace(queue_file, several(default=[*LEAVES, queue("c")]))
        assert await daemon.process.wait() == exit_codes.SOFTWARE
    replace(queue_file, several(default=LEAVES))
    async with real_daemon(*arguments, environment=environment) as daemon:
        assert daemon.logged("config_incomplete")
        assert await daemon.stop() == 0
    async with real_daemon(*arguments, environment=environment) as daemon:
        assert not daemon.logged("partition_stopped")
        assert daemon.logged("config_applied")[0]["checksum"] == load(several(default=LEAVES)).checksum
        assert await queues(daemon) == {"default": {"root.a"}}


async def test_a_registration_with_a_configuration(bugs: dict[str, str], tmp_path: Path, queue_file: Path) -> None:
    """One that a partition cannot apply refuses the registration; the next one with it is accepted, as it is in force."""
    arguments, environment = ["--config", queue_file, "--state-dir", tmp_path / "state"], bugs | {"BAD_CONFIG": "gpu"}
    async with real_daemon(*arguments, environment=environment) as daemon:
        with pytest.raises(RequestRefused, match="in force, but for one part: partition gpu is stopped") as partly:
            async with connect(daemon.url, rm_id="rm-1", config=WIDER):
                raise NotImplementedError
        assert partly.value.code == "INTERRUPTED"
        async with connect(daemon.url, rm_id="rm-1", config=WIDER) as rm:
            await rm.request(node())
        assert await daemon.stop() == 0


async def test_a_stopped_partition_can_be_removed(bugs: dict[str, str], tmp_path: Path, queue_file: Path) -> None:
    """A removed partition leaves nothing: one of the same name begins anew, and so does the next daemon."""
    arguments, environment = ["--config", queue_file, "--state-dir", tmp_path / "state"], bugs | {"BAD_CONFIG": "gpu"}
    async with real_daemon(*arguments, environment=environment) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        with pytest.raises(RequestRefused, match="partition gpu is stopped"):
            await rm.request(si.UpdateConfigurationRequest(config=WIDER))
        await rm.request(si.UpdateConfigurationRequest(config=several(default=LEAVES)))
        assert (await queues(daemon)).keys() == {"default"}
        await rm.request(si.UpdateConfigurationRequest(config=FIRST))
        assert (await queues(daemon))["gpu"] == {"root.a"}
        daemon.process.kill()
    async with real_daemon(*arguments, environment=environment) as daemon:
        assert (await queues(daemon))["gpu"] == {"root.a"}
        assert not daemon.logged("partition_stopped")


async def test_waiting_for_the_state_is_no_lack_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog is fed while a partition that has failed waits for the disk, with input in its inbox."""
    failures = [1]

    def fail(*_: object) -> None:
        if not failures:
            failures.append(1)
            raise ZeroDivisionError

    watch_partitions(monkeypatch, before=fail)
    store = MemoryStore()
    async with daemon_here(store=store) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        store.answers = trio.Event()
        failures.clear()
        await rm.send(node())
        await rm.send(application())
        while daemon._is_idle() or not daemon._has_no_work():
            await trio.lowlevel.checkpoint()
        store.answers.set()
        while not daemon.registry("default").applications:
            await trio.lowlevel.checkpoint()


async def test_a_partition_that_cannot_plan_is_stopped(bugs: dict[str, str], tmp_path: Path) -> None:
    """A stopped partition refuses input, shows its state and is not ready, also in the next daemon; without a bug it goes on."""
    state = tmp_path / "state"
    environment = bugs | {"BAD_PLAN": "n1"}
    async with real_daemon("--state-dir", state, environment=environment, http="127.0.0.1:0") as daemon:
        (active,) = await read(daemon, "partitions")
        async with follow(daemon.url) as followed, connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node())
            await next_event(followed, "PARTITION_STOPPED", "no plan")
            with pytest.raises(RequestRefused, match="partition default is stopped") as refused:
                await rm.request(application())
            assert refused.value.code == "UNAVAILABLE"
            assert set((await daemon.state())["nodes"]) == {"n1"}
            (stopped,) = await read(daemon, "partitions")
            assert (active["state"], stopped["state"]) == ("Active", "Stopped")
            for path, expected in ("/livez", 200), ("/readyz", 503), ("/ws/v1/scheduler/healthcheck", 503):
                assert (await ask(daemon, path)).status == expected
            assert stopped["lastStateTransitionTime"] > active["lastStateTransitionTime"]
        assert await daemon.stop() == 0
    async with real_daemon("--state-dir", state, environment=environment) as daemon:
        await daemon.wait_logged("partition_stopped")
        assert set((await daemon.state())["nodes"]) == {"n1"}
    async with real_daemon("--state-dir", state) as daemon, connect(daemon.url, rm_id="rm-1", resume_from="now") as rm:
        await rm.request(application())
        await rm.send(asks("t1"))
        assert await next_allocated(rm) == [("t1", "n1")]


async def test_a_stopped_partition_leaves_post_mortems(bugs: dict[str, str], tmp_path: Path) -> None:
    """Each raises the same again, and a daemon without the bug goes on."""
    state, environment = tmp_path / "state", bugs | {"BAD_PLAN": "n1"}
    async with real_daemon("--state-dir", state, environment=environment) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.send(node())
            await daemon.wait_logged("partition_stopped")
        assert await daemon.stop() == exit_codes.OK
        told = [line["event"] for line in daemon.lines if line["event"].startswith("partition_")]
        assert told[: RESTARTS_MAX + 1] == [*["partition_restarted"] * RESTARTS_MAX, "partition_stopped"]
    post_mortems = list(state.glob("post-mortem-default-*.json"))
    assert len(post_mortems) == len(told)
    for path in post_mortems:
        output, _ = await run_command("replay", path, environment=environment)
        assert output.endswith("ZeroDivisionError: no plan\n")
    async with real_daemon("--state-dir", state) as daemon:
        assert set((await daemon.state())["nodes"]) == {"n1"}
        assert await daemon.stop() == exit_codes.OK
