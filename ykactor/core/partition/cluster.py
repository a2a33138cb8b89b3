"""The nodes of a partition: the routes of submissions to nodes, and the total capacity."""

from __future__ import annotations

from ykactor.core.accounting.books import Books
from ykactor.core.messages.asks import NEGATIVE_RESOURCES, Ask
from ykactor.core.messages.facts import (
    AllocationRejected,
    Fact,
    ForeignChanged,
    NodeAdded,
    NodeCapacityChanged,
    NodeRejected,
    NodeRemoved,
    PredicateAnswered,
    PredicateServiceChanged,
    PredicatesForgotten,
    QueueLimitChanged,
)
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.messages.kinds import Change, NodeAction, QueueLimit, RejectionCode
from ykactor.core.messages.submissions import (
    PARTITION_ATTRIBUTE,
    AnswerPredicate,
    ForgetPredicates,
    ReleaseAllocations,
    SetPredicateService,
    Submission,
    UpdateNode,
)
from ykactor.core.objects.commands import (
    NodeCommand,
    PlaceForeign,
    Register,
    ReleaseForeign,
    SetAttributes,
    SetCapacity,
    SetSchedulable,
)
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import AllocationKey, NodeID, PartitionName, QueuePath
from ykactor.core.values.resources import Resource, add_to, subtract_from

_ROOT = QueuePath("root")

#: A command for a node, or the fact if no node is concerned.
Routed = tuple[NodeCore, NodeCommand[list[Fact]]] | Fact


