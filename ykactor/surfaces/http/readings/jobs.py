"""Jobs: applications that are jobs, as their resource manager says (AP-160), with the attempts of their tasks."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappush, heappushpop

from msgspec import UNSET

from ykactor.core.inspection.application_status import TIMES, ApplicationStatus, end_of, job_status, status_of
from ykactor.core.inspection.task_status import ALLOCATION_TIMES, allocation_status
from ykactor.core.objects.application import Application
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.applications import ended_tasks
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import applications as rest
from ykactor.wire.rest import jobs
from ykactor.wire.rest.codec import Item, Shortened, encode_each, encode_part, encode_with

#: A job, and each of its attempts, takes as long as so many other items.
_ENTRY_ITEMS = 10
#: The jobs of a list: each takes some 300 bytes.
JOBS_MAX = 1_000

_Entry = Application | EndedApplication


def newest(look: Look) -> Steps[Shortened]:
    """The newest ``JOBS_MAX`` jobs, by their submission; encoded."""
    entries, older = yield from _newest(look)
    found = list[Item]()
    for *_, entry in entries:
        found.append(encode_part(_job(look, entry)))
        yield _ENTRY_ITEMS
    return Shortened(found, older)


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


def _newest(look: Look) -> Steps[tuple[list[tuple[int, int, _Entry]], int]]:
    """The newest jobs that are shown, each after its order: the submission, and a number; and how many older ones there are."""
    found, older = list[tuple[int, int, _Entry]](), 0
    for number, entry in enumerate(_entries(look)):
        if entry.past.job is not None and look.shows(entry.queue):
            job = entry.submission_ns, number, entry
            if len(found) < JOBS_MAX:
                heappush(found, job)
            else:
                heappushpop(found, job)
                older += 1
        yield 1
    return sorted(found), older


def _entries(look: Look) -> Iterator[_Entry]:
    """All applications, those that have ended first."""
    yield from look.core.timers.ended.values()
    registry = look.core.registry
    for path in dict.fromkeys(registry.applications.values()):
        yield from registry.leaf(path).applications.values()


def _job(look: Look, entry: _Entry) -> jobs.Job:
    status, running, pending = _status(look, entry)
    told = job_status(entry.past)
    assert told is not UNSET, "it is a job"
    return jobs.job(look.core.name, entry.application_id, (status, told), running, pending)


def _status(look: Look, entry: _Entry) -> tuple[ApplicationStatus, int, int]:
    """The status of an application, and how many tasks of it run and wait, without placeholders: they are no tasks of a job."""
    if isinstance(entry, EndedApplication):
        return look.end(end_of(entry)), 0, 0
    waiting = look.state.applications[entry.application_id]
    placeholders = sum(ask.placeholder for ask, _ in waiting.asks.values()) if entry.gang.groups else 0
    return look.times(status_of(waiting), TIMES), entry.tasks.real_count, len(waiting.asks) - placeholders


def _with_attempts(look: Look, entry: _Entry) -> Steps[Item]:
    shown = _job(look, entry)
    attempts = yield from encode_each(_attempts(look, entry, shown.user), _ENTRY_ITEMS)
    return (yield from encode_with(shown, {"attempts": attempts}))


def _attempts(look: Look, entry: _Entry, user: str) -> Iterator[rest.TaskRecord]:
    """The attempts of a job: those that have ended, the oldest first, and those that run."""
    yield from ended_tasks(look, user, entry.past)
    if isinstance(entry, Application):
        for key, (ask, _) in entry.tasks.allocations.items():
            if ask.placeholder:
                continue
            found = look.times(allocation_status(look.state, entry, key), ALLOCATION_TIMES)
            yield jobs.attempt(user, entry.queue, key, found.node_id, found.start_time)
