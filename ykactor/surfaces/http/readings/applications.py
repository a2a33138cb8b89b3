"""Applications: with their asks and allocations while they live, and as they are remembered when they have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from ykactor.core.accounting.past import NO_TYPE, History, Past, total
from ykactor.core.messages.states import ApplicationState, Outcome
from ykactor.core.objects.application import Application
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.parts import Pace, Pausing, sorted_in_parts
from ykactor.core.values.resources import Resource, add_to, most
from ykactor.core.values.times import MS_NS, S_NS
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.readings.pending import was_tried
from ykactor.surfaces.http.readings.tasks import allocation, request
from ykactor.wire.rest import types
from ykactor.wire.rest.amounts import limit, used
from ykactor.wire.rest.codec import Item, encode_part, encode_with

#: The values of ``status``: the states of applications that live.
LIVE_STATES = ("new", "accepted", "running", "completing", "failing", "resuming")
#: How states are shown, also one that Apache YuniKorn does not have (AP-40).
_SHOWN = {state: state.value for state in ApplicationState} | {ApplicationState.STARTING: "Running"}
#: An application, and each ask and allocation, takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10
_SMALL_MAX = 20
_NO_HISTORY = types.ResourceHistory()


def are_small(found: Iterable[Application]) -> bool:
    """Whether these and their asks and allocations are so few together that to read them takes less than 1 ms."""
    size = 0
    for application in found:
        size += 1 + len(application.asks) + len(application.allocations)
        if size > _SMALL_MAX:
            return False
    return True


def live(look: Look, queue: QueuePath | None = None, status: str = "") -> Pausing[list[Item]]:
    """The live applications of a leaf, or of all with None, in a state, or in any with ""; encoded, by their submission."""
    found, pace = [], Pace()
    for _, _, application in (yield from sorted_in_parts(_live(look, queue))):
        if status in ("", _SHOWN[application.state].lower()):
            found.append((yield from _live_application(look, application, pace)))
        if pace.is_due(_ENTRY_ITEMS):
            yield ()
    return found


def _live(look: Look, queue: QueuePath | None) -> Iterator[tuple[int, int, Application]]:
    """What is shown, each after what orders it: the submission, and the number of the registration."""
    registry = look.core.registry
    for path in dict.fromkeys(registry.applications.values()) if queue is None else [queue]:
        for application in registry.leaf(path).applications.values() if look.shows(path) else ():
            yield application.submission_ns, application.arrival, application


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


def one(look: Look, application_id: ApplicationID, queue: QueuePath | None = None) -> Pausing[Item | None]:
    """A live application, also only if it is in a queue, encoded; None if there is none."""
    found = look.leaf_of(application_id)
    if found is None or queue not in (None, found):
        return None
    application = look.core.registry.leaf_of(application_id).applications[application_id]
    return (yield from _live_application(look, application, Pace()))


def _live_application(look: Look, application: Application, pace: Pace) -> Pausing[Item]:
    pending, total = look.state.applications[application.application_id], dict[str, int]()
    asks = (yield from _requests(look, pending, total, pace)) if pending.asks else []
    tasks = (yield from _allocations(look, application, pace)) if application.allocations else []
    highest = pending.priorities.highest
    shown = types.Application(
        application_id=application.application_id,
        used_resource=used(pending.allocated),
        max_used_resource=used(most(application.past.max_used, application.used)),
        pending_resource=used(total),
        partition=look.core.name,
        queue_name=application.queue,
        submission_time=look.time(application.submission_ns),
        application_state=_SHOWN[application.state],
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
    return (yield from encode_with(shown, {"requests": asks, "allocations": tasks}))


def _requests(look: Look, pending: PendingApplication, total: dict[str, int], pace: Pace) -> Pausing[list[bytes]]:
    """The pending asks by their arrival, encoded; what they want is added to ``total``."""
    tried: dict[AskQueue | None, bool] = {}
    found: list[bytes] = []
    for _, key in (yield from sorted_in_parts((ask.arrival, key) for key, (ask, _) in pending.asks.items())):
        ask, queue = pending.asks[key]
        add_to(total, ask.spec.resource)
        if queue not in tried:
            tried[queue] = was_tried(look, pending, queue)
        found.append(encode_part(request(look, ask, is_tried=tried[queue] or key in pending.reserving)))
        if pace.is_due(_ENTRY_ITEMS):
            yield ()
    return found


def _allocations(look: Look, application: Application, pace: Pace) -> Pausing[list[bytes]]:
    """What runs by its arrival, encoded."""
    running, found = application.allocations, list[bytes]()
    keys: Iterable[AllocationKey] = running
    if len(running) > 1:
        keys = (key for _, key in (yield from sorted_in_parts((ask.arrival, key) for key, (ask, _) in running.items())))
    for key in keys:
        found.append(encode_part(allocation(look, application, key)))
        if pace.is_due(_ENTRY_ITEMS):
            yield ()
    return found


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
        rejected_message=entry.reason if is_rejected else _outcome(entry.past),
        state_log=[types.StateChange(time=look.time(entry.finished_ns), application_state="Rejected")]
        if is_rejected
        else _state_log(look, entry.past),
        max_request_priority=types.PRIORITY_MIN,
        start_time=_start_ms(entry.past),
        resource_history=_history(look, entry.past),
    )


def _outcome(past: Past) -> str:
    """How an application has ended, if more is to be said than its state."""
    if past.outcome is not Outcome.CANCELLED:
        return past.message
    return f"{past.outcome.value}: {past.message}" if past.message else past.outcome.value


def _state_log(look: Look, past: Past) -> list[types.StateChange]:
    """Without changes between states that are shown as the same."""
    log: list[types.StateChange] = []
    for at_ns, state in past.states:
        shown = _SHOWN[state]
        if not log or log[-1].application_state != shown:
            log.append(types.StateChange(time=look.time(at_ns), application_state=shown))
    return log


def _start_ms(past: Past) -> int:
    return types.NEVER_STARTED_MS if past.started_ns is None else past.started_ns // MS_NS


def _history(look: Look, past: Past) -> types.ResourceHistory:
    if not (past.used or past.preempted or past.placeholders):
        return _NO_HISTORY
    return types.ResourceHistory(
        resource_usage=_by_type(look, past.used),
        preempted_resource=_by_type(look, past.preempted),
        placeholder_resource=_by_type(look, past.placeholders),
    )


def _by_type(look: Look, history: History) -> dict[str, Resource]:
    """A limited reader sees no nodes, and so no types of them."""
    if look.view is None:
        return {instance_type: used(resource) for instance_type, resource in history.items()}
    return {NO_TYPE: used(total(history))} if history else {}


# ---- times as texts


def rfc3339(at_ns: int) -> str:
    """Such as ``2026-01-01T00:00:00.5Z``."""
    seconds, rest = divmod(at_ns, S_NS)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"
