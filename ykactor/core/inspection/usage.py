"""Invariants of usage: amounts, shares, priorities, slots and limits agree with the applications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.inspection.applications import _shown_priority
from ykactor.core.inspection.checks import differs, differs_in, total_of
from ykactor.core.messages.states import COUNTED_AS_RUNNING
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import Priority, queue_priority
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import Resource, pruned


def tree(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that the tree has each queue with its settings, and the max of root is the capacity of all nodes (QU-30)."""
    tree = state.tree
    yield from differs("ledger", "the set of queues", list(tree.nodes), list(registry.queues))
    total = total_of(node.capacity for node in registry.nodes.values())
    offered = total if any(quantity > 0 for quantity in total.values()) else None
    yield from differs("ledger", "the cluster's total", tree.root_max, offered)
    for path, queue in tree.nodes.items():
        core = registry.queues.get(path)
        if core is not None:
            limit = core.config.max if queue.parent else tree.root_max
            yield from differs(f"queue {path}", "is_leaf", queue.is_leaf, isinstance(core, LeafCore))
            yield from differs(f"queue {path}", "the configuration", queue.config, core.config)
            yield from differs(f"queue {path}", "max", queue.max, limit)
            yield from differs(f"queue {path}", "the hold", queue.hold, core.hold)


def usage(registry: Registry, tree: QueueTree, *, strict_max: bool) -> Iterator[str]:
    """Check that usage, slots, priority and share of each queue agree with its applications or its children."""
    fair_max: dict[QueuePath, Resource] = {}
    below: dict[QueueNode, list[QueueNode]] = {}
    for path, queue in tree.nodes.items():  # parents before children
        below[queue] = []
        if queue.parent is not None:
            below[queue.parent].append(queue)
        own = (queue.max or {}) if queue.parent is None or tree.root_max else {}
        fair_max[path] = {**(fair_max[queue.parent.path] if queue.parent else {}), **own}
    for path, queue in tree.nodes.items():
        where = f"queue {path}"
        core = registry.queues.get(path)
        if isinstance(core, LeafCore):
            yield from _leaf_usage(where, queue, core)
        else:
            yield from _parent_usage(where, queue, below[queue])
        bounds = fair_max[path] | (queue.config.guaranteed or {})
        share = fair_share(queue.allocated, {name: float(quantity) for name, quantity in bounds.items()})
        yield from differs(where, "the fair share", queue.share, share)
        if strict_max:
            for name, used in queue.allocated.items():
                limit = (queue.max or {}).get(name, used if queue.parent else 0)
                if used > limit:
                    yield f"{where}: uses {used} {name}, expected at most {limit}"


def fair_share(allocated: Resource, denominators: dict[str, float]) -> float:
    """The fair share (PR-70): the largest used part of a guarantee, or of the fair max where none is given.

    Args:
        allocated: base units.
        denominators: per type, the own guarantee, else the fair max; a type in neither is left out.
    """
    parts = ((used, denominators[name]) for name, used in allocated.items() if used > 0 and name in denominators)
    return max((used / denominator if denominator > 0 else 1.0 for used, denominator in parts), default=0.0)


def _leaf_usage(where: str, queue: QueueNode, leaf: LeafCore) -> Iterator[str]:
    applications = leaf.applications.values()
    allocated = total_of(ask.resource for application in applications for ask, _ in application.allocations.values())
    pending = total_of(ask.resource for application in applications for ask in application.asks.values())
    running = [application.application_id for application in applications if application.state in COUNTED_AS_RUNNING]
    shown = [_shown_priority(application) for application in applications]
    raw = max((priority for priority in shown if priority is not None), default=None)
    yield from _compare(where, queue, _Usage(allocated, pending, running, raw))


def _parent_usage(where: str, queue: QueueNode, children: list[QueueNode]) -> Iterator[str]:
    allocated = total_of(child.allocated for child in children)
    pending = total_of(child.pending for child in children)
    running = [application_id for child in children for application_id in child.running]
    raw = max((child.priority for child in children if child.priority is not None), default=None)
    yield from _compare(where, queue, _Usage(allocated, pending, running, raw))


class _Usage(NamedTuple):
    """The usage of a queue as its owners have it; ``priority`` is the highest inside."""

    allocated: Resource
    pending: Resource
    running: list[ApplicationID]
    priority: Priority


def _compare(where: str, queue: QueueNode, owned: _Usage) -> Iterator[str]:
    yield from differs(where, "allocated", pruned(queue.allocated), owned.allocated)
    yield from differs(where, "pending", pruned(queue.pending), owned.pending)
    yield from differs_in(where, "the set of running applications", queue.running, owned.running)
    yield from differs(where, "the highest priority inside", queue.priorities.highest, owned.priority)
    shown = queue_priority(owned.priority, queue.config.properties) if queue.hold is None else None
    yield from differs(where, "the priority", queue.priority, shown)


def trackers(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that applications have the trackers of the limits on their paths, with the usage of their applications."""
    used: dict[Tracker, list[Resource]] = {tracker: [] for tracker in state.trackers.in_use.values()}
    counted: dict[Tracker, set[ApplicationID]] = {tracker: set() for tracker in used}
    counts: Counter[Tracker] = Counter()
    for waiting in state.applications.values():
        queue = state.leaf_of(waiting)
        application = registry.leaf(queue.path).applications[waiting.application_id]
        where = f"pending application {waiting.application_id}"
        names = set(_tracker_names(queue, waiting)) if waiting.enrolled else set()
        found = {(tracker.path, tracker.whose) for tracker in waiting.trackers}
        yield from differs(where, "what it counts against", found, names)
        if waiting.counted_as_running and not application.asks and not application.allocations:
            yield f"{where}: counts although nothing of it waits or runs"
        if application.allocations and not waiting.counted_as_running:
            yield f"{where}: does not count although something of it runs"
        for tracker in waiting.trackers:
            counts[tracker] += 1
            used[tracker] += [ask.resource for ask, _ in application.allocations.values()]
            if waiting.counted_as_running:
                counted[tracker].add(waiting.application_id)
    for tracker, resources in used.items():
        where = f"limit of {tracker.whose} in {tracker.path}"
        yield from differs(where, "allocated", pruned(tracker.allocated), total_of(resources))
        yield from differs(where, "the set of applications", set(tracker.applications), counted[tracker])
        yield from differs(where, "the number of applications", tracker.application_count, counts[tracker])


def _tracker_names(leaf: QueueNode, waiting: PendingApplication) -> Iterator[tuple[QueuePath, Principal]]:
    for queue in leaf.path_up:
        users = {user for limit in queue.config.limits for user in limit.users}
        groups = {group for limit in queue.config.limits for group in limit.groups}
        if users & {waiting.who.user, "*"}:
            yield queue.path, Principal(PrincipalKind.USER, waiting.who.user)
        if waiting.group is not None and waiting.group.group in groups:
            yield queue.path, Principal(PrincipalKind.GROUP, waiting.group.group)
