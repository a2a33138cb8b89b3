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
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the task has ended.")
def command(task: str, directory: Path, follows: bool) -> None:
    """Print what a task of JOB has written, all its attempts, to standard output and standard error.

    The INDEX is needed if the job has several tasks.
    """
    trio.run(_print, directory, task, follows)


async def _print(directory: Path, name: str, follows: bool) -> None:
    found = await shown(directory, name)
    if len(found.tasks) > 1:
        first, last = found.job.indexes
        raise click.ClickException(f"found {name}, which has several tasks, expected {name}.{first} to {name}.{last}")
    output = Output(Path(found.directory), found.tasks[0].index)
    if follows:
        await copy_until(output, lambda: shown(directory, name, waits=True))
    else:
        output.copy()
