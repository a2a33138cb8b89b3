"""Jobs of one machine through the whole chain: command line's socket, local resource manager, daemon, process, and back."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import trio
from msgspec import Struct

from bench.daemon import python_process, running_daemon
from bench.measures import Samples
from ykactor.local import control
from ykactor.local.model import Job, State

_COMMAND = ["/bin/true"]


class Short(Struct, frozen=True):
    """Jobs that end at once.

    Attributes:
        jobs: of one task each, submitted by 16 at a time; as many tasks are then submitted as one array.
        single: jobs one after the other.
    """

    jobs: int
    single: int


async def run(short: Short) -> Samples:
    """Jobs and tasks of an array in a second, and how much longer a job takes than its command started by hand."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        state = ("--state-dir", str(directory / "s"))
        async with running_daemon("", *state) as (url, _), _local(directory / "l", url):
            by_hand = [_by_hand() for _ in range(short.single)]
            one_by_one = [await _one(directory / "l") for _ in range(short.single)]
            jobs_s = await _many(directory / "l", short.jobs)
            array_s = await _one(directory / "l", short.jobs)
    return {
        "jobs_per_second": [short.jobs / jobs_s],
        "array_tasks_per_second": [short.jobs / array_s],
        "by_hand_ms": [seconds * 1e3 for seconds in by_hand],
        "job_ms": [seconds * 1e3 for seconds in one_by_one],
    }


@asynccontextmanager
async def _local(directory: Path, url: str) -> AsyncIterator[None]:
    """A local resource manager that answers."""
    options = ("--url", url, "--local-dir", str(directory), "--resource", "vcore=100")
    async with python_process("ykactor", "local", *options, stderr=subprocess.DEVNULL):
        while True:
            try:
                await control.ask(directory, control.ListJobs(1))
                break
            except control.NoManager:
                await trio.sleep(0.02)
        yield


def _by_hand() -> float:
    began_s = perf_counter()
    subprocess.run(_COMMAND, check=True)
    return perf_counter() - began_s


async def _many(directory: Path, count: int) -> float:
    """Seconds for so many jobs, 16 at a time."""
    began_s = perf_counter()
    limit = trio.CapacityLimiter(16)

    async def one() -> None:
        async with limit:
            await _one(directory)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(one)
    return perf_counter() - began_s


async def _one(directory: Path, tasks: int = 1) -> float:
    """Seconds from the submission of a job to its end."""
    began_s = perf_counter()
    job = Job(
        id="",
        token=secrets.token_hex(8),
        name="",
        user="",
        queue="",
        arguments=[os.fsencode(word) for word in _COMMAND],
        environ=[],
        directory=b"/",
        resource={"vcore": 10},
        submitted_ns=0,
        last=tasks - 1,
    )
    submitted = await control.ask(directory, control.Submit(job))
    assert isinstance(submitted, control.Submitted)
    shown = await control.ask(directory, control.ShowJob(submitted.job, waits=True))
    assert isinstance(shown, control.ShownJob)
    assert shown.job.states == {State.COMPLETED: tasks}
    return perf_counter() - began_s
