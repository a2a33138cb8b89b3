"""``ykactor wait``: waits for the end of jobs."""

from __future__ import annotations

from pathlib import Path

import click

from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.jobs.asking import directory_option, endings, exit_code, shown
from ykactor.surfaces.cli.terminal import say


@click.command()
@click.argument("jobs", metavar="JOB[.INDEX]...", nargs=-1, required=True)
@directory_option
def command(jobs: tuple[str, ...], directory: Path) -> None:
    """Wait until all of the JOBs, or tasks of jobs, have ended.

    Ends with the largest exit code of the tasks, 143 for one that has none.
    """
    code = loop.run(_wait, directory, jobs)
    if code:
        raise SystemExit(code)


async def _wait(directory: Path, jobs: tuple[str, ...]) -> int:
    codes = []
    for job in jobs:
        ended = await shown(directory, job, waits=True)
        for line in endings(ended):
            say(line, err=True)
        codes.append(exit_code(ended))
    return max(codes)
