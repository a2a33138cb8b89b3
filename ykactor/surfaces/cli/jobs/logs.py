"""``ykactor logs``: what a task has written."""

from __future__ import annotations

from pathlib import Path

import click
import trio

from ykactor.surfaces.cli.jobs.asking import directory_option, shown
from ykactor.surfaces.cli.jobs.output import Output, copy_until


@click.command()
@click.argument("task", metavar="JOB[.INDEX]")
@directory_option
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the job has ended.")
def command(task: str, directory: Path, follows: bool) -> None:
    """Print what a task of JOB has written, all its attempts, to standard output and standard error.

    The INDEX is needed if the job has several tasks.
    """
    trio.run(_print, directory, task, follows)


async def _print(directory: Path, name: str, follows: bool) -> None:
    job, _, text = name.partition(".")
    found = await shown(directory, job)
    indexes = [task.index for task in found.tasks]
    if not text and len(indexes) > 1:
        raise click.ClickException(f"found {name}, which has several tasks, expected {job}.{indexes[0]} to {job}.{indexes[-1]}")
    index = int(text) if text.isdecimal() else -1 if text else indexes[0]
    if index not in indexes:
        raise click.ClickException(f"there is no task {name}: {job} has the tasks {indexes[0]} to {indexes[-1]}")
    output = Output(Path(found.directory), index)
    if follows:
        await copy_until(output, lambda: shown(directory, job, waits=True))
    else:
        output.copy()
