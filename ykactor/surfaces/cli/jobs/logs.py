"""``ykactor logs``: prints what tasks write."""

from __future__ import annotations

from pathlib import Path

import click

from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import directory_option, shown
from ykactor.surfaces.cli.jobs.following import Followed, follow
from ykactor.surfaces.cli.options import WholeNumber

_TAIL_MAX = 2**31 - 1


@click.command()
@click.argument("name", metavar="JOB[.INDEX]", shell_complete=names_of("job"))
@directory_option
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the tasks have ended.")
@click.option(
    "--tail",
    type=WholeNumber(0, _TAIL_MAX),
    metavar="N",
    help="Only the last N lines of each task, of standard output and of standard error, of the last attempt so far.",
)
def command(name: str, directory: Path, follows: bool, tail: int | None) -> None:
    """Print what the tasks of JOB have written, all their attempts, to standard output and standard error.

    If the job has several tasks, each line begins with the name of its task, as in job-2.3: text. A line such as -- attempt 1 --
    on standard error comes before what a task has written after it was started again.
    """
    loop.run(_print, directory, name, follows, tail)


async def _print(directory: Path, name: str, follows: bool, tail: int | None) -> None:
    found = await shown(directory, name)
    if follows:
        await follow(directory, found, name, tail=tail)
    else:
        Followed(found, tail).finish(found.tasks)
