"""The status of an application, live or ended, and of its pending asks: in groups with the reason, and by their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType, field, structs

from ykactor.core.accounting.accounts import told
from ykactor.core.accounting.past import History, Past, total
from ykactor.core.inspection.queue_status import QueueStatus, effective_priority, held_with
from ykactor.core.inspection.shown import Held, Shown, held
from ykactor.core.messages.states import ApplicationState, TaskRecord
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource, most, saturated, saturated_and_pruned
from ykactor.core.waiting.reasons import Place

if TYPE_CHECKING:  # the clients of a daemon load this file, and need no scheduler
    from ykactor.core.objects.application import Application
    from ykactor.core.objects.registry import Registry
    from ykactor.core.partition.timers import EndedApplication
    from ykactor.core.queueing.pending import PendingApplication


class PendingStatus(Shown, frozen=True, kw_only=True):
    """Asks of an application that are pending for the same reason (AP-150).

    Attributes:
        left_out: the nodes where they could not start, each with the time until which it is left out for them.
        priority: the highest of their own; ``effective_priority`` is this priority at root, or at the highest queue that is shown
            (PR-11).
        resource: the amounts of each of them.
        allocation_keys: the keys of the first few, the next one first; ``creation_times`` are theirs, and
            ``oldest_time`` is the earliest of these; 0 from an older daemon.
        last_attempt, next_attempt: the times of the attempts to preempt for the first ask, if it may; None if there was none.
    """

    reason: str
    code: str
    place: Place | UnsetType = UNSET
    left_out: dict[NodeID, int] | UnsetType = UNSET
    count: int
    priority: int
    resource: Resource
    allocation_keys: list[str]
    creation_times: list[int]
    oldest_time: int = 0
    last_attempt: int | UnsetType | None = UNSET
    next_attempt: int | UnsetType = UNSET
    effective_priority: int = PRIORITY_MIN


#: The fields that a limited reader sees as they are.
OF_THE_ASKS = ("code", "count", "priority", "resource", "allocation_keys")


class AsksPart(Shown, frozen=True, kw_only=True):
    """The keys and creation times of some pending asks of an application."""

    application_id: str = field(name="applicationID")
    allocation_keys: list[str]
    creation_times: list[int]


class ReplacementStatus(Shown, frozen=True, kw_only=True):
    """A real ask that replaces a placeholder whose release is not confirmed: it is not pending, and does not run yet."""

    allocation_key: str
    placeholder: str
    node_id: str = field(name="nodeID")


class RecordStatus(Shown, frozen=True, kw_only=True):
    """The end of a task (AP-152); unknown fields are left out. ``cpu_time`` is nanoseconds."""

    allocation_key: str
    node_id: str | UnsetType = field(name="nodeID", default=UNSET)
    state: str
    exit_code: int | UnsetType = UNSET
    signal: str | UnsetType = UNSET
    start_time: int | UnsetType = UNSET
    finished_time: int | UnsetType = UNSET
    peak_memory: int | UnsetType = UNSET
    eligible_time: int | UnsetType = UNSET
    cpu_time: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    queue_name: str | UnsetType = UNSET


class JobStatus(Shown, frozen=True, kw_only=True):
    """The job that an application is, as of ``JobReport`` (AP-160)."""

    name: str
    tasks: int
    completed: int
    failed: int
    cancelled: int


class ApplicationStatus(Shown, frozen=True, kw_only=True):
    """An application; empty and unknown fields of an ended one are left out.

    Attributes:
        queue_name: the queue; of a rejected one the queue that it asked for, which need not exist.
        priority: the highest priority of its pending asks; the lowest int32 when nothing is pending.
        effective_priority: this priority at root, or at the highest queue that is shown.
        held: the hold of the application itself.
        held_with: the nearest queue above it that is held.
        allocations: the node of each running task, by its key.
        start_time: the time when it first ran.
        used_seconds: the resource-seconds of all its tasks; an amount beyond 64 bits is a text.
        lost_seconds: the part of preempted tasks.
        records: the records of its ended tasks, the oldest first; left out if there are none.
        job: left out if its resource manager has not said that it is one.
    """

    state: str
    queue_name: str
    user: str | UnsetType = UNSET
    groups: list[str] | UnsetType = UNSET
    submission_time: int | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    allocated: Resource | UnsetType = UNSET
    pending: list[PendingStatus] | UnsetType = UNSET
    held: Held | UnsetType = UNSET
    allocations: dict[str, str] | UnsetType = UNSET
    replacing: list[ReplacementStatus] | UnsetType = UNSET
    start_time: int | UnsetType = UNSET
    finished_time: int | UnsetType = UNSET
    last_work_time: int | UnsetType = UNSET
    outcome: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    used_seconds: dict[str, int | str] | UnsetType = UNSET
    lost_seconds: dict[str, int | str] | UnsetType = UNSET
    records: list[RecordStatus] | UnsetType = UNSET
    job: JobStatus | UnsetType = UNSET
    effective_priority: int | UnsetType = UNSET
    held_with: str | UnsetType = UNSET


class StateStatus(Shown, frozen=True, kw_only=True):
    """The time at which an application came into a state."""

    time: int
    state: str


class TaskGroupStatus(Shown, frozen=True, kw_only=True):
    """The placeholders of a task group: all there ever were, those that were replaced, and those that ended in another way.

    Attributes:
        min_resource: of the first one.
    """

    count: int
    min_resource: Resource
    replaced: int
    timed_out: int


class ApplicationDetails(Shown, frozen=True, kw_only=True):
    """The kept data of an application beside its status; snapshots do not have it.

    Attributes:
        states: the oldest first.
        message: of the outcome that its resource manager has told.
        running_since: when it came to run from a state in which it did not, for the last time.
        max_used: the most that it has used at a time.
        used, preempted, placeholders: resource-seconds by type of instance, of tasks that ended, that were preempted, and of
            placeholders.
        task_groups: by name.
        reservations: the keys of asks for which a node is reserved.
        backoff_end: 0 without one.
    """

    states: list[StateStatus]
    message: str
    running_since: int | UnsetType = UNSET
    max_used: Resource
    used: dict[str, Resource]
    preempted: dict[str, Resource]
    placeholders: dict[str, Resource]
    task_groups: dict[str, TaskGroupStatus]
    reservations: list[str]
    backoff_end: int


#: The fields that a limited reader sees as they are.
OF_THE_APPLICATION = (
    "state",
    "queue_name",
    "user",
    "groups",
    "priority",
    "allocated",
    "allocations",
    "replacing",
    "used_seconds",
    "lost_seconds",
    "job",
)
#: The times that a limited reader sees in whole milliseconds.
TIMES = ("submission_time", "start_time", "finished_time")
OF_THE_RECORD = ("allocation_key", "node_id", "state", "exit_code", "signal", "peak_memory", "cpu_time")
RECORD_TIMES = ("eligible_time", "start_time", "finished_time")


def status_of(waiting: PendingApplication) -> ApplicationStatus:
    """The status of a live application, without its asks, its tasks and what depends on the queues above it."""
    highest = waiting.priorities.highest
    return ApplicationStatus(
        state=waiting.state.value,
        queue_name=waiting.leaf.path,
        user=waiting.who.user,
        groups=list(waiting.who.groups),
        submission_time=waiting.submission_ns,
        priority=PRIORITY_MIN if highest is None else highest,
        allocated=saturated_and_pruned(waiting.allocated),
        held=held(waiting.hold),
    )


def live_status(
    registry: Registry, waiting: PendingApplication, pending: list[PendingStatus], queues: Mapping[str, QueueStatus]
) -> ApplicationStatus:
    """The status of a live application, with the groups of its pending asks."""
    status, path = status_of(waiting), waiting.leaf.path
    application = registry.leaf(path).applications.get(waiting.application_id)
    assert status.priority is not UNSET, "it is live"
    return structs.replace(
        status,
        pending=pending,
        effective_priority=effective_priority(status.priority, path, queues),
        held_with=held_with(path, queues),
        allocations={} if application is None else {key: node_id for key, (_, node_id) in application.tasks.allocations.items()},
        replacing=UNSET if application is None else _replacing(application),
        records=UNSET if application is None else record_statuses(application.past) or UNSET,
        job=UNSET if application is None else job_status(application.past),
    )


def _replacing(application: Application) -> list[ReplacementStatus] | UnsetType:
    return [
        ReplacementStatus(allocation_key=ask.allocation_key, placeholder=placeholder, node_id=node_id)
        for placeholder, (ask, node_id) in application.tasks.replacing.items()
    ] or UNSET


def end_of(ended: EndedApplication) -> ApplicationStatus:
    """The status of an application that has ended or was refused, without its tasks."""
    past = ended.past
    outcome = past.outcome and past.outcome.value
    return ApplicationStatus(
        state=ended.state.value,
        queue_name=ended.queue,
        user=ended.user or UNSET,
        groups=list(ended.groups) or UNSET,
        submission_time=ended.submission_ns or UNSET,
        finished_time=ended.finished_ns or UNSET,
        outcome=outcome or UNSET,
        reason=ended.reason or past.message or past.failure or UNSET,
    )


def ended_status(ended: EndedApplication) -> ApplicationStatus:
    """The status of an application that has ended or was refused."""
    past = ended.past
    return structs.replace(
        end_of(ended),
        start_time=past.first_start_ns() or UNSET,
        last_work_time=past.last_work_ns() or UNSET,
        used_seconds=told(total(past.used, past.preempted, past.placeholders)) or UNSET,
        lost_seconds=told(total(past.preempted)) or UNSET,
        records=record_statuses(past) or UNSET,
        job=job_status(past),
    )


def live_details(application: Application, waiting: PendingApplication) -> ApplicationDetails:
    """The details of a live application."""
    past = application.past
    groups = {
        name: TaskGroupStatus(
            count=group.count,
            min_resource=saturated(group.min_resource),
            replaced=group.replaced,
            timed_out=group.timed_out,
        )
        for name, group in sorted(application.gang.groups.items())
    }
    return structs.replace(
        _details(past),
        max_used=saturated_and_pruned(most(past.max_used, application.account.used)),
        task_groups=groups,
        reservations=sorted(waiting.reserving),
        backoff_end=waiting.backoff_ns,
    )


def ended_details(ended: EndedApplication) -> ApplicationDetails:
    """The details of an application that has ended or was refused; the only state of a refused one is that."""
    details = _details(ended.past)
    if ended.state is not ApplicationState.REJECTED:
        return details
    return structs.replace(details, states=[StateStatus(time=ended.finished_ns, state=ended.state.value)])


def _details(past: Past) -> ApplicationDetails:
    return ApplicationDetails(
        states=[StateStatus(time=at_ns, state=state.value) for at_ns, state in past.states],
        message=past.message,
        running_since=UNSET if past.started_ns is None else past.started_ns,
        max_used=saturated_and_pruned(past.max_used),
        used=_by_instance(past.used),
        preempted=_by_instance(past.preempted),
        placeholders=_by_instance(past.placeholders),
        task_groups={},
        reservations=[],
        backoff_end=0,
    )


def _by_instance(history: History) -> dict[str, Resource]:
    return {instance: saturated_and_pruned(resource) for instance, resource in history.items()}


def job_status(past: Past) -> JobStatus | UnsetType:
    """The job that an application is; UNSET if it is none."""
    return UNSET if past.job is None else JobStatus(**structs.asdict(past.job))


def record_statuses(past: Past) -> list[RecordStatus]:
    """The records of the ended tasks of an application, the oldest first."""
    return [_record(record) for record in past.records.values()]


def _record(record: TaskRecord) -> RecordStatus:
    return RecordStatus(
        allocation_key=record.allocation_key,
        node_id=record.node_id or UNSET,
        state=record.state.value,
        exit_code=UNSET if record.exit_code is None else record.exit_code,
        signal=record.signal or UNSET,
        start_time=record.started_ns or UNSET,
        finished_time=record.finished_ns or UNSET,
        peak_memory=UNSET if record.peak_memory is None else record.peak_memory,
        eligible_time=record.eligible_ns or UNSET,
        cpu_time=UNSET if record.cpu_ns is None else record.cpu_ns,
        reason=record.message or UNSET,
        queue_name=record.queue or UNSET,
    )
