"""What a plan orders the owners to do.

Each order changes the scheduler's state as if it were carried out the moment it is planned (``apply``), and can take that back
where a node may refuse it (``undo``).
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated
from ykactor.core.messages.planned import Cancellation, Eviction, Replacement
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState, after_allocation
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.task_groups import PlacedPlaceholder
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState


class Placement(Struct, gc=False):
    """An ask is to run on ``node``.

    Attributes:
        planned: what the leaf is told.
        is_first: user and group count the application from here on (QU-74).
    """

    planned: Allocated
    leaf: QueueNode
    application: PendingApplication
    node: IndexedNode
    is_first: bool

    @property
    def ask(self) -> Ask:
        """What the node has to take."""
        return self.planned.ask

    def apply(self, state: SchedulerState) -> None:
        """Charge everything that a placement changes (AP-130)."""
        application, ask, leaf = self.application, self.planned.ask, self.leaf
        state.pending_reasons.usage_grew()
        application.discard(ask)
        state.preemptions.forget(ask)
        application.begin(ask)
        state.nodes.charge(self.node, ask.spec.resource)
        state.ledger.charge(leaf, ask.spec.resource)
        if ask.spec.placeholder:
            state.place_placeholder(application, ask, self.node.node_id)
        if application.state is not ApplicationState.RUNNING:
            self._predict_state(state)
        state.requeue(application)

    def _predict_state(self, state: SchedulerState) -> None:
        """The leaf will move the application when it settles; later orders of this plan already build on it."""
        application = self.application
        if self.ask.spec.placeholder and not application.completes_gang():
            return
        entered = after_allocation(application.state, stateaware=application.stateaware)
        if entered:
            application.enter(entered[-1])
            state.pending_reasons.note(self.leaf, application)  # its asks are in other classes from now on
            if application.state in COUNTED_AS_RUNNING:
                state.ledger.take_slot(self.leaf, application.application_id)

    def undo(self, state: SchedulerState) -> None:
        """The node has refused: the ask is pending again."""
        ask, application = self.ask, self.application
        state.ledger.refund(self.leaf, ask.spec.resource)
        application.put_back(ask)
        if application.gang is not None and ask.spec.placeholder:
            application.gang.take_back(ask)
        truth = state.registry.leaf(self.leaf.path).applications[application.application_id]
        if truth.state not in COUNTED_AS_RUNNING:
            state.ledger.give_slot_back(self.leaf, application.application_id)
            application.holds_slot = False
        application.enter(truth.state)
        state.requeue(application)
        state.pending_reasons.note(self.leaf, application)


def placement(now_ns: int, leaf: QueueNode, application: PendingApplication, ask: Ask, node: IndexedNode) -> Placement:
    """The order to run ``ask`` on ``node``."""
    allocated = Allocated(now_ns, ask, leaf.path, node.node_id, False, application.charged_to)
    return Placement(allocated, leaf, application, node, not application.counted_as_running)


class ReplacementOrder(Struct, gc=False):
    """A real ask takes the place of a placeholder.

    Attributes:
        holder: the placeholder and its node.
        node: where the real ask has its place if that is another node: it is charged at once.
    """

    planned: Replacement
    leaf: QueueNode
    application: PendingApplication
    holder: PlacedPlaceholder
    node: IndexedNode | None = None

    @property
    def ask(self) -> Ask:
        """What the other node has to take."""
        return self.planned.ask

    def apply(self, state: SchedulerState) -> None:
        """The placeholder cannot be replaced by anything else, and the real ask is no longer pending."""
        application, ask = self.application, self.planned.ask
        assert application.gang is not None
        if self.node is not None:
            state.nodes.charge(self.node, ask.spec.resource)
        application.gang.withdraw(self.planned.placeholder)
        application.discard(ask)
        state.preemptions.forget(ask)
        state.ledger.change_pending(self.leaf, {name: -quantity for name, quantity in ask.spec.resource.items()})

    def undo(self, state: SchedulerState) -> None:
        """The other node has refused: the real ask is pending again, and the placeholder may be replaced (GA-23)."""
        application, ask = self.application, self.planned.ask
        assert application.gang is not None
        application.gang.offer(*self.holder)
        application.add(ask)
        state.ledger.change_pending(self.leaf, ask.spec.resource)
        state.requeue(application)


class CancellationOrder(Struct, gc=False):
    """A placeholder is too small for the asks of its group and is released."""

    planned: Cancellation
    leaf: QueueNode
    application: PendingApplication
    node: None = None

    def apply(self, _: SchedulerState) -> None:
        """The placeholder cannot be replaced any more."""
        assert self.application.gang is not None
        self.application.gang.withdraw(self.planned.placeholder)


class EvictionOrder(Struct, gc=False):
    """A running task is released for ``preemptor``, or because its queue is above its quota (None)."""

    planned: Eviction
    leaf: QueueUsage
    preemptor: Ask | None
    node: None = None

    def apply(self, state: SchedulerState) -> None:
        """The task counts as being released."""
        state.evict(self.leaf, self.planned.ask, self.preemptor)


#: Orders that a node has to take; it may refuse.
NodeOrder = Placement | ReplacementOrder
Order = NodeOrder | CancellationOrder | EvictionOrder
