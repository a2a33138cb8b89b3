"""``ykactor jobs``: the jobs of this machine, and the records of their attempts."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import click
from msgspec import Struct

from ykactor.local import control
from ykactor.local.model import State
from ykactor.local.records import LIMIT_MAX
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import directory_option, listed, named, recorded, shown
from ykactor.surfaces.cli.jobs.tables import ATTEMPTS, DETAILS, JOBS, Shape, attempt_row, job_row, shape_options
from ykactor.surfaces.cli.options import WholeNumber, grouped, since_option
from ykactor.surfaces.cli.terminal import say, write
from ykactor.surfaces.cli.views.listing import Part, Printout, Row, fields_of, formatted, lines_of

_SHOW = "show"


class _States(click.ParamType[list[State]]):
    """Several states with commas, in any case."""

    name = "state"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[State]:
        by_name = {state.value.lower(): state for state in State}
        if isinstance(value, list):
            return value
        names = [name.strip() for name in str(value).split(",")]
        for name in names:
            if name.lower() not in by_name:
                self.fail(f"found {name!r}, expected some of {', '.join(State)}", param, ctx)
        return [by_name[name.lower()] for name in names]


class _Filter(Struct, frozen=True):
    """The choice of jobs, or attempts, that are listed."""

    states: list[State]
    user: str
    queue: str
    since_ns: int
    limit: int

    def jobs(self) -> control.ListJobs:
        """The request for the jobs."""
        return control.ListJobs(self.limit, self.states, self.user, self.queue, self.since_ns)

    def attempts(self, name: str, are_all: bool) -> control.ListAttempts:
        """The request for the attempts of a job or task, or of all; without ``are_all`` of each task the present one."""
        job, index = named(name) if name else ("", None)
        found = self.limit, self.states, self.user, self.queue, self.since_ns
        return control.ListAttempts(*found, job, index, not are_all)


_filter_options = grouped(
    "wanted",
    _Filter,
    click.option("--state", "states", type=_States(), default=[], metavar="STATE,...", help="Only with a task in such a state."),
    click.option("--user", default="", metavar="USER", help="Only those of USER."),
    click.option(
        "--queue", default="", metavar="QUEUE", shell_complete=names_of("queue"), help="Only those in QUEUE, or below it."
    ),
    since_option("what has not ended, or ended "),
    click.option("--limit", type=WholeNumber(1, LIMIT_MAX), default=50, show_default=True, help="How many rows, the newest."),
)


@click.command()
@click.argument("words", metavar="[[show] JOB[.INDEX]]", nargs=-1, shell_complete=names_of("job"))
@click.option("--attempts", "are_attempts", is_flag=True, help="A row for each attempt of a task, the records of all that ran.")
@_filter_options
@shape_options
@click.option("--watch", "-w", "is_watching", is_flag=True, help="Print again every 2 s, until Ctrl-C.")
@directory_option
def command(
    words: tuple[str, ...], directory: Path, are_attempts: bool, wanted: _Filter, shape: Shape, is_watching: bool
) -> None:
    """List the newest jobs of this machine, or the tasks of JOB, or one of them; show JOB has all that is known of it.

    STATES says how many tasks are Waiting, Pending, Running, Ending, Completed, Failed, Cancelled, Preempted, TimedOut, Lost or
    Rejected; an attempt may also be Requeued. QUEUE is where the daemon has placed the job; until it has, the queue that was
    asked for. EXIT is the exit code, or the signal that has ended the command; WAITED how long the daemon was asked for a place;
    RAN, CPU and PEAK how long the attempt has run, and the processor time and the most memory that it has used, where this is
    measured. REASON says what a Waiting task waits for; why one is Pending is said by ykactor explain. Ended jobs are kept for a
    week, or as ykactor local --keep-days says.
    """
    is_shown, name = _meant(words)
    take: Callable[[], Awaitable[Printout]]
    if is_shown:
        take = partial(_described, directory, name)
    elif are_attempts or name:
        take = partial(_attempts, directory, wanted.attempts(name, are_attempts), shape)
    else:
        take = partial(_jobs, directory, wanted, shape)
    loop.run(_print, take, shape.output, is_watching)


def _meant(words: tuple[str, ...]) -> tuple[bool, str]:
    """True if everything about a job is meant, and its name; "" for all jobs."""
    match words:
        case ():
            return False, ""
        case (name,) if name != _SHOW:
            return False, name
        case (word, name) if word == _SHOW:
            return True, name
        case _:
            raise click.UsageError(f"found {' '.join(words)!r}, expected nothing, JOB, JOB.INDEX or show JOB")


async def _print(take: Callable[[], Awaitable[Printout]], output: str, is_watching: bool) -> None:
    if is_watching:
        from ykactor.surfaces.cli.views.showing import watch  # takes 0.2 s to load, which one listing does without

        await watch(take, lambda printout: printout, output, is_terminal=sys.stdout.isatty())
    printout = await take()
    write(formatted(printout, output))
    for note in printout.notes:
        say(note, err=True)


async def _jobs(directory: Path, wanted: _Filter, shape: Shape) -> Printout:
    rows = [job_row(job) for job in await listed(directory, wanted.jobs())]
    return shape.printout(JOBS, rows, "jobID", "jobs")


async def _attempts(directory: Path, query: control.ListAttempts, shape: Shape) -> Printout:
    return shape.printout(ATTEMPTS, await _rows(directory, query), "task", "attempts")


async def _rows(directory: Path, query: control.ListAttempts) -> list[Row]:
    return [attempt_row(record) for record in await recorded(directory, query)]


async def _described(directory: Path, name: str) -> Printout:
    """All that is known of a job, or of a task of it."""
    job, index = named(name)
    found = await shown(directory, name)
    rows = await _rows(directory, control.ListAttempts(LIMIT_MAX, job=job, index=index))
    row = job_row(found.job) | {"directory": found.directory, "attempts": rows}
    attempts = Part("Attempts", [each.column for each in ATTEMPTS], rows)
    return Printout(row, [name], lines_of(fields_of(DETAILS), row, [attempts]))
