"""The invariants between two cycles: the owners agree with each other, and the scheduler's state agrees with the owners.

All derived values are computed again from the owners (leaves and nodes) and compared. Called by tests after every step, and for
health checks of a daemon: the checks are expensive, and they change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.config.model import NodeSortPolicy
from ykactor.core.config.properties import SORT_POLICIES
from ykactor.core.inspection import owner_invariants
from ykactor.core.inspection.owner_invariants import differs, differs_in, leaves_of, total_of
from ykactor.core.messages.asks import Ask, ask_id, order_of, shape_of
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState
from ykactor.core.nodes.index import NodeIndex
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.objects.application import Application
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.preemption.quota import gives_back
from ykactor.core.queueing.equivalence import HAS_NODE, RESERVES, ClassKey
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import Priority, queue_priority, sort_rank
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.queueing.waiting_classes import WaitingGroup
from ykactor.core.queueing.waits import name_of
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.resources import Resource, add_to, pruned


def violations(partition: PartitionCore, scheduler: SchedulerCore) -> list[str]:
    """All violated invariants (SC-131), one sentence each: the object, what was found, what was expected.

    Args:
        partition, scheduler: the cores of one partition, between two cycles and with every fact observed.

    Cost: O(all asks, allocations and nodes).
    """
    return [found for check in checks(partition, scheduler.state).values() for found in check if found]


def checks(partition: PartitionCore, state: SchedulerState) -> dict[str, Iterator[str]]:
    """The invariants by subject; each yields its violations, and "" where the check may pause."""
    registry = partition.registry
    return {
        "queues and applications": owner_invariants.membership(registry),
        "limits of the configuration": owner_invariants.limits(registry),
        "numbers with limits": owner_invariants.counts(registry),
        "allocations": owner_invariants.allocations(registry),
        "accounts": owner_invariants.counted(registry),
        "amounts of nodes": owner_invariants.node_amounts(registry),
        "order of nodes": _node_index(registry, state.nodes),
        "reservations": _reservations(state),
        "preemptions": _preemptions(registry, state),
        "pending asks": _applications(registry, state),
        "queues": _tree(registry, state),
        "usage": _usage(registry, state.tree),
        "limits of users and groups": _trackers(registry, state),
        "order of queues and applications": _orders(registry, state),
        "classes of asks": _watched_classes(state),
        "what asks wait for": _waits(state),
        "quota preemption": _quota_clocks(state),
    }


def _tree(registry: Registry, state: SchedulerState) -> Iterator[str]:
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


def _usage(registry: Registry, tree: QueueTree) -> Iterator[str]:
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
    allocated = total_of(ask.resource for application in applications for ask, _ in application.tasks.allocations.values())
    pending = total_of(ask.resource for application in applications for ask in application.tasks.asks.values())
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


def _trackers(registry: Registry, state: SchedulerState) -> Iterator[str]:
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
        if waiting.counted_as_running and not application.tasks.asks and not application.tasks.allocations:
            yield f"{where}: counts although nothing of it waits or runs"
        if application.tasks.allocations and not waiting.counted_as_running:
            yield f"{where}: does not count although something of it runs"
        for tracker in waiting.trackers:
            counts[tracker] += 1
            used[tracker] += [ask.resource for ask, _ in application.tasks.allocations.values()]
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


_FAILING = ApplicationState.FAILING


def _applications(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that the state has every live application with exactly its asks, and the pairs of gangs."""
    live = [application for application in state.applications.values() if not _is_kept_back(state, application)]
    pairs = {application for application in live if application.gang is not None and application.gang.has_pair()}
    known = {application for found in state.pairs.by_leaf.values() for application in found} | state.pairs.aside.keys()
    yield from differs("application index", "where placeholders can be replaced", known, pairs)
    keeping: dict[QueuePath, list[ApplicationID]] = {}
    for holder in state.applications.values():
        for queue in holder.leaf.path_up if holder.holds_slot else ():
            keeping.setdefault(queue.path, []).append(holder.application_id)
    for path, queue in state.tree.nodes.items():
        yield from differs_in(f"queue {path}", "the applications that hold a slot", queue.accepted, keeping.get(path, []))
    yield from differs_in("application index", "the set of applications", state.applications, registry.applications)
    preempting: dict[ApplicationID, set[AllocationKey]] = {}
    for owner, key in state.preemptions.by_ask:
        preempting.setdefault(owner, set()).add(key)
    for leaf in leaves_of(registry):
        for application_id, application in leaf.applications.items():
            if application_id in state.applications:
                waiting = state.applications[application_id]
                yield from differs(f"pending application {application_id}", "the queue", waiting.leaf.path, leaf.path)
                yield from _application(application, waiting, preempting.get(application_id, set()))


