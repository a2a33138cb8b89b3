"""The next placement, found the slow way: a literal reading of the rules, sorting everything from scratch.

It shares nothing with the planner and its indexes. It reads what the owners hold (leaves, nodes, configuration) and knows
nothing of the ledger. What the owners do not hold, who an application runs as and what it counted for, it gathers from the
facts. Each function says which rules it follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cmp_to_key

from keeping import DELAY_NS, LONGEST_NS, Event, Keeping, Name, fits, name_of, required_node
from people import People
from queuetree import STATE, Amounts, Queue, priority_of, real_usage, strictly_positive, total, wanted

from ykactor.core.config.model import NodeSortPolicy
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Fact
from ykactor.core.objects.application import Application
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.queues import LeafCore
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.values import selector
from ykactor.core.values.ids import NodeID, QueuePath


class Reference:
    """The reference of a partition's decisions, step by step."""

    def __init__(self, partition: PartitionCore, *, reserves: bool) -> None:
        self.partition = partition
        self.people = People()
        self.keeping = Keeping(reserves=reserves)
        #: What the last answer was about.
        self.ways: Counter[str] = Counter()

    def next_step(self, now_ns: int, facts: list[Fact]) -> list[Event]:
        """The decisions of one scheduling step (PR-25, SC-10); empty when there is nothing to do.

        Args:
            now_ns: what time it is.
            facts: all of the partition's since its beginning, in order.
        """
        self.ways = Counter()
        self.hear(facts)
        registry = self.partition.registry
        nodes = list(registry.nodes.values())
        root = Queue(self.partition, QueuePath("root"), None, self.keeping.slots)
        root.max = total(node.capacity for node in nodes)  # QU-30
        self.people.choose_groups(root)
        if not any(quantity > 0 for quantity in root.max.values()):
            return []  # PR-26
        step = Step(now_ns, nodes, registry.config.node_sort_policy, self.people, self.keeping)
        found = step.decide(root)
        self.ways = step.ways
        return found

    def next_instant(self, after_ns: int) -> int | None:
        """The next time at which there may be something to do although no input comes (SC-5)."""
        return self.keeping.next_instant(after_ns, self.asks())

    def hear(self, facts: list[Fact]) -> None:
        self.people.hear(facts)
        self.keeping.hear(facts)

    def follow(self, facts: list[Fact]) -> None:
        """A cycle has decided this."""
        self.keeping.follow(facts)
        self.keeping.ways += self.ways

    def asks(self) -> dict[Name, Ask]:
        """All that wait."""
        leaves = [queue for queue in self.partition.registry.queues.values() if isinstance(queue, LeafCore)]
        applications = [application for leaf in leaves for application in leaf.applications.values()]
        return {name_of(ask): ask for application in applications for ask in application.tasks.asks.values()}


# ---- children (PR-71)


def in_order(parent: Queue) -> list[Queue]:
    """The children that have pending resources (PR-29) and are not held (OP-4), by the comparators of 5.2."""
    children = [child for child in parent.children if child.offers()]
    by_priority = parent.config.properties.sort_by_priority
    keys = {child.path: (-child.priority if by_priority else 0, child.share()) for child in children}

    def rank(child: Queue) -> tuple:
        group = [other for other in children if keys[other.path] == keys[child.path]]
        ahead_count = sum(has_more_pending(other, child) for other in group)  # PR-36
        return (*keys[child.path], ahead_count, -child.priority, child.path)

    return sorted(children, key=rank)


def has_more_pending(left: Queue, right: Queue) -> bool:
    """5.3"""
    names = left.pending.keys() | right.pending.keys()
    return strictly_positive({name: left.pending.get(name, 0) - right.pending.get(name, 0) for name in names})


# ---- applications (PR-73)


def applications_in_order(leaf: Queue, *, keeps_back: bool = True) -> list[Application]:
    """6.1; without ``keeps_back`` the filter of 6.3 lets everybody through."""
    properties, guaranteed = leaf.config.properties, leaf.config.guaranteed or {}
    candidates = leaf.applications
    if properties.sort_policy == "stateaware" and keeps_back:
        candidates = stateaware(candidates, by_priority=properties.sort_by_priority)
    candidates = [entry for entry in candidates if strictly_positive(wanted(entry)) and entry.hold is None]  # OP-1

    def compare(left: Application, right: Application) -> int:
        by_priority = sign(priority_of(right), priority_of(left))
        by_age = sign(left.submission_ns, right.submission_ns)
        by_arrival = sign(left.arrival, right.arrival)
        if properties.sort_policy == "fair":
            by_usage = compare_usage(usage_list(left, guaranteed), usage_list(right, guaranteed))
            decisions = [by_priority, by_usage] if properties.sort_by_priority else [by_usage, by_priority]
            decisions += [by_age, by_arrival]
        elif properties.sort_by_priority:
            decisions = [by_priority, by_age, by_arrival]
        else:
            decisions = [by_age, by_priority, by_arrival]
        return next((decision for decision in decisions if decision), 0)

    return sorted(candidates, key=cmp_to_key(compare))


