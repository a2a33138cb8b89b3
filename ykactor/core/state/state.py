"""The state of a partition's scheduler, and the few ways in which it changes.

``SchedulerState`` holds the ledger, the queue tree, the pending applications, the nodes, reservations and preemption attempts.
The ``Observer`` keeps it up to date with the facts of the owners. Between two observations only the planner changes it, and the
owners confirm these changes. ``inspection.invariants`` computes the whole state again from the owners and compares. A
``Worklist`` collects what an observation still has to bring up to date.

Classes that cannot be placed are parked and cost nothing until they are tried again:
- everywhere, when something grew: less is in use, or a limit is larger (``capacity_grew``);
- in one leaf, when something changed there and an equivalence class of it is not parked (``QueueTree.wake``);
- one class that waits for answers about nodes, when its queue is filled meanwhile (``QuotaReports``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ykactor.core.messages.asks import Ask, ask_id, shape_of
from ykactor.core.messages.facts import Fact, Reserved, Unreserved
from ykactor.core.messages.states import WINDING_UP, ApplicationState
from ykactor.core.nodes.index import IndexedNode, NodeIndex
from ykactor.core.nodes.reservations import RESERVATION_DELAY_NS, Reservation, Reservations
from ykactor.core.objects.registry import Registry
from ykactor.core.preemption.attempts import PreemptionAttempts
from ykactor.core.preemption.quota import QuotaClocks
from ykactor.core.preemption.victims import RunningTasks
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.quota.ledger import Ledger, QueueUsage
from ykactor.core.quota.limits import Trackers
from ykactor.core.values.ids import ApplicationID, NodeID
from ykactor.core.values.resources import Resource
from ykactor.core.values.times import NEVER
from ykactor.core.waiting.quota_reports import QuotaReports
from ykactor.core.waiting.scheduling_states import SchedulingStates


class GangPairs:
    """The applications that have pairs, by leaf; those that are set aside are in ``aside`` instead."""

    def __init__(self) -> None:
        self.by_leaf: dict[QueueNode, dict[PendingApplication, None]] = {}
        self.aside: dict[PendingApplication, QueueNode] = {}
        #: The counts of opened nodes and changed answers when applications were last offered again.
        self.recalled_at = -1, -1

    def note(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Note that asks or placeholders of an application have changed."""
        self.forget(leaf, application)
        gang = application.gang
        is_kept_back = application.state is ApplicationState.FAILING or application.hold is not None or leaf.is_held()
        if gang is not None and gang.has_pair() and not is_kept_back:
            self.by_leaf.setdefault(leaf, {})[application] = None

    def forget(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Forget an application that has no pairs, or leaves the queue."""
        self.aside.pop(application, None)
        if leaf in self.by_leaf:
            self.by_leaf[leaf].pop(application, None)
            if not self.by_leaf[leaf]:
                del self.by_leaf[leaf]

    def clear(self) -> None:
        """Forget all applications: all orders are rebuilt."""
        self.by_leaf.clear()
        self.aside.clear()

    def set_aside(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Set an application aside: no replacement is possible until a node, an answer or the application changes."""
        if application in self.by_leaf.get(leaf, ()):
            self.forget(leaf, application)
            self.aside[application] = leaf

    def recall(self, changes: tuple[int, int]) -> None:
        """Offer applications that were set aside again if a node or an answer has changed."""
        self.recalled_at = changes
        for application, leaf in self.aside.items():
            self.by_leaf.setdefault(leaf, {})[application] = None
        self.aside.clear()


class SchedulerState:
    """The state of one partition's scheduler.

    Attributes:
        registry: the owners; read only.
        applications: every live application.
        trackers: the limits of users and groups that applications count against.
        quota_reports: what owners of pending asks and applications are told of quotas.
        scheduling_states: what the resource manager was told of pending asks.
        reservations: the nodes that are reserved for asks.
        preemptions: the preemption attempts in progress, and their victims.
        clocks: the times when queues above their max have to release tasks.
        pairs: applications with a real ask that could replace a placeholder.
        tasks: running tasks, read from their owners.
        reserves: True if asks reserve nodes (SC-50); asks that require their node always do.
        generation: one higher whenever something grew.
        backoffs: the applications in back-off, each with its end (SC-38).
        next_eligible_ns: the time when the next ask is old enough to reserve or preempt; None while no ask has failed to find a
            node, so that ages do not matter.
    """

    def __init__(self, registry: Registry, *, reserves: bool = True) -> None:
        self.registry = registry
        self.reserves = reserves
        self.ledger = Ledger()
        self.tree = QueueTree(registry.changed)
        self.nodes = NodeIndex(registry.config.node_sort_policy, registry.changed, self.tree.effort, reserves=reserves)
        self.applications: dict[ApplicationID, PendingApplication] = {}
        self.trackers = Trackers()
        self.reservations = Reservations(self.nodes, registry.changed)
        self.preemptions = PreemptionAttempts(registry.changed)
        self.clocks = QuotaClocks(registry.changed)
        self.quota_reports = QuotaReports(self.tree)
        self.scheduling_states = SchedulingStates()
        self.pairs = GangPairs()
        self.tasks = RunningTasks(registry, self.applications)
        self.generation = 0
        self.backoffs: dict[PendingApplication, int] = {}
        self.next_eligible_ns: int | None = None

    def preempts(self) -> bool:
        """True if asks may preempt at all."""
        return self.registry.config.preemption.enabled

    def enforces_quotas(self) -> bool:
        """True if queues above their max have to release tasks (quota preemption)."""
        return self.registry.config.preemption.quota_enabled

    def leaf_of(self, application: PendingApplication) -> QueueNode:
        """The leaf of an application."""
        return self.tree.leaf_of(application)

    def owner_of(self, ask: Ask) -> tuple[QueueNode, PendingApplication]:
        """The leaf and the application of an ask."""
        application = self.applications[ask.application_id]
        return self.tree.leaf_of(application), application

    # ---- waking

    def capacity_grew(self) -> None:
        """Try everything again that is parked: something that did not fit may fit now."""
        self.generation += 1

    def note_eligible(self, at_ns: int = NEVER) -> None:
        """Note that asks found no room: one may reserve or preempt at ``at_ns``, and the age of new asks matters from now on."""
        self.next_eligible_ns = at_ns if self.next_eligible_ns is None else min(self.next_eligible_ns, at_ns)

    def note_ages(self, leaf: QueueNode, asks: Iterable[Ask]) -> None:
        """Note the age of asks that are offered from now on; their class may have been parked when all its asks were younger."""
        if self.next_eligible_ns is not None:
            for ask in asks:
                delay_ns = leaf.config.properties.preemption_delay_ns if ask.allow_preempt_other else RESERVATION_DELAY_NS
                self.note_eligible(ask.since_ns + min(delay_ns, RESERVATION_DELAY_NS))

    def park(self, leaf: QueueNode, ask_class: AskClass) -> None:
        """Park a class: nothing in it can be placed until something grows."""
        leaf.applications.park(ask_class)
        self.quota_reports.note_class(leaf, ask_class)

    def wait(self, leaf: QueueNode, ask_class: AskClass) -> None:
        """Let a class wait: nothing in it can be placed, and no node reserved for it, until a node opens for it."""
        leaf.applications.wait(ask_class)
        self.quota_reports.note_class(leaf, ask_class)

    # ---- orders

    def update_position(self, leaf: QueueNode, application: PendingApplication) -> bool:
        """Bring the position of an application in its leaf up to date. Returns whether its priority changed."""
        if application.gang is not None:
            self.pairs.note(leaf, application)
        classes_before = application.in_classes
        priority = application.priorities.highest if application.hold is None else None
        has_changed = priority != application.shown_priority
        if has_changed or leaf.applications.has_moved(application):
            leaf.applications.update(application)
        if has_changed:
            leaf.priorities.replace(application.shown_priority, priority)
            application.shown_priority = priority
        if self.next_eligible_ns is not None and application.in_classes not in (None, classes_before):
            self.note_ages(leaf, (ask for ask, _ in application.asks.values()))
        return has_changed

    def requeue(self, application: PendingApplication) -> None:
        """Bring the positions of an application and of all queues above it up to date at once: the planner reads them next."""
        leaf = self.tree.leaf_of(application)
        if self.update_position(leaf, application):
            self.tree.refresh_priority(leaf)
        self.tree.update_places(leaf.path_up)

    # ---- reservations and preemption

    def reserve(self, now_ns: int, application: PendingApplication, ask: Ask, node: IndexedNode) -> Reserved:
        """Reserve ``node`` for a pending ask. No amount changes (SC-55), but the application has started (SC-24)."""
        self.occupy(application, ask)
        self.reservations.add(now_ns, application, ask, node)
        self.hold_slot(application)
        self.requeue(application)
        return Reserved(now_ns, ask, application.leaf.path, node.node_id)

    def occupy(self, application: PendingApplication, ask: Ask) -> None:
        """Let a pending ask wait for the node that is reserved for it."""
        application.reserve(ask, contends=self.may_still_preempt(ask), preempts=ask_id(ask) in self.preemptions.by_ask)

    def unreserve(self, at_ns: int, reservation: Reservation, *, runs: bool = False) -> Unreserved:
        """Offer the node to all asks again, and queue the ask again; the caller brings the positions up to date.

        Args:
            runs: True if the ask is placed at once.
        """
        application = reservation.application
        self.reservations.remove(reservation)
        application.unreserve(reservation.ask)
        leaf = self.tree.leaf_of(application)
        if ask_id(reservation.ask) in self.preemptions.by_ask:
            self.preemptions.end(leaf, reservation.ask, runs=runs)
        self.capacity_grew()
        self.quota_reports.note(leaf, application)
        return Unreserved(at_ns, reservation.ask, leaf.path, reservation.node.node_id)

    def may_still_preempt(self, ask: Ask) -> bool:
        """True if an ask with a reservation still tries to preempt (PE-70)."""
        may_preempt = ask.allow_preempt_other and shape_of(ask)[1] is None
        return may_preempt and ask_id(ask) not in self.preemptions.by_ask

    def evict(self, leaf: QueueUsage, task: Ask, preemptor: Ask | None) -> None:
        """Count a task as victim: it will be released, and a placeholder cannot be replaced any more."""
        self.preemptions.counts.evictions += 1
        self.preemptions.add_victim(leaf, task, preemptor)
        self._withdraw(task)

    def count_as_going(self, leaf: QueueUsage, task: Ask) -> None:
        """Count a task that is ending already as if it were a victim of preemption (AP-145)."""
        self.preemptions.add_victim(leaf, task, None)
        self._withdraw(task)

    def _withdraw(self, task: Ask) -> None:
        application = self.applications[task.application_id]
        if application.gang is not None:
            application.gang.withdraw(task.allocation_key)
            self.pairs.note(self.tree.leaf_of(application), application)

    # ---- placeholders

    def place_placeholder(self, application: PendingApplication, ask: Ask, node_id: NodeID) -> None:
        """Offer an allocated placeholder for replacement; its application holds a running slot (QU-54)."""
        assert application.gang is not None
        application.gang.place(ask, node_id)
        if application.state in WINDING_UP:  # it is released at once
            application.gang.withdraw(ask.allocation_key)
        self.hold_slot(application)

    def hold_slot(self, application: PendingApplication) -> None:
        """Reserve a running slot for an application that is still Accepted; it has a placeholder or a reservation (QU-54)."""
        if application.state is ApplicationState.ACCEPTED and not application.holds_slot:
            application.hold_slot()
            self.ledger.hold_slot(application.leaf, application.application_id)
            self.quota_reports.usage_grew()


class Worklist:
    """Collects changes while facts are observed.

    Attributes:
        consequences: facts caused by the fact that is being processed; they are published with it.
        applications, leaves, nodes: the objects that have changed.
        woken: applications that had nothing left, and have an ask or allocation again (QU-70).
        pending: changes of pending amounts by leaf.
        tree_changed: True if a queue became a leaf or a parent.
        is_out_of_order: True if the facts and their consequences must be sorted (EV-30).
    """

    def __init__(self) -> None:
        self.consequences: list[Fact] = []
        self.applications: dict[PendingApplication, None] = {}
        self.woken: dict[PendingApplication, None] = {}
        self.leaves: dict[QueueNode, None] = {}
        self.nodes: dict[NodeID, None] = {}
        self.pending: dict[QueueUsage, Resource] = {}
        self.tree_changed = False
        self.is_out_of_order = False

    def touch(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Note a changed application of ``leaf``."""
        self.applications[application] = None
        self.leaves[leaf] = None

    def begin(self, application: PendingApplication) -> None:
        """Note that an ask or allocation of an application is new; to be called before anything of it is counted."""
        if application.enrolled and not application.asks and not application.allocated:
            self.woken[application] = None

    def change_pending(self, leaf: QueueUsage, resource: Resource, sign: int) -> None:
        """Note that asks of ``leaf`` became pending (``sign`` 1) or are no longer pending (-1)."""
        change = self.pending.get(leaf)
        if change is None:
            change = self.pending[leaf] = {}
        for name, quantity in resource.items():
            change[name] = change.get(name, 0) + sign * quantity

    def forget_leaves(self, tree: QueueTree) -> None:
        """Forget leaves that are gone: the tree was rebuilt without them."""
        self.leaves = {leaf: None for leaf in self.leaves if tree.nodes.get(leaf.path) is leaf}

    def take_consequences(self) -> list[Fact]:
        """The consequences since the last call."""
        taken, self.consequences = self.consequences, []
        return taken


#: Processes one fact of its type.
Handler = Callable[[SchedulerState, Worklist, Any], None]
