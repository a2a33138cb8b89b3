"""The scheduler of one partition: it plans, and carries the plan through commit and settle.

``cycle`` is a generator: it yields commands for owners and is sent their answers. The actors carry them over memory
channels, ``sim.direct`` calls the owners in a loop; neither knows what they mean.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from ykactor.core.messages.fact_order import told_with
from ykactor.core.messages.facts import ApplicationChanged, Decision
from ykactor.core.messages.planned import Planned
from ykactor.core.messages.states import COUNTED_AS_RUNNING
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.objects.commands import PlaceBatch, Placed, Refused, SettleBatch
from ykactor.core.objects.exchange import Exchange, send
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Roster
from ykactor.core.planner.orders import NodeOrder, Order, Placement
from ykactor.core.planner.plan import Budget, Plan
from ykactor.core.planner.planner import Planner
from ykactor.core.state.observer import Observer
from ykactor.core.state.state import SchedulerState


class InvariantViolation(Exception):
    """What must hold does not: our mistake, never a sender's."""


class CycleResult(Struct):
    """What one cycle did.

    Attributes:
        facts: in the order in which they became true.
        at_rest: nothing more can be decided until something changes.
        is_full: the budget's placements were used up, so there was progress and probably is more to do.
        work: units of work spent (see ``plan.Budget``).
        look_ns: when to look again at what waits although nothing has changed; None while there is no such time.
    """

    facts: list[Decision]
    at_rest: bool
    is_full: bool
    work: int
    look_ns: int | None = None


Cycle = Exchange[CycleResult]


class SchedulerCore:
    """Owns the ledger and the orders of one partition."""

    def __init__(self, registry: Roster, *, reserves: bool = True) -> None:
        self._registry = registry
        self.state = SchedulerState(registry, reserves=reserves)
        self.planner = Planner(self.state)
        self._observer = Observer(self.state)

    def observe(self, facts: list[Decision]) -> Generator[None, None, list[Decision]]:
        """Take in what the owners reported; called between cycles, with everything that came before the next one.

        Returns the same facts with what followed from them here. To be exhausted; yields wherever other tasks may have a turn.
        """
        return self._observer.observe(facts)

    def cycle(self, now_ns: int, budget: Budget) -> Cycle:
        """One cycle: plan, commit, settle. Unconfirmed usage is zero before and after.

        Args:
            now_ns: Unix time of every decision of this cycle.
            budget: how much to plan; what is left is planned in the next cycle.
        """
        plan = self.planner.plan(now_ns, budget)
        look_ns = self.state.nodes.predicates.due_ns()
        if not plan:
            return CycleResult([], plan.at_rest, False, plan.work, look_ns)
        refused = yield from self._commit(plan)
        facts = yield from self._settle(plan, refused)
        self.state.ledger.confirm()
        return CycleResult(facts, plan.at_rest and not refused, plan.is_full(), plan.work, look_ns)

    def _commit(self, plan: Plan) -> Exchange[set[IndexedNode]]:
        """One batch for each node touched; what a node refuses is undone. Returns the nodes that refused."""
        batches: dict[IndexedNode, list[NodeOrder]] = {}
        for order in plan.orders:
            if order.node is not None:
                batches.setdefault(order.node, []).append(order)
        cores = self._registry.nodes
        sends = [
            (cores[node.node_id], PlaceBatch(node.revision, [order.ask for order in batch])) for node, batch in batches.items()
        ]
        replies = yield from send(sends)
        first = [order for order in plan.orders if type(order) is Placement and order.is_first]
        refused: set[IndexedNode] = set()
        for (node, batch), reply in zip(batches.items(), replies, strict=True):
            if isinstance(reply, Placed):
                node.revision = reply.revision
            else:
                self._undo(node, batch, reply)
                refused.add(node)
        for order in first if refused else ():
            if not order.application.allocated:  # nothing of it came to run: it does not count after all (QU-74)
                order.application.uncount()
                self.state.requeue(order.application)
        return refused

    def _undo(self, node: IndexedNode, batch: list[NodeOrder], refusal: Refused) -> None:
        """The node is not as the index had it: take the orders back, and look at the node anew."""
        if refusal.revision == node.revision:
            raise InvariantViolation(f"refused although the index was up to date: {refusal.reason}")
        for order in reversed(batch):
            order.undo(self.state)
        self.state.nodes.sync(self._registry.nodes[node.node_id])
        self.state.capacity_grew()

    def _settle(self, plan: Plan, refused: set[IndexedNode]) -> Exchange[list[Decision]]:
        """One batch for each leaf; returns all facts in plan order, state changes before the allocation (AP-96)."""
        batches: dict[LeafCore, list[tuple[int, Planned]]] = {}
        for position, order in enumerate(plan.orders):
            if order.node not in refused:
                batches.setdefault(self._registry.leaf(order.leaf.path), []).append((position, order.planned))
        replies = yield from send([(leaf, SettleBatch(plan.now_ns, batch)) for leaf, batch in batches.items()])
        changes: dict[int, list[Decision]] = {}
        for reply in replies:
            changes.update(reply)
        facts = _in_plan_order(plan, refused, changes)
        self._adopt_states(facts)
        return facts

    def _adopt_states(self, facts: list[Decision]) -> None:
        """Take the leaf's word for the states that the plan predicted; they differ only behind a refusal."""
        for fact in facts:
            if type(fact) is ApplicationChanged:
                application = self.state.applications[fact.application_id]
                truth = self._registry.leaf(application.leaf.path).applications[fact.application_id]
                if application.state is not truth.state:
                    application.enter(truth.state)
                    if truth.state in COUNTED_AS_RUNNING:
                        self.state.ledger.take_slot(application.leaf, application.application_id)
                    self.state.requeue(application)


def _in_plan_order(plan: Plan, refused: set[IndexedNode], changes: dict[int, list[Decision]]) -> list[Decision]:
    """What was reported and what came of the orders, as the plan has them one after the other."""
    facts: list[Decision] = []
    reported = iter([*plan.facts, (len(plan.orders) + 1, None)])
    at, fact = next(reported)
    for position, order in enumerate(plan.orders):
        while at <= position and fact is not None:
            facts.append(fact)
            at, fact = next(reported)
        if order.node not in refused:
            facts += _outcome(order, changes.get(position, []))
    while fact is not None:
        facts.append(fact)
        at, fact = next(reported)
    return facts


def _outcome(order: Order, changes: list[Decision]) -> list[Decision]:
    if type(order) is not Placement:
        return changes
    return told_with(changes, order.planned) if changes else [order.planned]
