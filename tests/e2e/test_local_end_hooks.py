"""Commands for the ends of jobs: at most once for each, also when the local resource manager is killed around them."""
# ruff: noqa: ASYNC240  # a few bytes in a temporary directory

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from daemon import LIMIT_S, real_daemon
from localjobs import LocalManager, local_manager

from ykactor.local import control, hooking
from ykactor.local.model import State
from ykactor.local.store import KeptHook, Store

#: Says what it is told, in the directory of the job.
NOTE = 'echo "$YKACTOR_JOB $YKACTOR_STATE $YKACTOR_EXIT_CODE $YKACTOR_NAME $MINE $(pwd)" >> notes'


async def lines(path: Path, count: int = 1) -> list[str]:
    """The lines of a file, when it has so many."""
    with trio.fail_after(LIMIT_S):
        while not path.exists() or path.read_text().count("\n") < count:  # noqa: ASYNC110 (a file tells nobody)
            await trio.sleep(0.02)
    return path.read_text().splitlines()


def kept(manager: LocalManager) -> list[KeptHook]:
    """The hooks that have not ended."""
    with closing(Store(manager.directory)) as store:
        return store.hooks()


async def end(manager: LocalManager, **fields: Any) -> str:
    """Submit a job and cancel it; its name."""
    job = await manager.submit("true", **fields)
    answer = await control.ask(manager.directory, control.Cancel(job))
    assert isinstance(answer, control.Done)
    return job


async def test_a_hook_is_told_how_the_job_has_ended(tmp_path: Path) -> None:
    """Once for all tasks, in the directory and with the environment of the job; not for one that is rejected."""
    fields = {"on_end": NOTE.encode(), "directory": bytes(tmp_path), "environ": [b"PATH=/usr/bin:/bin", b"MINE=m"], "name": "n"}
    async with real_daemon() as daemon, local_manager(tmp_path / "l", daemon.url, "--resource", "vcore=4") as local:
        first = await local.submit("exit $YKACTOR_TASK", last=2, **fields)
        await local.states(first)
        assert await lines(tmp_path / "notes") == [f"{first} Failed 1 n m {tmp_path}"]
        second = await local.submit("true", queue="root.nowhere.at.all", **fields)
        assert await local.states(second) == [State.REJECTED]
        assert second not in [hook.job for hook in kept(local)]
        assert local.directory.joinpath("jobs", first, "-1.1").is_dir()


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_kill_around_a_hook(tmp_path: Path, has_begun: bool) -> None:
    """A hook that runs goes on and is not started again; one that has not begun begins after the next start.

    Its job is not run again before it has ended.
    """
    manager = LocalManager(tmp_path / "l", f"unix:{tmp_path}/nobody")
    hook = "echo begun >> notes; while [ ! -e go ]; do sleep 0.02; done; echo ended >> notes"
    blocking = "echo begun >> others; while [ ! -e go ]; do sleep 0.02; done"
    fields = {"directory": bytes(tmp_path), "environ": [b"PATH=/usr/bin:/bin"], "is_held": True}
    await manager.start()
    try:
        if not has_begun:  # no other hook of this user begins before one of these has ended
            for _ in range(hooking.TOGETHER_MAX):
                await end(manager, on_end=blocking.encode(), **fields)
            await lines(tmp_path / "others", hooking.TOGETHER_MAX)
        job = await end(manager, on_end=hook.encode(), **fields)
        if has_begun:
            await lines(tmp_path / "notes")
        await manager.kill(signal.SIGKILL)
        assert (tmp_path / "notes").exists() is has_begun
        await manager.start()
        refused = await control.ask(manager.directory, control.Requeue(job, None, only_failed=False, environ=[]))
        assert isinstance(refused, control.Refused)
        assert refused.message.startswith(f"the command for the end of {job} has not ended")
        (tmp_path / "go").touch()
        assert await lines(tmp_path / "notes", 2) == ["begun", "ended"]
        with trio.fail_after(LIMIT_S):
            while kept(manager):  # noqa: ASYNC110 (nothing tells when it is forgotten)
                await trio.sleep(0.02)
    finally:
        await manager.kill(signal.SIGKILL)
    assert (tmp_path / "notes").read_text() == "begun\nended\n"