def _is_kept_back(state: SchedulerState, application: PendingApplication) -> bool:
    """True if none of its placeholders may be replaced: it is failing, or held."""
    return application.state is _FAILING or application.hold is not None or state.leaf_of(application).is_held()


def _key(ask: Ask) -> AllocationKey:
    return ask.allocation_key


def _application(application: Application, waiting: PendingApplication, preempting: set[AllocationKey]) -> Iterator[str]:
    """Check one application; ``preempting`` are its asks that have an attempt to preempt."""
    where = f"pending application {application.application_id}"
    yield from differs(where, "the state", waiting.state, application.state)
    yield from differs(where, "the submission time", waiting.submission_ns, application.submission_ns)
    yield from differs(where, "the registration number", waiting.arrival, application.arrival)
    allocated = total_of(ask.resource for ask, _ in application.tasks.allocations.values())
    yield from differs(where, "allocated", pruned(waiting.allocated), allocated)
    yield from differs(where, "the set of asks", sorted(waiting.asks), sorted(application.tasks.asks))
    queued = 0
    for (shape, kind), queue in waiting.queues.items():
        asks = queue.items()
        queued += len(asks)
        if any((ask.allocation_key in waiting.reserving) is not (kind == HAS_NODE) for ask in asks):
            yield f"{where}: asks with a node and without stand in one ask_class, expected kind {kind}"
        attempts = [ask for ask in asks if kind != RESERVES and not ask.allow_preempt_other]
        if attempts:
            yield f"{where}: {len(attempts)} asks stand with those that may preempt, expected none"
        if [shape_of(ask) for ask in asks] != [shape] * len(asks):
            yield f"{where}: asks of several shapes wait in one ask_class, expected {shape}"
        if queue.notified is not None:
            notified = sorted(key for keys in queue.notified.asks for key in keys)
            yield from differs(
                f"{where}, asks of shape {shape}", "the asks with a reported condition", notified, sorted(map(_key, asks))
            )
        keys: list[object] = [order_of(ask) for ask in asks]
        if asks != sorted(asks, key=order_of) or queue.sort_key not in keys:
            yield f"{where}: the asks of shape {shape} are not in order"
        for ask in asks:
            key = ask.allocation_key
            if application.tasks.asks.get(key) is not ask or waiting.asks.get(key) != (ask, queue):
                yield f"{where}: ask {key} in ask_class is not the ask that waits"
    held = waiting.gang.held.items() if waiting.gang is not None else []
    aside = [key for key in waiting.reserving if waiting.asks[key][1] is None]
    settled = [key for key, ask in waiting.reserving.items() if not _allows_preemption(ask) or key in preempting]
    yield from differs(where, "the asks with a node that stand in no ask_class", sorted(aside), sorted(settled))
    somewhere = queued + len(held) + len(aside)
    yield from differs(where, "the number of asks that wait somewhere", somewhere, len(application.tasks.asks))
    yield from _gang(where, application, waiting)
    yield from differs(where, "the priority", waiting.priorities.highest, _priority(application))
    yield from differs(where, "the hold", waiting.hold, application.hold)
    yield from differs(where, "the priority shown to the queue", waiting.shown_priority, _shown_priority(application))


def _gang(where: str, application: Application, waiting: PendingApplication) -> Iterator[str]:
    """Check that real asks of open task groups wait for placeholders, in order, and running placeholders are replaceable."""
    running = application.tasks.allocations
    placeholders = {key: ask for key, (ask, _) in running.items() if ask.placeholder}
    reserved = total_of(ask.resource for ask in placeholders.values())
    yield from differs(where, "what placeholders hold", pruned(waiting.reserved), reserved)
    yield from differs(where, "the number of placeholders", application.tasks.placeholder_count, len(placeholders))
    yield from differs(where, "the number of real allocations", application.tasks.real_count, len(running) - len(placeholders))
    gang = waiting.gang
    if gang is None:
        if placeholders:
            yield f"{where}: has placeholders and no task groups"
        return
    open_groups = {group for group in application.gang.groups if application.gang.is_open(group)}
    yield from differs(where, "the open groups", gang.open_groups, open_groups)
    asks = application.tasks.asks.values()
    held = [ask for ask in asks if ask.task_group_name in gang.open_groups and not ask.placeholder]
    yield from differs(where, "who waits for placeholders", gang.held.items(), sorted(held, key=order_of))
    replaceable = {placeholder.allocation_key for some in gang.replaceable.values() for placeholder, _ in some.items()}
    yield from differs(where, "the placeholders to replace", replaceable, placeholders.keys() - application.tasks.released)
    yield from differs(
        where, "the placeholders ever allocated", pruned(gang.allocated_ever), pruned(application.gang.allocated_ever)
    )


