"""A partition's state for followers, and the one that a simulation ends with.

Read between two cycles only, also during the pauses. Quantities are base units; zero quantities are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from msgspec import UNSET, structs

from ykactor.core.inspection import node_status, queue_status
from ykactor.core.inspection.application_status import ApplicationStatus, ended_status, live_status
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.partition_status import (
    LimitStatus,
    PartitionStatus,
    PredicatesStatus,
    PredicateStatus,
    PreemptionStatus,
)
from ykactor.core.inspection.pending_asks import pending_asks, pending_groups
from ykactor.core.inspection.queue_status import AboveMaxStatus, QueueStatus
from ykactor.core.inspection.shown import Shown, narrowed
from ykactor.core.nodes.predicates import Predicates
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.above_max import above_max
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, saturated, saturated_and_pruned
from ykactor.core.waiting.causes import PendingCauses

#: An entry of pending asks takes as long as so many items: 10 us.
_ENTRY_ITEMS = 5
#: The same of an application that has ended: 7 us.
_ENDED_ITEMS = 3


def partition_state(partition: PartitionCore, state: SchedulerState, *, every_ask: bool = False) -> Steps[PartitionStatus]:
    """The state of a partition for followers.

    Args:
        every_ask: True if ``pending_asks`` names all pending asks.
    """
    queues = yield from queue_statuses(partition, state)
    return PartitionStatus(
        name=partition.name,
        queues=queues,
        applications=(yield from _applications(partition, state, queues)),
        nodes=(yield from node_statuses(partition, state)),
        pending_asks=(yield from pending_asks(state)) if every_ask else UNSET,
        limits=[_limit(tracker) for _, tracker in sorted(state.trackers.in_use.items())],
        predicates=_predicates(state.nodes.predicates),
        preemption=_preemption(state),
    )


def queue_statuses(partition: PartitionCore, state: SchedulerState) -> Steps[dict[str, QueueStatus]]:
    """The queues by path, parents before their children."""
    queues: dict[str, QueueStatus] = {}
    pending_asks = yield from _count_pending(state)
    for path, queue in state.tree.nodes.items():  # parents before children
        status, excess = queue_status.queue_status(partition.registry, state, queue, queues), above_max(state, queue)
        queues[path] = structs.replace(
            status,
            above_max=UNSET if excess is None else AboveMaxStatus(resource=saturated(excess.amounts), reason=excess.reason),
            pending_asks=pending_asks[path],
        )
        yield 1
    return queues


def _count_pending(state: SchedulerState) -> Steps[Counter[str]]:
    """The number of pending asks in each queue and below, by its path."""
    counts: Counter[str] = Counter()
    for waiting in state.applications.values():
        if waiting.asks:
            for queue in waiting.leaf.path_up:
                counts[queue.path] += len(waiting.asks)
        yield 1
    return counts


def _applications(
    partition: PartitionCore, state: SchedulerState, queues: dict[str, QueueStatus]
) -> Steps[dict[str, ApplicationStatus]]:
    """The applications by id; if several have ended with one id, the last one."""
    found: dict[str, ApplicationStatus] = {}
    for ended in ended_applications(partition):
        found[ended.application_id] = ended_status(ended)
        yield _ENDED_ITEMS + len(ended.past.records)
    causes = PendingCauses(state)
    for waiting in state.applications.values():
        shown = live_status(partition.registry, waiting, pending_groups(state, waiting, causes, queues), queues)
        found[waiting.application_id] = shown
        tasks = len(shown.allocations or ()) + len(shown.records or ())
        yield _ENTRY_ITEMS * (1 + len(waiting.queues)) + tasks
    return dict(sorted(found.items()))


def ended_applications(partition: PartitionCore) -> Iterable[EndedApplication]:
    """The applications that were refused or have ended, and are remembered."""
    return chain(partition.timers.rejected.values(), partition.timers.ended.values())


def node_statuses(partition: PartitionCore, state: SchedulerState) -> Steps[dict[str, NodeStatus]]:
    """The nodes by their ids."""
    nodes: dict[str, NodeStatus] = {}
    for node_id, node in sorted(partition.registry.nodes.items()):
        nodes[node_id] = node_status.node_status(node, state.reservations)
        yield 1 + len(node.allocations)
    return nodes


def _limit(tracker: Tracker) -> LimitStatus:
    return LimitStatus(
        queue=tracker.path,
        whose=str(tracker.whose),
        max=tracker.max,
        allocated=saturated_and_pruned(tracker.allocated),
        max_applications=tracker.max_applications,
        applications=sorted(tracker.applications),
    )


def _predicates(predicates: Predicates) -> PredicatesStatus:
    return PredicatesStatus(
        is_answered=predicates.is_answered,
        classes=[
            PredicateStatus(predicate=predicate, allocate=allocate, asked=asked, passed=passed, refused=refused)
            for (predicate, allocate), asked, passed, refused in predicates.counts()
        ],
    )


def _preemption(state: SchedulerState) -> PreemptionStatus:
    preemptions = state.preemptions
    return PreemptionStatus(
        enabled=state.preempts(),
        preemptions=preemptions.counts.preemptions,
        evictions=preemptions.counts.evictions,
        in_vain=preemptions.counts.in_vain,
        refused=preemptions.counts.refused,
        work_lost=saturated_and_pruned(preemptions.counts.work_lost),
        preemptors=len(preemptions.by_ask),
        victims=len(preemptions.victims),
    )


class FinalQueue(Shown, frozen=True, kw_only=True):
    """A queue, with fields of its status."""

    allocated: Resource
    pending: Resource
    priority: int
    state: str


class FinalApplication(Shown, frozen=True, kw_only=True):
    """An application; one that was refused before it had a queue has none."""

    state: str
    queue_name: str


class FinalNode(Shown, frozen=True, kw_only=True):
    """A node, with fields of its status."""

    allocated: Resource
    allocations: list[str]
    schedulable: bool
    occupied: Resource


class FinalState(Shown, frozen=True, kw_only=True):
    """The queues, applications and nodes of a partition. Ended applications are listed, removed ones are not."""

    queues: dict[str, FinalQueue]
    applications: dict[str, FinalApplication]
    nodes: dict[str, FinalNode]


class FinalStates(Shown, frozen=True, kw_only=True):
    """The final states of several partitions, by name."""

    partitions: dict[str, FinalState]


def final_state(partition: PartitionCore, state: SchedulerState) -> Steps[FinalState]:
    """The final state of a partition."""
    queues, nodes = (yield from queue_statuses(partition, state)), (yield from node_statuses(partition, state))
    applications = {ended.application_id: (ended.state.value, ended.queue) for ended in ended_applications(partition)}
    live = {waiting.application_id: (waiting.state.value, waiting.leaf.path) for waiting in state.applications.values()}
    return FinalState(
        queues={path: narrowed(FinalQueue, queue) for path, queue in queues.items()},
        applications={
            name: FinalApplication(state=shown, queue_name=queue)
            for name, (shown, queue) in sorted((applications | live).items())
        },
        nodes={node_id: narrowed(FinalNode, node) for node_id, node in nodes.items()},
    )
