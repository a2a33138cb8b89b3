"""Jobs as the REST API shows them: applications that are jobs, as their resource manager says (AP-160)."""

from __future__ import annotations

from msgspec import UNSET, field

from ykactor.core.inspection.application_status import ApplicationStatus, JobStatus
from ykactor.wire.rest.applications import TaskRecord
from ykactor.wire.rest.types import Payload

#: The states of a job that lives, and of a task of it that runs.
RUNNING, PENDING = "Running", "Pending"


class Job(Payload, frozen=True, kw_only=True):
    """A job, and how far it is. Of the ``tasks`` that neither run nor have ended those that are ``pending`` wait for a place.

    Attributes:
        state: ``Running`` if a task of it runs, ``Pending`` if none does, or how it has ended: such as ``Completed``.
        reason: why it has ended like that, for people.
        submission_time, finished_time: Unix nanoseconds; 0 if they are not known.
        completed, failed, cancelled: the tasks that have ended, and how; ``failed`` in any other way.
        attempts: of a job that is asked for alone: the newest that have ended, and those that run, whose state is
            ``Running``; put in encoded (``codec.encode_with``).
    """

    job_id: str = field(name="jobID")
    partition: str
    name: str
    user: str
    queue_name: str
    state: str
    reason: str = ""
    submission_time: int = 0
    finished_time: int = 0
    tasks: int
    running: int
    pending: int
    completed: int
    failed: int
    cancelled: int
    attempts: list[TaskRecord] = []


def job(partition: str, job_id: str, found: tuple[ApplicationStatus, JobStatus], running: int, pending: int) -> Job:
    """A job of which so many tasks run and wait."""
    status, told = found
    lives = status.finished_time is UNSET
    return Job.of(
        told,
        job_id=job_id,
        partition=partition,
        user=status.user or "",
        queue_name=status.queue_name,
        state=(RUNNING if running else PENDING) if lives else status.outcome or status.state,
        reason=status.reason or "",
        submission_time=status.submission_time or 0,
        finished_time=status.finished_time or 0,
        running=running,
        pending=pending,
    )


def attempt(user: str, queue: str, key: str, node_id: str, start_time: int) -> TaskRecord:
    """An attempt that runs."""
    return TaskRecord(
        allocation_key=key,
        user=user,
        node_id=node_id,
        state=RUNNING,
        exit_code=None,
        queue_name=queue,
        start_time=start_time,
        cpu_time=None,
        peak_memory=None,
    )