def _shown_priority(application: Application) -> Priority:
    """The priority that the queue sees: none of a held application (OP-4)."""
    return _priority(application) if application.hold is None else None


def _priority(application: Application) -> Priority:
    """The highest priority of the application's asks; None without asks (PR-3)."""
    return max((ask.priority for ask in application.tasks.asks.values()), default=None)


def _node_index(registry: Registry, index: NodeIndex) -> Iterator[str]:
    """Check that the index agrees with the nodes and is sorted (PR-62)."""
    yield from differs("node index", "the set of nodes", sorted(index.nodes), sorted(registry.nodes))
    yield from differs("nodes", "the number of placements that they have not been sent", registry.unsent.count, 0)
    policy = registry.config.node_sort_policy
    expected = []
    for node_id, core in registry.nodes.items():
        node = index.nodes.get(node_id)
        if node is None:
            continue
        where = f"indexed node {node_id}"
        yield from differs(where, "available", pruned(node.available), pruned(core.available))
        yield from differs(where, "schedulable", node.schedulable, core.schedulable)
        yield from differs(where, "revision", node.revision, core.revision)
        score = _score(core, policy)
        yield from differs(where, "score", node.place[0], score)
        if core.schedulable and not node.reserved:
            expected.append((score, node_id))
    order = [node.node_id for node in index.in_order()]
    yield from differs("node index", "the order", order, [node_id for _, node_id in sorted(expected)])


def _score(core: NodeCore, policy: NodeSortPolicy) -> float:
    """The node's score (PR-60 to PR-64)."""
    used = weights = 0.0
    for name in sorted(core.capacity):
        weight = policy.resource_weights.get(name, 0.0)
        if weight > 0 and core.capacity[name]:
            used += weight * (1.0 - core.available.get(name, 0) / float(core.capacity[name]))  # as the index, to the last bit
            weights += weight
    utilisation = used / weights if weights else 0.0
    return utilisation if policy.type == "fair" else 1.0 - utilisation


def _reservations(state: SchedulerState) -> Iterator[str]:
    """Check that asks with a reservation are pending, their nodes large enough, and shared by pinned asks only (SC-149)."""
    reservations = list(state.reservations.by_ask.values())
    applications = state.applications.values()
    reserving = {(waiting.application_id, key): ask for waiting in applications for key, ask in waiting.reserving.items()}
    asks = {ask_id(reservation.ask): reservation.ask for reservation in reservations}
    yield from differs("reservations", "the asks", asks, reserving)
    by_node: dict[NodeID, list[Reservation]] = {}
    for reservation in reservations:
        by_node.setdefault(reservation.node.node_id, []).append(reservation)
        node, needs = reservation.node, reservation.shape[0]
        where = f"reservation of {ask_id(reservation.ask)}"
        if state.nodes.nodes.get(node.node_id) is not node or not node.could_fit(needs, ()):
            yield f"{where}: on node {node.node_id}, which is gone or too small"
        keeps_node = reservation.is_pinned() or _allows_preemption(reservation.ask)  # even on a drained node (SC-61)
        if not (keeps_node or node.schedulable):
            yield f"{where}: on node {node.node_id}, which is not schedulable"
        yield from differs(where, "the shape", reservation.shape, shape_of(reservation.ask))
    for node_id, node in state.nodes.nodes.items():
        there = by_node.get(node_id, [])
        yield from differs(f"indexed node {node_id}", "reserved", node.reserved, bool(there))
        yield from differs(f"indexed node {node_id}", "the reservations", state.reservations.on(node_id), there)
        if len(there) > 1 and not all(reservation.is_pinned() for reservation in there):
            yield f"indexed node {node_id}: is reserved for several asks, expected one"


def _allows_preemption(ask: Ask) -> bool:
    """True if an ask with a reservation tries to preempt unless it has an attempt (PE-70)."""
    return ask.allow_preempt_other and shape_of(ask)[1] is None


