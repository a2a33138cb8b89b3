"""The checks of a job that a client sends: any process of a user can connect, and say anything.

What only the local resource manager says of a job is replaced afterwards: its id, user, place and time.
"""

import math
import re
from collections.abc import Iterator

from ykactor.local.jobs import SubmitRefused
from ykactor.local.login import LIMITS, Login
from ykactor.local.model import Job
from ykactor.local.scripts import SCRIPT_MAX, interpreter
from ykactor.local.streams import Streams, wrong_pattern

#: Bytes of the arguments, as many as the kernel takes of one, and of the environment.
ARGUMENTS_MAX = 2**17
ENVIRON_MAX = 2**20
#: Bytes of the command for the end of a job.
ON_END_MAX = 2**13
#: Tasks of an array and of a gang, and retries of a task.
ARRAY_MAX = 10_000
GANG_MAX = 1_000
RETRIES_MAX = 100
#: Dependencies of a job, and characters of what one names.
AFTER_MAX, _JOB_MAX = 20, 64
_INDEX_MAX = 999_999_999
_DIRECTORY_MAX = 4095
#: Characters of a name and of a queue, and resource types of a task.
_NAME_MAX, _QUEUE_MAX, _TYPES_MAX = 255, 1024, 100
_TOKEN = re.compile(r"[ -~]{1,64}")
_TERMINAL = re.compile(rb"/dev/pts/\d{1,9}")
_TYPE = re.compile(r"[!-~]{1,255}")
_INT32, _INT64 = 2**31, 2**63
#: Ten years are longer than any task may be told to run.
_SECONDS_MAX = 10 * 366 * 86_400.0
_UMASK_MAX = 0o777
#: The year 9999, the last one that has a date.
_BEGIN_MAX_NS = 253_402_300_799 * 10**9 + 1


def checked(job: Job) -> Job:
    """A job that was sent.

    Raises:  SubmitRefused: the first thing that is wrong.
    """
    for wrong in _wrong(job):
        raise SubmitRefused(wrong)
    return job


def _wrong(job: Job) -> Iterator[str]:
    """Sentences about what is wrong."""
    yield from _wrong_texts(job)
    yield from wrong_environ(job.environ)
    yield from _wrong_script(job.script)
    if len(job.on_end) > ON_END_MAX or b"\0" in job.on_end:
        yield f"found {len(job.on_end)} bytes of a command for the end, expected at most {ON_END_MAX}, without NUL"
    yield from _wrong_numbers(job)
    yield from _wrong_tasks(job)
    if job.terminal:
        yield from _wrong_terminal(job)
    if job.login is not None:
        yield from _wrong_login(job.login)


def _wrong_texts(job: Job) -> Iterator[str]:
    if not _TOKEN.fullmatch(job.token):
        yield "found another token, expected 1 to 64 printable characters of ASCII"
    for what, text, most in (("name", job.name, _NAME_MAX), ("queue", job.queue, _QUEUE_MAX)):
        if len(text) > most:
            yield f"found a {what} of {len(text)} characters, expected at most {most}"
        if not text.isprintable():
            yield f"found the {what} {text!r}, expected no control characters"
    if (size := sum(len(word) + 1 for word in job.arguments)) > ARGUMENTS_MAX:
        yield f"found {size} bytes of arguments, expected at most {ARGUMENTS_MAX}"
    if not job.arguments or any(b"\0" in word for word in job.arguments):
        yield "found no command, or a NUL in it, expected words without"
    if not job.directory.startswith(b"/") or b"\0" in job.directory or len(job.directory) > _DIRECTORY_MAX:
        yield f"found the directory {job.directory[:100]!r}, expected an absolute path of at most {_DIRECTORY_MAX} bytes"
    for found in (job.streams.input, job.streams.output, job.streams.error):
        if wrong := wrong_pattern(found):
            yield f"found the file {found[:100]!r}, {wrong}"


def wrong_environ(environ: list[bytes]) -> Iterator[str]:
    """Sentences about what is wrong with an environment."""
    if (size := sum(len(entry) + 1 for entry in environ)) > ENVIRON_MAX:
        yield f"found {size} bytes of environment variables, expected at most {ENVIRON_MAX}"
    if any(b"=" not in entry or b"\0" in entry for entry in environ):
        yield "found an environment variable without a value, or with a NUL, expected NAME=VALUE"


