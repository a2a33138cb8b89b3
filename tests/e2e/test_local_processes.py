"""Attempts of tasks with real processes: each runs at most once, and leaves nothing behind."""
# ruff: noqa: ASYNC240  # a few bytes in a temporary directory

import os
import signal
from pathlib import Path

import pytest
import trio
from localjobs import job_of, left_over, noting
from msgspec import structs

from ykactor.local.isolation import Isolation
from ykactor.local.model import Ended, Task
from ykactor.local.processes import NotStarted, Processes

TASK = Task("job-1", 0)


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path / "jobs", Isolation(), 0.3)


async def ended(processes: Processes, task: Task = TASK) -> Ended:
    """The end of a task, without its processor time, which is never the same."""
    with trio.fail_after(180):
        return structs.replace(await processes.wait(task), cpu_ns=None)


async def until(path: Path) -> str:
    """The text of a file, when it has one."""
    with trio.fail_after(180):
        while not (path.exists() and path.read_text().endswith("\n")):  # noqa: ASYNC110 (a file tells nobody)
            await trio.sleep(0.01)
    return path.read_text().strip()


async def test_an_attempt_runs_once_however_often_it_is_started(processes: Processes, tmp_path: Path) -> None:
    """The next run of the program may start it too: it cannot know whether the shell of the last one was on its way."""
    job = job_of(noting(tmp_path / "runs", "sleep 0.3; exit 3"))
    others = [Processes(tmp_path / "jobs", Isolation(), 0.3) for _ in range(3)]
    for each in (processes, *others):
        each.start(job, TASK)
    assert [await ended(each) for each in (processes, *others)] == [Ended(3)] * 4
    assert (tmp_path / "runs").read_text() == "job-1.0\n"


async def test_what_a_command_leaves_ends_with_it(processes: Processes, tmp_path: Path) -> None:
    """Also what ignores SIGTERM and SIGHUP."""
    processes.start(job_of("(trap '' TERM HUP; sleep 100) & sleep 100 & echo begun"), TASK)
    assert await ended(processes) == Ended(0)
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("is_adopted", [False, True])
async def test_who_ignores_the_signal_is_killed_after_the_grace(processes: Processes, tmp_path: Path, is_adopted: bool) -> None:
    """The kill ends a task with all that it has started, also for a later manager that has adopted it."""
    processes.start(job_of(f"trap '' TERM; sleep 100 & echo up > {tmp_path}/up; wait; sleep 100"), TASK)
    await until(tmp_path / "up")
    looking = Processes(tmp_path / "jobs", Isolation(), 0.3) if is_adopted else processes
    async with trio.open_nursery() as nursery:
        nursery.start_soon(looking.terminate, TASK)
        found = await ended(looking)
        assert (found.exit_code, left_over(tmp_path)) == (None, [])
    await ended(processes)


@pytest.mark.parametrize(("end", "is_counted"), [("exit 3", True), ("kill -KILL 0", False)])
async def test_the_processor_time_of_a_command(processes: Processes, tmp_path: Path, end: str, is_counted: bool) -> None:
    """The children count too. Unknown without the shell: an earlier run has started it, or it was killed with its command."""
    processes.start(job_of(f"(i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done); {end}"), TASK)
    await until(processes.attempt(TASK) / "pid")
    assert (await Processes(tmp_path / "jobs", Isolation(), 0.3).wait(TASK)).cpu_ns is None
    found = await processes.wait(TASK)
    assert (found.cpu_ns or 0) > 0 if is_counted else found.cpu_ns is None


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1"])
async def test_a_signal_to_the_group_is_for_the_command(processes: Processes, name: str) -> None:
    """A script may signal all its children: how the command ends is known all the same."""
    processes.start(job_of(f"trap 'exit 6' {name}; kill -{name} 0; sleep 100"), TASK)
    assert await ended(processes) == Ended(6)


