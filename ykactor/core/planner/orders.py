"""The orders of a plan: what the owners of nodes, queues and applications must do.

``apply`` changes the scheduler's state at once, as if the order had already been carried out.
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
    """

    planned: Allocated
    leaf: QueueNode
    application: PendingApplication
    node: IndexedNode

    def apply(self, state: SchedulerState) -> None:
        """Charge node, queues and limits, and update the application (AP-130).

        Most place one of several equal asks of a running application: then little else changes, which is done straight.
        """
        application, ask = self.application, self.planned.ask
        queue = application.asks[ask.spec.allocation_key][1]
        has_more = state.preemptions.last_attempts or state.nodes.predicates.counted
        if queue is None or has_more or queue.first() is not ask or not application.is_steady(queue):
            self.apply_generally(state)
            return
        state.pending_reasons.usage_grew()
        application.begin_first(ask, queue)
        state.nodes.charge(self.node, ask.spec.resource)
        state.ledger.charge(self.leaf, ask.spec.resource)
        self.leaf.applications.advance(application)
        state.tree.update_places(self.leaf.path_up)

    def apply_generally(self, state: SchedulerState) -> None:
        """As ``apply``, whatever the application is like."""
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
        if self.planned.ask.spec.placeholder and not application.completes_gang():
            return
        entered = after_allocation(application.state, stateaware=application.stateaware)
        if entered:
            application.enter(entered[-1])
            state.pending_reasons.note(self.leaf, application)  # its asks now belong to other classes
            if application.state in COUNTED_AS_RUNNING:
                state.ledger.take_slot(self.leaf, application.application_id)


def _use_answers(state: SchedulerState, ask: Ask, node_id: NodeID) -> None:
    """A placement counts as soon as it is decided (SC-160)."""
    state.nodes.predicates.place(ask.spec.tags.get(PREDICATE_TAG, ""), node_id)


def placement(now_ns: int, leaf: QueueNode, application: PendingApplication, ask: Ask, node: IndexedNode) -> Placement:
    """The order to run ``ask`` on ``node``."""
    allocated = Allocated(now_ns, ask, leaf.path, node.node_id, False, application.charged_to)
    return Placement(allocated, leaf, application, node)


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


Order = Placement | ReplacementOrder | CancellationOrder | EvictionOrder
