"""A plan while it is made: the time, its orders and facts so far, and its budget."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.planner.orders import Order
from ykactor.core.state.state import SchedulerState

#: Work units of trying one candidate; 1 unit is a look at a node (about 10 us against 0.2 us).
TRY_WORK = 50
#: Work between two pauses of a plan: that of 96 candidates, of 15 to 100 us each. More pauses cost
#: throughput: each lets tasks run that have little to do yet.
PAUSE_WORK = 96 * TRY_WORK


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of one plan, in units of work, never in time: the same input gives the same plan on every machine."""

    placements_max: int
    #: ``TRY_WORK`` for each candidate tried, 1 for each node looked at.
    work_max: int


class PlanEnds(Exception):
    """The plan must end here: the next decision needs a new plan."""


class OutOfWork(PlanEnds):
    """The budget is used up."""


class Plan:
    """The result of planning.

    Attributes:
        orders: what owners must do, in the order of decision. A replacement or an eviction ends the plan, because later decisions
            depend on its confirmation.
        facts: what is only reported, each with the number of orders decided before it.
        at_rest: nothing more can be decided; False if the budget was used up first.
        recheck_ns: when a new plan is due although nothing has changed; None if there is no such time.
        effort: the work that it has taken so far.
        work: all of it; set when the plan is complete.
        search_work: the part of the work spent on searches for victims and placeholders.
    """

    def __init__(self, state: SchedulerState, now_ns: int, budget: Budget) -> None:
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
        #: Whether a candidate has been tried.
        self._has_tried = False
        #: Whether a search for victims has made progress.
        self._has_searched = False

    def __len__(self) -> int:
        """Number of orders and facts."""
        return len(self.orders) + len(self.facts)

    def may_read_owners(self) -> bool:
        """True if the owners agree with the scheduler's state: nothing is decided, and nodes have been sent all placements."""
        return not (self.orders or self.facts or self._state.registry.unsent.count)

    def is_idle(self) -> bool:
        """Whether nothing was tried and nothing is decided or reported."""
        return not (self._has_tried or self.orders or self.facts)

    def is_full(self) -> bool:
        """Whether the budget of placements is used up."""
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
        """Whether other tasks should run before the next candidate, because a part of the plan is complete."""
        if self.effort.spent < self._pause_at:
            return False
        self._pause_at = self.effort.spent + PAUSE_WORK
        return True

    def is_out_of_work(self) -> bool:
        """Whether the budget of work is used up."""
        return self.effort.spent > self._budget.work_max

    def spend(self, work: int) -> None:
        """Count work that has been done."""
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
