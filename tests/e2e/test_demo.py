"""The demonstration: a daemon, a local resource manager and a tour in one process, from the first line to the last process."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from daemon import LIMIT_S, clean_environment
from localjobs import job_of, left_over

from ykactor.client import RequestRefused, operate
from ykactor.local import control
from ykactor.local.isolation import Isolation
from ykactor.local.machine import boot_id
from ykactor.local.model import State, Task
from ykactor.local.processes import Processes
from ykactor.local.store import Store
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.demo import COLUMNS, command_lines
from ykactor.wire.si import messages as si

CHAPTER = Path(__file__).parents[2] / "ykactor" / "handbook" / "first-hour.md"
#: The tour with tasks that end when the test says so, and a short wait before preemption.
PROGRAM = """
from ykactor.surfaces.cli import demo
from ykactor.surfaces.cli.main import main
demo.TASK_S = 100
demo.QUEUES = demo.QUEUES.replace("preemption.delay: 3s", "preemption.delay: 300ms")
main()
"""


class Demo:
    """The process, and what it has printed so far."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.printed = ""

    async def until(self, text: str) -> None:
        assert self.process.stdout is not None
        while text not in self.printed:
            part = await self.process.stdout.receive_some()
            assert part, self.printed
            self.printed += part.decode()


@asynccontextmanager
async def demo(state: Path) -> AsyncIterator[Demo]:
    """Runs until the block ends, at most ``LIMIT_S``."""
    command = [sys.executable, "-c", PROGRAM, "demo", "--ws", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir", str(state)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with trio.fail_after(LIMIT_S):
        process = await trio.lowlevel.open_process(command, env=clean_environment(), **pipes)
        try:
            yield Demo(process)
        finally:
            process.kill()


async def test_the_tour(tmp_path: Path) -> None:
    """The demo runs from the quota to the last job. It ends what an earlier one has left; Ctrl-C leaves no process."""
    local = tmp_path / "state" / "local"
    processes, task = leave_a_job(local)
    async with demo(tmp_path / "state") as tour:
        await tour.until("wants 1, has 0 of 3 vcore in queue root.batch")
        await refused_act(tour)
        await tour.until("The alert runs. The task that has made room is started again")
        await tour.until("begun\nTerminated\n")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_sleeps, local)
            await tour.until("The daemon runs until Ctrl-C.")
            nursery.cancel_scope.cancel()
        states = [job.states for job in await listed(local)]
        tour.process.send_signal(signal.SIGINT)
        await tour.until(f"\nThe jobs end, then the daemon. What has happened is kept in {tmp_path / 'state'}.\n")
        assert await tour.process.wait() == exit_codes.INTERRUPTED
    await processes.wait(task)
    assert left_over(local) == []
    assert states == [{State.CANCELLED: 1}, {State.COMPLETED: 6}, {State.COMPLETED: 1}, {State.COMPLETED: 1}]
    assert re.search(r" Its page is\shttp://127\.0\.0\.1:\d+/\.\s", tour.printed)
    assert re.search(r"^  export YKACTOR_LOCAL_DIR=\S+/local YKACTOR_URL=ws://127\.0\.0\.1:\d+$", tour.printed, re.MULTILINE)
    assert re.search(r"^job-\d\.\d +Pending +1 .* attempt 1: ", tour.printed, re.MULTILINE)
    session = CHAPTER.read_text().partition("## A first session\n")[2].partition("\n## ")[0]
    tables, shown = columns(tour.printed), columns(session)
    assert len(tables) == 6
    assert [table for table in tables if table not in shown] == []
    scenes = re.findall(r"^\d/6  .*$", tour.printed, re.MULTILINE)
    assert len(scenes) == 6
    assert [scene for scene in scenes if scene not in session] == []
    assert [
        line for line in tour.printed.splitlines() if len(line) > 100 and str(tmp_path) not in line and "audited" not in line
    ] == []
    assert [line for line in session.splitlines() if len(line) > 100] == []
    assert re.search(r"^\d\d:\d\d:\d\d warning +audited .*job-99", tour.printed, re.MULTILINE)  # a line for people, not JSON
    assert "\n{" not in tour.printed
    assert "Error" not in tour.printed
    assert "Traceback" not in tour.printed


def test_a_command_takes_as_many_lines_as_it_needs() -> None:
    """A shell reads the lines as the words; an option stays with its value."""
    words = [
        "run",
        "--detach",
        "--name",
        "a b",
        "--memory",
        "16Mi",
        *["--retries", "1"] * 9,
        "--",
        "sh",
        "-c",
        "echo 'x'; sleep 3",
    ]
    lines = list(command_lines("$ ykactor", words))
    assert len(lines) == 3
    assert max(map(len, lines)) <= COLUMNS
    assert shlex.split("".join(line.removesuffix("\\") for line in lines)) == ["$", "ykactor", *words]
    assert [line for line in lines if line.endswith(("--retries \\", "--memory \\"))] == []


async def refused_act(tour: Demo) -> None:
    """A warning of the daemon while the tour goes on."""
    url = re.search(r"listens on (ws://\S+)\.", tour.printed)
    assert url is not None
    async with operate(url[1]) as operator:
        with pytest.raises(RequestRefused):
            await operator.request(si.TerminateApplication(application_id="job-99"))


def columns(text: str) -> set[tuple[str, ...]]:
    """The names of the columns of each table in a session."""
    return {tuple(line.split()) for line in re.findall(r"^[A-Z-]+(?: +[A-Z-]+){4,}$", text, re.MULTILINE)}


def leave_a_job(local: Path) -> tuple[Processes, Task]:
    """Leave a running job behind, like a demonstration that was killed."""
    local.mkdir(mode=0o700, parents=True)
    job, task = job_of("sleep 100", id="job-1", queue="root.batch"), Task("job-1", 0, State.RUNNING, boot=boot_id())
    with closing(Store(local)) as store:
        store.commit([job], [task], [], 0)
    processes = Processes(local / "jobs", Isolation(), 1)
    processes.start(job, task)
    return processes, task


async def listed(directory: Path) -> list[control.JobRow]:
    answer = await control.ask(directory, control.ListJobs(10))
    assert isinstance(answer, control.JobList)
    return answer.jobs


async def end_sleeps(local: Path) -> None:
    """Let the commands of all tasks come to their end at once."""
    while True:
        for pid in left_over(local):
            if name_of(pid) == "sleep":
                os.kill(pid, signal.SIGKILL)
        await trio.sleep(0.05)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has ended
        return ""
