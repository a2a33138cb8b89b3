"""The options that describe a job, and the job that they make."""

from __future__ import annotations

import os
import re
import secrets
from datetime import datetime, timedelta

import click
from msgspec import Struct

from ykactor.actors.clock import system_ns
from ykactor.core.config.properties import WITH_GANGS
from ykactor.core.values.quantities import parse_duration
from ykactor.local.checks import ARGUMENTS_MAX, ARRAY_MAX, ENVIRON_MAX, GANG_MAX, RETRIES_MAX
from ykactor.local.login import own_login
from ykactor.local.model import After, Condition, Job
from ykactor.local.streams import Streams, pattern
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import amount_of, named
from ykactor.surfaces.cli.options import PRIORITY, Parsed, WholeNumber, grouped

#: No process needs less: who wants less has forgotten the unit.
MEMORY_MIN = 2**20
#: Resources that have an option of their own.
_OWN_OPTIONS = ("vcore", "memory", "gpu")
#: A part of an array: an index, or a range with a step, and how many run at once.
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::([1-9]\d{0,8}))?)?", re.ASCII)
_PLACES = re.compile(r"%([1-9]\d{0,8})(?=,|$)", re.ASCII)
#: The variables that a job has with --clean-env: what a program needs to find others, its files and its language.
_CLEAN = (b"PATH", b"HOME", b"USER", b"SHELL", b"LANG")
#: A year is longer than anybody plans.
_BEGIN_MAX_NS = 10 * 366 * 86_400 * 10**9
_DAY_TIMES = ("%H:%M", "%H:%M:%S")
_TIMES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M%z", "%Y-%m-%dT%H:%M:%S%z")


class _Array(Struct, frozen=True):
    """The indexes of the tasks of an array as ranges that ascend, and how many of them run at once; 0 is all."""

    ranges: list[tuple[int, int]]
    at_most: int


def array(text: str) -> _Array:
    """The tasks of ``1-200%10,300``.

    Raises:  ValueError.
    """
    places = _PLACES.findall(text)
    parts = [_part(part) for part in _PLACES.sub("", text).split(",")]
    count = sum(map(len, parts))
    indexes = sorted({index for part in parts for index in part}) if all(parts) and count <= ARRAY_MAX else []
    if not indexes or len(places) > 1:
        expected = f"indexes and ranges such as 1-100, 1,5,7-9 or 1-200%10, with at most {ARRAY_MAX} tasks"
        raise ValueError(f"found {text!r}, expected {expected}")
    if len(indexes) < count:
        raise ValueError(f"found {text!r}, expected each index once")
    ranges = [(indexes[0], indexes[0])]
    for index in indexes[1:]:
        first, last = ranges[-1]
        if index == last + 1:
            ranges[-1] = first, index
        else:
            ranges.append((index, index))
    return _Array(ranges, int(places[0]) if places else 0)


def _part(text: str) -> range:
    match = _PART.fullmatch(text)
    if match is None:
        return range(0)
    first = int(match[1])
    return range(first, (first if match[2] is None else int(match[2])) + 1, int(match[3] or 1))


def _seconds(text: str) -> float:
    found = parse_duration(text)
    if found is None or found <= 0:
        raise ValueError(f"found {text!r}, expected a duration such as 90s, 10m or 1h30m")
    return found / 1e9


def begin_ns(text: str, now: datetime) -> int:
    """The Unix time of a time of day, the next one; of a duration after now, ``+2h``; or of a day and time.

    Args:
        now: in the time zone of the person.

    Raises:  ValueError.
    """
    found = _moment(text, now)
    now_ns = round(now.timestamp() * 1e9)
    if found is None or not 0 <= (unix_ns := round(found.timestamp() * 1e9)) <= now_ns + _BEGIN_MAX_NS:
        raise ValueError(f"found {text!r}, expected 18:00, +2h or 2026-12-01T18:00, within ten years")
    return unix_ns


