"""A partition's state as plain data, for the final state of a simulation and for the feed's ``Snapshot``.

Read between two cycles only, also during the pauses. Quantities are base units; zero quantities are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, groupby
from typing import Any

from msgspec import to_builtins

from ykactor.core.accounting.account import told
from ykactor.core.accounting.past import Past, total
from ykactor.core.config.model import QueueProperties
from ykactor.core.inspection.pending_asks import pending_asks
from ykactor.core.messages.asks import PREDICATE_TAG, Ask, ask_id, shape_of
from ykactor.core.messages.holds import Hold
from ykactor.core.messages.pending_causes import PendingCause
from ykactor.core.messages.reasons import NAMES_MAX
from ykactor.core.messages.task_record import TaskRecord
from ykactor.core.nodes.predicates import Predicates
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import left_of
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.above_max import above_max
from ykactor.core.state.pending_causes import PendingCauses
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey, QueuePath
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, min_union, saturated, saturated_and_pruned

#: An entry of pending asks takes as long as so many items: 10 us.
_ENTRY_ITEMS = 5
#: One of an application that has ended: 7 us.
_ENDED_ITEMS = 3


def final_state(partition: PartitionCore, state: SchedulerState) -> Pausing[dict[str, Any]]:
    """``queues``, ``applications`` and ``nodes`` in the format of the simulator's ``--final``.

    ``priority`` is the queue's priority as its parent sees it; the lowest int32 when nothing is pending. Ended applications are
    listed, removed ones are not.
    """
    pace = Pace()
    queues = {}
    for path, queue in state.tree.nodes.items():
        queues[path] = _queue_state(partition, queue)
        if pace.is_due():
            yield ()
    applications = {ended.application_id: _state_of(ended) for ended in _ended(partition)}
    for waiting in state.applications.values():
        applications[waiting.application_id] = {"state": waiting.state.value, "queueName": waiting.leaf.path}
    nodes = {}
    for node_id, node in sorted(partition.registry.nodes.items()):
        nodes[node_id] = {
            "allocated": saturated_and_pruned(node.allocated),
            "allocations": sorted([key for _, key in node.allocations] + list(node.foreign)),
            "schedulable": node.schedulable,
            "occupied": saturated_and_pruned(node.occupied),
        }
        if pace.is_due(1 + len(node.allocations)):
            yield ()
    return {"queues": queues, "applications": dict(sorted(applications.items())), "nodes": nodes}


def _ended(partition: PartitionCore) -> Iterable[EndedApplication]:
    """The last of an id is the one that is shown."""
    return chain(partition.timers.rejected.values(), partition.timers.ended.values())


def _state_of(ended: EndedApplication) -> dict[str, Any]:
    return {"state": ended.state.value, "queueName": ended.queue}


def _queue_state(partition: PartitionCore, queue: QueueNode) -> dict[str, Any]:
    return {
        "allocated": saturated_and_pruned(queue.allocated),
        "pending": saturated_and_pruned(queue.pending),
        "priority": PRIORITY_MIN if queue.priority is None else queue.priority,
        "state": partition.registry.queues[queue.path].state.value,
    }


def partition_state(partition: PartitionCore, state: SchedulerState, *, every_ask: bool = False) -> Pausing[dict[str, Any]]:
    """``final_state`` with limits, headroom, shares, policies, capacities, reservations, owners, and why asks are pending.

    Args:
        every_ask: whether ``pendingAsks`` names all that are pending (``pending_asks``).
    """
    shown, pace = (yield from final_state(partition, state)), Pace()
    headrooms: dict[QueuePath, Resource | None] = {}
    guarantees: dict[QueuePath, Resource | None] = {}
    for path, queue in state.tree.nodes.items():  # parents before children
        config, parent = queue.config, queue.parent
        headrooms[path] = min_union(left_of(queue.max, queue.allocated), headrooms[parent.path] if parent else None)
        guarantees[path] = min_union(config.guaranteed, guarantees[parent.path] if parent else None)
        shown["queues"][path] |= {
            "isManaged": config.managed,
            "max": None if queue.max is None else saturated(queue.max),
            "headroom": None if headrooms[path] is None else saturated(headrooms[path] or {}),
            "guaranteed": config.guaranteed,
            "actualGuaranteed": guarantees[path],
            "share": queue.share,
            "maxApplications": config.max_applications,
            "runningApplications": len(queue.running),
            "isLeaf": queue.is_leaf,
            **_policies(config.properties),
            **_held(queue.hold),
            **_above_max(state, queue),
        }
        if pace.is_due():
            yield ()
    if state.enforces_quotas():
        for queue, start_ns in state.clocks.starts.items():
            shown["queues"][queue.path]["quotaPreemptionStartTime"] = start_ns
    for node_id, node in partition.registry.nodes.items():
        shown["nodes"][node_id] |= {
            "capacity": node.capacity,
            "available": saturated(node.available),
            "reservations": [reservation.ask.spec.allocation_key for reservation in state.reservations.on(node_id)],
        }
        if pace.is_due():
            yield ()
    for ended in _ended(partition):
        if ended.application_id not in state.applications:
            shown["applications"][ended.application_id] = _state_of(ended) | _past_of(ended)
        if pace.is_due(_ENDED_ITEMS + len(ended.past.records)):
            yield ()
    causes = PendingCauses(state)
    for waiting in state.applications.values():
        entry = shown["applications"][waiting.application_id]
        entry |= _application_state(state, waiting, causes) | _tasks(partition, waiting)
        if pace.is_due(_ENTRY_ITEMS * (1 + len(waiting.queues)) + len(entry["allocations"]) + len(entry.get("records", ()))):
            yield ()
    limits = [_limit_state(tracker) for _, tracker in sorted(state.trackers.in_use.items())]
    predicates, preemption = _predicates_state(state.nodes.predicates), _preemption_state(state)
    asks = {"pendingAsks": (yield from pending_asks(state))} if every_ask else {}
    return {"name": partition.name, **shown, **asks, "limits": limits, "predicates": predicates, "preemption": preemption}


def _application_state(state: SchedulerState, waiting: PendingApplication, causes: PendingCauses) -> dict[str, Any]:
    """Of a live application; ``priority`` is that of its most important pending ask, the lowest int32 when nothing is pending."""
    highest = waiting.priorities.highest
    return {
        "user": waiting.who.user,
        "groups": list(waiting.who.groups),
        "submissionTime": waiting.submission_ns,
        "priority": PRIORITY_MIN if highest is None else highest,
        "allocated": saturated_and_pruned(waiting.allocated),
        "pending": _pending(state, waiting, causes),
        **_held(waiting.hold),
    }


def _past_of(ended: EndedApplication) -> dict[str, Any]:
    """What is known of an application that has ended or was refused; what is nothing or not known is left out.

    ``usedSeconds`` are the resource-seconds of all its tasks, ``lostSeconds`` the part of those that were preempted (``told``).
    """
    past = ended.past
    found: dict[str, Any] = {
        "user": ended.user,
        "groups": list(ended.groups),
        "submissionTime": ended.submission_ns,
        "startTime": past.first_start_ns(),
        "finishedTime": ended.finished_ns,
        "lastWorkTime": past.last_work_ns(),
        "outcome": past.outcome and past.outcome.value,
        "reason": ended.reason or past.message or past.failure,
        "usedSeconds": told(total(past.used, past.preempted, past.placeholders)),
        "lostSeconds": told(total(past.preempted)),
        **_records(past),
    }
    return {key: value for key, value in found.items() if value}


def _records(past: Past) -> dict[str, Any]:
    """How its tasks have ended, the oldest first (AP-152); {} if nothing was said of them."""
    return {"records": [_record(record) for record in past.records.values()]} if past.records else {}


def _record(record: TaskRecord) -> dict[str, Any]:
    """What is not known is left out."""
    found = {
        "allocationKey": record.allocation_key,
        "nodeID": record.node_id or None,
        "state": record.state.value,
        "exitCode": record.exit_code,
        "signal": record.signal or None,
        "startTime": record.started_ns or None,
        "finishedTime": record.finished_ns or None,
        "peakMemory": record.peak_memory,
    }
    return {key: value for key, value in found.items() if value is not None}


def _held(hold: Hold | None) -> dict[str, Any]:
    """Who holds an application or a queue itself, and since when, in Unix nanoseconds; {} if nobody does."""
    return {} if hold is None else {"held": {"by": hold.by, "since": hold.since_ns}}


def _above_max(state: SchedulerState, queue: QueueNode) -> dict[str, Any]:
    """How far the queue is above its max, and why it stays there; {} if it is not."""
    found = above_max(state, queue)
    return {} if found is None else {"aboveMax": {"resource": saturated(found.amounts), "reason": found.reason}}


def _policies(properties: QueueProperties) -> dict[str, Any]:
    """How the queue orders its content, and what it shows of it to its parent and to preemption."""
    return {
        "sortPolicy": properties.sort_policy,
        "priorityPolicy": "fence" if properties.priority_fence else "default",
        "priorityOffset": properties.priority_offset,
        "preemptionPolicy": properties.preemption_policy,
    }


def _tasks(partition: PartitionCore, waiting: PendingApplication) -> dict[str, Any]:
    """On which node each task runs.

    ``replacing`` are the real asks that have left the pending ones and do not run yet: the release of their placeholder is not
    confirmed.
    """
    application = partition.registry.leaf(waiting.leaf.path).applications.get(waiting.application_id)
    if application is None:
        return {"allocations": {}}
    tasks: dict[str, Any] = {"allocations": {key: node_id for key, (_, node_id) in application.allocations.items()}}
    if application.gang.replacing:
        tasks["replacing"] = [
            {"allocationKey": ask.spec.allocation_key, "placeholder": placeholder, "nodeID": node_id}
            for placeholder, (ask, node_id) in application.gang.replacing.items()
        ]
    return tasks | _records(application.past)


def _predicates_state(predicates: Predicates) -> dict[str, Any]:
    """Of each predicate class: on how many nodes it was asked, passed and refused; ``allocate`` as in SC-120."""
    return {
        "isAnswered": predicates.is_answered,
        "classes": [
            {"predicate": predicate, "allocate": allocate, "asked": asked, "passed": passed, "refused": refused}
            for (predicate, allocate), asked, passed, refused in predicates.counts()
        ],
    }


def _preemption_state(state: SchedulerState) -> dict[str, Any]:
    """The counters of preemption, and the current numbers of attempts and victims."""
    preemptions = state.preemptions
    return {
        "enabled": state.preempts(),
        "preemptions": preemptions.counts.preemptions,
        "evictions": preemptions.counts.evictions,
        "inVain": preemptions.counts.in_vain,
        "refused": preemptions.counts.refused,
        "workLost": saturated_and_pruned(preemptions.counts.work_lost),
        "preemptors": len(preemptions.by_ask),
        "victims": len(preemptions.victims),
    }


def _limit_state(tracker: Tracker) -> dict[str, Any]:
    return {
        "queue": tracker.path,
        "whose": str(tracker.whose),
        "max": tracker.limit,
        "allocated": saturated_and_pruned(tracker.allocated),
        "maxApplications": tracker.max_applications,
        "applications": sorted(tracker.applications),
    }


def _pending(state: SchedulerState, waiting: PendingApplication, causes: PendingCauses) -> list[dict[str, Any]]:
    """An entry for asks that wait for the same reason; ``priority`` is the highest of their own."""
    pending: list[dict[str, Any]] = [
        {
            **_why(causes.of(waiting, queue)),
            "count": len(queue),
            "priority": queue.first().spec.priority,
            "resource": dict(queue.needs),
            **_examples(queue.items(NAMES_MAX)),
            **(_attempts(state, queue.first()) if _is_short(queue) else {}),
        }
        for queue in waiting.queues.values()
        if queue.key[1] != HAS_NODE
    ]
    groups = [list(asks) for _, asks in groupby(_held_asks(waiting), _group_of)]
    held = [_same_cause(causes.of_held(waiting, asks[0]), asks) for asks in groups]
    reserved = [
        _same_cause(causes.of_reserved(reservation), [reservation.ask]) | _attempts(state, reservation.ask)
        for reservation in _reservations(state, waiting)
    ]
    return pending + held + reserved


def _group_of(ask: Ask) -> tuple[str, str]:
    return ask.spec.task_group_name, ask.spec.tags.get(PREDICATE_TAG, "")


def _held_asks(waiting: PendingApplication) -> list[Ask]:
    """Real asks that wait for placeholders, sorted by task group."""
    return sorted(waiting.gang.held.items(), key=_group_of) if waiting.gang is not None else []


def _reservations(state: SchedulerState, waiting: PendingApplication) -> list[Reservation]:
    return [state.reservations.of(ask) for ask in waiting.reserving.values()]


def _is_short(queue: AskQueue) -> bool:
    """Whether the asks wait for resources, not for their turn, a running slot or a limit of a user or group (PE-73)."""
    if queue.ask_class is None or queue.ask_class.shortage is None:
        return queue.ask_class is not None
    short, name = queue.ask_class.shortage
    return bool(name) and not isinstance(short, Tracker)


def _attempts(state: SchedulerState, ask: Ask) -> dict[str, Any]:
    """Unix times in nanoseconds of the last failed and the next attempt of an ask that may preempt; {} for others."""
    if not (state.preempts() and ask.spec.allow_preempt_other) or shape_of(ask.spec)[1] is not None:
        return {}
    if ask_id(ask) in state.preemptions.by_ask:
        return {}
    last, properties = state.preemptions.last_attempt(ask), state.applications[ask.spec.application_id].leaf.config.properties
    next_ns = max(ask.since_ns + properties.preemption_delay_ns, state.preemptions.next_attempt_ns(ask))
    return {"lastAttempt": None if last is None else last.at_ns, "nextAttempt": next_ns}


def _why(cause: PendingCause) -> dict[str, Any]:
    """Why asks are pending, for people and for programs (AP-150)."""
    why: dict[str, Any] = {"reason": cause.text, "code": cause.code.value}
    if cause.place is not None:
        why["place"] = to_builtins(cause.place)
    if cause.left_out:
        why["leftOut"] = cause.left_out
    return why


def _same_cause(cause: PendingCause, asks: list[Ask]) -> dict[str, Any]:
    return {
        **_why(cause),
        "count": len(asks),
        "priority": max(ask.spec.priority for ask in asks),
        "resource": dict(asks[0].spec.resource),
        **_examples(asks[:NAMES_MAX]),
    }


def _examples(asks: Iterable[Ask]) -> dict[str, Any]:
    """The keys of asks, and since when each is pending: their creation, Unix nanoseconds."""
    named = list(asks)
    return {
        "allocationKeys": [ask.spec.allocation_key for ask in named],
        "creationTimes": [ask.created_ns for ask in named],
    }


def waiting_asks(state: SchedulerState) -> list[tuple[AllocationKey, QueuePath, str]]:
    """(allocation key, queue, reason) of every pending ask."""
    causes = PendingCauses(state)
    in_classes = [
        (ask.spec.allocation_key, waiting.leaf.path, cause.text)
        for waiting in state.applications.values()
        for queue in waiting.queues.values()
        if queue.key[1] != HAS_NODE
        for cause in [causes.of(waiting, queue)]
        for ask in queue.items()
    ]
    held = [
        (ask.spec.allocation_key, waiting.leaf.path, causes.of_held(waiting, ask).text)
        for waiting in state.applications.values()
        for ask in _held_asks(waiting)
    ]
    reserved = [
        (reservation.ask.spec.allocation_key, state.leaf_of(reservation.application).path, causes.of_reserved(reservation).text)
        for reservation in state.reservations.by_ask.values()
    ]
    return in_classes + held + reserved
