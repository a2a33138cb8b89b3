"""The requests of the commands about jobs to the local resource manager, and their common options."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import trio
from msgspec import structs

from ykactor.core.values.quantities import parse_quantity
from ykactor.local import control
from ykactor.local.exclusive import is_one_daemon
from ykactor.local.model import State, Task
from ykactor.local.private import NotPrivate
from ykactor.local.system import DIRECTORY
from ykactor.surfaces.cli.options import Parsed
from ykactor.surfaces.cli.urls import DEFAULT_URL

#: Seconds to wait for an answer when the local resource manager has gone: it may be starting again.
AWAY_S = 30.0
_PAUSE_S = 0.2
#: The exit code of a task that has none of its own, as a shell says it of a command that SIGTERM has ended.
_NO_CODE = 143
_NAME = "ykactor-local"
_TASK = re.compile(r"(job-\d+)\.\d{1,9}", re.ASCII)
_INDEX = re.compile(r"\d{1,9}", re.ASCII)


def own_directory() -> Path:
    """The directory in which a user's local resource manager keeps its jobs.

    Raises:  UsageError: the user has no home directory, as in some containers.
    """
    if base := os.environ.get("XDG_STATE_HOME"):
        return Path(base) / _NAME
    try:
        return Path.home() / ".local/state" / _NAME
    except RuntimeError:
        raise click.UsageError("found no home directory, expected --local-dir or YKACTOR_LOCAL_DIR") from None


def default_directory() -> Path:
    """The directory of the local resource manager of this user, or of the machine if only that one listens.

    Raises:  UsageError: neither listens, and the user has no home directory.
    """
    is_shared = control.listens(DIRECTORY)
    try:
        own = own_directory()
    except click.UsageError:
        if is_shared:
            return DIRECTORY
        raise
    return DIRECTORY if is_shared and not control.listens(own) else own


def usual_directory() -> Path:
    """The directory for commands without ``--local-dir``. Raises:  UsageError: as of ``default_directory``."""
    given = os.environ.get("YKACTOR_LOCAL_DIR")
    return Path(given) if given else default_directory()


directory_option = click.option(
    "--local-dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="YKACTOR_LOCAL_DIR",
    show_envvar=True,
    default=default_directory,
    show_default=f"~/.local/state/ykactor-local, or {DIRECTORY} if only there something listens",
    help="Where the local resource manager keeps its jobs, and listens for these commands.",
)


def amount_of(resource: str) -> Parsed[tuple[str, int]]:
    """The type of a quantity of a resource type, in base units; "": of any, as ``NAME=QUANTITY``."""

    def parse(value: str) -> tuple[str, int]:
        name, _, text = (resource, "", value) if resource else value.partition("=")
        if not name or not text:
            raise ValueError(f"found {value!r}, expected NAME=QUANTITY such as gpu=2")
        return name, parse_quantity(name, text)

    return Parsed("quantity", parse)


async def answer(directory: Path, request: control.Request) -> control.Answer:
    """The answer of the local resource manager. If it goes away meanwhile it is asked again: to submit twice is no second job.

    Raises:  ClickException: none runs, or it refuses.
    """
    has_been_there = False
    gone_at = trio.current_time()
    while True:
        try:
            found = await control.ask(directory, request)
        except NotPrivate as reason:
            raise click.ClickException(str(reason)) from None
        except UnicodeEncodeError as wrong:
            raise click.UsageError(f"found {wrong.object!a}, expected a text in UTF-8") from None
        except control.NoManager as reason:
            has_been_there = has_been_there or reason.has_begun
            gone_at = trio.current_time() if reason.has_begun else gone_at
            if not has_been_there or trio.current_time() > gone_at + AWAY_S:
                raise click.ClickException(str(reason)) from None
            await trio.sleep(_PAUSE_S)
            continue
        if isinstance(found, control.Refused):
            raise click.ClickException(found.message)
        return found


def named(name: str) -> tuple[str, int | None]:
    """The job of ``JOB`` or ``JOB.INDEX``, and the index."""
    job, is_task, index = name.partition(".")
    if is_task and not _INDEX.fullmatch(index):
        raise click.UsageError(f"found {name!r}, expected JOB or JOB.INDEX such as job-3 or job-3.4")
    return job, int(index) if is_task else None


async def shown(directory: Path, name: str, *, waits: bool = False) -> control.ShownJob:
    """The job that is named ``JOB``, or ``JOB.INDEX`` with this task alone; as soon as it has ended if ``waits``.

    Raises:  ClickException.
    """
    job, index = named(name)
    found = await answer(directory, control.ShowJob(job, waits, index))
    assert isinstance(found, control.ShownJob)
    return found


async def listed(directory: Path, request: control.ListJobs) -> list[control.JobRow]:
    """The jobs of all answers to a question, the newest last. Raises:  ClickException."""
    rows: list[control.JobRow] = []
    while True:
        found = await answer(directory, request)
        assert isinstance(found, control.JobList)
        rows[:0] = found.jobs
        if found.more is None:
            return rows
        request = structs.replace(request, limit=request.limit - len(found.jobs), before=found.more)


async def recorded(directory: Path, request: control.ListAttempts) -> list[control.Record]:
    """The attempts of all answers to a question, those of the newest job last. Raises:  ClickException."""
    records: list[control.Record] = []
    while True:
        found = await answer(directory, request)
        assert isinstance(found, control.AttemptList)
        records[:0] = found.attempts
        if found.more is None:
            return records
        request = structs.replace(request, limit=request.limit - len(found.attempts), before=found.more)


def job_of(name: str) -> str:
    """The job of a task that is named ``job-3.4``; "" for any other name."""
    found = _TASK.fullmatch(name)
    return found[1] if found else ""


async def _known(name: str) -> control.Answer | None:
    """The answer of the local resource manager of this user about a job or a task; None: it may be on another machine."""
    try:
        job, index = named(name)
        return await control.ask(usual_directory(), control.ShowJob(job, index=index))
    except (control.NoManager, NotPrivate, click.UsageError):
        return None


async def present_key(name: str) -> str:
    """The allocation key that a task ``JOB.INDEX`` has now: that of its retry, if the local resource manager knows of one."""
    found = await _known(name)
    return found.tasks[0].key if isinstance(found, control.ShownJob) else name


async def fate(name: str) -> str:
    """A sentence about a task ``JOB.INDEX`` that has ended, or that its job does not have; "" if neither is known."""
    found = await _known(name)
    if isinstance(found, control.Refused):
        return found.message
    if not isinstance(found, control.ShownJob) or not found.tasks[0].state.is_final:
        return ""
    task = found.tasks[0]
    return f"{name} has ended: {task.state}" + (f", {task.reason}" if task.reason else "")


async def done_here(name: str, url: str, request: control.Request) -> str:
    """Let the local resource manager do what it alone can, because the daemon at ``url`` does not know the job yet, or the hold.

    That of all users does all of this for its jobs: at the daemon, users are not operators. Only the hold of an operator is ended
    there, unless the daemon has forgotten it.

    Returns:  what was done; "" if it is the daemon's business.

    Raises:  ClickException: it is refused.
    """
    found = await _known(name)
    if not isinstance(found, control.ShownJob):
        return ""
    is_meant = url in (found.url, DEFAULT_URL if found.is_shared else found.url)
    if not is_meant and not await is_one_daemon(url, found.url):
        return ""
    unfinished = [task for task in found.tasks if not task.state.is_final]
    is_waiting = bool(unfinished) and not any(task.state.is_at_daemon for task in unfinished)
    ends_hold = isinstance(request, control.Hold) and not request.is_held
    may_be_there = ends_hold and found.job.is_held_there
    if not (found.is_shared or is_waiting or may_be_there or (ends_hold and found.job.is_held)):
        return ""
    try:
        done = await answer(usual_directory(), request)
    except click.ClickException:
        if may_be_there:
            return ""
        raise
    assert isinstance(done, control.Done)
    return done.text


def exit_code(job: control.ShownJob) -> int:
    """The largest of the tasks, of a gang of those for which the others were ended; of a task without one, 143."""
    codes = [0 if task.state is State.COMPLETED else task.exit_code or _NO_CODE for task in _decisive(job)]
    return max(codes, default=0)


def _decisive(job: control.ShownJob) -> list[Task]:
    """The tasks that say how a job has ended."""
    causes = [task for task in job.tasks if task.state not in (State.COMPLETED, State.CANCELLED)]
    return causes if job.job.is_gang and causes else job.tasks


def endings(job: control.ShownJob) -> list[str]:
    """A line for each task that has not completed."""
    several = job.job.indexes[0] != job.job.indexes[1]
    return [
        f"{job.job.id}{f'.{task.index}' if several else ''} {task.state}" + (f": {task.reason}" if task.reason else "")
        for task in job.tasks
        if task.state is not State.COMPLETED
    ]
