"""The orders of a plan: what the owners of nodes, queues and applications must do.

``apply`` changes the scheduler's state at once, as if the order had already been carried out. An order that a node may refuse
has ``undo``, which reverts this.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.asks import PREDICATE_TAG, Ask
from ykactor.core.messages.facts import Allocated
from ykactor.core.messages.planned import Cancellation, Eviction, Replacement
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState, after_allocation
from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.task_groups import PlacedPlaceholder
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import NodeID


class Placement(Struct, gc=False):
    """Run an ask on ``node``.

    Attributes:
        planned: sent to the leaf when the plan is settled.
        is_first: the first placement of the application, which counts as running for its user and group from now on (QU-74).
        held_slot: whether a running slot was reserved for the application before (QU-54).
    """

    planned: Allocated
    leaf: QueueNode
    application: PendingApplication
    node: IndexedNode
    is_first: bool
    held_slot: bool

    @property
    def ask(self) -> Ask:
        """The ask that the node must accept."""
        return self.planned.ask

    def apply(self, state: SchedulerState) -> None:
        """Charge node, queues and limits, and update the application (AP-130)."""
        application, ask, leaf = self.application, self.planned.ask, self.leaf
        state.pending_reasons.usage_grew()
        application.discard(ask)
        if state.preemptions.last_attempts:
            state.preemptions.forget(ask)
        application.begin(ask)
        state.nodes.charge(self.node, ask.spec.resource)
        if state.nodes.predicates.counted:
            _use_answers(state, ask, self.node.node_id)
        state.ledger.charge(leaf, ask.spec.resource)
        if ask.spec.placeholder:
            state.place_placeholder(application, ask, self.node.node_id)
        if application.state is not ApplicationState.RUNNING:
            self._predict_state(state)
        state.requeue(application)

    def _predict_state(self, state: SchedulerState) -> None:
        """Enter the state that the leaf will enter when it settles; later orders of this plan depend on it."""
        application = self.application
        if self.ask.spec.placeholder and not application.completes_gang():
            return
        entered = after_allocation(application.state, stateaware=application.stateaware)
        if entered:
            application.enter(entered[-1])
            state.pending_reasons.note(self.leaf, application)  # its asks now belong to other classes
            if application.state in COUNTED_AS_RUNNING:
                state.ledger.take_slot(self.leaf, application.application_id)

    def undo(self, state: SchedulerState) -> None:
        """The node has refused: the ask becomes pending again."""
        ask, application = self.ask, self.application
        state.ledger.refund(self.leaf, ask.spec.resource)
        application.put_back(ask)
        if application.gang is not None and ask.spec.placeholder:
            application.gang.take_back(ask)
        truth = state.registry.leaf(self.leaf.path).applications[application.application_id]
        if truth.state not in COUNTED_AS_RUNNING:
            state.ledger.give_slot_back(self.leaf, application.application_id)
            application.holds_slot = False
            application.touch()
        application.enter(truth.state)
        state.requeue(application)
        state.pending_reasons.note(self.leaf, application)


def _use_answers(state: SchedulerState, ask: Ask, node_id: NodeID) -> None:
    """A placement counts as soon as it is decided, also if the node refuses it (SC-160)."""
    state.nodes.predicates.place(ask.spec.tags.get(PREDICATE_TAG, ""), node_id)


def placement(now_ns: int, leaf: QueueNode, application: PendingApplication, ask: Ask, node: IndexedNode) -> Placement:
    """The order to run ``ask`` on ``node``."""
    allocated = Allocated(now_ns, ask, leaf.path, node.node_id, False, application.charged_to)
    return Placement(allocated, leaf, application, node, not application.counted_as_running, application.holds_slot)


class ReplacementOrder(Struct, gc=False):
    """Replace a placeholder by a real ask.

    Attributes:
        placed: the placeholder and its node.
        node: the node of the real ask if it is not the placeholder's; charged at once. None: the real ask takes the place of
            the placeholder.
    """

    planned: Replacement
    leaf: QueueNode
    application: PendingApplication
    placed: PlacedPlaceholder
    node: IndexedNode | None = None

    @property
    def ask(self) -> Ask:
        """The ask that the other node must accept."""
        return self.planned.ask

    def apply(self, state: SchedulerState) -> None:
        """The placeholder is no longer available, and the real ask is no longer pending."""
        application, ask = self.application, self.planned.ask
        assert application.gang is not None
        if self.node is not None:
            state.nodes.charge(self.node, ask.spec.resource)
        if state.nodes.predicates.counted:
            _use_answers(state, ask, self.planned.node_id)
        application.gang.withdraw(self.planned.placeholder)
        application.discard(ask)
        state.preemptions.forget(ask)
        state.ledger.change_pending(self.leaf, {name: -quantity for name, quantity in ask.spec.resource.items()})

    def undo(self, state: SchedulerState) -> None:
        """The other node has refused: the real ask is pending, and the placeholder available, again (GA-23)."""
        application, ask = self.application, self.planned.ask
        assert application.gang is not None
        application.gang.offer(*self.placed)
        application.add(ask)
        state.ledger.change_pending(self.leaf, ask.spec.resource)
        state.requeue(application)


class CancellationOrder(Struct, gc=False):
    """Release a placeholder that is too small for a real ask of its task group."""

    planned: Cancellation
    leaf: QueueNode
    application: PendingApplication
    node: None = None

    def apply(self, _: SchedulerState) -> None:
        """The placeholder is no longer available."""
        assert self.application.gang is not None
        self.application.gang.withdraw(self.planned.placeholder)


class EvictionOrder(Struct, gc=False):
    """Release a running task: a victim of ``preemptor``, or of quota preemption (None)."""

    planned: Eviction
    leaf: QueueUsage
    preemptor: Ask | None
    node: None = None

    def apply(self, state: SchedulerState) -> None:
        """Count the task as being preempted."""
        state.evict(self.leaf, self.planned.ask, self.preemptor)


#: Orders that are sent to a node, which may refuse them.
NodeOrder = Placement | ReplacementOrder
Order = NodeOrder | CancellationOrder | EvictionOrder
