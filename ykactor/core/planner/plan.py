"""A plan while it is made: the time, what it has decided and reported so far, and its budget.

A decision is for the owner of a node, a queue or an application. It changes the scheduler's state at once, as if the owner had
already carried it out.
"""

from __future__ import annotations

from ykactor.core.messages.asks import PREDICATE_TAG, Ask
from ykactor.core.messages.facts import Allocated, Fact
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.planned import Budget, Cancellation, Eviction, Planned, Replacement
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState, after_allocation
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.preemption.victims import Victim
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.pending_gang import PlacedPlaceholder
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import NodeID

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
        entries: what was decided, and the facts that are only reported, in their order. A replacement or an eviction ends the
            plan, because later decisions depend on its confirmation.
        batches: the decisions for each leaf, with their positions in ``entries``.
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
        self.entries: list[Planned | Fact] = []
        self.batches: dict[QueueUsage, list[tuple[int, Planned]]] = {}
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
        """Number of decisions and facts."""
        return len(self.entries)

    def may_read_owners(self) -> bool:
        """True if the owners agree with the scheduler's state: nothing is decided, and a turn has sent nodes all placements."""
        return not (self.entries or self._state.registry.unsent.behind)

    def is_idle(self) -> bool:
        """True if nothing was tried and nothing is decided or reported."""
        return not (self._has_tried or self.entries)

    def is_full(self) -> bool:
        """True if the budget of placements is used up."""
        return len(self.entries) >= self._budget.placements_max

    def report(self, *facts: Fact) -> None:
        """Add facts after everything decided so far."""
        self.entries += facts

    # ---- decisions

    def _decide(self, leaf: QueueUsage, planned: Planned) -> None:
        self.batches.setdefault(leaf, []).append((len(self.entries), planned))
        self.entries.append(planned)

    def place(self, leaf: QueueNode, application: PendingApplication, ask: Ask, node: IndexedNode) -> None:
        """Run an ask on a node: charge node, queues and limits, and update the application (AP-130).

        Most are of one of several equal asks of a running application: then little else changes, which is done directly.
        """
        state = self._state
        queue = application.asks[ask.allocation_key][1]
        waited = None if queue is not None and application.waits_for_turn(queue) else application.finish(ask)
        self._decide(leaf, Allocated(self.now_ns, ask, leaf.path, node.node_id, False, application.charged_to, waited))
        state.registry.unsent.note(node, ask)
        state.quota_reports.usage_grew()
        has_more = state.preemptions.last_attempts or state.nodes.predicates.counted
        if queue is None or has_more or queue.first() is not ask or not application.is_steady(queue):
            self._place_generally(leaf, application, ask, node)
            return
        application.begin_first(ask, queue)
        state.nodes.charge(node, ask.resource)
        state.ledger.charge(leaf, ask.resource)
        leaf.applications.advance(application)
        state.tree.update_places(leaf.path_up)

    def _place_generally(self, leaf: QueueNode, application: PendingApplication, ask: Ask, node: IndexedNode) -> None:
        """Place any ask of any application."""
        state = self._state
        application.discard(ask)
        if state.preemptions.last_attempts:
            state.preemptions.forget(ask)
        application.begin(ask)
        state.nodes.charge(node, ask.resource)
        self._use_answers(ask, node.node_id)
        state.ledger.charge(leaf, ask.resource)
        if ask.placeholder:
            state.place_placeholder(application, ask, node.node_id)
        if application.state is not ApplicationState.RUNNING and (not ask.placeholder or application.completes_gang()):
            self._predict_state(leaf, application)
        state.requeue(application)

    def _use_answers(self, ask: Ask, node_id: NodeID) -> None:
        """Use up predicate answers: a placement counts as soon as it is decided (SC-160)."""
        predicates = self._state.nodes.predicates
        if predicates.counted:
            predicates.place(ask.tags.get(PREDICATE_TAG, ""), node_id)

    def _predict_state(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Enter the state that the leaf will enter when it settles; later decisions of this plan depend on it."""
        state = self._state
        entered = after_allocation(application.state, stateaware=application.stateaware)
        if entered:
            application.enter(entered[-1])
            state.quota_reports.note(leaf, application)  # its asks now belong to other classes
            if application.state in COUNTED_AS_RUNNING:
                state.ledger.take_slot(leaf, application.application_id)

    def replace(
        self, application: PendingApplication, ask: Ask, placed: PlacedPlaceholder, elsewhere: IndexedNode | None = None
    ) -> None:
        """Replace a placeholder by a real ask, which takes its place, or one on the node ``elsewhere``, charged at once."""
        state, (placeholder, node_id) = self._state, placed
        if elsewhere is not None:
            node_id = elsewhere.node_id
            state.nodes.charge(elsewhere, ask.resource)
            state.registry.unsent.note(elsewhere, ask)
        self._use_answers(ask, node_id)
        self._withdraw(application, placeholder)
        application.wait_for(ask, PendingCode.PLACEHOLDER)
        application.discard(ask)
        state.preemptions.forget(ask)
        state.ledger.change_pending(application.leaf, {name: -quantity for name, quantity in ask.resource.items()})
        self._decide(application.leaf, Replacement(ask, placeholder.allocation_key, node_id))

    def cancel(self, application: PendingApplication, ask: Ask, placeholder: Ask) -> None:
        """Release a placeholder that is too small for a real ask of its task group."""
        self._withdraw(application, placeholder)
        self._decide(application.leaf, Cancellation(ask, placeholder.allocation_key))

    def _withdraw(self, application: PendingApplication, placeholder: Ask) -> None:
        assert application.gang is not None
        application.gang.withdraw(placeholder.allocation_key)

    def evict(self, victim: Victim, preemptor: Ask | None, message: str) -> None:
        """Release a running task: a victim of ``preemptor``, or of quota preemption (None)."""
        self._state.evict(victim.leaf, victim.task, preemptor)
        self._decide(victim.leaf, Eviction(victim.task, message))

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