def sign(left: float, right: float) -> int:
    return (left > right) - (left < right)


def usage_list(application: Application, guaranteed: Amounts) -> list[float]:
    """6.2: one number for each type, ascending; placeholders do not count."""
    return sorted(
        0.0 if amount == 0 else float(amount) / float(guaranteed[name]) if guaranteed.get(name) else float(amount)
        for name, amount in real_usage(application).items()
    )


def compare_usage(left: list[float], right: list[float]) -> int:
    """6.2: from the ends; what one list has more decides by its first number that is not 0."""
    left, right = left[::-1], right[::-1]
    for one, other in zip(left, right, strict=False):
        if one != other:
            return sign(one, other)
    shorter = min(len(left), len(right))
    for number in left[shorter:]:
        if number:
            return sign(number, 0)
    for number in right[shorter:]:
        if number:
            return sign(0, number)
    return 0


def stateaware(applications: list[Application], *, by_priority: bool) -> list[Application]:
    """6.3, with PR-45 to PR-47."""

    def pending(application: Application) -> bool:
        return strictly_positive(wanted(application)) and application.hold is None

    def urgency(application: Application) -> tuple:
        importance = -priority_of(application) if by_priority and pending(application) else 0
        return importance, application.submission_ns, -(priority_of(application) or 0), application.arrival

    kept = [entry for entry in applications if entry.state in (STATE.RUNNING, STATE.COMPLETING)]
    starting = [entry for entry in applications if entry.state is STATE.STARTING]
    accepted = [entry for entry in applications if entry.state is STATE.ACCEPTED and pending(entry)]
    if starting:
        kept.append(min(starting, key=lambda item: (not pending(item), urgency(item))))
    elif accepted:
        kept.append(min(accepted, key=urgency))
    return kept


# ---- one step


