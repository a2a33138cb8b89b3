"""``ykactor run``, ``wait`` and ``logs``: runs a command when the daemon has room, waits for jobs, and prints what they write."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
import sys
import termios
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

import click
import trio
from msgspec import Struct

from ykactor.core.config.properties import WITH_GANGS
from ykactor.core.values.quantities import parse_duration
from ykactor.local import control
from ykactor.local.login import own_login
from ykactor.local.model import Job
from ykactor.local.untrusted import Unreadable, is_there, open_regular
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import amount_of, answer, directory_option, endings, exit_code, shown
from ykactor.surfaces.cli.options import PRIORITY, Parsed, WholeNumber, grouped, text_or_json
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.cli.urls import Destination, daemon_options


@click.command()
@click.argument("task", metavar="JOB[.INDEX]", shell_complete=names_of("job"))
@directory_option
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the task has ended.")
def logs(task: str, directory: Path, follows: bool) -> None:
    """Print what a task of JOB has written, all its attempts, to standard output and standard error.

    The INDEX is needed if the job has several tasks.
    """
    loop.run(_print, directory, task, follows)


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


_PAUSE_S = 0.05
_CHUNK = 2**16

T = TypeVar("T")


class Output:
    """The files ``out`` and ``err`` of the attempts of a task, one attempt after the other.

    Args:
        directory: of the job.
    """

    def __init__(self, directory: Path, index: int) -> None:
        self._directory = directory
        self._index = index
        self._attempt = 0
        self._places = {"out": 0, "err": 0}
        self._unreadable: set[Path] = set()

    async def keep_copying(self) -> None:
        """Copy what is new again and again."""
        while True:
            self.copy()
            await trio.sleep(_PAUSE_S)

    def copy(self) -> None:
        """Write what is new to standard output and standard error."""
        while True:
            attempt = self._directory / f"{self._index}.{self._attempt}"
            is_over = is_there(self._directory / f"{self._index}.{self._attempt + 1}")
            for name, target in (("out", sys.stdout.buffer), ("err", sys.stderr.buffer)):
                self._places[name] += self._copy(attempt / name, self._places[name], target)
            if not is_over:
                return
            self._attempt += 1
            self._places = {"out": 0, "err": 0}

    def _copy(self, path: Path, place: int, target: BinaryIO) -> int:
        """Returns the number of bytes from ``place`` to the present end; 0 if there is no such file yet."""
        try:
            descriptor = open_regular(path)
        except FileNotFoundError:
            return 0
        except Unreadable as reason:  # the job has replaced its own output
            if path not in self._unreadable:
                self._unreadable.add(path)
                say(f"what the task has written cannot be read: {reason}", err=True)
            return 0
        with open(descriptor, "rb") as file:
            file.seek(place)
            count = left = max(0, os.fstat(descriptor).st_size - place)
            while left and (chunk := file.read(min(left, _CHUNK))):
                target.write(chunk)
                left -= len(chunk)
        target.flush()
        return count - left


async def copy_until(output: Output, end: Callable[[], Awaitable[T]]) -> T:
    """Copy what the task writes until ``end`` returns, and then the rest."""
    from ykactor.client.connection import alongside  # takes 0.2 s to load, which ``wait`` does without

    async with alongside(output.keep_copying):
        found = await end()
    output.copy()
    return found


#: Limits of a job: what the kernel takes, and what the local resource manager keeps.
ENVIRON_MAX = 2**20
ARGUMENTS_MAX = 2**17
ARRAY_MAX = 10_000
GANG_MAX = 1_000
RETRIES_MAX = 100
#: No process needs less: who wants less has forgotten the unit.
MEMORY_MIN = 2**20
#: Resources that have an option of their own.
_OWN_OPTIONS = ("vcore", "memory", "gpu")
_STANDARD_INPUT = 0
_ARRAY = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


def _array(text: str) -> tuple[int, int]:
    """The first and the last index of ``1-100``."""
    match = _ARRAY.fullmatch(text)
    first, last = (int(match[1]), int(match[2])) if match else (1, 0)
    if not 0 <= last - first < ARRAY_MAX:
        raise ValueError(f"found {text!r}, expected FIRST-LAST such as 1-100, with at most {ARRAY_MAX} tasks")
    return first, last


def _seconds(text: str) -> float:
    found = parse_duration(text)
    if found is None or found <= 0:
        raise ValueError(f"found {text!r}, expected a duration such as 90s, 10m or 1h30m")
    return found / 1e9


class _Wanted(Struct, frozen=True):
    """The options of a job.

    Attributes:
        others: amounts of resources without an option of their own.
        array: the first and the last index.
        gang: the number of tasks; None: it is no gang.
    """

    queue: str
    vcore: tuple[str, int]
    memory: tuple[str, int]
    gpu: int
    others: tuple[tuple[str, int], ...]
    priority: int
    array: tuple[int, int] | None
    gang: int | None
    time_limit_s: float
    retries: int
    name: str

    def job(self, words: tuple[str, ...]) -> Job:
        """The job that runs a command, from this directory and with this environment."""
        if self.gang is not None and (self.array is not None or self.retries):
            raise click.UsageError("found --gang with --array or --retries, expected it without")
        first, last = self.array or (0, (self.gang or 1) - 1)
        return Job(
            id="",
            token=secrets.token_hex(16),
            name=self.name,
            user="",
            queue=self.queue,
            arguments=_fitting("arguments", [os.fsencode(word) for word in words], ARGUMENTS_MAX),
            environ=_fitting("environment variables", [b"=".join(pair) for pair in os.environb.items()], ENVIRON_MAX),
            directory=os.getcwdb(),
            resource=self._resource(),
            submitted_ns=0,
            priority=self.priority,
            first=first,
            last=last,
            is_gang=self.gang is not None,
            time_limit_s=self.time_limit_s,
            retries=self.retries,
            login=own_login(),
        )

    def _resource(self) -> dict[str, int]:
        for resource, _ in self.others:
            if resource in _OWN_OPTIONS:
                raise click.UsageError(f"found --resource {resource}, expected --{resource}")
        if self.gpu and any(resource == "nvidia.com/gpu" for resource, _ in self.others):
            raise click.UsageError("found --gpu and --resource nvidia.com/gpu, expected one of them: they are the same")
        amounts = {"gpu": self.gpu} | dict(self.others) | dict([self.vcore, self.memory])
        if 0 < (found := amounts["memory"]) < MEMORY_MIN:
            raise click.UsageError(f"found --memory of {found} bytes, expected at least 1Mi, or 0: {found}Gi are gibibytes")
        return {resource: amount for resource, amount in amounts.items() if amount}


def _fitting(what: str, texts: list[bytes], most: int) -> list[bytes]:
    """The texts, if they have no more bytes together."""
    size = sum(len(text) + 1 for text in texts)
    if size > most:
        raise click.ClickException(f"found {size} bytes of {what}, expected at most {most}")
    return texts


_job_options = grouped(
    "wanted",
    _Wanted,
    click.option(
        "--queue",
        default="",
        metavar="QUEUE",
        shell_complete=names_of("queue"),
        help="The queue; without it placement rules choose one.",
    ),
    click.option(
        "--vcore",
        type=amount_of("vcore"),
        default="1",
        show_default=True,
        metavar="QUANTITY",
        help="Cores: 2, or 500m for a half.",
    ),
    click.option("--memory", type=amount_of("memory"), default="512Mi", show_default=True, metavar="QUANTITY", help="Memory."),
    click.option("--gpu", type=WholeNumber(min=0), default=0, metavar="N", help="GPUs; CUDA_VISIBLE_DEVICES has their indices."),
    click.option(
        "--resource",
        "others",
        type=amount_of(""),
        multiple=True,
        metavar="NAME=QUANTITY",
        help="Of another resource. Repeatable.",
    ),
    click.option("--priority", type=PRIORITY, default=0, metavar="N", help="Higher is more important."),
    click.option(
        "--array", type=Parsed("array", _array), metavar="FIRST-LAST", help="A task for each index, which YKACTOR_TASK has."
    ),
    click.option(
        "--gang",
        type=WholeNumber(1, GANG_MAX),
        metavar="N",
        help=f"N tasks, 0 to N-1, that start and end together. Their queue needs the sort policy {WITH_GANGS}.",
    ),
    click.option(
        "--time",
        "time_limit_s",
        type=Parsed("duration", _seconds),
        default=0.0,
        metavar="DURATION",
        help="How long a task may run, such as 1h30m.",
    ),
    click.option(
        "--retries",
        type=WholeNumber(0, RETRIES_MAX),
        default=0,
        metavar="N",
        help="How often a task that has failed, was preempted or lost is started again.",
    ),
    click.option("--name", default="", metavar="NAME", help="Shown by ykactor jobs."),
)


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@directory_option
@_job_options
@click.option(
    "--wait/--detach",
    "waits",
    default=True,
    help="Wait for the end, print what a single task writes, end with its exit code; or only print the job.  [default: wait]",
)
@click.option(
    "--dry-run",
    "is_tried",
    is_flag=True,
    help="Run nothing: print what would become of each task, tried on a copy of the state of the daemon at --url.",
)
@text_or_json("Of --dry-run; json is one document.")
@daemon_options
def command(
    words: tuple[str, ...], directory: Path, wanted: _Wanted, waits: bool, is_tried: bool, output: str, daemon: Destination
) -> None:
    """Run COMMAND on this machine as soon as its queue has room, from this directory and with this environment.

    Write -- before a COMMAND with options. A task is started once, and once more for each of --retries. It reads no standard
    input. Ctrl-C leaves the job as it is: ykactor cancel JOB ends it.

    With --dry-run a row says for each task where it would begin to run and when, or why it would wait, whom it would preempt; for
    a gang it says so of its placeholders. Nothing else arrives in the minute that is tried, and nobody knows when the tasks that
    run end. It asks the daemon itself, and needs the role replica there.
    """
    job = wanted.job(words)
    if is_tried:
        _try(directory, job, daemon, is_json=output == "json")
        return
    if _has_input(_STANDARD_INPUT):
        say("standard input is not read: give the job a file, or its content as an argument", err=True)
    code = loop.run(_run, directory, job, waits)
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


async def _run(directory: Path, job: Job, waits: bool) -> int:
    submitted = await answer(directory, control.Submit(job))
    assert isinstance(submitted, control.Submitted)
    if submitted.notice:
        say(f"{submitted.job}: {submitted.notice}", err=True)
    if not waits:
        say(submitted.job)
        return 0
    say(submitted.job, err=True)
    try:
        if job.count == 1:
            output = Output(Path(submitted.directory), job.first)
            ended = await copy_until(output, lambda: shown(directory, submitted.job, waits=True))
        else:
            ended = await shown(directory, submitted.job, waits=True)
    except* KeyboardInterrupt:
        say(f"{submitted.job} goes on; ykactor cancel {submitted.job} ends it", err=True)
        raise
    for line in endings(ended):
        say(line, err=True)
    return exit_code(ended)


@click.command()
@click.argument("jobs", metavar="JOB[.INDEX]...", nargs=-1, required=True, shell_complete=names_of("job"))
@directory_option
def wait(jobs: tuple[str, ...], directory: Path) -> None:
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
