"""The walk: what is placed next, and where (sections 4 of PR, 3 to 5 of SC).

``Planner.plan`` is one synchronous function. It reads the indexes, charges them for what it places, and answers a
``Plan``. Each step begins at root with fresh values, as if it were the only one; that nothing is sorted anew for it
is the indexes' affair. A candidate that can place nothing is parked (see ``ordering``), so that a step costs what it
looks at and not what waits.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.appsort import Line
from ykactor.core.backlog import AskQueue, WaitingApplication
from ykactor.core.decisions import Allocated, Decision
from ykactor.core.indexes import Indexes
from ykactor.core.ledger import Account
from ykactor.core.limits import Tracker
from ykactor.core.messages import Ask
from ykactor.core.nodesort import IndexedNode
from ykactor.core.queues import Cancellation, Replacement
from ykactor.core.resources import fits
from ykactor.core.states import COUNTED_AS_RUNNING, ApplicationState, after_allocation

#: What trying one candidate costs, in looks at a node (about 4 us against 0.2).
TRY_WORK = 20


class Budget(Struct, frozen=True):
    """How much one plan may do, in units of work and never in time: the same input gives the same plan everywhere."""

    placements_max: int
    #: ``TRY_WORK`` for each candidate tried, 1 for each node looked at.
    work_max: int


class Placement(Struct, gc=False):
    """One decision of a plan, with what is needed to take it back."""

    allocated: Allocated
    leaf: Account
    application: WaitingApplication
    node: IndexedNode
    #: Whether user and group count the application from here on (QU-74).
    is_first: bool


class GangStep(Struct, gc=False):
    """A real ask that takes the place of a placeholder, or a placeholder that is too small and has to go."""

    decision: Replacement | Cancellation
    leaf: Account


#: What a plan decides, or only has to tell.
Step = Placement | GangStep | Decision


class Plan(Struct):
    """What a plan decided.

    Attributes:
        steps: in the order in which they were decided. A replacement ends the plan: what follows builds on its confirmation.
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
        self._steps: list[Step] = []
        self._work = 0
        self._work_max = 0

    def plan(self, now_ns: int, budget: Budget) -> Plan:
        """Place what can be placed, best first, within ``budget``."""
        steps = self._steps = []
        at_rest = False
        self._work = self.nodes.visited = self.ledger.effort.spent = 0
        self._work_max = budget.work_max
        try:
            while len(steps) < budget.placements_max and not at_rest:
                if self.indexes.replaceable:  # in a plan of their own: a node may still refuse what was just placed
                    if not steps:
                        self._replace_placeholders()
                    break
                at_rest = not self._step(now_ns)
        except _OutOfWork:
            pass  # what was parked on the way stays parked: the next plan goes on from here
        return Plan(steps, at_rest, self._spent())

    def _spend(self) -> None:
        """Called before a candidate is tried, when leaving would change nothing."""
        if self._spent() > self._work_max:
            raise _OutOfWork
        self._work += TRY_WORK

    def _spent(self) -> int:
        return self._work + self.nodes.visited + self.ledger.effort.spent

    def _step(self, now_ns: int) -> bool:
        """One decision from root; answers whether there was one."""
        queue = self.ledger.root
        if not self.ledger.root_max:  # no node resources (SC step 0)
            return False
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

    def _replace_placeholders(self) -> None:
        """Step 2 of a pass (section 3 of GA): at most one replacement, and the too small placeholders on the way to it."""
        while self.indexes.replaceable:
            leaf = self._first_replaceable()
            application = min(self.indexes.replaceable[leaf], key=lambda it: leaf.applications.sort_key(it) or ())
            found = self._replace_in(leaf, application)
            self.indexes.requeue(leaf, application)
            if found:
                break

    def _first_replaceable(self) -> Account:
        """The leaf that the walk from root comes to first, of those in which something can be replaced."""
        ways = {account for leaf in self.indexes.replaceable for account in leaf.path_up}
        queue = self.ledger.root
        children: dict[Account, list[Account]] = {}
        for account in ways:
            if account.parent is not None:
                children.setdefault(account.parent, []).append(account)
        while queue in children:
            queue = min(children[queue], key=queue.children.rank)
        return queue

    def _replace_in(self, leaf: Account, application: WaitingApplication) -> bool:
        assert application.gang is not None
        for ask, (holder, _) in list(application.gang.pairs()):
            key = holder.spec.allocation_key
            if not application.gang.may_be_replaced(key):
                continue
            application.gang.withdraw(key)
            if fits(holder.spec.resource, ask.spec.resource):
                application.discard(ask)
                self.ledger.change_pending(leaf, {name: -quantity for name, quantity in ask.spec.resource.items()})
                self._steps.append(GangStep(Replacement(ask, key), leaf))
                return True
            self._steps.append(GangStep(Cancellation(ask, key), leaf))
        return False

    def _try_leaf(self, now_ns: int, leaf: Account) -> bool:
        """The applications of a leaf in their order, their asks in theirs (SC-21 to SC-24, section 4 of SC)."""
        order = leaf.applications
        while (application := order.first(self.indexes.generation)) is not None:
            queue, line = self._next_asks(application)
            self._spend()
            shortage = self._shortage(leaf, application, queue)
            if shortage is not None:
                line.reason = shortage
            elif (node := self.nodes.first_fit(queue.shape)) is not None:
                self._steps.append(self._place(now_ns, leaf, application, queue, node))
                return True
            else:
                line.reason = _no_node(queue)
            order.park(line)
        return False

    def _next_asks(self, application: WaitingApplication) -> tuple[AskQueue, Line]:
        """The first asks of an application that stand in a line which is not parked; there must be some."""
        while True:
            queue = application.lineup.first(self.indexes.generation)
            assert queue is not None
            assert queue.line is not None
            if not queue.line.parked:
                return queue, queue.line
            application.lineup.park(queue)

    def _shortage(
        self, leaf: Account, application: WaitingApplication, queue: AskQueue
    ) -> tuple[Account | Tracker, str] | None:
        """Where an Accepted application has no running slot (type "", QU-51 and QU-73), or the ask not enough of a type.

        Users and groups come before queues (QU-39).
        """
        if application.needs_slot():
            full = self.ledger.lacks_slot(leaf, application.application_id)
            if full is not None:
                return full, ""
            for tracker in application.trackers:
                if tracker.lacks_slot(application.application_id):
                    return tracker, ""
        for tracker in application.trackers:
            name = tracker.shortage(queue.needs)
            if name is not None:
                return tracker, name
        return self.ledger.shortage(leaf, queue.needs)

    def _place(
        self, now_ns: int, leaf: Account, application: WaitingApplication, queue: AskQueue, node: IndexedNode
    ) -> Placement:
        """Charge everything that a placement changes (section 5.3 of AP)."""
        is_first = not application.counted
        ask = application.take(queue)
        self.nodes.charge(node, queue.needs)
        self.ledger.charge(leaf, ask.spec.resource)
        if ask.spec.placeholder:
            self.indexes.place_placeholder(leaf, application, ask, node.node_id)
        if application.state is not ApplicationState.RUNNING:
            self._predict_state(leaf, application, ask)
        self.indexes.requeue(leaf, application)
        return Placement(Allocated(now_ns, ask, leaf.path, node.node_id), leaf, application, node, is_first)

    def _predict_state(self, leaf: Account, application: WaitingApplication, ask: Ask) -> None:
        """The leaf will move the application when it settles; later steps of this plan already build on it."""
        if ask.spec.placeholder and not application.completes_gang():
            return
        entered = after_allocation(application.state, stateaware=application.stateaware)
        if entered:
            application.enter(entered[-1])
            if application.state in COUNTED_AS_RUNNING:
                self.ledger.take_slot(leaf, application.application_id)


def _no_node(queue: AskQueue) -> str:
    if queue.required_node is None:
        return f"no schedulable node {'that it selects ' if queue.selector else ''}has room for it"
    return f"required node {queue.required_node} has no room for it or is not registered"


def explain(queue: AskQueue) -> str:
    """Why the asks of ``queue`` wait, in words and with present numbers, for people."""
    if queue.line is None:
        return "another application of the queue starts first (stateaware)"
    if isinstance(queue.line.reason, str):
        return queue.line.reason
    short, name = queue.line.reason
    if isinstance(short, Tracker):
        where, limits, applications_max = f"the limit of {short.whose} in queue {short.path}", short.limit, short.max_applications
        runs = f"{short.whose} runs in queue {short.path} its"
    else:
        where = "the cluster" if short.parent is None else f"queue {short.path}"
        limits, applications_max = short.max, short.config.max_applications
        runs = f"queue {short.path} runs its"
    if not name:
        return f"{runs} maximum of {applications_max} applications"
    used, limit = short.allocated.get(name, 0), (limits or {}).get(name, 0)
    wanted = dict(queue.needs).get(name, 0)
    return f"not enough {name} in {where}: wants {wanted}, has {max(0, limit - used)} of {limit}"
