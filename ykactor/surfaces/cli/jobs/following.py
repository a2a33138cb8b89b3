"""The output of the tasks of a job, side by side, while they run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import click
import trio

from ykactor.actors.clock import system_ns
from ykactor.local import control
from ykactor.local.machine import this_user
from ykactor.local.model import State, Task
from ykactor.local.records import LIMIT_MAX
from ykactor.local.streams import is_shared
from ykactor.surfaces.cli.jobs.asking import answer, named, shown
from ykactor.surfaces.cli.jobs.output import NAMES, PAUSE_S, Output, Places

#: How often what tasks write is copied between two questions which of them run.
_COPIES = 10
#: A question is also about what has ended so long before the last one: a task ends a bit before that is written down.
_OVERLAP_NS = 5 * 10**9
_BEGUN: list[State] = [state for state in State if state not in (State.WAITING, State.PENDING)]


class Followed:
    """The tasks of a job whose output is printed: those that run again and again, each that has ended to its end.

    Args:
        job: as it is shown; if it has several tasks, each line has the name of its task.
        tail: as of ``Output``.

    Raises:  ClickException: it is a job of another user.
    """

    def __init__(self, job: control.ShownJob, tail: int | None) -> None:
        if job.is_shared and job.job.user != this_user():
            raise click.ClickException(f"found a job of {job.job.user}: what {job.job.id} has written is for this user alone")
        self._job = job
        self._tail = tail
        self._places: Places = {}
        #: By the index: what is printed of tasks that run, and the last attempt of those that have ended.
        self._running: dict[int, Output] = {}
        self._ended: dict[int, int] = {}

    def take(self, tasks: Iterable[Task | control.Record]) -> None:
        """The tasks that have begun, or changed."""
        for task in tasks:
            if self._ended.get(task.index) == task.attempt:
                continue
            output = self._running.get(task.index) or self._output(task.index)
            output.attempt = task.attempt
            if task.state.is_final:
                output.finish()
                self._ended[task.index] = task.attempt
                self._running.pop(task.index, None)
            else:
                output.copy()
                self._running[task.index] = output

    def copy(self) -> None:
        """Print what is new of the tasks that run."""
        for output in self._running.values():
            output.copy()

    def finish(self, tasks: Iterable[Task]) -> None:
        """Print all that is left of all tasks."""
        self.take(tasks)
        for output in self._running.values():
            output.finish()

    def _output(self, index: int) -> Output:
        row = self._job.job
        name = f"{row.id}.{index}: " if len(self._job.tasks) > 1 else ""
        patterns = map(os.fsencode, (row.output, row.error or row.output))
        marks = {kind: "" if is_shared(each, row.count) else name for kind, each in zip(NAMES, patterns, strict=True)}
        return Output(Path(self._job.directory), index, marks, tail=self._tail, places=self._places)


async def follow(directory: Path, job: control.ShownJob, name: str, *, tail: int | None = None) -> control.ShownJob:
    """Print what the tasks of a job write until they have ended; the job then.

    Args:
        name: of the job, or of the task that is meant.

    Raises:  ClickException.
    """
    from ykactor.client.connection import alongside  # takes 0.2 s to load, which ``wait`` does without

    followed = Followed(job, tail)
    async with alongside(partial(_keep_taking, directory, name, followed)):
        ended = await shown(directory, name, waits=True)
    followed.finish(ended.tasks)
    return ended


async def _keep_taking(directory: Path, name: str, followed: Followed) -> None:
    """Copy what the tasks write, and ask again and again which of them have begun: at first of all."""
    job, index = named(name)
    since_ns = 0
    while True:
        asked_ns = system_ns()
        query = control.ListAttempts(LIMIT_MAX, _BEGUN, since_ns=since_ns, job=job, index=index, only_present=True)
        found = await answer(directory, query)
        assert isinstance(found, control.AttemptList)
        followed.take(found.attempts)
        since_ns = max(0, asked_ns - _OVERLAP_NS)
        for _ in range(_COPIES):
            await trio.sleep(PAUSE_S)
            followed.copy()
