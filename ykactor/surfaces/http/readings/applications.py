"""Applications: with their asks and allocations while they live, and as they are remembered when they have ended."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge

from ykactor.core.accounting.past import NO_TYPE, History, Past
from ykactor.core.inspection.pending import PendingTexts
from ykactor.core.messages.states import ApplicationState
from ykactor.core.objects.application import Application
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, add_to, most
from ykactor.core.values.times import MS_NS
from ykactor.surfaces.http.readings.look import Look, limit, used
from ykactor.surfaces.http.readings.tasks import allocation, request
from ykactor.surfaces.http.times import rfc3339
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode_part

#: The values of ``status``: the states of applications that live.
LIVE_STATES = ("new", "accepted", "running", "completing", "failing", "resuming")
#: What they show for states that Apache YuniKorn does not have (AP-40).
_SHOWN = {ApplicationState.STARTING: "Running"}
#: An entry of an application takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10


def live(look: Look, queue: QueuePath | None = None, status: str = "") -> Pausing[list[bytes]]:
    """The live applications of a leaf, or of all with None, in a state, or in any with ""; encoded, by their submission."""
    texts, pace = PendingTexts(look.state), Pace()
    found = []
    for application in _live(look, queue):
        if status in ("", _state(application.state).lower()):
            found.append(encode_part(_live_application(look, application, texts)))
        if pace.is_due(_ENTRY_ITEMS * (1 + len(application.asks) + len(application.allocations))):
            yield ()
    return found


def _live(look: Look, queue: QueuePath | None) -> Iterable[Application]:
    """In order: those of each leaf nearly are, and those of all are merged one by one, so that no pause is far."""
    registry = look.core.registry
    paths = dict.fromkeys(registry.applications.values()) if queue is None else [queue]
    leaves = [sorted(registry.leaf(path).applications.values(), key=_order) for path in paths if look.shows(path)]
    return merge(*leaves, key=_order)


def _order(application: Application) -> tuple[int, int]:
    return application.submission_ns, application.arrival


def completed(look: Look) -> Pausing[list[bytes]]:
    """Applications that have ended, also those that failed, the oldest first; encoded."""
    return _remembered(look, look.core.timers.ended.values())


def rejected(look: Look) -> Pausing[list[bytes]]:
    """Applications that were rejected, the oldest first; encoded. They are in no queue, so limited readers see none."""
    return _remembered(look, look.core.timers.rejected.values() if look.shows("") else ())


def _remembered(look: Look, entries: Iterable[EndedApplication]) -> Pausing[list[bytes]]:
    found, pace = [], Pace()
    for entry in entries:
        if entry.state is ApplicationState.REJECTED or look.shows(entry.queue):
            found.append(encode_part(_ended_application(look, entry)))
        if pace.is_due(_ENTRY_ITEMS):
            yield ()
    return found


def one(look: Look, application_id: ApplicationID, queue: QueuePath | None = None) -> types.Application | None:
    """A live application, also only if it is in a queue; None if there is none."""
    found = look.core.registry.applications.get(application_id)
    if found is None or queue not in (None, found) or not look.shows(found):
        return None
    application = look.core.registry.leaf_of(application_id).applications[application_id]
    return _live_application(look, application, PendingTexts(look.state))


def _state(state: ApplicationState) -> str:
    return _SHOWN.get(state, state.value)


def _live_application(look: Look, application: Application, texts: PendingTexts) -> types.Application:
    pending = look.state.applications[application.application_id]
    highest = pending.priorities.highest
    return types.Application(
        application_id=application.application_id,
        used_resource=used(pending.allocated),
        max_used_resource=used(most(application.past.max_used, application.used)),
        pending_resource=used(_pending_resource(application)),
        partition=look.core.name,
        queue_name=application.queue,
        submission_time=look.time(application.submission_ns),
        requests=_requests(look, pending, texts),
        allocations=[
            allocation(look, application, key)
            for key, _ in sorted(application.allocations.items(), key=lambda item: item[1][0].arrival)
        ],
        application_state=_state(application.state),
        user=application.who.user,
        groups=list(application.who.groups),
        state_log=_state_log(look, application.past),
        placeholder_data=[
            types.TaskGroup(
                task_group_name=name,
                count=group.count,
                min_resource=limit(group.min_resource),
                replaced=group.replaced,
                timedout=group.timed_out,
            )
            for name, group in sorted(application.gang.groups.items())
        ],
        has_reserved=bool(pending.reserving),
        reservations=sorted(pending.reserving),
        max_request_priority=types.PRIORITY_MIN if highest is None else highest,
        start_time=_start_ms(application.past),
        resource_history=_history(look, application.past),
        backoff_deadline=rfc3339(look.time(pending.backoff_ns)) if pending.backoff_ns else "",
    )


def _pending_resource(application: Application) -> dict[str, int]:
    total: dict[str, int] = {}
    for ask in application.asks.values():
        for name, quantity in ask.spec.resource.items():
            total[name] = total.get(name, 0) + quantity
    return total


def _requests(look: Look, pending: PendingApplication, texts: PendingTexts) -> list[types.Request]:
    reasons: dict[object, str] = {}
    requests = []
    for ask, queue in sorted(pending.asks.values(), key=lambda entry: entry[0].arrival):
        if look.view is not None:  # it may name others
            reason = ""
        elif ask.spec.allocation_key in pending.reserving:
            reason = texts.of_reserved(look.state.reservations.of(ask))
        elif queue is None:
            reason = texts.of_held(pending, ask)
        else:
            known = reasons.get(queue)
            reason = reasons[queue] = texts.of(pending, queue) if known is None else known
        requests.append(request(look, ask, reason))
    return requests


def _ended_application(look: Look, entry: EndedApplication) -> types.Application:
    is_rejected = entry.state is ApplicationState.REJECTED
    return types.Application(
        application_id=entry.application_id,
        max_used_resource=used(entry.past.max_used),
        partition=look.core.name,
        queue_name=entry.queue,
        submission_time=look.time(entry.submission_ns),
        finished_time=look.time(entry.finished_ns),
        application_state=entry.state.value,
        user=entry.user,
        groups=list(entry.groups),
        rejected_message=entry.reason if is_rejected else "",
        state_log=[types.StateChange(time=look.time(entry.finished_ns), application_state="Rejected")]
        if is_rejected
        else _state_log(look, entry.past),
        max_request_priority=types.PRIORITY_MIN,
        start_time=_start_ms(entry.past),
        resource_history=_history(look, entry.past),
    )


def _state_log(look: Look, past: Past) -> list[types.StateChange]:
    """Without changes between states that are shown as the same."""
    log: list[types.StateChange] = []
    for at_ns, state in past.states:
        if not log or log[-1].application_state != _state(state):
            log.append(types.StateChange(time=look.time(at_ns), application_state=_state(state)))
    return log


def _start_ms(past: Past) -> int:
    return types.NEVER_STARTED_MS if past.started_ns is None else past.started_ns // MS_NS


def _history(look: Look, past: Past) -> types.ResourceHistory:
    return types.ResourceHistory(
        resource_usage=_by_type(look, past.used),
        preempted_resource=_by_type(look, past.preempted),
        placeholder_resource=_by_type(look, past.placeholders),
    )


def _by_type(look: Look, history: History) -> dict[str, Resource]:
    """A limited reader sees no nodes, and so no types of them."""
    if look.view is None:
        return {instance_type: used(resource) for instance_type, resource in history.items()}
    total: Resource = {}
    for resource in history.values():
        add_to(total, resource)
    return {NO_TYPE: used(total)} if total else {}
