"""A daemon with bugs, in a process of its own: what clients are told, what is kept, and how it ends and begins again."""

import json
from pathlib import Path

import pytest
import trio
from daemon import application, asks, next_allocated, next_event, node, real_daemon, run_command
from faulting import watch_partitions
from memorystore import MemoryStore
from test_durable_daemon import running

import ykactor
from ykactor.client import RequestRefused, connect, follow

#: Bugs, by the name of the environment variable that turns them on; imported by every Python process that finds the file.
BUGS = """
import os

if "BAD_ASK" in os.environ or "BAD_PLAN" in os.environ:
    from ykactor.core.turn import scheduler
    from ykactor.core.turn.phases import MakePlan

    handle = scheduler.SchedulerCore.handle

    def failing(self, phase):
        text = repr(phase)
        if os.environ.get("BAD_ASK") and os.environ["BAD_ASK"] in text:
            raise ZeroDivisionError("a bad ask")
        if isinstance(phase, MakePlan) and os.environ.get("BAD_PLAN", "?") in self.state.registry.nodes:
            raise ZeroDivisionError("no plan")
        return (yield from handle(self, phase))

    scheduler.SchedulerCore.handle = failing
"""


@pytest.fixture
def bugs(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has the bugs."""
    (tmp_path / "sitecustomize.py").write_text(BUGS)
    return {"PYTHONPATH": f"{tmp_path}:{Path(ykactor.__file__).parents[1]}"}


async def test_a_bad_message_is_refused_and_kept(bugs: dict[str, str], tmp_path: Path) -> None:
    """Its request gets one error, followers an event; the partition goes on without it."""
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


async def test_waiting_for_the_state_is_no_lack_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog is fed while a partition that has failed waits for the disk, with input in its inbox."""
    failures = [1]

    def fail(*_: object) -> None:
        if not failures:
            failures.append(1)
            raise ZeroDivisionError

    watch_partitions(monkeypatch, before=fail)
    store = MemoryStore()
    async with running(store) as (daemon, url), connect(url, rm_id="rm-1") as rm:
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
    """It refuses input and shows its state; the next daemon comes up in the same way, and one without the bug goes on."""
    state = tmp_path / "state"
    environment = bugs | {"BAD_PLAN": "n1"}
    async with real_daemon("--state-dir", state, environment=environment) as daemon:
        async with follow(daemon.url) as followed, connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node())
            await next_event(followed, "PARTITION_STOPPED", "no plan")
            with pytest.raises(RequestRefused, match="partition default is stopped") as refused:
                await rm.request(application())
            assert refused.value.code == "UNAVAILABLE"
            assert set((await daemon.state())["nodes"]) == {"n1"}
        assert await daemon.stop() == 0
    async with real_daemon("--state-dir", state, environment=environment) as daemon:
        await daemon.wait_logged("partition_stopped")
        assert set((await daemon.state())["nodes"]) == {"n1"}
    async with real_daemon("--state-dir", state) as daemon, connect(daemon.url, rm_id="rm-1", resume_from="now") as rm:
        await rm.request(application())
        await rm.send(asks("t1"))
        assert await next_allocated(rm) == [("t1", "n1")]
