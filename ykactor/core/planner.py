"""The walk: what is placed next, and where (sections 4 of PR, 3 to 5 of SC).

``Planner.plan`` is one synchronous function. It reads the indexes, charges them for what it places, and answers a
``Plan``. Each step begins at root with fresh values, as if it were the only one; that nothing is sorted anew for it
is the indexes' affair. A candidate that can place nothing is parked (see ``ordering``), so that a step costs what it
looks at and not what waits.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.backlog import AskQueue, WaitingApplication
from ykactor.core.decisions import Allocated
from ykactor.core.indexes import Indexes
from ykactor.core.ledger import Account
from ykactor.core.nodesort import IndexedNode
from ykactor.core.states import COUNTED_AS_RUNNING, ApplicationState, after_allocation


class Budget(Struct, frozen=True):
    """How much one plan may do, in units of work and never in time: the same input gives the same plan everywhere."""

    placements_max: int
    #: Candidates tried and nodes looked at.
    work_max: int


class Placement(Struct, gc=False):
    """One decision of a plan, with what is needed to take it back."""

    allocated: Allocated
    leaf: Account
    application: WaitingApplication
    node: IndexedNode


class Plan(Struct):
    """What a plan decided.

    Attributes:
        placements: in the order in which they were decided.
        at_rest: nothing more can be placed; False when the budget ran out first.
        work: units spent.
    """

    placements: list[Placement]
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
        self._tries = 0
        self._work_max = 0

    def plan(self, now_ns: int, budget: Budget) -> Plan:
        """Place what can be placed, best first, within ``budget``."""
        placements: list[Placement] = []
        at_rest = False
        self._tries = self.nodes.visited = 0
        self._work_max = budget.work_max
        self.ledger.refresh_shares()
        try:
            while len(placements) < budget.placements_max and not at_rest:
                placement = self._step(now_ns)
                if placement is None:
                    at_rest = True
                else:
                    placements.append(placement)
        except _OutOfWork:
            pass  # what was parked on the way stays parked: the next plan goes on from here
        return Plan(placements, at_rest, self._tries + self.nodes.visited)

    def _spend(self) -> None:
        """Called before a candidate is tried, when leaving would change nothing."""
        if self._tries + self.nodes.visited > self._work_max:
            raise _OutOfWork
        self._tries += 1

    def _step(self, now_ns: int) -> Placement | None:
        """One decision from root; None when there is none."""
        queue = self.ledger.root
        if not self.ledger.root_max:  # no node resources (SC step 0)
            return None
        while True:
            if queue.is_leaf:
                placement = self._try_leaf(now_ns, queue)
                if placement is not None:
                    return placement
            else:
                child = queue.children.first(self.indexes.generation)
                if child is not None:
                    queue = child
                    continue
            if queue.parent is None:
                return None
            queue.parent.children.park(queue)
            queue = queue.parent

    def _try_leaf(self, now_ns: int, leaf: Account) -> Placement | None:
        """The applications of a leaf in their order (SC-21 to SC-24)."""
        applications = leaf.applications
        while (application := applications.first(self.indexes.generation)) is not None:
            if not self._is_held(leaf, application):
                placement = self._try_application(now_ns, leaf, application)
                if placement is not None:
                    return placement
            applications.park(application)
        return None

    def _is_held(self, leaf: Account, application: WaitingApplication) -> bool:
        """Whether the application may not start yet, because a queue runs its maximum (QU-51)."""
        if application.state is not ApplicationState.ACCEPTED:
            return False
        self._spend()
        application.held_by = self.ledger.lacks_slot(leaf, application.application_id)
        return application.held_by is not None

    def _try_application(self, now_ns: int, leaf: Account, application: WaitingApplication) -> Placement | None:
        """The asks of an application in their order, one of each shape (section 4 of SC)."""
        lineup = application.lineup
        while (queue := lineup.first(self.indexes.generation)) is not None:
            self._spend()
            shortage = self.ledger.shortage(leaf, queue.items)
            if shortage is not None:
                queue.reason = shortage
                lineup.park(queue)
                continue
            node = self.nodes.first_fit(queue.shape)
            if node is None:
                queue.reason = _no_node(queue)
                lineup.park(queue)
                continue
            return self._place(now_ns, leaf, application, queue, node)
        return None

    def _place(
        self, now_ns: int, leaf: Account, application: WaitingApplication, queue: AskQueue, node: IndexedNode
    ) -> Placement:
        """Charge everything that a placement changes (section 5.3 of AP)."""
        ask = application.take(queue)
        self.nodes.charge(node, queue.items)
        self.ledger.charge(leaf, ask.spec.resource)
        if application.state is not ApplicationState.RUNNING:
            self._predict_state(leaf, application)
        self.indexes.requeue(leaf, application)
        return Placement(Allocated(now_ns, ask, leaf.path, node.node_id), leaf, application, node)

    def _predict_state(self, leaf: Account, application: WaitingApplication) -> None:
        """The leaf will move the application when it settles; later steps of this plan already build on it."""
        entered = after_allocation(application.state, stateaware=application.stateaware)
        if entered:
            application.state = entered[-1]
            if application.state in COUNTED_AS_RUNNING:
                self.ledger.take_slot(leaf, application.application_id)


def _no_node(queue: AskQueue) -> str:
    if queue.required_node is None:
        return "no schedulable node has room for it"
    return f"required node {queue.required_node} has no room for it or is not registered"


def explain(leaf: Account, application: WaitingApplication, queue: AskQueue) -> str:
    """Why the asks of ``queue`` wait, in words and with present numbers, for people."""
    if application.state is ApplicationState.ACCEPTED and application.held_by is not None:
        full = application.held_by
        return f"queue {full.path} runs its maximum of {full.config.max_applications} applications"
    if isinstance(queue.reason, str):
        return queue.reason
    account, name = queue.reason
    used, limit = account.allocated.get(name, 0), (account.max or {}).get(name, 0)
    wanted = dict(queue.items).get(name, 0)
    if account.parent is None:
        return f"not enough {name} in the cluster: wants {wanted}, has {max(0, limit - used)} of {limit}"
    return f"not enough {name} in queue {account.path}: wants {wanted}, has {max(0, limit - used)} of {limit}"