class Step:
    """One pass (SC-10), with the nodes as they are now."""

    def __init__(self, now_ns: int, nodes: list[NodeCore], policy: NodeSortPolicy, people: People, keeping: Keeping) -> None:
        self.now_ns = now_ns
        self.nodes = {node.node_id: node for node in nodes}
        self.policy = policy
        self.people = people
        self.keeping = keeping
        self.kept = dict(keeping.kept)
        self.ways: Counter[str] = Counter()
        #: Reservations and placeholders that this pass has cancelled on its way.
        self.cancelled: list[Event] = []

    def decide(self, root: Queue) -> list[Event]:
        """SC-10: reserved asks first, then placeholders, then all. Reservations that are only cancelled end the pass (SC-11)."""
        if root.is_held:  # OP-2
            return []
        found = self.walk(root, self.serve_leaf)
        if not found and not self.cancelled:
            found = self.walk(root, self.replace_leaf) or self.walk(root, self.try_leaf)
        return self.cancelled + found

    def walk(self, queue: Queue, visit: Callable[[Queue], list[Event]]) -> list[Event]:
        """PR-27, PR-28, SC-20."""
        if queue.is_leaf:
            return visit(queue)
        return next(filter(None, (self.walk(child, visit) for child in in_order(queue))), [])

    def candidates_in(self, leaf: Queue) -> Iterator[Application]:
        """SC-21, SC-22."""
        for application in applications_in_order(leaf):
            can_begin = can_run(leaf, application) and self.people.can_run(leaf, application)
            if application.state is not STATE.ACCEPTED or can_begin:
                yield application

    def has_room(self, leaf: Queue, application: Application, ask: Ask) -> bool:
        """QU-39, QU-72. What could not be committed anyway is not tried, either: no node is kept in vain.

        SC-62 and SC-73: asks that require their node do not look at the size of the cluster.
        """
        if not fits_undefined(self.people.headroom(leaf, application), ask):
            return False
        if required_node(ask) is not None:
            return fits_undefined(leaf.headroom(beyond_cluster=True) or {}, ask)
        return fits_undefined(leaf.headroom() or {}, ask) and can_commit(leaf, ask)

    # ---- reserved asks (SC-150)

    def serve_leaf(self, leaf: Queue) -> list[Event]:
        for application in self.candidates_in(leaf):
            reserved = [ask for ask in asks_in_order(application) if name_of(ask) in self.kept]
            found = self.serve(leaf, application, reserved)
            if found:
                return found
        return []

    def serve(self, leaf: Queue, application: Application, reserved: list[Ask]) -> list[Event]:
        """The table, row by row; row 1 cannot be, and row 3 is preemption's."""
        unserved = []
        for ask in reserved:
            kept = self.kept[name_of(ask)]
            if not self.has_room(leaf, application, ask):
                if self.now_ns - kept.at_ns >= LONGEST_NS:
                    self.cancel(name_of(ask), "without quota for too long")
                continue
            node = self.nodes[kept.node_id]
            if self.accepts(node, ask) and can_commit(leaf, ask):
                return self.allocate(ask, node)
            unserved.append(ask)
        for ask in unserved:
            if required_node(ask) is None:
                found = self.place(ask)
                if found:
                    return found
        return []

    # ---- placeholders (GA-74 to GA-77)

    def replace_leaf(self, leaf: Queue) -> list[Event]:
        """Whoever it is and whatever its state: the space is paid for (GA-14)."""
        for application in applications_in_order(leaf, keeps_back=False):
            for ask in asks_in_order(application):
                if ask.task_group_name and not ask.placeholder:
                    found = self.replace(application, ask)
                    if found:
                        return found
        return []

    def replace(self, application: Application, ask: Ask) -> list[Event]:
        """Rows 1 and 2."""
        holders = [pair for pair in application.tasks.allocations.values() if pair[0].placeholder]
        for holder, node_id in sorted(holders, key=lambda item: (item[0].created_ns, item[0].allocation_key)):
            if is_left_out(node_id, ask):
                continue
            key, event = holder.allocation_key, ("ended", *name_of(holder), node_id)
            is_free = key not in application.tasks.released and event not in self.cancelled
            if holder.task_group_name == ask.task_group_name and is_free:
                if fits(holder.resource, ask.resource):
                    self.ways["replaced"] += 1
                    return [(f"replaces {key}", *name_of(ask), node_id)]
                self.ways["placeholder too small"] += 1
                self.cancelled.append(event)
        return []

    # ---- all asks

    def try_leaf(self, leaf: Queue) -> list[Event]:
        """SC-20 to SC-25, SC-148."""
        for application in self.candidates_in(leaf):
            for ask in asks_in_order(application):
                if waits_for_placeholders(application, ask) or not self.has_room(leaf, application, ask):
                    continue
                found = self.try_required(leaf, ask) if required_node(ask) else self.try_ask(ask)
                if found:
                    return found
        return []

    def try_required(self, leaf: Queue, ask: Ask) -> list[Event]:
        """SC-70 to SC-77. What the node is too small for can never be there: it takes nobody's reservation (SC-4, SC-149)."""
        node = self.nodes.get(required_node(ask))
        if node is None or not could_run(node, ask):
            return []
        for name, kept in list(self.kept.items()):
            if kept.node_id == node.node_id and required_node(kept.ask) is None:  # SC-74
                self.cancel(name, "required by another ask")
        if self.accepts(node, ask) and can_commit(leaf, ask):
            return self.allocate(ask, node)
        return self.reserve(ask, node, "required")

    def try_ask(self, ask: Ask) -> list[Event]:
        """SC-40 to SC-44, then SC-50 to SC-54."""
        found, candidates = self.place(ask), self.candidates(ask)
        if found:
            return found
        is_old = self.now_ns - self.keeping.since[name_of(ask)] >= DELAY_NS  # SC-50
        if not candidates or not is_old or not self.keeping.reserves:
            return []
        return self.reserve(ask, min(candidates, key=lambda node: shortfall(node, ask)), "normal")

    def place(self, ask: Ask) -> list[Event]:
        """SC-43: the first node; the commit succeeds."""
        for node in self.candidates(ask):
            if self.accepts(node, ask):
                return self.allocate(ask, node)
        return []

    def candidates(self, ask: Ask) -> list[NodeCore]:
        """SC-40, SC-41, PR-65."""
        reserved = {kept.node_id for kept in self.kept.values()}
        free = [node for node in self.nodes.values() if node.schedulable and node.node_id not in reserved]
        return sorted((node for node in free if could_run(node, ask)), key=self.rank)

    def accepts(self, node: NodeCore, ask: Ask) -> bool:
        """SC-42."""
        holders = {name for name, kept in self.kept.items() if kept.node_id == node.node_id}
        return (not holders or name_of(ask) in holders) and fits(node.available, ask.resource)

    def rank(self, node: NodeCore) -> tuple[float, NodeID]:
        """PR-60 to PR-64."""
        weighted = weights = 0.0
        for name in sorted(node.capacity):
            weight = self.policy.resource_weights.get(name, 0.0)
            if weight > 0 and node.capacity[name] != 0:
                weighted += weight * (1.0 - node.available.get(name, 0) / node.capacity[name])
                weights += weight
        utilisation = weighted / weights if weights else 0.0
        return utilisation if self.policy.type == "fair" else 1.0 - utilisation, node.node_id

    # ---- decisions

    def allocate(self, ask: Ask, node: NodeCore) -> list[Event]:
        """SC-44: a reservation ends wherever the ask is placed."""
        kept = self.kept.get(name_of(ask))
        found: list[Event] = [("allocated", *name_of(ask), node.node_id)]
        if kept is not None:
            kind = "required" if required_node(kept.ask) else "normal"
            self.ways[f"{kind}, allocated {'there' if kept.node_id == node.node_id else 'elsewhere'}"] += 1
            found.append(("unreserved", *name_of(ask), kept.node_id))
        return found

    def reserve(self, ask: Ask, node: NodeCore, kind: str) -> list[Event]:
        """SC-54, SC-76."""
        if name_of(ask) in self.kept:
            return []
        shared = any(kept.node_id == node.node_id for kept in self.kept.values())
        self.ways[f"{kind} made" + (", shared" if shared else "")] += 1
        self.ways["placeholder made"] += ask.placeholder
        return [("reserved", *name_of(ask), node.node_id)]

    def cancel(self, name: Name, way: str) -> None:
        self.cancelled.append(("unreserved", *name, self.kept.pop(name).node_id))
        self.ways[way] += 1


