"""A partition's state as plain data: the final state of a simulation, the feed's ``Snapshot``, and what people look at.

Read between two cycles only. Quantities are base units; zero quantities are left out.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any

from ykactor.core.messages.asks import PREDICATE_TAG, Ask, ask_id, shape_of
from ykactor.core.nodes.predicates import Predicates
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.planner.explain import explain
from ykactor.core.preemption.attempts import PreemptionAttempt
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import left_of
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource, min_union, pruned, saturated

#: Examples of waiting asks that a snapshot names for each reason and application.
_EXAMPLES_MAX = 3


def _shown(resource: Resource) -> Resource:
    return saturated(pruned(resource))


def final_state(partition: PartitionCore, state: SchedulerState) -> dict[str, Any]:
    """``queues``, ``applications`` and ``nodes`` in the format of the simulator's ``--final``.

    ``priority`` is what the parent sees, the lowest int32 when nothing is pending. Ended applications are listed, removed ones
    are not.
    """
    queues = {path: _queue_state(partition, account) for path, account in state.tree.nodes.items()}
    applications = {
        ended.application_id: {"state": ended.state.value, "queueName": ended.queue}
        for ended in [*partition.timers.rejected.values(), *partition.timers.ended.values()]
    }
    for waiting in state.applications.values():
        applications[waiting.application_id] = {"state": waiting.state.value, "queueName": waiting.leaf.path}
    nodes = {
        node_id: {
            "allocated": _shown(node.allocated),
            "allocations": sorted([key for _, key in node.allocations] + list(node.foreign)),
            "schedulable": node.schedulable,
            "occupied": _shown(node.occupied),
        }
        for node_id, node in sorted(partition.registry.nodes.items())
    }
    return {"queues": queues, "applications": dict(sorted(applications.items())), "nodes": nodes}


def _queue_state(partition: PartitionCore, account: QueueNode) -> dict[str, Any]:
    return {
        "allocated": _shown(account.allocated),
        "pending": _shown(account.pending),
        "priority": PRIORITY_MIN if account.priority is None else account.priority,
        "state": partition.registry.queues[account.path].state.value,
    }


def partition_state(partition: PartitionCore, state: SchedulerState) -> dict[str, Any]:
    """All of ``final_state`` and what a follower wants to know beside it: limits, shares, capacities, and why asks wait."""
    shown = final_state(partition, state)
    headrooms: dict[QueuePath, Resource | None] = {}
    guarantees: dict[QueuePath, Resource | None] = {}
    for path, account in state.tree.nodes.items():  # parents before children
        config, parent = account.config, account.parent
        headrooms[path] = min_union(left_of(account.max, account.allocated), headrooms[parent.path] if parent else None)
        guarantees[path] = min_union(config.guaranteed, guarantees[parent.path] if parent else None)
        shown["queues"][path] |= {
            "isManaged": config.managed,
            "max": None if account.max is None else saturated(account.max),
            "headroom": headrooms[path],
            "guaranteed": config.guaranteed,
            "actualGuaranteed": guarantees[path],
            "share": account.share,
            "maxApplications": config.max_applications,
            "runningApplications": len(account.running),
            "isLeaf": account.is_leaf,
        }
    if state.enforces_quotas():
        for account, start_ns in state.clocks.starts.items():
            shown["queues"][account.path]["quotaPreemptionStartTime"] = start_ns
    for node_id, node in partition.registry.nodes.items():
        shown["nodes"][node_id] |= {
            "capacity": node.capacity,
            "available": saturated(node.available),
            "reservations": [it.ask.spec.allocation_key for it in state.reservations.on(node_id)],
        }
    for waiting in state.applications.values():
        shown["applications"][waiting.application_id]["pending"] = _pending(state, waiting)
    limits = [_limit_state(tracker) for _, tracker in sorted(state.trackers.held.items())]
    predicates, preemption = _predicates_state(state.nodes.predicates), _preemption_state(state)
    return {"name": partition.name, **shown, "limits": limits, "predicates": predicates, "preemption": preemption}


def _predicates_state(predicates: Predicates) -> dict[str, Any]:
    """On how many nodes the resource manager has let each class run, or not; ``allocate`` as in SC-120."""
    return {
        "isAnswered": predicates.is_answered,
        "classes": [
            {"predicate": predicate, "allocate": allocate, "asked": asked, "passed": passed, "refused": refused}
            for (predicate, allocate), asked, passed, refused in predicates.counts()
        ],
    }


def _preemption_state(state: SchedulerState) -> dict[str, Any]:
    """What came of preemption so far, and how many asks and victims it is about now."""
    preemptions = state.preemptions
    return {
        "enabled": state.preempts(),
        "preemptions": preemptions.counts.preemptions,
        "evictions": preemptions.counts.evictions,
        "inVain": preemptions.counts.in_vain,
        "refused": preemptions.counts.refused,
        "workLost": _shown(preemptions.counts.work_lost),
        "preemptors": len(preemptions.by_ask),
        "victims": len(preemptions.victims),
    }


def _limit_state(tracker: Tracker) -> dict[str, Any]:
    return {
        "queue": tracker.path,
        "whose": str(tracker.whose),
        "max": tracker.limit,
        "allocated": _shown(tracker.allocated),
        "maxApplications": tracker.max_applications,
        "applications": sorted(tracker.applications),
    }


def _pending(state: SchedulerState, waiting: PendingApplication) -> list[dict[str, Any]]:
    pending: list[dict[str, Any]] = [
        {
            "reason": explain(waiting, queue, state.preemptions),
            "count": len(queue),
            "resource": dict(queue.needs),
            "allocationKeys": [ask.spec.allocation_key for ask in queue.items(_EXAMPLES_MAX)],
            **(_attempts(state, queue.first()) if _is_short(queue) else {}),
        }
        for queue in waiting.queues.values()
        if queue.key[1] != HAS_NODE
    ]
    held = [_alike(_waits_for(*group), list(asks)) for group, asks in groupby(_held_asks(waiting), _group_of)]
    reserved = [
        _alike(_keeps(state, it), [it.ask]) | _attempts(state, it.ask) for it in _reservations(state, waiting)
    ]
    return pending + held + reserved


def _group_of(ask: Ask) -> tuple[str, str]:
    return ask.spec.task_group_name, ask.spec.tags.get(PREDICATE_TAG, "")


def _held_asks(waiting: PendingApplication) -> list[Ask]:
    """Real asks that wait for placeholders, group by group."""
    return sorted(waiting.gang.held.items(), key=_group_of) if waiting.gang is not None else []


def _reservations(state: SchedulerState, waiting: PendingApplication) -> list[Reservation]:
    return [state.reservations.of(ask) for ask in waiting.reserving.values()]


def _keeps(state: SchedulerState, reservation: Reservation) -> str:
    attempt = state.preemptions.by_ask.get(ask_id(reservation.ask))
    if attempt is not None:
        return f"node {reservation.node.node_id} is kept for it; {_progress(attempt)}"
    tried = state.preemptions.last_attempt(reservation.ask)
    came_of_it = f"; {tried.why}" if tried is not None and tried.why else ""
    return f"node {reservation.node.node_id} is kept for it until it has room{came_of_it}"


def _progress(attempt: PreemptionAttempt) -> str:
    left = len(attempt.waits_for)
    gone = f"{attempt.victims_count - left} of {attempt.victims_count} that were told to go for it have gone"
    if not left:
        return gone
    names = [f"{key} of {application_id}" for application_id, key in islice(attempt.waits_for, _EXAMPLES_MAX)]
    more = f" and {left - len(names)} more" if left > len(names) else ""
    return f"{gone}, it waits for {', '.join(names)}{more}"


def _is_short(queue: AskQueue) -> bool:
    """Whether it is room that the asks wait for, not their turn, a running slot or a limit of a user or group (PE-73)."""
    if queue.ask_class is None or isinstance(queue.ask_class.reason, str):
        return queue.ask_class is not None
    short, name = queue.ask_class.reason
    return bool(name) and not isinstance(short, Tracker)


def _attempts(state: SchedulerState, ask: Ask) -> dict[str, Any]:
    """When an ask that may preempt tried in vain, and the Unix time in nanoseconds of its next attempt if it still waits then."""
    if not (state.preempts() and ask.spec.allow_preempt_other) or shape_of(ask.spec)[1] is not None:
        return {}
    if ask_id(ask) in state.preemptions.by_ask:
        return {}
    tried, properties = state.preemptions.last_attempt(ask), state.applications[ask.spec.application_id].leaf.config.properties
    next_ns = max(ask.since_ns + properties.preemption_delay_ns, state.preemptions.next_attempt_ns(ask))
    return {"lastAttempt": None if tried is None else tried.at_ns, "nextAttempt": next_ns}


def _alike(reason: str, asks: list[Ask]) -> dict[str, Any]:
    return {
        "reason": reason,
        "count": len(asks),
        "resource": dict(asks[0].spec.resource),
        "allocationKeys": [ask.spec.allocation_key for ask in asks[:_EXAMPLES_MAX]],
    }


def _waits_for(group: str, predicate: str) -> str:
    where = f" on a node where the resource manager lets class {predicate} run" if predicate else ""
    return f"waits for a placeholder of task group {group}{where}"


def waiting_asks(state: SchedulerState) -> list[tuple[str, str, str]]:
    """(allocation key, queue, reason) of every ask that waits."""
    lined_up = [
        (str(ask.spec.allocation_key), str(waiting.leaf.path), reason)
        for waiting in state.applications.values()
        for queue in waiting.queues.values()
        if queue.key[1] != HAS_NODE
        for reason in [explain(waiting, queue, state.preemptions)]
        for ask in queue.items()
    ]
    held = [
        (ask.spec.allocation_key, waiting.leaf.path, _waits_for(*_group_of(ask)))
        for waiting in state.applications.values()
        for ask in _held_asks(waiting)
    ]
    reserved = [
        (it.ask.spec.allocation_key, state.leaf_of(it.application).path, _keeps(state, it))
        for it in state.reservations.by_ask.values()
    ]
    return lined_up + held + reserved
