"""The pending asks of a partition with their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, groupby

from msgspec import UNSET, structs

from ykactor.core.inspection.application_status import AsksPart, PendingStatus
from ykactor.core.inspection.queue_status import QueueStatus, effective_priority
from ykactor.core.messages.asks import PREDICATE_TAG, Ask, AskID, ask_id, shape_of
from ykactor.core.messages.kinds import WaitingCause
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.waits import Waited
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey, QueuePath
from ykactor.core.values.parts import Steps, in_parts, sorted_in_parts
from ykactor.core.values.resources import Resource
from ykactor.core.values.words import NAMES_MAX
from ykactor.core.waiting.causes import PendingCauses, is_held, pending_of
from ykactor.core.waiting.reasons import PendingCause

#: What the attempt to place an ask has found; everything else keeps it back before it is tried.
_FOUND_BY_TRYING = frozenset((WaitingCause.QUEUE, WaitingCause.NODES, WaitingCause.PREDICATE, WaitingCause.RESERVED))


def pending_groups(
    state: SchedulerState, waiting: PendingApplication, causes: PendingCauses, queues: Mapping[str, QueueStatus]
) -> list[PendingStatus]:
    """The pending asks of an application, one entry for all that are pending for the same reason."""
    pending = [_of_queue(state, waiting, queue, causes) for queue in waiting.queues.values() if queue.key[1] != HAS_NODE]
    groups = [list(asks) for _, asks in groupby(_held_asks(waiting), _group_of)]
    held = [_same_cause(causes.of_held(waiting, asks[0]), asks) for asks in groups]
    reserved = [
        _with_attempts(state, reservation.ask, _same_cause(causes.of_reserved(reservation), [reservation.ask]))
        for reservation in _reservations(state, waiting)
    ]
    path = waiting.leaf.path
    found = pending + held + reserved
    return [structs.replace(group, effective_priority=effective_priority(group.priority, path, queues)) for group in found]


def _of_queue(state: SchedulerState, waiting: PendingApplication, queue: AskQueue, causes: PendingCauses) -> PendingStatus:
    first = queue.first()
    group = _group(causes.of(waiting, queue), list(queue.items(NAMES_MAX)), len(queue), first.priority, dict(queue.needs))
    return _with_attempts(state, first, group) if _is_short(queue) else group


def _group(cause: PendingCause, named: list[Ask], count: int, priority: int, resource: Resource) -> PendingStatus:
    """The entry of a cause; it names the first of its asks."""
    return PendingStatus(
        reason=cause.text,
        code=cause.code.value,
        place=UNSET if cause.place is None else cause.place,
        left_out=dict(cause.left_out) or UNSET,
        allocation_keys=[ask.allocation_key for ask in named],
        creation_times=[ask.created_ns for ask in named],
        oldest_time=min(ask.created_ns for ask in named),
        count=count,
        priority=priority,
        resource=dict(resource),
    )


def _same_cause(cause: PendingCause, asks: list[Ask]) -> PendingStatus:
    return _group(cause, asks[:NAMES_MAX], len(asks), max(ask.priority for ask in asks), asks[0].resource)


def _group_of(ask: Ask) -> tuple[str, str]:
    return ask.task_group_name, ask.tags.get(PREDICATE_TAG, "")


def _held_asks(waiting: PendingApplication) -> list[Ask]:
    """Real asks that wait for placeholders, sorted by task group."""
    return sorted(waiting.gang.held.items(), key=_group_of) if waiting.gang is not None else []


def _reservations(state: SchedulerState, waiting: PendingApplication) -> list[Reservation]:
    return [state.reservations.of(ask) for ask in waiting.reserving.values()]


def _is_short(queue: AskQueue) -> bool:
    """True if the asks wait for resources, not for their turn, a running slot or a limit of a user or group (PE-73)."""
    if queue.ask_class is None or queue.ask_class.shortage is None:
        return queue.ask_class is not None
    short, name = queue.ask_class.shortage
    return bool(name) and not isinstance(short, Tracker)


def _with_attempts(state: SchedulerState, ask: Ask, group: PendingStatus) -> PendingStatus:
    """The group of an ask with the times of its last failed and its next attempt to preempt, if it may."""
    if not (state.preempts() and ask.allow_preempt_other) or shape_of(ask)[1] is not None:
        return group
    if ask_id(ask) in state.preemptions.by_ask:
        return group
    last, properties = state.preemptions.last_attempt(ask), state.applications[ask.application_id].leaf.config.properties
    next_ns = max(ask.since_ns + properties.preemption_delay_ns, state.preemptions.next_attempt_ns(ask))
    return structs.replace(group, last_attempt=None if last is None else last.at_ns, next_attempt=next_ns)


def pending_causes(state: SchedulerState, waiting: PendingApplication) -> Steps[list[tuple[Ask, PendingCause]]]:
    """Each pending ask of an application with its cause, by their arrival."""
    causes = PendingCauses(state)
    found: list[tuple[Ask, PendingCause]] = []
    for _, key in (yield from sorted_in_parts((ask.arrival, key) for key, (ask, _) in waiting.asks.items())):
        found.append((waiting.asks[key][0], causes.of_ask(waiting, key)))
        yield 1
    return found


def was_tried(state: SchedulerState, waiting: PendingApplication, queue: AskQueue | None) -> bool:
    """True if the scheduler has tried to place the asks of a queue of the application; None: those that wait for placeholders."""
    if queue is None or queue.ask_class is None or is_held(state, waiting):
        return False
    cause = pending_of(state, waiting, queue).cause
    return cause in _FOUND_BY_TRYING or (cause is WaitingCause.UNTRIED and not queue.ask_class.is_new())


def waiting_asks(state: SchedulerState) -> list[tuple[AllocationKey, QueuePath, str]]:
    """(allocation key, queue, reason) of every pending ask."""
    causes = PendingCauses(state)
    in_classes = [
        (ask.allocation_key, waiting.leaf.path, cause.text)
        for waiting in state.applications.values()
        for queue in waiting.queues.values()
        if queue.key[1] != HAS_NODE
        for cause in [causes.of(waiting, queue)]
        for ask in queue.items()
    ]
    held = [
        (ask.allocation_key, waiting.leaf.path, causes.of_held(waiting, ask).text)
        for waiting in state.applications.values()
        for ask in _held_asks(waiting)
    ]
    reserved = [
        (reservation.ask.allocation_key, state.leaf_of(reservation.application).path, causes.of_reserved(reservation).text)
        for reservation in state.reservations.by_ask.values()
    ]
    return in_classes + held + reserved


def waited_until(state: SchedulerState, until_ns: int) -> dict[AskID, Waited]:
    """Sum up what every pending ask has waited for up to then (AP-154)."""
    return {
        ask_id(ask): waiting.waited(ask, until_ns) for waiting in state.applications.values() for ask, _ in waiting.asks.values()
    }


def pending_asks(state: SchedulerState) -> Steps[dict[str, AsksPart]]:
    """The keys and creation times (Unix ns) of all pending asks, in numbered parts, each of one application."""
    found: dict[str, AsksPart] = {}
    for waiting in state.applications.values():
        for asks in in_parts(_asks_of(waiting)):
            found[str(len(found))] = AsksPart(
                application_id=waiting.application_id,
                allocation_keys=[ask.allocation_key for ask in asks],
                creation_times=[ask.created_ns for ask in asks],
            )
            yield len(asks)
    return found


def _asks_of(waiting: PendingApplication) -> Iterator[Ask]:
    """The asks in queues, those that wait for placeholders, and those with a reservation."""
    queues = (queue for queue in waiting.queues.values() if queue.key[1] != HAS_NODE)
    held = waiting.gang.held if waiting.gang is not None else ()
    return chain(chain.from_iterable(queues), held, waiting.reserving.values())