def waits_for_placeholders(application: Application, ask: Ask) -> bool:
    """GA-13."""
    group = application.gang.groups.get(ask.task_group_name)
    return not ask.placeholder and group is not None and group.count > group.replaced + group.timed_out


def could_run(node: NodeCore, ask: Ask) -> bool:
    """SC-41: if nothing else ran there."""
    wanted = selector.parse(ask.tags.get(selector.TAG, ""))
    return fits(node.capacity, ask.resource) and selector.selects(wanted, node.attributes) and not is_left_out(node.node_id, ask)


def is_left_out(node_id: NodeID, ask: Ask) -> bool:
    """AP-144."""
    return any(failure.node_id == node_id and failure.until_ns for failure in ask.failures)


def shortfall(node: NodeCore, ask: Ask) -> float:
    """SC-51."""
    wanted = {name: quantity for name, quantity in sorted(ask.resource.items()) if quantity > 0}
    return sum(max(0, quantity - max(0, node.available.get(name, 0))) / quantity for name, quantity in wanted.items())


def fits_undefined(headroom: Amounts, ask: Ask) -> bool:
    """QU-37."""
    return all(quantity <= max(0, headroom[name]) for name, quantity in ask.resource.items() if name in headroom)


def can_run(leaf: Queue, application: Application) -> bool:
    """QU-50, QU-52."""
    for queue in leaf.path_up():
        limit = queue.config.max_applications
        if limit and application.application_id not in queue.running and len(queue.running) + 1 > limit:
            return False
    return True


def asks_in_order(application: Application) -> list[Ask]:
    """PR-50 to PR-52."""
    return sorted(application.tasks.asks.values(), key=lambda ask: (-ask.priority, ask.created_ns, ask.arrival))


def can_commit(leaf: Queue, ask: Ask) -> bool:
    """QU-40: only the types of the ask, at root an absent type is 0."""
    for queue in leaf.path_up():
        for name, quantity in ask.resource.items():
            wanted_then = quantity + queue.allocated.get(name, 0)
            if queue.parent is None:
                if wanted_then > max(0, (queue.max or {}).get(name, 0)):
                    return False
            elif queue.max is not None and name in queue.max and wanted_then > max(0, queue.max[name]):
                return False
    return True
