"""The scheduler of one partition: it plans, and carries the plan through commit and settle.

``cycle`` is a generator: it yields commands for owners and is sent their answers. The actors carry them over memory
channels, ``sim.direct`` calls the owners in a loop; neither knows what they mean.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import cast

from msgspec import Struct

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.fact_order import told_with
from ykactor.core.messages.facts import ApplicationChanged, Decision
from ykactor.core.messages.planned import Planned
from ykactor.core.messages.states import COUNTED_AS_RUNNING
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.objects.commands import PlaceBatch, Placed, Refused, SettleBatch
from ykactor.core.objects.exchange import Exchange, send
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Roster
from ykactor.core.planner.planner import Budget, Planner
from ykactor.core.planner.steps import EvictionStep, GangStep, Placement, Step
from ykactor.core.state.state import Indexes


class InvariantViolation(Exception):
    """What must hold does not: our mistake, never a sender's."""


class CycleResult(Struct):
    """What one cycle did.

    Attributes:
        facts: in the order in which they became true.
        at_rest: nothing more can be decided until something changes.
        is_full: the budget's placements were used up, so there was progress and probably is more to do.
        work: units of work spent (see ``planner.Budget``).
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

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.indexes = Indexes(roster)
        self.planner = Planner(self.indexes)

    def observe(self, facts: list[Decision]) -> Generator[None, None, list[Decision]]:
        """Take in what the owners reported; called between cycles, with everything that came before the next one.

        Answers the same facts with what followed from them here. To be exhausted; yields wherever other tasks may have a turn.
        """
        return self.indexes.observe(facts)

    def cycle(self, now_ns: int, budget: Budget) -> Cycle:
        """One cycle: plan, commit, settle. Unconfirmed usage is zero before and after.

        Args:
            now_ns: Unix time of every decision of this cycle.
            budget: how much to plan; what is left is planned in the next cycle.
        """
        plan = self.planner.plan(now_ns, budget)
        look_ns = self.indexes.nodes.predicates.due_ns()
        if not plan.steps:
            return CycleResult([], plan.at_rest, False, plan.work, look_ns)
        committed = yield from self._commit(plan.steps)
        decided = yield from self._settle(now_ns, committed)
        self.indexes.ledger.confirm()
        at_rest = plan.at_rest and len(committed) == len(plan.steps)
        return CycleResult(decided, at_rest, len(plan.steps) >= budget.placements_max, plan.work, look_ns)

    def _commit(self, steps: list[Step]) -> Exchange[list[Step]]:
        """One batch for each node touched; what a node refuses is taken back. Answers what stands, in plan order."""
        batches: dict[IndexedNode, list[Placement | GangStep]] = {}
        for step in steps:
            if isinstance(step, Placement | GangStep) and step.node is not None:
                batches.setdefault(step.node, []).append(step)
        cores = self._roster.nodes
        replies = yield from send(
            [
                (cores[node.node_id], PlaceBatch(node.revision, [_ask_of(step) for step in batch]))
                for node, batch in batches.items()
            ]
        )
        begun = {step.application: step.leaf for step in steps if type(step) is Placement and step.is_first}
        refused: set[IndexedNode] = set()
        for (node, batch), reply in zip(batches.items(), replies, strict=True):
            if isinstance(reply, Placed):
                node.revision = reply.revision
            else:
                self._take_back(node, batch, reply)
                refused.add(node)
        if not refused:
            return steps
        for application, leaf in begun.items():
            if not application.allocated:  # nothing of it came to run: it does not count after all (QU-74)
                application.uncount()
                self.indexes.requeue(leaf, application)
        return [step for step in steps if not isinstance(step, Placement | GangStep) or step.node not in refused]

    def _take_back(self, node: IndexedNode, batch: list[Placement | GangStep], refusal: Refused) -> None:
        """The node is not as the index had it: refund, let the asks wait again, and look at the node anew."""
        if refusal.revision == node.revision:
            raise InvariantViolation(f"refused although the index was up to date: {refusal.reason}")
        for step in reversed(batch):
            if type(step) is Placement:
                self._take_placement_back(step)
            elif type(step) is GangStep:
                step.take_back(self.indexes)
        self.indexes.nodes.sync(self._roster.nodes[node.node_id])
        self.indexes.generation += 1

    def _take_placement_back(self, placement: Placement) -> None:
        ask, application = placement.allocated.ask, placement.application
        self.indexes.ledger.refund(placement.leaf, ask.spec.resource)
        application.put_back(ask)
        if application.gang is not None and ask.spec.placeholder:
            application.gang.take_back(ask)
        truth = self._roster.leaf(placement.leaf.path).applications[application.application_id]
        if truth.state not in COUNTED_AS_RUNNING:
            self.indexes.ledger.give_slot_back(placement.leaf, application.application_id)
            application.holds_slot = False
        application.enter(truth.state)
        self.indexes.requeue(placement.leaf, application)
        self.indexes.remarks.note(placement.leaf, application)

    def _settle(self, now_ns: int, steps: list[Step]) -> Exchange[list[Decision]]:
        """One batch for each leaf; answers all facts in plan order, state changes before the allocation (AP-96)."""
        batches: dict[LeafCore, list[tuple[int, Planned]]] = {}
        for position, step in enumerate(steps):
            if type(step) is Placement:
                batches.setdefault(self._roster.leaf(step.leaf.path), []).append((position, step.allocated))
            elif isinstance(step, GangStep | EvictionStep):
                batches.setdefault(self._roster.leaf(step.leaf.path), []).append((position, step.decision))
        replies = yield from send([(leaf, SettleBatch(now_ns, batch)) for leaf, batch in batches.items()])
        changes: dict[int, list[Decision]] = {}
        for reply in replies:
            changes.update(reply)
        facts: list[Decision] = []
        for position, step in enumerate(steps):
            if type(step) is Placement:
                if position in changes:
                    facts += told_with(changes[position], step.allocated)
                else:
                    facts.append(step.allocated)
            elif isinstance(step, GangStep | EvictionStep):
                facts += changes.get(position, ())
            else:
                facts.append(cast("Decision", step))
        self._adopt_states(facts)
        return facts

    def _adopt_states(self, facts: list[Decision]) -> None:
        """Take the leaf's word for the states that the plan predicted; they differ only behind a refusal."""
        for fact in facts:
            if type(fact) is ApplicationChanged:
                leaf, application = self.indexes.waiting[fact.application_id]
                truth = self._roster.leaf(leaf.path).applications[fact.application_id]
                if application.state is not truth.state:
                    application.enter(truth.state)
                    if truth.state in COUNTED_AS_RUNNING:
                        self.indexes.ledger.take_slot(leaf, application.application_id)
                    self.indexes.requeue(leaf, application)


def _ask_of(step: Placement | GangStep) -> Ask:
    return step.allocated.ask if isinstance(step, Placement) else step.decision.ask
