"""Jobs and attempts as the command line gets them."""

import os

from ykactor.local.control import JobRow, Record
from ykactor.local.model import Job, Task
from ykactor.local.records import Counts
from ykactor.local.store import WORDS_MAX
from ykactor.local.streams import absolute


def job_row(job: Job, states: Counts) -> JobRow:
    """A job, and how many of its tasks are in each state."""
    return JobRow(
        id=job.id,
        name=job.name,
        user=job.user,
        queue=job.leaf,
        arguments=_words(job.arguments),
        resource=job.resource,
        submitted_ns=job.submitted_ns,
        indexes=(job.first, job.last),
        is_gang=job.is_gang,
        states=states,
        count=sum(states.values()),
        priority=job.priority,
        is_held=job.is_held,
        is_held_there=job.is_held_there,
        begin_ns=job.begin_ns,
        after=[str(after) for after in job.after],
        time_limit_s=job.time_limit_s,
        input=_text(absolute(job.directory, job.streams.input)),
        output=_text(absolute(job.directory, job.streams.output)),
        error=_text(absolute(job.directory, job.streams.error)),
    )


def _words(arguments: list[bytes]) -> list[str]:
    """The arguments as text, which ends with ``...`` if they have more bytes than a row may have."""
    left, words = WORDS_MAX, list[str]()
    for argument in arguments:
        if left <= 0:
            return [*words, "..."]
        words.append(_text(argument[:left]) + "..." * (len(argument) > left))
        left -= len(argument) + 1
    return words


def _text(data: bytes) -> str:
    return os.fsdecode(data).encode(errors="replace").decode()


def record(job: Job, task: Task) -> Record:
    """The record of an attempt."""
    return Record(
        job=job.id,
        index=task.index,
        attempt=task.attempt,
        name=job.name,
        user=job.user,
        queue=task.queue or job.leaf,
        priority=job.priority if task.priority is None else task.priority,
        node=task.node,
        state=task.state,
        exit_code=task.exit_code,
        signal=task.signal,
        reason=task.reason,
        submitted_ns=job.submitted_ns,
        eligible_ns=task.eligible_ns,
        started_ns=task.started_ns,
        ended_ns=task.ended_ns,
        resource=job.resource,
        peak_memory=task.peak_memory,
        cpu_ns=task.cpu_ns,
        gpus=task.gpus,
    )
