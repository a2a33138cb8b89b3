"""The search for victims: the cheapest set of tasks that may be preempted for an ask (PE-30 to PE-44, PE-60 to PE-62).

All victims of a set run on one node. ``PromisingNodes`` has the nodes in the order of a lower bound of the number of victims; the
search solves them in that order until no other node can be better.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from ykactor.core.messages.asks import Ask, Shape, shape_of
from ykactor.core.nodes.index import IndexedNode, NodeIndex
from ykactor.core.objects.application import Application
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.registry import Registry
from ykactor.core.preemption.laws import Needs, Trigger, VictimSet, effective_priority, fence_root, use
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.ids import ApplicationID, NodeID
from ykactor.core.values.resources import Resource
from ykactor.core.values.sorted_list import SortedList
from ykactor.core.values.words import plural

#: Rejected nodes that a ``Preempted`` fact names.
REJECTED_MAX = 5
#: Work units of sorting the tasks of a node that has changed (1 is a look at a node): for the node, and for each task.
LIST_WORK, TASK_WORK = 20, 6
#: Promising nodes of all shapes together, about 250 bytes each; above it the oldest orders are dropped.
ENTRIES_MAX = 100_000


#: (least number of victims, age rank, node id) of a node that is promising for an ask: the lowest is the best (PE-44).
Rank = tuple[int, int, NodeID]


class Victim(Struct, frozen=True, gc=False):
    """A task to be preempted, and its queue."""

    task: Ask
    leaf: QueueUsage


class Solution(Struct, frozen=True):
    """A sufficient set of victims on one node; none of them could be left out (PE-42).

    Attributes:
        has_room: the node has room for the ask already; only a queue is at its max.
    """

    node: IndexedNode
    victims: list[Victim]
    has_room: bool

    def rank(self) -> tuple[bool, bool, int, int, NodeID]:
        """Sort key: the lowest is the best solution (PE-44)."""
        tasks = [victim.task for victim in self.victims]
        is_last_resort = not all(task.allow_preempt_self for task in tasks)
        oldest_ns = min(task.created_ns for task in tasks)
        age = _age_rank(oldest_ns, has_room=self.has_room)
        return is_last_resort, any(task.originator for task in tasks), len(tasks), age, self.node.node_id


def _age_rank(created_ns: int, *, has_room: bool) -> int:
    """The rank of a victim by age: newer ones are better if only a queue is at its max; otherwise age does not matter (PE-44)."""
    return -created_ns if has_room else 0


#: (application, priority, size).
KindKey = tuple[str, int, tuple[tuple[str, int], ...]]


class TaskKind(Struct, eq=False, weakref=True):
    """Tasks of one application with equal priority and size: if the laws protect one of them, they protect all.

    Attributes:
        example: one of these tasks; it may have ended since.
    """

    example: Ask


class NodeTasks:
    """The tasks of one node in the order in which they are preempted (PE-32).

    Newest first; tasks that do not allow to be preempted, and originators, last.

    Attributes:
        kinds: the kinds of these tasks.
    """

    def __init__(self, core: NodeCore, kind_of: Callable[[Ask], TaskKind]) -> None:
        self.revision = core.revision
        self.tasks = sorted(core.allocations.values(), key=_order)
        self.kinds = tuple(dict.fromkeys(map(kind_of, self.tasks)))

    @cached_property
    def newest_ns(self) -> int:
        """The creation time of the newest task; there must be one."""
        return max(task.created_ns for task in self.tasks)

    @cached_property
    def largest(self) -> Resource:
        """The largest amount of each type that one task uses."""
        largest: Resource = {}
        for task in self.tasks:
            for name, amount in task.resource.items():
                if amount > largest.get(name, 0):
                    largest[name] = amount
        return largest


def _order(task: Ask) -> tuple[bool, bool, int, str, str]:
    return not task.allow_preempt_self, task.originator, -task.created_ns, task.allocation_key, task.application_id


def pinned_order(task: Ask, needs: Needs) -> tuple[bool, bool, int, int, tuple[int, ...], str, str]:
    """Sort key of tasks that are preempted for an ask that requires their node (PE-61)."""
    amounts = tuple(task.resource.get(name, 0) for name, _ in needs)  # needs are sorted by type name
    last_resort = not task.allow_preempt_self, task.originator
    return *last_resort, task.priority, -task.created_ns, amounts, task.allocation_key, task.application_id


class Tasks:
    """The sorted tasks of all nodes; a node that has changed is sorted again."""

    def __init__(self, core_of: Callable[[NodeID], NodeCore]) -> None:
        self._core_of = core_of
        #: By node object, not by name: a new node may have the name of a removed one.
        self._lists: WeakKeyDictionary[NodeCore, NodeTasks] = WeakKeyDictionary()
        #: The kinds that the lists use.
        self.kinds: WeakValueDictionary[KindKey, TaskKind] = WeakValueDictionary()

    def on(self, node_id: NodeID, spend: Callable[[int], None]) -> NodeTasks:
        """The tasks of a node; ``spend`` is called with the cost in work units before any work is done."""
        core = self._core_of(node_id)
        found = self._lists.get(core)
        if found is None or found.revision != core.revision:
            spend(LIST_WORK + TASK_WORK * len(core.allocations))
            found = self._lists[core] = NodeTasks(core, self._kind_of)
        return found

    def _kind_of(self, task: Ask) -> TaskKind:
        key = task.application_id, task.priority, tuple(task.resource.items())
        found = self.kinds.get(key)
        if found is None:
            found = self.kinds[key] = TaskKind(task)
        return found


def lacking(needs: Needs, available: Resource) -> Resource:
    """The amounts that a node lacks for ``needs``; available amounts may be negative (PE-39 a)."""
    missing = {}
    for name, wanted in needs:
        left = wanted - available.get(name, 0)
        if left > 0:
            missing[name] = left
    return missing


def choose(tasks: Iterable[Ask], needs: Resource, may_take: Callable[[Ask], bool]) -> list[Ask]:
    """Tasks that together cover ``needs``, chosen in order, without superfluous ones (PE-40, PE-42); [] if they cannot."""
    left, chosen = dict(needs), []
    for task in tasks:
        resource = task.resource
        if any(resource.get(name, 0) > 0 for name in left) and may_take(task):
            chosen.append(task)
            left = {name: amount - resource.get(name, 0) for name, amount in left.items() if amount > resource.get(name, 0)}
            if not left:
                return _pruned(chosen, needs)
    return []


def _pruned(chosen: list[Ask], needs: Resource) -> list[Ask]:
    surplus = {name: sum(task.resource.get(name, 0) for task in chosen) - wanted for name, wanted in needs.items()}
    kept = []
    for task in reversed(chosen):
        resource = task.resource
        if all(spare >= resource.get(name, 0) for name, spare in surplus.items()):
            surplus = {name: spare - resource.get(name, 0) for name, spare in surplus.items()}
        else:
            kept.append(task)
    return kept[::-1]


class Preemption(Struct, frozen=True):
    """An ask that may preempt.

    Attributes:
        leaf: its queue.
        needs: its amounts above 0.
        allowed: its right to preempt.
    """

    ask: Ask
    leaf: QueueUsage
    needs: Needs
    allowed: Trigger


class RunningTasks:
    """A read-only view of nodes and leaves."""

    def __init__(self, registry: Registry, applications: Mapping[ApplicationID, PendingApplication]) -> None:
        self._registry = registry
        self._applications = applications

    def on_node(self, node_id: NodeID) -> NodeCore:
        """The owner of a node."""
        return self._registry.nodes[node_id]

    def began_ns(self, task: Ask) -> int:
        """The time when a task began to run, in ns."""
        return self._owner_of(task).tasks.began_ns[task.allocation_key]

    def queue_of(self, task: Ask) -> QueueUsage:
        """The queue of a task's application."""
        return self._applications[task.application_id].leaf

    def queue_of_victim(self, task: Ask) -> QueueUsage | None:
        """The queue of a task that may be preempted; None for one that may not (PE-30).

        A possible victim runs, requires no node, and is not being released.
        """
        owner, key = self._owner_of(task), task.allocation_key
        is_possible = key in owner.tasks.allocations and key not in owner.tasks.released and shape_of(task)[1] is None
        return self.queue_of(task) if is_possible else None

    def of_leaf(self, leaf: QueueUsage) -> Iterator[Ask]:
        """The tasks of a leaf; lazily, because they can be many."""
        owners = self._registry.leaf(leaf.path).applications.values()
        return (task for owner in owners for task, _ in owner.tasks.allocations.values())

    def _owner_of(self, task: Ask) -> Application:
        application = self._applications[task.application_id]
        return self._registry.leaf(application.leaf.path).applications[application.application_id]