def _moment(text: str, now: datetime) -> datetime | None:
    if text.startswith("+"):
        after = parse_duration(text[1:])
        return None if after is None or not 0 <= after <= _BEGIN_MAX_NS else now + timedelta(microseconds=after // 1000)
    for form in _DAY_TIMES:
        try:
            time = datetime.strptime(text, form).time()
        except ValueError:
            continue
        today = datetime.combine(now.date(), time, now.tzinfo)
        return today if today > now else today + timedelta(days=1)
    for form in _TIMES:
        try:
            found = datetime.strptime(text, form)
            return found if found.tzinfo else found.astimezone()
        except (ValueError, OverflowError):
            continue
    return None


def _begin_from_now(text: str) -> int:
    return begin_ns(text, datetime.fromtimestamp(system_ns() / 1e9).astimezone())


def after(text: str) -> After:
    """The dependency ``JOB``, ``JOB.INDEX``, with ``:ok``, ``:any`` or ``:failed`` behind it.

    Raises:  ValueError.
    """
    name, has_condition, condition = text.partition(":")
    if not name or (has_condition and condition not in list(Condition)):
        raise ValueError(f"found {text!r}, expected JOB or JOB.INDEX, with :ok, :any or :failed behind it")
    job, index = named(name)
    return After(job, index, Condition(condition) if has_condition else Condition.OK)


def variable(text: str) -> tuple[bytes, bytes]:
    """The variable ``NAME=VALUE``, or ``NAME`` of this process, and its value.

    Raises:  ValueError.
    """
    name, has_value, value = os.fsencode(text).partition(b"=")
    if not name:
        raise ValueError(f"found {text!r}, expected NAME or NAME=VALUE")
    if has_value:
        return name, value
    if name not in os.environb:
        raise ValueError(f"found {text!r}, which is not set here, expected {text}=VALUE, or a variable that is set")
    return name, os.environb[name]


def _absolute(path: bytes | None) -> bytes:
    """The path of a directory, relative to that of this process; None: that one.

    Raises:  UsageError: this one was deleted.
    """
    if path is not None and os.path.isabs(path):
        return path
    try:
        return os.path.join(os.getcwdb(), path) if path else os.getcwdb()
    except OSError as error:
        raise click.UsageError(f"found no present directory ({error.strerror}), expected one, or an absolute --chdir") from None


class Wanted(Struct, frozen=True):
    """The options of a job.

    Attributes:
        chdir: the directory in which it runs, relative to that of this process; None: that one.
        variables: names and values that are added to the environment, or replace others.
        is_clean: whether only these and a few others are its environment.
        has_slurm_names: whether it has the variables of Slurm too.
        on_end: the command of a shell that runs at the end.
        others: amounts of resources without an option of their own.
        gang: the number of tasks; None: it is no gang.
        input, output, error: patterns of files; empty for those that are usual.
    """

    queue: str
    vcore: tuple[str, int]
    memory: tuple[str, int]
    gpu: int
    others: tuple[tuple[str, int], ...]
    priority: int
    array: _Array | None
    gang: int | None
    time_limit_s: float
    retries: int
    retry_delay_s: float
    is_held: bool
    begin_ns: int
    after: tuple[After, ...]
    name: str
    chdir: bytes | None
    variables: tuple[tuple[bytes, bytes], ...]
    is_clean: bool
    has_slurm_names: bool
    on_end: str
    input: bytes
    output: bytes
    error: bytes

    def job(self, words: tuple[str, ...], script: bytes = b"") -> Job:
        """The job that runs a command, from the directory and with the environment of this process if no others are given.

        Args:
            script: the text that is run; ``words`` then begin with its name.
        """
        if self.gang is not None and (self.array is not None or self.retries):
            raise click.UsageError("found --gang with --array or --retries, expected it without")
        if self.retry_delay_s and not self.retries:
            raise click.UsageError("found --retry-delay without --retries, expected both")
        chosen = self.array or _Array([(0, (self.gang or 1) - 1)], 0)
        return Job(
            id="",
            token=secrets.token_hex(16),
            name=self.name,
            user="",
            queue=self.queue,
            arguments=fitting("arguments", [os.fsencode(word) for word in words], ARGUMENTS_MAX),
            environ=fitting("environment variables", self._environ(), ENVIRON_MAX),
            directory=_absolute(self.chdir),
            resource=self._resource(),
            submitted_ns=0,
            priority=self.priority,
            first=chosen.ranges[0][0],
            last=chosen.ranges[-1][1],
            ranges=chosen.ranges if len(chosen.ranges) > 1 else [],
            at_most=chosen.at_most,
            is_gang=self.gang is not None,
            time_limit_s=self.time_limit_s,
            retries=self.retries,
            retry_delay_s=self.retry_delay_s,
            is_held=self.is_held,
            begin_ns=self.begin_ns,
            after=list(self.after),
            login=own_login(),
            streams=Streams(self.input, self.output, self.error),
            script=script,
            has_slurm_names=self.has_slurm_names,
            on_end=os.fsencode(self.on_end),
        )

    def _environ(self) -> list[bytes]:
        """Each variable as ``NAME=VALUE``."""
        inherited = {name: value for name, value in os.environb.items() if not self.is_clean or name in _CLEAN}
        return [b"=".join(pair) for pair in (inherited | dict(self.variables)).items()]

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


def fitting(what: str, texts: list[bytes], most: int) -> list[bytes]:
    """The texts, if they have no more bytes together.

    Raises:  ClickException.
    """
    size = sum(len(text) + 1 for text in texts)
    if size > most:
        raise click.ClickException(f"found {size} bytes of {what}, expected at most {most}")
    return texts


job_options = grouped(
    "wanted",
    Wanted,
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
        "--array",
        type=Parsed("array", array),
        metavar="INDEXES",
        help="A task for each index, which YKACTOR_TASK has: 1-100, 1,5,7-9 or 0-90:10; with %10 behind it at most 10 at once.",
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
    click.option(
        "--retry-delay",
        "retry_delay_s",
        type=Parsed("duration", _seconds),
        default=0.0,
        metavar="DURATION",
        help="How long to wait before that, such as 30s.",
    ),
    click.option("--hold", "is_held", is_flag=True, help="Begin no task before ykactor release JOB."),
    click.option(
        "--begin",
        "begin_ns",
        type=Parsed("time", _begin_from_now),
        default=0,
        metavar="TIME",
        help="Begin no task before 18:00, or 2026-12-01T18:00, in the local time zone, or +2h from now.",
    ),
    click.option(
        "--after",
        type=Parsed("dependency", after),
        multiple=True,
        metavar="JOB[:ok|any|failed]",
        help="Begin after the end of JOB, or JOB.INDEX, if it completes (ok, the default), fails, or in any case. Repeatable.",
    ),
    click.option("--name", default="", metavar="NAME", help="Shown by ykactor jobs."),
    click.option(
        "--chdir",
        type=click.Path(exists=True, file_okay=False, path_type=bytes),
        metavar="DIR",
        help="The directory in which it runs.  [default: this one]",
    ),
    click.option(
        "--env",
        "variables",
        type=Parsed("variable", variable),
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable of its environment, without VALUE as it is set here. Repeatable.",
    ),
    click.option(
        "--clean-env",
        "is_clean",
        is_flag=True,
        help="Of this environment only PATH, HOME, USER, SHELL and LANG, and what --env names.  [default: all of it]",
    ),
    click.option(
        "--slurm-env",
        "has_slurm_names",
        is_flag=True,
        help="Also set the variables of Slurm, such as SLURM_ARRAY_TASK_ID; programs with MPI would look for Slurm then.",
    ),
    click.option(
        "--on-end",
        default="",
        metavar="COMMAND",
        help="Run COMMAND with sh when the job has ended, for a minute at most; YKACTOR_STATE and _EXIT_CODE say how.",
    ),
    click.option(
        "--output",
        type=Parsed("path", pattern),
        default=b"",
        metavar="PATH",
        help="A file for standard output, relative to its directory. In it %j is the job, %a the index of the task, %n the "
        "attempt, %x the name, %u the user, %N the node.  [default: kept for ykactor logs]",
    ),
    click.option(
        "--error",
        type=Parsed("path", pattern),
        default=b"",
        metavar="PATH",
        help="A file for standard error, with the same letters.  [default: that of --output]",
    ),
    click.option(
        "--input",
        type=Parsed("path", pattern),
        default=b"",
        metavar="PATH",
        help="The file that is its standard input, with the same letters.  [default: /dev/null]",
    ),
)