async def test_a_shell_that_was_killed_takes_the_rest_with_it(processes: Processes, tmp_path: Path) -> None:
    """The end of the command is unknown, and the command does not run on unsupervised."""
    processes.start(job_of(f"trap '' TERM; echo up > {tmp_path}/up; sleep 100"), TASK)
    await until(tmp_path / "up")
    adopting = Processes(tmp_path / "jobs", Isolation(), 0.3)
    os.kill(int(await until(processes.attempt(TASK) / "pid")), signal.SIGKILL)
    found = await ended(adopting)
    assert found.exit_code is None
    assert "vanished" in found.reason
    assert left_over(tmp_path) == []
    await ended(processes)


async def test_a_number_of_another_process_is_left_alone(processes: Processes) -> None:
    """Numbers come again: who has it now is not of this attempt."""
    async with trio.open_nursery() as nursery:
        other = await nursery.start(trio.run_process, ["sleep", "100"])
        attempt = processes.attempt(TASK)
        attempt.mkdir(parents=True)
        (attempt / "pid").write_text(f"{other.pid}\n")
        assert (await ended(processes)).exit_code is None
        await processes.terminate(TASK)
        assert other.poll() is None
        nursery.cancel_scope.cancel()


async def test_a_script_runs_as_it_was_submitted(processes: Processes) -> None:
    """Each attempt has a copy of its own, which an earlier one cannot change; it needs no right to be executed."""
    script = b'#!/bin/sh -u\necho "$0 $*"; echo exit 9 > "$0"; exit 4'
    job = job_of("", arguments=[b"sim.sh", b"a b", b"c"], script=script)
    for attempt in (0, 1):
        task = Task("job-1", 0, attempt=attempt)
        processes.start(job, task)
        assert await ended(processes, task) == Ended(4)
        directory = processes.attempt(task)
        assert (directory / "out").read_text() == f"{directory}/script a b c\n"
        assert (directory / "script").read_text() == "exit 9\n"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"directory": b"/nonexistent"}, "No such file or directory"),
        ({"arguments": [b"true", b"x" * 2**18]}, "Argument list too long"),
        ({"arguments": [b"true", b"a\0b"]}, "null byte"),
    ],
)
async def test_a_command_that_cannot_be_started(processes: Processes, fields: dict[str, object], reason: str) -> None:
    """The error has the reason, and nothing runs."""
    with pytest.raises(NotStarted, match=reason):
        processes.start(job_of("true", **fields), TASK)


@pytest.mark.parametrize("name", [b"/nonexistent/command", b"exit", b"trap"])
async def test_a_command_that_is_not_there(processes: Processes, name: bytes) -> None:
    """The exit code is a shell's; what only a shell understands is no command. The search path may be empty."""
    processes.start(job_of("", arguments=[name, b"3"], environ=[b"PATH="]), TASK)
    assert await ended(processes) == Ended(127)
    assert "not found" in (processes.attempt(TASK) / "err").read_text()


async def test_what_a_command_finds(processes: Processes) -> None:
    """The environment of who has submitted it, whatever bytes that has, and what is allocated."""
    task = Task("job-1", 7, attempt=2, gpus=[1, 3])
    environ = [b"PATH=" + os.environb[b"PATH"], b"MINE=\xff"]
    job = job_of(
        "env; pwd", environ=environ, directory=b"/usr", queue="root.a", resource={"vcore": 1500, "memory": 2**30}, last=9
    )
    processes.start(job, task)
    await ended(processes, task)
    lines = (processes.attempt(task) / "out").read_bytes().splitlines()
    assert lines[-1] == b"/usr"
    assert {
        b"MINE=\xff",
        b"YKACTOR_ALLOCATION=job-1.7.r2",
        b"YKACTOR_TASK=7",
        b"YKACTOR_TASKS=10",
        b"YKACTOR_ATTEMPT=2",
        b"YKACTOR_ATTEMPT_DIR=" + os.fsencode(processes.attempt(task)),
        b"YKACTOR_QUEUE=root.a",
        b"YKACTOR_VCORE=1500m",
        b"YKACTOR_MEMORY=1073741824",
        b"CUDA_VISIBLE_DEVICES=1,3",
    } <= set(lines)
