"""A plan while it is made: the time, its orders and facts so far, and its budget.

An order is for the owner of a node, a queue or an application. ``apply`` changes the scheduler's state at once, as if the order
had already been carried out.
"""

from __future__ import annotations

from typing import final

from ykactor.core.messages.asks import PREDICATE_TAG, Ask
from ykactor.core.messages.facts import Allocated, Fact
from ykactor.core.messages.planned import Budget, Cancellation, Eviction, Replacement
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState, after_allocation
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import NodeID


@final
class Placement:
    """Run an ask on ``node``; ``planned`` is sent to the leaf when the plan is settled."""

    __slots__ = ("application", "leaf", "node", "planned")

    def __init__(self, now_ns: int, leaf: QueueNode, application: PendingApplication, ask: Ask, node: IndexedNode) -> None:
        self.planned = Allocated(now_ns, ask, leaf.path, node.node_id, False, application.charged_to)
        self.leaf = leaf
        self.application = application
        self.node = node

    def apply(self, state: SchedulerState) -> None:
        """Charge node, queues and limits, and update the application (AP-130).

        Most are of one of several equal asks of a running application: then little else changes, which is done directly.
        """
        application, ask = self.application, self.planned.ask
        queue = application.asks[ask.allocation_key][1]
        has_more = state.preemptions.last_attempts or state.nodes.predicates.counted
        if queue is None or has_more or queue.first() is not ask or not application.is_steady(queue):
            self.apply_generally(state)
            return
        state.quota_reports.usage_grew()
        application.begin_first(ask, queue)
        state.nodes.charge(self.node, ask.resource)
        state.ledger.charge(self.leaf, ask.resource)
        self.leaf.applications.advance(application)
        state.tree.update_places(self.leaf.path_up)

    def apply_generally(self, state: SchedulerState) -> None:
        """Apply the placement of any ask of any application."""
        application, ask, leaf = self.application, self.planned.ask, self.leaf
        state.quota_reports.usage_grew()
        application.discard(ask)
        if state.preemptions.last_attempts:
            state.preemptions.forget(ask)
        application.begin(ask)
        state.nodes.charge(self.node, ask.resource)
        if state.nodes.predicates.counted:
            _use_answers(state, ask, self.node.node_id)
        state.ledger.charge(leaf, ask.resource)
        if ask.placeholder:
            state.place_placeholder(application, ask, self.node.node_id)
        if application.state is not ApplicationState.RUNNING:
            self._predict_state(state)
        state.requeue(application)

    def _predict_state(self, state: SchedulerState) -> None:
        """Enter the state that the leaf will enter when it settles; later orders of this plan depend on it."""
        application = self.application
        if self.planned.ask.placeholder and not application.completes_gang():
            return
        entered = after_allocation(application.state, stateaware=application.stateaware)
        if entered:
            application.enter(entered[-1])
            state.quota_reports.note(self.leaf, application)  # its asks now belong to other classes
            if application.state in COUNTED_AS_RUNNING:
                state.ledger.take_slot(self.leaf, application.application_id)


def _use_answers(state: SchedulerState, ask: Ask, node_id: NodeID) -> None:
    """Use up predicate answers: a placement counts as soon as it is decided (SC-160)."""
    state.nodes.predicates.place(ask.tags.get(PREDICATE_TAG, ""), node_id)


@final
class ReplacementOrder:
    """Replace a placeholder by a real ask.

    Attributes:
        node: the node of the real ask if it is not the placeholder's; charged at once. None: the real ask takes the place of
            the placeholder.
    """

    __slots__ = ("application", "leaf", "node", "planned")

    def __init__(
        self, planned: Replacement, leaf: QueueNode, application: PendingApplication, node: IndexedNode | None = None
    ) -> None:
        self.planned = planned
        self.leaf = leaf
        self.application = application
        self.node = node

    def apply(self, state: SchedulerState) -> None:
        """Withdraw the placeholder, and remove the real ask from the pending ones."""
        application, ask = self.application, self.planned.ask
        assert application.gang is not None
        if self.node is not None:
            state.nodes.charge(self.node, ask.resource)
        if state.nodes.predicates.counted:
            _use_answers(state, ask, self.planned.node_id)
        application.gang.withdraw(self.planned.placeholder)
        application.discard(ask)
        state.preemptions.forget(ask)
        state.ledger.change_pending(self.leaf, {name: -quantity for name, quantity in ask.resource.items()})


@final
class CancellationOrder:
    """Release a placeholder that is too small for a real ask of its task group."""

    __slots__ = ("application", "leaf", "node", "planned")

    def __init__(self, planned: Cancellation, leaf: QueueNode, application: PendingApplication) -> None:
        self.planned = planned
        self.leaf = leaf
        self.application = application
        self.node = None

    def apply(self, _: SchedulerState) -> None:
        """Withdraw the placeholder."""
        assert self.application.gang is not None
        self.application.gang.withdraw(self.planned.placeholder)


