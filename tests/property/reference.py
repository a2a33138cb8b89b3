"""The next placement, found the slow way: a literal reading of the rules, sorting everything from scratch.

It shares nothing with the planner and its indexes. It reads what the owners hold (leaves, nodes, configuration) and knows
nothing of the ledger. What the owners do not hold, who an application runs as and what it counted for, it gathers from the
facts. Rule numbers are those of the reference; each function says which it is.
"""

from __future__ import annotations

from functools import cmp_to_key

from people import People
from queuetree import STATE, Amounts, Queue, priority_of, strictly_positive, total, usage, wanted

from ykactor.core.applications import Application
from ykactor.core.decisions import Decision
from ykactor.core.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.messages import AllocationSpec, Ask
from ykactor.core.nodes import NodeCore
from ykactor.core.partition import PartitionCore
from ykactor.core.queueconfig import NodeSortPolicy

Found = tuple[ApplicationID, AllocationKey, NodeID]


class Reference:
    """What a partition should do next, step by step."""

    def __init__(self, partition: PartitionCore) -> None:
        self.partition = partition
        self.people = People()

    def next_placement(self, facts: list[Decision]) -> Found | None:
        """What one scheduling step decides (section 4 of PR, sections 2 to 5 of SC); None when there is nothing to place.

        Args:    facts: all of the partition's since its beginning, in order.
        """
        roster = self.partition.roster
        nodes = list(roster.nodes.values())
        root = Queue(self.partition, QueuePath("root"), None)
        root.max = total(node.capacity for node in nodes)  # QU-30
        self.people.hear(facts)
        self.people.choose_groups(root)
        if not any(quantity > 0 for quantity in root.max.values()):
            return None  # SC step 0, PR-26
        return Step(nodes, roster.config.node_sort_policy, self.people).walk(root)


# ---- section 5 of PR: children


def in_order(parent: Queue) -> list[Queue]:
    """The children that have pending resources (PR-29), by the comparators of 5.2."""
    children = [child for child in parent.children if strictly_positive(child.pending)]
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


# ---- section 6 of PR: applications


def applications_in_order(leaf: Queue) -> list[Application]:
    """6.1"""
    properties, guaranteed = leaf.config.properties, leaf.config.guaranteed or {}
    candidates = leaf.applications
    if properties.sort_policy == "stateaware":
        candidates = stateaware(candidates, by_priority=properties.sort_by_priority)
    candidates = [application for application in candidates if strictly_positive(wanted(application))]

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
    """6.2: one number for each type, ascending."""
    return sorted(
        0.0 if amount == 0 else float(amount) / float(guaranteed[name]) if guaranteed.get(name) else float(amount)
        for name, amount in usage(application).items()
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
        return strictly_positive(wanted(application))

    def urgency(application: Application) -> tuple:
        importance = -priority_of(application) if by_priority and pending(application) else 0
        return importance, application.submission_ns, -(priority_of(application) or 0), application.arrival

    kept = [it for it in applications if it.state in (STATE.RUNNING, STATE.COMPLETING)]
    starting = [it for it in applications if it.state is STATE.STARTING]
    accepted = [it for it in applications if it.state is STATE.ACCEPTED and pending(it)]
    if starting:
        kept.append(min(starting, key=lambda it: (not pending(it), urgency(it))))
    elif accepted:
        kept.append(min(accepted, key=urgency))
    return kept


# ---- one step


class Step:
    """The walk of one step, with the nodes as they are now."""

    def __init__(self, nodes: list[NodeCore], policy: NodeSortPolicy, people: People) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.policy = policy
        self.people = people

    def walk(self, queue: Queue) -> Found | None:
        """PR-27, PR-28."""
        if queue.is_leaf:
            return self.try_leaf(queue)
        for child in in_order(queue):
            found = self.walk(child)
            if found is not None:
                return found
        return None

    def try_leaf(self, leaf: Queue) -> Found | None:
        """Sections 3 and 4 of SC."""
        for application in applications_in_order(leaf):
            can_begin = can_run(leaf, application) and self.people.can_run(leaf, application)
            if application.state is STATE.ACCEPTED and not can_begin:
                continue
            room = self.people.headroom(leaf, application)
            for ask in asks_in_order(application):
                if fits_undefined(room, ask.spec):  # QU-39, QU-72
                    node = self.try_ask(leaf, ask.spec)
                    if node is not None:
                        return application.application_id, ask.spec.allocation_key, node.node_id
        return None

    def try_ask(self, leaf: Queue, spec: AllocationSpec) -> NodeCore | None:
        """Headroom, then a node, then the commit (SC-43)."""
        headroom = leaf.headroom()
        if headroom is not None and not fits_undefined(headroom, spec):
            return None
        for node in self.candidates(spec):
            if all(quantity <= max(0, node.available.get(name, 0)) for name, quantity in spec.resource.items()):  # SC-42
                return node if can_commit(leaf, spec) else None
        return None

    def candidates(self, spec: AllocationSpec) -> list[NodeCore]:
        """PR-65: its required node (SC-70 to SC-72), or all schedulable ones in order."""
        for tag in ("kubernetes.io/meta/requiredNode", "yunikorn.apache.org/requiredNode"):  # AP-54
            if spec.tags.get(tag):
                node = self.nodes.get(spec.tags[tag])
                return [] if node is None else [node]
        return sorted((node for node in self.nodes.values() if node.schedulable), key=self.rank)

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


def fits_undefined(headroom: Amounts, spec: AllocationSpec) -> bool:
    """QU-37."""
    return all(quantity <= max(0, headroom[name]) for name, quantity in spec.resource.items() if name in headroom)


def can_run(leaf: Queue, application: Application) -> bool:
    """QU-50, QU-52."""
    for queue in leaf.path_up():
        limit = queue.config.max_applications
        if limit and application.application_id not in queue.running and len(queue.running) + 1 > limit:
            return False
    return True


def asks_in_order(application: Application) -> list[Ask]:
    """PR-50 to PR-52."""
    return sorted(application.asks.values(), key=lambda ask: (-ask.spec.priority, ask.created_ns, ask.arrival))


def can_commit(leaf: Queue, spec: AllocationSpec) -> bool:
    """QU-40: only the types of the ask, at root an absent type is 0."""
    for queue in leaf.path_up():
        for name, quantity in spec.resource.items():
            wanted_then = quantity + queue.allocated.get(name, 0)
            if queue.parent is None:
                if wanted_then > max(0, (queue.max or {}).get(name, 0)):
                    return False
            elif queue.max is not None and name in queue.max and wanted_then > max(0, queue.max[name]):
                return False
    return True
