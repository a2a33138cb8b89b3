"""``ykactor local`` with several addresses: jobs go on at the daemon that takes over, and none is lost or runs twice (DU-23)."""

from __future__ import annotations

from pathlib import Path

import pytest
from daemon import run_command
from localjobs import local_manager, noting
from test_take_over import Place

from ykactor.local.model import State

TASKS = 4


@pytest.mark.parametrize("hands_over", [False, True])
async def test_jobs_go_on_at_the_next_daemon(tmp_path: Path, hands_over: bool) -> None:
    """Jobs run, wait, and are submitted in the middle of a take-over, after a failure and in good order: each runs once."""
    place, runs, local_dir, go = Place(tmp_path), tmp_path / "runs", tmp_path / "l", tmp_path / "go"
    waits = f"until [ -e {go} ]; do sleep 0.05; done"
    async with place.standby(1), place.daemon(0, "--standbys", "1") as daemon:
        async with local_manager(local_dir, place.both, "--resource", f"vcore={TASKS}") as local:
            whole = {"resource": {"vcore": 1000}, "last": TASKS - 1}
            running = await local.submit(noting(runs, waits), **whole)
            await local.has_state(running, State.RUNNING)
            pending = await local.submit(noting(runs), **whole)
            if not hands_over:
                daemon.process.kill()
                await daemon.process.wait()
            between = await local.submit(noting(runs), **whole)
            await place.take_over(*(["--hand-over"] if hands_over else []))
            go.touch()
            for job in (running, pending, between):
                assert await local.states(job) == [State.COMPLETED] * TASKS
            assert (await run_command("asks", "--url", place.both, "-o", "name"))[0] == ""
    assert sorted(runs.read_text().split()) == sorted(
        f"{job}.{task}" for job in (running, pending, between) for task in range(TASKS)
    )
