"""``ykactor jobs``: the jobs of this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec

from ykactor.actors.clock import system_ns
from ykactor.core.values.times import S_NS
from ykactor.local import control
from ykactor.local.model import Task
from ykactor.surfaces.cli import cells, loop
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import answer, directory_option, shown
from ykactor.surfaces.cli.options import WholeNumber
from ykactor.surfaces.cli.terminal import write
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, formatted, output_option, table


def _time(unix_ns: int) -> str:
    return time_text(unix_ns) if unix_ns else cells.NONE


_JOBS = (
    Column("JOB", field("id")),
    Column("NAME", field("name")),
    Column("QUEUE", field("queue")),
    Column("STATES", lambda row: ",".join(f"{state}={count}" for state, count in row["states"].items())),
    Column("AGE", field("ageSeconds", cells.age), is_number=True),
    Column("EACH", field("resource", cells.resource)),
    Column("USER", field("user"), is_wide=True),
    Column("COMMAND", field("arguments", " ".join), is_sentence=True),
)
_TASKS = (
    Column("TASK", field("index"), is_number=True),
    Column("STATE", field("state")),
    Column("ATTEMPT", field("attempt"), is_number=True),
    Column("EXIT", lambda row: row["signal"] or field("exit_code")(row), is_number=True),
    Column("BEGAN", field("started_ns", _time), is_wide=True),
    Column("ENDED", field("ended_ns", _time), is_wide=True),
    Column("RAN", field("ran_ns", cells.exact_age), is_number=True),
    Column("PEAK", field("peak_memory", cells.memory), is_number=True),
    Column("USER", field("user"), is_wide=True),
    Column("GPUS", field("gpus", lambda gpus: ",".join(map(str, gpus)))),
    Column("REASON", field("reason"), is_sentence=True),
)


@click.command()
@click.argument("job", metavar="[JOB[.INDEX]]", required=False, shell_complete=names_of("job"))
@directory_option
@click.option("--limit", type=WholeNumber(1, 10_000), default=50, show_default=True, help="How many jobs, the newest.")
@output_option
def command(job: str | None, directory: Path, limit: int, output: str) -> None:
    """List the newest jobs of this machine, or the tasks of JOB, or one of them.

    STATES says how many tasks are Pending, Running, Ending, Completed, Failed, Cancelled, Preempted, TimedOut, Lost or Rejected.
    QUEUE is where the daemon has placed the job; until it has, the queue that was asked for. EXIT is the exit code, or the signal
    that has ended the command; RAN how long the attempt has run, and PEAK the most memory that it has used at a time, where this
    is measured. Why a task is Pending is said by ykactor asks. Ended jobs are kept for a week.
    """
    write(formatted(loop.run(_list, directory, limit) if job is None else loop.run(_show, directory, job), output))


async def _list(directory: Path, limit: int) -> Printout:
    found = await answer(directory, control.ListJobs(limit))
    assert isinstance(found, control.JobList)
    rows: list[Row] = [msgspec.to_builtins(job) | {"ageSeconds": (system_ns() - job.submitted_ns) // S_NS} for job in found.jobs]
    return _printout(_JOBS, rows, "id", rows)


async def _show(directory: Path, job: str) -> Printout:
    found = await shown(directory, job)
    rows = [_row(task, found.job.user) for task in found.tasks]
    return _printout(_TASKS, rows, "index", msgspec.to_builtins(found.job) | {"tasks": rows})


def _row(task: Task, user: str) -> Row:
    """The record of a task."""
    ran_ns = (task.ended_ns or system_ns()) - task.started_ns if task.started_ns else None
    record: Row = msgspec.to_builtins(task)
    return record | {"signal": task.signal, "ran_ns": ran_ns, "user": user}


def _printout(columns: tuple[Column, ...], rows: list[Row], name: str, document: object) -> Printout:
    return Printout(document, [str(row[name]) for row in rows], partial(table, columns, rows))