class Search:
    """The search for victims of one ask in other queues.

    Args:
        tasks_on: gives the tasks of a node.

    Attributes:
        queue_needs: per type, the largest excess over the max of a queue on its path if the ask ran (PE-39 b).
        rejected: nodes that were not chosen, each with the reason; the best first.
    """

    def __init__(self, preemption: Preemption, running: RunningTasks, tasks_on: Callable[[NodeID], NodeTasks]) -> None:
        self._ask = preemption.ask
        self._leaf = preemption.leaf
        self._needs = preemption.needs
        self._is_own = preemption.allowed.is_own
        #: The queue below which victims are searched for.
        self._fence = fence_root(self._leaf, self._needs)
        self._running = running
        self._tasks_on = tasks_on
        self._ancestors = set(self._leaf.path_up)
        self.queue_needs = self._excess()
        #: (queue, priority) -> True if tasks of this priority in the queue may be victims.
        self._allowed: dict[tuple[QueueUsage, int], bool] = {}
        #: True if a task of a kind could be the only victim.
        self._could_be_victim: dict[TaskKind, bool] = {}
        self.rejected: list[tuple[NodeID, str]] = []

    def _excess(self) -> Resource:
        room: Resource = {}
        for queue in self._leaf.path_up:
            limit = queue.max or {}
            for name, wanted in self._needs:
                over = use(queue, name) + wanted - limit[name] if name in limit else 0
                if over > room.get(name, 0):
                    room[name] = over
        return room

    def rank(self, node: IndexedNode, tasks: NodeTasks) -> Rank | None:
        """The rank of a node for these needs and ``queue_needs``; None if no number of its tasks makes room."""
        needs, has_room = self._needs_on(node)
        least = _least(needs, tasks.largest)
        return (least, _age_rank(tasks.newest_ns, has_room=has_room), node.node_id) if least else None

    def run(self, nodes: Iterator[tuple[Rank, IndexedNode]], kinds: Mapping[KindKey, TaskKind]) -> Solution | None:
        """The best solution on any of ``nodes``; None when there is none.

        Args:
            nodes: in the order of their ranks (PE-44).
            kinds: the kinds of all tasks; checked after as many nodes without a solution, so that a search in vain ends early.
        """
        best: Solution | None = None
        for number, (rank, node) in enumerate(nodes):
            if number == len(kinds) and best is None and not self._has_candidate(kinds.values()):
                break
            if best is not None and best.rank() < (False, False, *rank):
                others = islice(chain([(rank, node)], nodes), max(0, REJECTED_MAX - len(self.rejected)))
                for (least, _, node_id), _ in others:
                    self.rejected.append((node_id, f"at least {plural(least, 'task')} would be preempted"))
                break
            found = self._solve(node)
            if found is not None and (best is None or found.rank() < best.rank()):
                found, best = best, found
            self._reject(node.node_id if found is None else found.node.node_id, found, best)
        return best

    def _reject(self, node_id: NodeID, found: Solution | None, best: Solution | None) -> None:
        if best is not None and best.node.node_id == node_id:
            return
        if found is None:
            self.rejected.append((node_id, "too little can be preempted there"))
            return
        is_last_resort, has_originator, count, *_ = found.rank()
        spared = ", also such as are spared where possible" if is_last_resort or has_originator else ""
        self.rejected.insert(0, (node_id, f"{plural(count, 'task')} would be preempted{spared}"))

    def _needs_on(self, node: IndexedNode) -> tuple[Resource, bool]:
        """The amounts to be freed on the node (PE-39), and True if the node has room for the ask already."""
        needs = lacking(self._needs, node.available)
        has_room = not needs
        for name, amount in self.queue_needs.items():
            if amount > needs.get(name, 0):
                needs[name] = amount
        return needs, has_room

    def _has_candidate(self, kinds: Iterable[TaskKind]) -> bool:
        """True if any task of these kinds could be preempted; usually found in the cache."""
        could_be_victim = self._could_be_victim
        for kind in kinds:
            found = could_be_victim.get(kind)
            if found is None:
                example = kind.example
                leaf = self._running.queue_of(example)
                exchange = VictimSet(self._leaf, self._needs, is_own=self._is_own)
                found = self._may_come_from(leaf, example.priority) and exchange.can_take(leaf, example.resource)
                could_be_victim[kind] = found
            if found:
                return True
        return False

    def _solve(self, node: IndexedNode) -> Solution | None:
        tasks = self._tasks_on(node.node_id)
        if not self._has_candidate(tasks.kinds):
            return None
        needs, has_room = self._needs_on(node)
        exchange = VictimSet(self._leaf, self._needs, is_own=self._is_own)
        leaves: dict[int, QueueUsage] = {}

        def may_take(task: Ask) -> bool:
            leaf = self._running.queue_of_victim(task)
            if leaf is None or not self._may_come_from(leaf, task.priority):
                return False
            leaves[id(task)] = leaf
            return exchange.take(leaf, task.resource)

        chosen = choose(tasks.tasks, needs, may_take)
        return Solution(node, [Victim(task, leaves[id(task)]) for task in chosen], has_room) if chosen else None

    def _may_come_from(self, leaf: QueueUsage, priority: int) -> bool:
        """True if fence, queue policy and priorities let tasks of ``leaf`` be victims (PE-20, PE-28, PE-30)."""
        allowed = self._allowed.get((leaf, priority))
        if allowed is None:
            is_open = leaf.config.properties.preemption_policy != "disabled"
            is_inside = self._fence in leaf.path_up and leaf is not self._leaf
            allowed = self._allowed[leaf, priority] = is_open and is_inside and self._is_lower(leaf, priority)
        return allowed

    def _is_lower(self, leaf: QueueUsage, priority: int) -> bool:
        common = next(queue for queue in leaf.path_up if queue in self._ancestors)
        own = effective_priority(self._ask.priority, self._leaf, common)
        return effective_priority(priority, leaf, common) <= own


