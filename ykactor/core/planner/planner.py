"""The walk: what is placed next, and where (PR-25 to PR-31, SC-20 to SC-45).

``Planner.plan`` is one synchronous function. It reads the indexes, charges them for what it places, and answers a
``Plan``. Each step begins at root with fresh values, as if it were the only one; that nothing is sorted anew for it
is the indexes' affair. A candidate that can place nothing is parked (see ``ordering``), so that a step costs what it
looks at and not what waits.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.inquiry import WAITS, Inquiry
from ykactor.core.planner.placeholder_step import PlaceholderStep
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.planner.quota_preemption_step import QuotaStep
from ykactor.core.planner.reservation_step import ReservedStep
from ykactor.core.planner.steps import PlanEnds, Step, place
from ykactor.core.planner.unschedulable_step import LastResorts
from ykactor.core.queueing.equivalence import HAS_NODE, RESERVES, AskQueue, Line
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.quota import headroom
from ykactor.core.quota.ledger import Account
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.backoff import has_enough
from ykactor.core.state.state import Indexes

#: A plan that searched this much for victims is followed by one that does not, so that others are placed meanwhile.
SEARCH_WORK_MAX = 10_000
#: What trying one candidate costs, in looks at a node (about 4 us against 0.2).
TRY_WORK = 20
#: What looking at one reservation costs.
SCAN_WORK = 5


class Budget(Struct, frozen=True):
    """How much one plan may do, in units of work and never in time: the same input gives the same plan everywhere."""

    placements_max: int
    #: ``TRY_WORK`` for each candidate tried, 1 for each node looked at.
    work_max: int


class Plan(Struct):
    """What a plan decided.

    Attributes:
        steps: in the order in which they were decided. A replacement or an eviction ends the plan: what follows builds on its
            confirmation.
        at_rest: nothing more can be placed; False when the budget ran out first.
        work: units spent.
    """

    steps: list[Step]
    at_rest: bool
    work: int


class _OutOfWork(Exception):
    """The budget is used up."""


class Planner:
    """Plans on the indexes of one partition."""

    def __init__(self, indexes: Indexes) -> None:
        self.indexes = indexes
        self.ledger = indexes.ledger
        self.nodes = indexes.nodes
        self._reservations = indexes.reservations
        self._inquiry = Inquiry(indexes.nodes)
        self._quotas = QuotaStep(indexes)
        preemptor = self.preemptor = Preemptor(indexes, self._spend_on_search)
        self._reserved = ReservedStep(indexes, self._inquiry, preemptor)
        self._placeholders = PlaceholderStep(indexes, self._inquiry, self._spend_on_search)
        self._resorts = LastResorts(indexes, self._inquiry, preemptor)
        self._steps: list[Step] = []
        self._work = 0
        self._work_max = 0
        #: The part of the work that went into searches for victims.
        self._search_work = 0
        #: Whether a search for victims has got anywhere in the present plan.
        self._has_searched = False

    def plan(self, now_ns: int, budget: Budget) -> Plan:
        """Place what can be placed, best first, within ``budget``."""
        steps = self._steps = []
        at_rest = False
        self._work = self.nodes.visited = self.ledger.effort.spent = 0
        self._work_max = budget.work_max
        self._resorts.begin_plan(may_preempt=self._search_work < SEARCH_WORK_MAX)
        self._search_work = 0
        self._has_searched = False
        self.indexes.come_of_age(now_ns)
        self.indexes.recall()
        if back := self._quotas.run(now_ns):  # in a plan of their own, as all that reads the owners
            return Plan(back, False, TRY_WORK * len(back))
        if not self.ledger.root_max:  # no node resources (PR-26)
            return Plan(steps, True, self._spent())
        try:
            while len(steps) < budget.placements_max and not at_rest:
                if self._reservations.by_ask and self._place_reserved(now_ns):
                    continue
                if self.indexes.replaceable:  # in a plan of their own: a node may still refuse what was just placed
                    if not steps:
                        self._placeholders.run(now_ns, steps, budget.placements_max)
                    if steps:
                        break
                at_rest = not self._step(now_ns)
        except (_OutOfWork, PlanEnds):
            pass  # what was parked on the way stays parked: the next plan goes on from here
        if at_rest:
            steps += self.indexes.remarks.tell(now_ns)
            at_rest = not self.indexes.remarks
        return Plan(steps, at_rest and not self._resorts.put_off, self._spent())

    def _spend(self) -> None:
        """Called before a candidate is tried, when leaving would change nothing."""
        if self._spent() > self._work_max:
            raise _OutOfWork
        self._work += TRY_WORK

    def _spend_on_search(self, work: int) -> None:
        """Called before a search does something that it will not have to do again: at least once in each plan it goes on."""
        if self._has_searched and self._spent() > self._work_max:
            raise _OutOfWork
        self._has_searched = True
        self._work += work
        self._search_work += work

    def _spent(self) -> int:
        return self._work + self.nodes.visited + self.ledger.effort.spent

    def _step(self, now_ns: int) -> bool:
        """One decision from root; answers whether there was one."""
        queue = self.ledger.root
        self._resorts.begin_pass()
        while True:
            if queue.is_leaf:
                if self._try_leaf(now_ns, queue):
                    return True
            else:
                child = queue.children.first(self.indexes.generation)
                if child is not None:
                    queue = child
                    continue
            if queue.parent is None:
                return False
            queue.parent.children.park(queue)
            queue = queue.parent

    def _place_reserved(self, now_ns: int) -> bool:
        """Step 1 of a pass."""
        if self._steps and self._spent() > self._work_max:
            raise _OutOfWork
        count = len(self._steps)
        is_served = self._reserved.run(now_ns, self._steps)
        if is_served:  # else it is not looked at again, so that a small budget is no reason to do so for ever
            self._work += TRY_WORK * (len(self._steps) - count) + SCAN_WORK * self._reserved.scanned
        return is_served

    def _try_leaf(self, now_ns: int, leaf: Account) -> bool:
        """The applications of a leaf in their order, their asks in theirs (SC-21 to SC-24, SC-148)."""
        order = leaf.applications
        while (application := order.first(self.indexes.generation)) is not None:
            self._spend()
            if self._backs_off(now_ns, leaf, application):
                continue
            queue, line = self._next_asks(application)
            short = headroom.lacks_anything(self.ledger, leaf, application, queue.shape)
            if short is not None:
                line.reason = short
                if queue.key[1] == RESERVES or not short[1] or isinstance(short[0], Tracker):  # PE-73
                    self.indexes.park(leaf, line)
                elif self._resorts.run(now_ns, leaf, application, queue, self._steps, is_without_node=False):
                    return True
            elif queue.required_node is not None:
                if self._try_required(now_ns, leaf, application, queue):
                    return True
                self.indexes.park(leaf, line)
            elif queue.key[1] == HAS_NODE or (node := self.nodes.first_fit(queue.shape)) is None:
                line.reason = self._refusal(now_ns, leaf, queue) or _no_node(queue)
                if self._resorts.run(now_ns, leaf, application, queue, self._steps, is_without_node=True):
                    return True
                self._backs_off(now_ns, leaf, application)
            elif queue.predicate and self._is_held_up(now_ns, leaf, queue, node):
                self.indexes.park(leaf, line)
            else:
                self._place(now_ns, leaf, application, queue, node)
                return True
        return False

    def _next_asks(self, application: WaitingApplication) -> tuple[AskQueue, Line]:
        """The first asks of an application for which it is its turn in a line that is not parked; there must be some."""
        while True:
            queue = application.lineup.first(self.indexes.generation)
            assert queue is not None
            line = queue.line
            assert line is not None
            if not line.parked and (line.speaker or application) is application:
                return queue, line
            application.lineup.park(queue)

    def _place(
        self, now_ns: int, leaf: Account, application: WaitingApplication, queue: AskQueue, node: IndexedNode
    ) -> None:
        ask = queue.first()
        if application.held or queue.told is not None:
            self._steps += self.indexes.remarks.fits(now_ns, leaf, application, ask)
        self._steps.append(place(self.indexes, now_ns, leaf, application, ask, node))

    def _backs_off(self, now_ns: int, leaf: Account, application: WaitingApplication) -> bool:
        """Leave the application alone from now on if too many of its asks fit nowhere (SC-38)."""
        properties = leaf.config.properties
        is_enough = bool(properties.backoff_count) and has_enough(application, properties.backoff_count)
        if is_enough:
            self.indexes.back_off(leaf, application, now_ns + properties.backoff_delay_ns)
        return is_enough

    # ---- what the resource manager says

    def _refusal(self, now_ns: int, leaf: Account, queue: AskQueue) -> str:
        """Why asks wait although nodes have room for them, or ""."""
        refusal = self._inquiry.refusal(now_ns, queue.first(), leaf.path, queue.shape)
        self._steps += self._inquiry.take()
        return refusal

    def _is_held_up(self, now_ns: int, leaf: Account, queue: AskQueue, node: IndexedNode) -> bool:
        """Whether asks may not run on a node that has room for them, or that is not known yet; then it is asked about."""
        may_run = self._inquiry.may_run(queue.first(), node.node_id, allocate=True)
        if may_run:
            return False
        assert queue.line is not None
        if may_run is None:
            self._inquiry.about_first(now_ns, queue.first(), queue.shape, node.node_id)
            self._steps += self._inquiry.take()
            queue.line.reason = WAITS
        else:
            queue.line.reason = self._refusal(now_ns, leaf, queue)
        return True

    # ---- reservations

    def _try_required(self, now_ns: int, leaf: Account, application: WaitingApplication, queue: AskQueue) -> bool:
        """An ask that must run on one node is placed there, or has it kept at once (SC-70 to SC-76)."""
        assert queue.required_node is not None
        assert queue.line is not None
        node = self.nodes.nodes.get(queue.required_node)
        if node is None or not node.could_fit(queue.needs, queue.selector):  # SC-71; and nobody makes room in vain
            missing = "is not registered" if node is None else "is too small for it, or is not what it selects"
            queue.line.reason = f"required node {queue.required_node} {missing}"
            return False
        queue.line.reason = f"required node {queue.required_node} has no room for it"
        has_room = node.fits(queue.needs, queue.selector)
        is_refused = self._inquiry.may_run(queue.first(), node.node_id, allocate=True) is False
        if (has_room or is_refused) and self._is_held_up(now_ns, leaf, queue, node):  # it would be kept in vain
            return False
        for reservation in self._reservations.on(node.node_id):
            if not reservation.is_pinned():
                self._steps.append(self.indexes.unreserve(now_ns, reservation))  # SC-74
                self.indexes.requeue(self.indexes.leaf_of(reservation.application), reservation.application)
        if has_room and not node.reserved and self.ledger.shortage(leaf.path_up, queue.needs) is None:
            self._place(now_ns, leaf, application, queue, node)
        else:
            self._steps += self.indexes.remarks.fits(now_ns, leaf, application, queue.first())
            self._steps.append(self.indexes.reserve(now_ns, leaf, application, queue.first(), node))  # SC-76
        return True


def _no_node(queue: AskQueue) -> str:
    return f"no schedulable node {'that it selects ' if queue.selector else ''}has room for it that is not kept for another ask"