def _wrong_script(script: bytes) -> Iterator[str]:
    if len(script) > SCRIPT_MAX:
        yield f"found a script of {len(script)} bytes, expected at most {SCRIPT_MAX}"
    elif script:
        try:
            interpreter(script)
        except ValueError as error:
            yield f"the script: {error}"


def _wrong_numbers(job: Job) -> Iterator[str]:
    if len(job.resource) > _TYPES_MAX:
        yield f"found {len(job.resource)} resource types, expected at most {_TYPES_MAX}"
    for name, amount in job.resource.items():
        if not _TYPE.fullmatch(name) or not 0 <= amount < _INT64:
            yield f"found {amount} of {name!r}, expected 0 to {_INT64 - 1} of a resource type"
    if not -_INT32 <= job.priority < _INT32:
        yield f"found the priority {job.priority}, expected {-_INT32} to {_INT32 - 1}"
    if not math.isfinite(job.time_limit_s) or not 0 <= job.time_limit_s <= _SECONDS_MAX:
        yield f"found a time limit of {job.time_limit_s} s, expected 0 to {_SECONDS_MAX:.0f} s"
    if not math.isfinite(job.retry_delay_s) or not 0 <= job.retry_delay_s <= _SECONDS_MAX:
        yield f"found a retry delay of {job.retry_delay_s} s, expected 0 to {_SECONDS_MAX:.0f} s"
    if not 0 <= job.begin_ns < _BEGIN_MAX_NS:
        yield f"found the begin {job.begin_ns} ns, expected 0 to {_BEGIN_MAX_NS - 1}"
    if not 0 <= job.retries <= RETRIES_MAX:
        yield f"found {job.retries} retries, expected 0 to {RETRIES_MAX}"


def _wrong_tasks(job: Job) -> Iterator[str]:
    if not 0 <= job.first <= job.last <= _INDEX_MAX:
        yield f"found the tasks {job.first} to {job.last}, expected at least one, with indexes of 0 to {_INDEX_MAX}"
    bounds = [bound for first, last in job.ranges for bound in (first, last + 1)]
    if len(job.ranges) > ARRAY_MAX:
        yield f"found {len(job.ranges)} ranges, expected at most {ARRAY_MAX}"
    elif bounds != sorted(bounds) or (bounds and (bounds[0], bounds[-1]) != (job.first, job.last + 1)):
        yield f"found the ranges {job.ranges[:5]}, expected some that ascend from {job.first} to {job.last}"
    if not 0 <= job.at_most <= ARRAY_MAX:
        yield f"found {job.at_most} places of an array, expected 0 to {ARRAY_MAX}"
    if len(job.after) > AFTER_MAX:
        yield f"found {len(job.after)} of --after, expected at most {AFTER_MAX}"
    if any(len(after.job) > _JOB_MAX for after in job.after):
        yield f"found --after with more than {_JOB_MAX} characters, expected a job such as job-3"
    most = GANG_MAX if job.is_gang else ARRAY_MAX
    if job.count > most:
        yield f"found {job.count} tasks, expected at most {most}"
    if job.is_gang and (job.first or job.retries or job.ranges):
        yield "found a gang with retries, or without a task 0, expected it without and with"


def _wrong_terminal(job: Job) -> Iterator[str]:
    if not _TERMINAL.fullmatch(job.terminal):
        yield f"found the terminal {job.terminal[:100]!r}, expected one such as /dev/pts/3"
    if job.count > 1 or job.retries or job.streams != Streams():
        yield "found a terminal with several tasks, retries or files, expected it without"


def _wrong_login(login: Login) -> Iterator[str]:
    if not 0 <= login.umask <= _UMASK_MAX:
        yield f"found the umask {login.umask}, expected 0 to {_UMASK_MAX}"
    if not login.limits.keys() <= set(LIMITS) or any(not -1 <= soft < _INT64 for soft in login.limits.values()):
        yield f"found the limits {sorted(login.limits)[:10]}, expected numbers for {', '.join(LIMITS)}, or -1"
