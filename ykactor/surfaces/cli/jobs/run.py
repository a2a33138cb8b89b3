"""``ykactor run`` and ``wait``: runs a command when the daemon has room, and waits for jobs."""

from __future__ import annotations

import fcntl
import os
import stat
import termios
from pathlib import Path

import click
from msgspec import Struct

from ykactor.local import control
from ykactor.local.model import Job
from ykactor.local.streams import Streams
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs import progress
from ykactor.surfaces.cli.jobs.asking import answer, directory_option, endings, exit_code, shown
from ykactor.surfaces.cli.jobs.interactive import attended
from ykactor.surfaces.cli.jobs.output import NAMES, Output, copy_until
from ykactor.surfaces.cli.jobs.wanted import Wanted, job_options
from ykactor.surfaces.cli.options import grouped
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.cli.urls import Destination, daemon_options

_STANDARD_INPUT = 0

follow_option = click.option(
    "--follow", "follows", is_flag=True, help="Print what all tasks write, also into files, while they run; see ykactor logs."
)


class Manner(Struct, frozen=True):
    """The part of this command in a job that it has submitted.

    Attributes:
        waits: whether it waits for the end; ``follows``: and prints what all tasks write.
        is_interactive: whether the job has a terminal, which is shown on the one of this command.
    """

    waits: bool
    follows: bool
    is_interactive: bool

    def check(self, job: Job) -> None:
        """Refuse what does not go together. Raises:  UsageError."""
        if self.follows and not self.waits:
            raise click.UsageError("found --follow with --detach, expected one of them: ykactor logs -f JOB follows it later")
        others = job.count > 1 or job.retries or job.streams != Streams() or self.follows or not self.waits
        if self.is_interactive and others:
            raise click.UsageError("found --pty with several tasks, retries, files, --follow or --detach, expected it without")


_manner_options = grouped(
    "manner",
    Manner,
    click.option(
        "--wait/--detach",
        "waits",
        default=True,
        help="Wait for the end, print what a single task writes, end with its exit code; or only print the job.  [default: wait]",
    ),
    follow_option,
    click.option(
        "--pty", "is_interactive", is_flag=True, help="Give the job a terminal, and show it on this one; the job ends with it."
    ),
)


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@directory_option
@job_options
@_manner_options
@click.option(
    "--dry-run",
    "is_tried",
    is_flag=True,
    help="Run nothing: print what would become of each task, tried on a copy of the state of the daemon at --url.",
)
@click.option("--json", "is_json", is_flag=True, help="Print what --dry-run says as one JSON document.")
@daemon_options
def command(
    words: tuple[str, ...],
    directory: Path,
    wanted: Wanted,
    manner: Manner,
    is_tried: bool,
    is_json: bool,
    daemon: Destination,
) -> None:
    """Run COMMAND on this machine as soon as its queue has room: in this directory and environment, if no others are given.

    Write -- before a COMMAND with options. A task is started once, and once more for each of --retries. It reads the file of
    --input, and not the standard input of this command. Ctrl-C leaves the job as it is: ykactor cancel JOB ends it. On a terminal
    a line says meanwhile how many of several tasks are done, run, have failed and wait.

    With --dry-run a row says for each task where it would begin to run and when, or why it would wait, whom it would preempt; for
    a gang it says so of its placeholders. Nothing else arrives meanwhile, and tasks end only where it is known how long they run
    at most, as with --time. It asks the daemon itself, and needs the role replica there.
    """
    if is_json and not is_tried:
        raise click.UsageError("found --json without --dry-run, expected both")
    job = wanted.job(words)
    manner.check(job)
    if is_tried:
        _try(directory, job, daemon, is_json=is_json)
        return
    if not (wanted.input or manner.is_interactive) and _has_input(_STANDARD_INPUT):
        say("standard input is not read: --input PATH gives the job a file", err=True)
    submit(directory, job, manner)


def submit(directory: Path, job: Job, manner: Manner) -> None:
    """Submit a job; print its name, or wait for its end and end with its exit code."""
    code = loop.run(_run, directory, job, manner)
    if code:
        raise SystemExit(code)


def _try(directory: Path, job: Job, daemon: Destination, *, is_json: bool) -> None:
    """Print what would become of the tasks of a job."""
    from ykactor.surfaces.cli.dry_run import HORIZON_S, print_tried  # takes 0.3 s to load, which jobs that run do without
    from ykactor.wire.scenario import Scenario, TimedRequest

    planned = loop.run(answer, directory, control.PlanJob(job))
    assert isinstance(planned, control.PlannedJob)
    messages = [TimedRequest(0, planned.applications), TimedRequest(0, planned.asks)]
    print_tried(daemon, None, Scenario("", "", HORIZON_S, messages=messages), with_config=False, is_json=is_json)


def _has_input(descriptor: int) -> bool:
    """True if something waits to be read that is no terminal: who sends it expects the job to read it."""
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            return os.fstat(descriptor).st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)) if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) else b""
    except OSError:  # there is none
        return False
    return any(waiting)


async def _run(directory: Path, job: Job, manner: Manner) -> int:
    """Submit a job, and do what is wanted then; the exit code."""
    if manner.is_interactive:
        return _said(await attended(directory, job))
    submitted = await answer(directory, control.Submit(job))
    assert isinstance(submitted, control.Submitted)
    if submitted.notice:
        say(f"{submitted.job}: {submitted.notice}", err=True)
    if not manner.waits:
        say(submitted.job)
        return 0
    say(submitted.job, err=True)
    try:
        if job.count == 1 and not manner.follows:
            printed = {name: "" for name, is_named in zip(NAMES, job.streams.are_named, strict=True) if not is_named}
            output = Output(Path(submitted.directory), job.first, printed)
            ended = await copy_until(output, lambda: shown(directory, submitted.job, waits=True))
        else:
            ended = await progress.ended(directory, submitted.job, follows=manner.follows)
    except* KeyboardInterrupt:
        say(f"{submitted.job} goes on; ykactor cancel {submitted.job} ends it", err=True)
        raise
    return _said(ended)


def _said(ended: control.ShownJob) -> int:
    """Say how a job has ended; its exit code."""
    for line in endings(ended):
        say(line, err=True)
    return exit_code(ended)


@click.command()
@click.argument("jobs", metavar="JOB[.INDEX]...", nargs=-1, required=True, shell_complete=names_of("job"))
@directory_option
@follow_option
def wait(jobs: tuple[str, ...], directory: Path, follows: bool) -> None:
    """Wait until all of the JOBs, or tasks of jobs, have ended.

    Ends with the largest exit code of the tasks, 143 for one that has none. On a terminal a line says meanwhile how many of the
    tasks of a JOB are done, run, have failed and wait.
    """
    code = loop.run(_wait, directory, jobs, follows)
    if code:
        raise SystemExit(code)


async def _wait(directory: Path, jobs: tuple[str, ...], follows: bool) -> int:
    return max([_said(await progress.ended(directory, job, follows=follows)) for job in jobs])