@final
class EvictionOrder:
    """Release a running task: a victim of ``preemptor``, or of quota preemption (None)."""

    __slots__ = ("leaf", "node", "planned", "preemptor")

    def __init__(self, planned: Eviction, leaf: QueueUsage, preemptor: Ask | None) -> None:
        self.planned = planned
        self.leaf = leaf
        self.preemptor = preemptor
        self.node = None

    def apply(self, state: SchedulerState) -> None:
        """Count the task as being preempted."""
        state.evict(self.leaf, self.planned.ask, self.preemptor)


Order = Placement | ReplacementOrder | CancellationOrder | EvictionOrder


#: Work units of trying one candidate; 1 unit is a look at a node (about 10 us against 0.2 us).
TRY_WORK = 50
#: Work between two pauses of a plan: that of 96 candidates, of 15 to 100 us each. More pauses cost
#: throughput: each lets tasks run that have little to do yet.
PAUSE_WORK = 96 * TRY_WORK


class PlanEnds(Exception):
    """The plan must end here: the next decision needs a new plan."""


class OutOfWork(PlanEnds):
    """The budget is used up."""


class Plan:
    """The result of planning.

    Attributes:
        orders: the orders for owners, in the order of decision. A replacement or an eviction ends the plan, because later
            decisions depend on its confirmation.
        facts: facts that are only reported, each with the number of orders decided before it.
        at_rest: nothing more can be decided; False if the budget was used up first.
        recheck_ns: the time when a new plan is due although nothing has changed; None if there is none.
        effort: counts the work spent so far.
        work: the work spent; set when the plan is complete.
        search_work: the part of the work spent on searches for victims and placeholders.
        may_preempt: False: classes that would preempt are put off to the next plan.
    """

    def __init__(self, state: SchedulerState, now_ns: int, budget: Budget, *, may_preempt: bool = True) -> None:
        self.may_preempt = may_preempt
        self.now_ns = now_ns
        self.orders: list[Order] = []
        self.facts: list[tuple[int, Fact]] = []
        self.at_rest = False
        self.recheck_ns: int | None = None
        self.work = 0
        self.effort = state.tree.effort
        self.effort.spent = 0
        self.search_work = 0
        self._state = state
        self._budget = budget
        #: The work after which other tasks run next.
        self._pause_at = PAUSE_WORK
        #: True if a candidate has been tried.
        self._has_tried = False
        #: True if a search for victims has made progress.
        self._has_searched = False

    def __len__(self) -> int:
        """Number of orders and facts."""
        return len(self.orders) + len(self.facts)

    def may_read_owners(self) -> bool:
        """True if the owners agree with the scheduler's state: nothing is decided, and nodes have been sent all placements."""
        return not (self.orders or self.facts or self._state.registry.unsent.count)

    def is_idle(self) -> bool:
        """True if nothing was tried and nothing is decided or reported."""
        return not (self._has_tried or self.orders or self.facts)

    def is_full(self) -> bool:
        """True if the budget of placements is used up."""
        return len(self.orders) + len(self.facts) >= self._budget.placements_max

    def decide(self, order: Order) -> None:
        """Add an order and apply it to the scheduler's state."""
        order.apply(self._state)
        self.orders.append(order)
        if order.node is not None:
            self._state.registry.unsent.note(order.node, order.planned.ask)

    def report(self, *facts: Fact) -> None:
        """Add facts after everything decided so far."""
        position = len(self.orders)
        self.facts += [(position, fact) for fact in facts]

    # ---- work

    def is_pause_due(self) -> bool:
        """True if other tasks should run before the next candidate, because a part of the plan is complete."""
        if self.effort.spent < self._pause_at:
            return False
        self._pause_at = self.effort.spent + PAUSE_WORK
        return True

    def is_out_of_work(self) -> bool:
        """True if the budget of work is used up."""
        return self.effort.spent > self._budget.work_max

    def spend(self, work: int) -> None:
        """Count work that was done."""
        self.effort.spent += work

    def try_candidate(self) -> None:
        """Count the work of trying a candidate; called before, when the plan can still end without side effects.

        Each plan allows at least one candidate, so that a budget smaller than the way to it does not stop progress.

        Raises:
            OutOfWork: the budget is used up.
        """
        effort = self.effort
        if effort.spent > self._budget.work_max and self._has_tried:
            raise OutOfWork
        self._has_tried = True
        effort.spent += TRY_WORK

    def search(self, work: int) -> None:
        """Count the work of a part of a search; called before. Each plan allows at least one part, so that every search ends.

        Raises:
            OutOfWork: the budget is used up.
        """
        if self._has_searched and self.is_out_of_work():
            raise OutOfWork
        self._has_searched = True
        self.effort.spent += work
        self.search_work += work