_BEGINNING = frozenset({ApplicationState.ACCEPTED, ApplicationState.STARTING})


def _orders(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that children and applications are sorted by their keys, without those that have nothing pending (PR-29)."""
    for path, queue in state.tree.nodes.items():
        if queue.parent is not None:
            rank, place = sort_rank(queue.priority), queue.place
            key = (rank, queue.share) if queue.parent.config.properties.sort_by_priority else (queue.share,)
            yield from differs(f"queue {path}", "the place", place.group_key, None if queue.priority is None else key)
            if place.bucket is not None:
                yield from differs(f"queue {path}", "the pending resource of its place", place.bucket.pending, queue.pending)
        leaf = registry.queues.get(path)
        if isinstance(leaf, LeafCore):
            there = [name for name in leaf.applications if name in state.applications]
            yield from _leaf_order(queue, [state.applications[name] for name in there])
            for ask_class in queue.applications.waiting.missed(state.nodes.opened, state.nodes.in_order()):
                yield f"queue {path}: ask_class {ask_class.key} waits, expected an offer because a node is open to it"


def _watched_classes(state: SchedulerState) -> Iterator[str]:
    """Check that classes watched for reports are current classes of their leaves, or empty and about to be forgotten."""
    for ask_class, leaf in state.quota_reports.watched():
        if isinstance(ask_class, WaitingGroup):
            if ask_class and ask_class not in leaf.applications.waiting.groups.values():
                yield f"queue {leaf.path}: a group of waiting classes is watched, expected none that is over"
            continue
        is_current = leaf.applications.classes.get(ask_class.key) is ask_class and state.tree.nodes.get(leaf.path) is leaf
        if ask_class and not is_current:
            yield f"queue {leaf.path}: ask_class {ask_class.key} is watched, expected none that is over"


def _leaf_order(leaf: QueueNode, applications: list[PendingApplication]) -> Iterator[str]:
    order = leaf.applications
    keys = {application: order.sort_key(application) for application in applications}
    if SORT_POLICIES[leaf.config.properties.sort_policy].one_starts:  # at most one application that starts (PR-75)
        starting = any(application.state is ApplicationState.STARTING for application in applications)
        beginner = ApplicationState.STARTING if starting else ApplicationState.ACCEPTED
        placed = [(key, application) for application, key in keys.items() if key is not None]
        candidates = [(key, application) for key, application in placed if application.state is beginner]
        chosen = min(candidates, default=(None, None), key=lambda candidate: candidate[0])[1]
        for application in applications:
            if application.state in _BEGINNING and application is not chosen:
                keys[application] = None
    expected_in: dict[ClassKey, set[ApplicationID]] = {}
    for application, key in keys.items():
        where = f"pending application {application.application_id}"
        yield from differs(where, "the place", application.sort_key, key)
        for shape, queue in application.queues.items():
            class_key = order.class_key(application, queue, application.slots_needed())
            is_member = key is not None and not application.backoff_ns
            expected = order.classes.get(class_key) if is_member else None
            yield from differs(where, f"its class for {shape}", queue.ask_class, expected)
            if is_member:
                expected_in.setdefault(class_key, set()).add(application.application_id)
    yield from differs(f"queue {leaf.path}", "the set of classes", set(order.classes), set(expected_in))
    for class_key, ask_class in order.classes.items():
        places = ask_class.places()
        members = {application.application_id for application in places}
        yield from differs(f"queue {leaf.path}", f"who stands in ask_class {class_key}", members, expected_in.get(class_key))
        for application, place in places.items():
            if application.sort_key is not None and place > application.sort_key:
                yield f"pending application {application.application_id}: stands at {place}, expected {application.sort_key}"
        offered = None if ask_class.parked else ask_class.head().queues[class_key[0]]
        yield from differs(f"queue {leaf.path}", f"what ask_class {class_key} offers", ask_class.offered, offered)
    for application in applications:
        for shape, queue in application.queues.items():
            is_offered = queue.ask_class is not None and queue.ask_class.offered is queue
            where = f"pending application {application.application_id}"
            yield from differs(where, f"whether its asks of {shape} are parked", queue.parked, not is_offered)


def _preemptions(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that victims run and are being released, asks with an attempt are pending and have a node, and the sums (PE-93)."""
    attempts, applications = state.preemptions, state.applications
    preempting: dict[QueueUsage, Resource] = {queue: {} for queue in state.tree.nodes.values()}
    claims: dict[QueueUsage, Resource] = {queue: {} for queue in preempting}
    for (application_id, key), (size, _) in attempts.victims.items():
        where = f"victim {key} of {application_id}"
        leaf = applications[application_id].leaf
        truth = registry.leaf(leaf.path).applications[application_id]
        if key not in truth.tasks.allocations or key not in truth.tasks.released:
            yield f"{where}: does not run, or is not being released"
        else:
            yield from differs(where, "the size", size, truth.tasks.allocations[key][0].resource)
        for queue in leaf.path_up:
            add_to(preempting[queue], size)
    for identity, attempt in attempts.by_ask.items():
        where = f"attempt of {identity}"
        application = applications[identity[0]]
        leaf = application.leaf
        yield from differs(where, "the application", attempt.application, application)
        yield from differs(where, "the ask", application.reserving.get(identity[1]), attempt.ask)
        yield from differs(where, "whether its room is made", attempt.room_made_ns is not None, not attempt.waits_for)
        for victim in attempt.waits_for:
            if victim not in attempts.victims or attempts.victims[victim][1] != identity:
                yield f"{where}: waits for {victim}, which has gone or goes for somebody else"
        pinned = shape_of(attempt.ask)[1] is not None
        claim = {} if pinned else {name: amount for name, amount in attempt.ask.resource.items() if amount > 0}
        yield from differs(where, "the claim", attempt.claim, claim)
        for queue in leaf.path_up:
            add_to(claims[queue], claim)
    for queue in preempting:
        where = f"queue {queue.path}"
        yield from differs(where, "preempting", pruned(queue.preempting), pruned(preempting[queue]))
        yield from differs(where, "claims", pruned(queue.claims), pruned(claims[queue]))
        for name, amount in queue.preempting.items():
            if amount > queue.allocated.get(name, 0):
                yield f"{where}: is preempting {amount} {name}, more than it uses"
    waits = {(name, key) for name, application in applications.items() for key in application.asks}
    for identity in attempts.last_attempts.keys() - waits:
        yield f"attempt of {identity}: it does not wait"
    for victim_leaf, preemptor_leaf, name in attempts.cycle_guard.cycles():
        yield f"preemption: {victim_leaf} and {preemptor_leaf} have taken {name} from each other, expected one direction"


def _waits(state: SchedulerState) -> Iterator[str]:
    """Check that each history with a row is that of a class or a queue of asks, which follow one each (AP-154)."""
    classes: dict[tuple[QueuePath, str], bool] = {}
    queues: list[tuple[ApplicationID, str]] = []
    waits = state.tree.waits
    for path, leaf in state.tree.nodes.items():
        for ask_class in leaf.applications.classes.values():
            if ask_class.name:
                key = path, ask_class.name
                classes[key] = waits.classes.get(key) is ask_class.history
    for name, application in state.applications.items():
        for queue in application.queues.values():
            followed = application.kept_history if queue.ask_class is None else queue.ask_class.history
            if queue.key[1] != HAS_NODE and queue.history is not followed:
                yield f"application {name}: asks follow the history {queue.history}, expected {followed}"
            if queue.past is not None:
                queues.append((name, name_of(queue.key)))
        alone = application.own_waits.keys() - application.asks.keys()
        replacing = _replacing(state, application)
        yield from differs(
            f"application {name}", "asks that wait for something of their own and replace", alone, alone & replacing
        )
    yield from differs("the scheduler", "the histories of classes", dict.fromkeys(waits.classes, True), classes)
    yield from differs("the scheduler", "the pasts of queues of asks", sorted(waits.queues), sorted(queues))


def _replacing(state: SchedulerState, application: PendingApplication) -> set[AllocationKey]:
    """The asks that replace placeholders; none if the leaf does not have the application, which another check says."""
    leaf = state.registry.queues.get(application.leaf.path)
    owner = leaf.applications.get(application.application_id) if isinstance(leaf, LeafCore) else None
    return set() if owner is None else {real.allocation_key for real, _ in owner.tasks.replacing.values()}


def _quota_clocks(state: SchedulerState) -> Iterator[str]:
    """Check that only configured queues with a max and a delay have a start of quota preemption (CF-81)."""
    for queue in state.clocks.starts:
        if state.tree.nodes.get(queue.path) is not queue or not gives_back(queue.config):
            yield f"queue {queue.path}: has to give back, expected none that is gone, dynamic, or without max or delay"
