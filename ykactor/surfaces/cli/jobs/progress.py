"""The wait for the end of a job: a line about its tasks on a terminal, or what they write."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import trio

from ykactor.local import control
from ykactor.local.model import State
from ykactor.surfaces.cli.jobs.asking import shown
from ykactor.surfaces.cli.jobs.following import follow
from ykactor.surfaces.cli.terminal import changing_line

#: Seconds between two questions: each counts the tasks of the job.
_PAUSE_S = 1.0


async def ended(directory: Path, name: str, *, follows: bool = False) -> control.ShownJob:
    """The job, or the task, as soon as it has ended.

    Args:
        follows: whether what its tasks write is printed meanwhile. Otherwise a terminal has a line about the tasks of a whole job
            that has several.

    Raises:  ClickException.
    """
    if not (follows or sys.stderr.isatty()):
        return await shown(directory, name, waits=True)
    found = await shown(directory, name)
    if follows:
        return await follow(directory, found, name)
    if found.job.count == 1 or name != found.job.id:
        return await shown(directory, name, waits=True)
    from ykactor.client.connection import alongside  # takes 0.2 s to load, which commands without a terminal do without

    async with alongside(lambda: _keep_showing(directory, f"{name}.{found.job.indexes[0]}")):
        return await shown(directory, name, waits=True)


def line_of(job: control.JobRow) -> str:
    """The line about the tasks: how many have completed, run, have ended in another way, and are left."""
    done = job.states.get(State.COMPLETED, 0)
    running = sum(count for state, count in job.states.items() if state.has_process)
    failed = sum(count for state, count in job.states.items() if state.is_final) - done
    return f"{job.id}: {done} done, {running} running, {failed} failed, {job.count - done - running - failed} waiting"


async def _keep_showing(directory: Path, task: str) -> None:
    """Show the line again and again.

    Args:
        task: one of them: the answer about it counts all, and names no other.
    """
    with changing_line() as show:
        while True:
            try:
                show(line_of((await shown(directory, task)).job))
            except click.ClickException:  # who waits for the end says so
                return
            await trio.sleep(_PAUSE_S)