class Cluster:
    """The set of nodes, the places of foreign allocations, and the sum of all capacities."""

    def __init__(self, partition: PartitionName, nodes: dict[NodeID, NodeCore], books: Books) -> None:
        self._partition = partition
        self._nodes = nodes
        self._books = books
        #: Sum of all node capacities, schedulable or not (QU-30).
        self._total: Resource = {}
        self._capacities: dict[NodeID, Resource] = {}
        #: The usage of each foreign allocation.
        self._used: dict[AllocationKey, Resource] = {}
        #: The node of each foreign allocation.
        self.foreign: KeptRows[AllocationKey, NodeID] = KeptRows(books.changed.foreign)

    def route(self, now_ns: int, submission: Submission) -> list[Routed]:
        """The commands or facts that follow from a submission; a new node is in the set at once."""
        match submission:
            case UpdateNode(node_id, NodeAction.CREATE | NodeAction.CREATE_DRAIN as action):
                if node_id in self._nodes:
                    return [NodeRejected(now_ns, node_id, self._duplicate_text(node_id), RejectionCode.DUPLICATE)]
                is_schedulable, attributes = action is NodeAction.CREATE, submission.attributes
                core = NodeCore(node_id, submission.capacity or {}, is_schedulable, attributes, self._books.changed)
                self._nodes[node_id] = core
                self._books.add_node(node_id, attributes)
                return [(core, Register(now_ns))]
            case UpdateNode(node_id) if node_id not in self._nodes:
                return []
            case UpdateNode(node_id, NodeAction.UPDATE, capacity, attributes):
                return self._route_update(now_ns, self._nodes[node_id], capacity, attributes)
            case UpdateNode(node_id, NodeAction.DRAIN_NODE | NodeAction.DRAIN_TO_SCHEDULABLE as action):
                return [(self._nodes[node_id], SetSchedulable(now_ns, action is NodeAction.DRAIN_TO_SCHEDULABLE))]
            case Ask() as ask:
                return self._route_foreign(now_ns, ask)
            case ReleaseAllocations(_, key) if key is not None and key in self.foreign:
                return [(self._nodes[self.foreign.pop(key)], ReleaseForeign(now_ns, key))]
            case AnswerPredicate(predicate, node_id, allocate, error, uses) if node_id in self._nodes:
                return [PredicateAnswered(now_ns, predicate, node_id, allocate, error, uses)]
            case ForgetPredicates(predicate, name):
                return [PredicatesForgotten(now_ns, predicate, name)]
            case SetPredicateService(is_there):
                return [PredicateServiceChanged(now_ns, is_there)]
        return []

    def _route_update(self, now_ns: int, core: NodeCore, capacity: Resource | None, attributes: dict[str, str]) -> list[Routed]:
        """The command to update a node: only what the entry has is replaced; an entry may name the partition (SC-152, SC-159)."""
        routed: list[Routed] = []
        if capacity is not None:
            routed.append((core, SetCapacity(now_ns, capacity)))
        if attributes.keys() - {PARTITION_ATTRIBUTE}:
            self._books.remove_node(core.node_id)
            self._books.add_node(core.node_id, attributes)
            routed.append((core, SetAttributes(now_ns, attributes)))
        return routed

    def _route_foreign(self, now_ns: int, ask: Ask) -> list[Routed]:
        """The commands for a new or changed foreign allocation (SC-81)."""
        key = ask.allocation_key
        if ask.node_id is None:
            reason = f"trying to add a foreign request (non-allocation) {key}"
            return [AllocationRejected(now_ns, key, ask.application_id, reason, RejectionCode.NO_NODE)]
        if ask.node_id not in self._nodes:
            reason = f"failed to find node {ask.node_id} for allocation {key}"
            return [AllocationRejected(now_ns, key, ask.application_id, reason, RejectionCode.NO_NODE)]
        if any(quantity < 0 for quantity in ask.resource.values()):
            code = RejectionCode.NEGATIVE_RESOURCES
            return [AllocationRejected(now_ns, key, ask.application_id, NEGATIVE_RESOURCES, code)]
        routed: list[Routed] = []
        before = self.foreign.get(key)
        if before is not None and before != ask.node_id:  # SC-82: it moved
            routed.append((self._nodes[before], ReleaseForeign(now_ns, key)))
        self.foreign[key] = ask.node_id
        routed.append((self._nodes[ask.node_id], PlaceForeign(now_ns, ask)))
        return routed

    def _duplicate_text(self, node_id: NodeID) -> str:
        return (
            "failure while adding new node, node rejected with error: \n"
            f"failed to add node {node_id} to partition {self._partition}, error: "
            f"partition {self._partition} has an existing node {node_id}, node name must be unique"
        )

    def take_out(self, node_id: NodeID) -> None:
        """Remove a node that has left, and the foreign allocations on it (SC-84)."""
        for key in self._nodes.pop(node_id).foreign:
            del self.foreign[key]
            self._books.types.remove(self._used.pop(key))

    def adopt(self) -> Resource | None:
        """Count the restored nodes and their foreign allocations. Returns the max of root."""
        for node_id, node in self._nodes.items():
            self.foreign.restore((key, node_id) for key in node.foreign)
            self._books.add_node(node_id, node.attributes)
            self._capacities[node_id] = node.capacity
            self._books.types.add(node.capacity)
            add_to(self._total, node.capacity)
            for key, task in node.foreign.items():
                self._used[key] = task.resource
                self._books.types.add(task.resource)
        return self._root_max()

    def update_total(self, fact: Fact) -> list[Fact]:
        """Update root's max after a change of capacity; it is reported before the node's own fact (EV-22)."""
        if type(fact) is ForeignChanged:
            self._count_foreign(fact)
        if not isinstance(fact, NodeAdded | NodeCapacityChanged | NodeRemoved):
            return [fact]
        before = self._capacities.pop(fact.node_id, {})
        subtract_from(self._total, before)
        self._books.types.remove(before)
        if not isinstance(fact, NodeRemoved):
            self._capacities[fact.node_id] = fact.capacity
            self._books.types.add(fact.capacity)
            add_to(self._total, fact.capacity)
            if fact.capacity == before:
                return [fact]
        elif not before:
            return [fact]
        return [QueueLimitChanged(fact.at_ns, _ROOT, QueueLimit.MAX, self._root_max()), fact]

    def _count_foreign(self, fact: ForeignChanged) -> None:
        self._books.types.remove(self._used.pop(fact.allocation_key, {}))
        if fact.change is not Change.REMOVE:
            self._used[fact.allocation_key] = fact.resource
            self._books.types.add(fact.resource)

    def _root_max(self) -> Resource | None:
        return dict(self._total) if any(value > 0 for value in self._total.values()) else None
