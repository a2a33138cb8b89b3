"""Usage, shares, priorities, slots and limits of queues, users and groups, computed anew from what runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.inspection.applications import _priority
from ykactor.core.inspection.checks import differs, total_of
from ykactor.core.messages.states import COUNTED_AS_RUNNING
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import Priority, queue_priority
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.quota.ledger import fair_share
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import Resource, pruned


def tree(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """One account for each queue, with its settings; root's max is what the nodes offer (QU-30)."""
    tree = state.tree
    yield from differs("ledger", "the set of accounts", list(tree.nodes), list(registry.queues))
    yield from differs("ledger", "the number of unconfirmed charges", len(state.ledger.unconfirmed), 0)
    total = total_of(node.capacity for node in registry.nodes.values())
    offered = total if any(quantity > 0 for quantity in total.values()) else None
    yield from differs("ledger", "the cluster's total", tree.root_max, offered)
    for path, account in tree.nodes.items():
        queue = registry.queues.get(path)
        if queue is not None:
            limit = queue.config.max if account.parent else tree.root_max
            yield from differs(f"account {path}", "is_leaf", account.is_leaf, isinstance(queue, LeafCore))
            yield from differs(f"account {path}", "the configuration", account.config, queue.config)
            yield from differs(f"account {path}", "max", account.max, limit)


def usage(registry: Registry, tree: QueueTree, *, strict_max: bool) -> Iterator[str]:
    """Usage, slots, priority and share of each queue, reckoned from its applications or its children."""
    fair_max: dict[QueuePath, Resource] = {}
    below: dict[QueueNode, list[QueueNode]] = {}
    for path, account in tree.nodes.items():  # parents before children
        below[account] = []
        if account.parent is not None:
            below[account.parent].append(account)
        own = (account.max or {}) if account.parent is None or tree.root_max else {}
        fair_max[path] = {**(fair_max[account.parent.path] if account.parent else {}), **own}
    for path, account in tree.nodes.items():
        where = f"account {path}"
        queue = registry.queues.get(path)
        if isinstance(queue, LeafCore):
            yield from _leaf_usage(where, account, queue)
        else:
            yield from _parent_usage(where, account, below[account])
        bounds = fair_max[path] | (account.config.guaranteed or {})
        share = fair_share(account.allocated, {name: float(quantity) for name, quantity in bounds.items()})
        yield from differs(where, "the fair share", account.share, share)
        if strict_max:
            for name, used in account.allocated.items():
                limit = (account.max or {}).get(name, used if account.parent else 0)
                if used > limit:
                    yield f"{where}: uses {used} {name}, expected at most {limit}"


def _leaf_usage(where: str, account: QueueNode, leaf: LeafCore) -> Iterator[str]:
    applications = leaf.applications.values()
    allocated = total_of(ask.spec.resource for it in applications for ask, _ in it.allocations.values())
    pending = total_of(ask.spec.resource for it in applications for ask in it.asks.values())
    running = sorted(it.application_id for it in applications if it.state in COUNTED_AS_RUNNING)
    raw = max((priority for it in applications if (priority := _priority(it)) is not None), default=None)
    yield from _compare(where, account, allocated, pending, running, raw)


def _parent_usage(where: str, account: QueueNode, children: list[QueueNode]) -> Iterator[str]:
    allocated = total_of(child.allocated for child in children)
    pending = total_of(child.pending for child in children)
    running = sorted(application_id for child in children for application_id in child.running)
    raw = max((child.priority for child in children if child.priority is not None), default=None)
    yield from _compare(where, account, allocated, pending, running, raw)


def _compare(
    where: str, account: QueueNode, allocated: Resource, pending: Resource, running: list[ApplicationID], raw: Priority
) -> Iterator[str]:
    yield from differs(where, "allocated", pruned(account.allocated), allocated)
    yield from differs(where, "pending", pruned(account.pending), pending)
    yield from differs(where, "the set of running applications", sorted(account.running), running)
    yield from differs(where, "the highest priority inside", account.priorities.highest, raw)
    yield from differs(where, "the priority", account.priority, queue_priority(raw, account.config.properties))


def trackers(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Every application holds the trackers that the limits on its path give it, and they hold the sum of what it uses."""
    used: dict[Tracker, list[Resource]] = {tracker: [] for tracker in state.trackers.held.values()}
    counted: dict[Tracker, set[ApplicationID]] = {tracker: set() for tracker in used}
    holders: Counter[Tracker] = Counter()
    for waiting in state.applications.values():
        account = state.leaf_of(waiting)
        application = registry.leaf(account.path).applications[waiting.application_id]
        where = f"waiting application {waiting.application_id}"
        names = set(_tracker_names(account, waiting)) if waiting.enrolled else set()
        yield from differs(where, "what it counts against", {(it.path, it.whose) for it in waiting.trackers}, names)
        if waiting.counted_as_running and not application.asks and not application.allocations:
            yield f"{where}: counts although nothing of it waits or runs"
        if application.allocations and not waiting.counted_as_running:
            yield f"{where}: does not count although something of it runs"
        for tracker in waiting.trackers:
            holders[tracker] += 1
            used[tracker] += [ask.spec.resource for ask, _ in application.allocations.values()]
            if waiting.counted_as_running:
                counted[tracker].add(waiting.application_id)
    for tracker, resources in used.items():
        where = f"limit of {tracker.whose} in {tracker.path}"
        yield from differs(where, "allocated", pruned(tracker.allocated), total_of(resources))
        yield from differs(where, "the set of applications", set(tracker.applications), counted[tracker])
        yield from differs(where, "the number of holders", tracker.holders_count, holders[tracker])


def _tracker_names(leaf: QueueNode, waiting: PendingApplication) -> Iterator[tuple[QueuePath, Principal]]:
    for account in leaf.path_up:
        users = {user for limit in account.config.limits for user in limit.users}
        groups = {group for limit in account.config.limits for group in limit.groups}
        if users & {waiting.who.user, "*"}:
            yield account.path, Principal(PrincipalKind.USER, waiting.who.user)
        if waiting.group is not None and waiting.group.group in groups:
            yield account.path, Principal(PrincipalKind.GROUP, waiting.group.group)
