"""``ykactor requeue``: runs tasks of jobs again."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ykactor.local import control
from ykactor.local.checks import ENVIRON_MAX
from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import answer, directory_option, named
from ykactor.surfaces.cli.jobs.wanted import fitting
from ykactor.surfaces.cli.terminal import say


@click.command()
@click.argument("jobs", metavar="JOB[.INDEX]...", nargs=-1, required=True, shell_complete=names_of("job"))
@click.option("--failed", "only_failed", is_flag=True, help="Only tasks that have ended, and have not completed.")
@directory_option
def command(jobs: tuple[str, ...], directory: Path, only_failed: bool) -> None:
    """Run all tasks of JOBs again, or one of them: those that run are ended, and each gets another attempt.

    What a JOB was told to wait for counts again, but for jobs that have ended since; for a JOB that has ended, nothing of it. It
    gets the environment of this command then, because its own was forgotten; its command, directory and resources are the same.
    The attempts before are kept: ykactor jobs --attempts. A task that has not begun, and a gang, are refused.
    """
    if not loop.run(_requeue, directory, jobs, only_failed):
        raise SystemExit(exit_codes.FAILED)


async def _requeue(directory: Path, jobs: tuple[str, ...], only_failed: bool) -> bool:
    """True if none was refused."""
    refused = 0
    environ = fitting("environment variables", [b"=".join(pair) for pair in os.environb.items()], ENVIRON_MAX)
    for name in jobs:
        job, index = named(name)
        try:
            done = await answer(directory, control.Requeue(job, index, only_failed, environ))
        except click.ClickException as reason:
            refused += 1
            say(f"{name} refused: {reason.message}", err=True)
            continue
        assert isinstance(done, control.Done)
        say(f"{name} {done.text}")
    return not refused