def _least(needs: Resource, largest: Resource) -> int:
    """A lower bound of the number of tasks that cover ``needs``; 0 if no number of tasks can."""
    least = 0
    for name, amount in needs.items():
        size = largest.get(name)
        if not size:
            return 0
        least = max(least, -(-amount // size))
    return least


class _Kept:
    """The order of the promising nodes of one shape.

    Attributes:
        basis: values on which the ranks depend beside the nodes.
        due: nodes that have not been ranked yet, the last first; until then they are nowhere else.
        seen: changes of nodes up to this count are in ``due`` or ranked.
        ranks: the nodes that are large enough and not reserved; None for one where no number of tasks makes room.
        order: the nodes by rank.
        reserved: the nodes that are large enough and reserved; few searches may use them.
    """

    __slots__ = ("basis", "due", "order", "ranks", "reserved", "seen")

    def __init__(self, basis: object, due: list[IndexedNode], seen: int) -> None:
        self.basis = basis
        self.due = dict.fromkeys(due)
        self.seen = seen
        self.ranks: dict[IndexedNode, Rank | None] = {}
        self.order: SortedList[IndexedNode] = SortedList()
        self.reserved: dict[IndexedNode, None] = {}

    def look_again(self, node: IndexedNode) -> None:
        """Rank a node again that is new, has changed or was removed."""
        rank = self.ranks.pop(node, None)
        if rank is not None:
            self.order.remove(rank)
        self.reserved.pop(node, None)
        self.due[node] = None


class PromisingNodes:
    """The promising nodes of shapes: nodes where victims could make room, those with the fewest victims first.

    An order is made for a shape when an ask of it searches for victims. Later searches only update it, from a log of
    changed nodes.
    """

    def __init__(self, nodes: NodeIndex, tasks: Tasks) -> None:
        self._nodes = nodes
        self._tasks = tasks
        self._kept: dict[Shape, _Kept] = {}

    def for_search(
        self, search: Search, shape: Shape, reserved: Iterable[IndexedNode], spend: Callable[[int], None]
    ) -> tuple[int, Iterator[tuple[Rank, IndexedNode]]]:
        """The number of nodes that could be reserved for the ask (PE-38, PE-52), and the promising ones, best first.

        Args:
            reserved: the reserved nodes whose reservations give way to the ask; other reserved nodes are left out.
            spend: called with the cost of sorting the tasks of a changed node; if it raises, the next call goes on from there.
        """
        kept = self._up_to_date(search, shape, spend)
        usable = [node for node in reserved if node in kept.reserved]
        ranked = [(rank, node) for node in usable if (rank := search.rank(node, self._tasks.on(node.node_id, spend))) is not None]
        order = ((rank, node) for node in kept.order if (rank := kept.ranks[node]) is not None)
        return len(kept.ranks) + len(usable), heapq.merge(order, sorted(ranked, key=lambda entry: entry[0]))

    def _up_to_date(self, search: Search, shape: Shape, spend: Callable[[int], None]) -> _Kept:
        changed, predicates = self._nodes.changed, self._nodes.predicates
        basis = tuple(sorted(search.queue_needs.items())), predicates.changes if shape[3] else 0
        kept = self._kept.get(shape)
        news = None if kept is None or kept.basis != basis else changed.since(kept.seen)
        if kept is None or news is None:
            self._kept.pop(shape, None)
            while self._kept and (len(self._kept) + 1) * len(self._nodes.nodes) > ENTRIES_MAX:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[shape] = _Kept(basis, list(self._pool(shape))[::-1], changed.count)
        else:
            for node in news:
                kept.look_again(node)
            kept.seen = changed.count
        while kept.due:
            node = next(reversed(kept.due))
            self._look_at(kept, search, shape, node, spend)
            del kept.due[node]
        return kept

    def _pool(self, shape: Shape) -> Iterable[IndexedNode]:
        nodes, predicate = self._nodes.nodes, shape[3]
        passed = self._nodes.predicates.passed((predicate, True)) if predicate else nodes
        return (nodes[node_id] for node_id in passed)

    def _look_at(self, kept: _Kept, search: Search, shape: Shape, node: IndexedNode, spend: Callable[[int], None]) -> None:
        needs, _, selector, predicate = shape
        if not node.schedulable or not node.could_fit(needs, selector):  # a removed node is not schedulable
            return
        if predicate and self._nodes.predicates.verdict((predicate, True), node.node_id) is not True:
            return
        if node.reserved:
            kept.reserved[node] = None
            return
        rank = kept.ranks[node] = search.rank(node, self._tasks.on(node.node_id, spend))
        if rank is not None:
            kept.order.add(rank, node)
