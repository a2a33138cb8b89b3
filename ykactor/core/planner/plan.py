"""A plan in the making: what it has decided so far, when, and how much more it may do."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.facts import Fact
from ykactor.core.planner.orders import Order
from ykactor.core.state.state import SchedulerState

#: What trying one candidate costs, in looks at a node (about 4 us against 0.2).
TRY_WORK = 20


class Budget(Struct, frozen=True):
    """How much one plan may do, in units of work and never in time: the same input gives the same plan everywhere."""

    placements_max: int
    #: ``TRY_WORK`` for each candidate tried, 1 for each node looked at.
    work_max: int


class PlanEnds(Exception):
    """What comes next has to be decided in a plan of its own."""


class OutOfWork(PlanEnds):
    """The budget is used up."""


class Plan:
    """What a plan decides.

    Attributes:
        orders: what owners must do, in the order of decision. A replacement or an eviction ends the plan: what follows builds on
            its confirmation.
        facts: what is only reported, each with the number of orders decided before it.
        at_rest: nothing more can be placed; False when the budget ran out first.
        recheck_ns: when to look again at what waits although nothing has changed; None while there is no such time.
        work: units of work spent in all, once the plan is made.
        search_work: the part of the work that went into searches for victims.
    """

    def __init__(self, state: SchedulerState, now_ns: int, budget: Budget) -> None:
        self.now_ns = now_ns
        self.orders: list[Order] = []
        self.facts: list[tuple[int, Fact]] = []
        self.at_rest = False
        self.recheck_ns: int | None = None
        self.work = 0
        self.search_work = 0
        self._state = state
        self._budget = budget
        self._work = 0
        #: Whether a search for victims has made progress.
        self._has_searched = False
        state.nodes.visited = state.tree.effort.spent = 0

    def __len__(self) -> int:
        """How many orders and facts there are."""
        return len(self.orders) + len(self.facts)

    def is_full(self) -> bool:
        """Whether the budget's placements are used up."""
        return len(self) >= self._budget.placements_max

    def decide(self, order: Order) -> None:
        """Add an order, and change the state as if it were carried out."""
        order.apply(self._state)
        self.orders.append(order)

    def report(self, *facts: Fact) -> None:
        """Add facts behind what was decided so far."""
        position = len(self.orders)
        self.facts += [(position, fact) for fact in facts]

    # ---- work

    def spent(self) -> int:
        """Units of work spent so far, while the plan is being made."""
        return self._work + self._state.nodes.visited + self._state.tree.effort.spent

    def is_out_of_work(self) -> bool:
        """Whether the budget's work is used up."""
        return self.spent() > self._budget.work_max

    def spend(self, work: int) -> None:
        """Account for work that has been done."""
        self._work += work

    def try_candidate(self) -> None:
        """Called before a candidate is tried, when ending the plan would change nothing."""
        if self.is_out_of_work():
            raise OutOfWork
        self._work += TRY_WORK

    def search(self, work: int) -> None:
        """Called before a search does something that it need not do again: at least once in each plan it makes progress."""
        if self._has_searched and self.is_out_of_work():
            raise OutOfWork
        self._has_searched = True
        self._work += work
        self.search_work += work
