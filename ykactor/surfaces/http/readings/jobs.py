"""Jobs: applications that are jobs, as their resource manager says (AP-160), with the attempts of their tasks."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from ykactor.core.inspection.application_status import TIMES, ApplicationStatus, end_of, job_status, status_of
from ykactor.core.inspection.task_status import ALLOCATION_TIMES, allocation_status
from ykactor.core.objects.application import Application
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Steps, sorted_in_parts
from ykactor.surfaces.http.readings.applications import ended_tasks
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import applications as rest
from ykactor.wire.rest import jobs
from ykactor.wire.rest.codec import Item, encode_each, encode_part, encode_with

#: A job, and each of its attempts, takes as long as so many other items.
_ENTRY_ITEMS = 10


def all_jobs(look: Look) -> Steps[list[bytes]]:
    """The jobs, by their submission; encoded."""
    found = []
    for *_, entry in (yield from sorted_in_parts(_entries(look))):
        found.append(encode_part(_job(look, entry)))
        yield _ENTRY_ITEMS
    return found


def one(look: Look, job_id: ApplicationID) -> Steps[Item | None]:
    """The job that lives, else the last one with this id that has ended, encoded; None if there is neither."""
    if look.leaf_of(job_id) is not None:
        application = look.core.registry.leaf_of(job_id).applications[job_id]
        return None if application.past.job is None else (yield from _with_attempts(look, application))
    for ended in reversed(look.core.timers.ended.values()):
        if ended.application_id == job_id and ended.past.job is not None and look.shows(ended.queue):
            return (yield from _with_attempts(look, ended))
        yield 1
    return None


def _entries(look: Look) -> Iterator[tuple[int, int, Application | EndedApplication]]:
    """The jobs that are shown, each after its order: the submission, and a number."""
    for number, ended in enumerate(look.core.timers.ended.values()):
        if ended.past.job is not None and look.shows(ended.queue):
            yield ended.submission_ns, number, ended
    registry = look.core.registry
    number = len(look.core.timers.ended)
    for path in dict.fromkeys(registry.applications.values()):
        for application in registry.leaf(path).applications.values() if look.shows(path) else ():
            number += 1
            if application.past.job is not None:
                yield application.submission_ns, number, application


def _job(look: Look, entry: Application | EndedApplication) -> jobs.Job:
    status, running, pending = _status(look, entry)
    told = job_status(entry.past)
    assert told is not UNSET, "it is a job"
    return jobs.job(look.core.name, entry.application_id, (status, told), running, pending)


def _status(look: Look, entry: Application | EndedApplication) -> tuple[ApplicationStatus, int, int]:
    """The status of an application, and how many tasks of it run and wait."""
    if isinstance(entry, EndedApplication):
        return look.end(end_of(entry)), 0, 0
    waiting = look.state.applications[entry.application_id]
    return look.times(status_of(waiting), TIMES), len(entry.tasks.allocations), len(waiting.asks)


def _with_attempts(look: Look, entry: Application | EndedApplication) -> Steps[Item]:
    shown = _job(look, entry)
    attempts = yield from encode_each(_attempts(look, entry, shown.user), _ENTRY_ITEMS)
    return (yield from encode_with(shown, {"attempts": attempts}))


def _attempts(look: Look, entry: Application | EndedApplication, user: str) -> Iterator[rest.TaskRecord]:
    """The attempts of a job: those that have ended, the oldest first, and those that run."""
    yield from ended_tasks(look, user, entry.past)
    if isinstance(entry, Application):
        for key in entry.tasks.allocations:
            found = look.times(allocation_status(look.state, entry, key), ALLOCATION_TIMES)
            yield jobs.attempt(user, entry.queue, key, found.node_id, found.start_time)
