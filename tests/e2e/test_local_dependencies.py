"""Jobs that wait for others, for a release and for a place, as people write them, while the local resource manager is killed."""

from pathlib import Path

import msgspec
import pytest
from daemon import real_daemon, run_command
from localjobs import local_manager, noting

from ykactor.local.model import After, Condition, State


async def test_dependencies_holds_and_arrays_on_the_command_line(tmp_path: Path) -> None:
    """Every wait has a reason, each task runs as often as told, and each attempt has a record."""
    directory, runs = tmp_path / "l", tmp_path / "runs"
    async with real_daemon("--state-dir", tmp_path / "s") as daemon, local_manager(directory, daemon.url) as local:
        environment = {"YKACTOR_LOCAL_DIR": str(directory), "YKACTOR_URL": daemon.url}

        async def said(*words: object, expect: int = 0) -> str:
            output, errors = await run_command(*words, expect=expect, environment=environment)
            return output + errors

        def submitted(*words: str) -> tuple[str, ...]:
            return "run", "--detach", "--memory", "1Mi", *words, "--", "sh", "-c", noting(runs, '[ "$YKACTOR_TASK" != 7 ]')

        assert await said(*submitted("--array", "1-2%1,7", "--hold")) == "job-1\n"
        assert await said(*submitted("--array", "1-2,7", "--after", "job-1")) == "job-2\n"
        assert await said(*submitted("--after", "job-2:failed", "--begin", "+1h")) == "job-3\n"
        assert "there is no such job" in await said(*submitted("--after", "job-9"), expect=1)
        await local.kill()
        await local.start()
        assert "is held: ykactor release" in await said("jobs", "job-1")
        assert "waits for job-1.7 to complete" in await said("jobs", "job-2.7")
        assert "waits for job-2 to fail; does not begin before" in await said("jobs", "show", "job-3")
        assert not runs.exists()
        assert await said("release", "job-1") == "job-1 is released\n"
        assert await local.states("job-2") == [State.COMPLETED, State.COMPLETED, State.CANCELLED]
        assert "job-3.0  Waiting" in await said("jobs", "job-3")
        assert await said("hold", "job-3", "--url", daemon.url.replace("127.0.0.1", "localhost")) == "job-3 is held\n"
        assert await said("cancel", "job-3") == "job-3 is ending\n"
        assert await local.states("job-3") == [State.CANCELLED]
        assert sorted(runs.read_text().split()) == ["job-1.1", "job-1.2", "job-1.7", "job-2.1", "job-2.2"]
        assert await said("requeue", "job-1", "--failed") == "job-1 runs again: 1 of 3 tasks\n"
        assert await local.states("job-1") == [State.COMPLETED, State.COMPLETED, State.FAILED]
        assert "job-1.7.r1" in runs.read_text().split()
        assert "refused: there is no job job-9" in await said("requeue", "job-9", expect=1)
        chosen = ("--state", "failed", "--columns", "task,attempt,exit", "--no-headers", "-o", "csv")
        listed = await said("jobs", "--attempts", *chosen)
        assert listed == "job-1.7,0,1\njob-1.7,1,1\n"
        found = msgspec.json.decode(await said("jobs", "job-1.7", "--attempts", "-o", "json"))
        assert all(row["submissionTime"] <= row["eligibleTime"] <= row["startTime"] <= row["finishedTime"] for row in found)
        assert [row["state"] for row in found] == ["Failed", "Failed"]
        assert all(row["cpuTime"] > 0 for row in found)
        assert await said("jobs", "--state", "running") == "JOB  NAME  QUEUE  STATES  AGE  EACH  COMMAND\nno jobs match\n"


@pytest.mark.parametrize("verdict", [State.REQUEUED, State.RUNNING])
async def test_killed_before_it_is_said_that_others_may_begin(tmp_path: Path, verdict: State) -> None:
    """Jobs begin after the restart that waited for what ended meanwhile; one that was to be requeued runs again, once."""
    directory, runs = tmp_path / "l", tmp_path / "runs"
    async with real_daemon() as daemon, local_manager(directory, daemon.url) as local:
        gate = tmp_path / "gate"
        job = await local.submit(noting(runs, f'until [ -e "{gate}" ]; do sleep 0.02; done'))
        await local.has_state(job, State.RUNNING)
        following = await local.submit(noting(runs), after=[After(job, condition=Condition.ANY)])
        if verdict is State.REQUEUED:
            await run_command("requeue", job, "--local-dir", directory)
        await local.kill()
        gate.touch()
        await local.start()
        assert await local.states(following) == [State.COMPLETED]
        again = [f"{job}.0.r1"] if verdict is State.REQUEUED else []
        assert runs.read_text().split() == [f"{job}.0", *again, f"{following}.0"]
