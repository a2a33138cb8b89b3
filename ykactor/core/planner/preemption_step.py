"""Preemption for one ask: the search for victims, and the decisions that follow from it (PE-10 to PE-16, PE-93).

Only a plan that has decided nothing yet may preempt: only then do the owners, which the search reads, agree with the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ykactor.core.messages import conditions
from ykactor.core.messages.asks import Ask, Shape, ask_id, shape_of
from ykactor.core.messages.facts import AskCondition, Fact, Preempted, PreemptionRefused
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.reservations import RESERVATION_MAX_NS, Reservation
from ykactor.core.planner.plan import Plan
from ykactor.core.preemption.laws import Needs, shares, trigger
from ykactor.core.preemption.victims import (
    REJECTED_MAX,
    Preemption,
    PromisingNodes,
    Search,
    Solution,
    Tasks,
    Victim,
    choose,
    lacking,
    pinned_order,
)
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.stamp import Stamp
from ykactor.core.values.times import S_NS
from ykactor.core.waiting import reasons

#: Work units of a search for each node; 1 unit is a look at a node (about 2 us against 0.2 us).
LOOK_WORK = 10
#: The most failed searches that are remembered.
HOPELESS_MAX = 10_000


class Preemptor:
    """Preempts for asks of one partition."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._tasks = Tasks(state.tasks.on_node)
        self._promising = PromisingNodes(state.nodes, self._tasks)
        #: The reasons of failed searches, by all that the result depends on while nothing changes: queue, shape, priority, node.
        self._hopeless: dict[tuple[QueueNode, Shape, int, IndexedNode | None], str] = {}
        self._searched = Stamp(lambda: (state.generation, state.ledger.changes, state.preemptions.changes))

    def attempt(self, plan: Plan, application: PendingApplication, ask: Ask) -> str | None:
        """Preempt victims for an ask whose preemption delay is over. Returns the reason why not, or None if anything was decided.

        Raises:
            OutOfWork: the search continues in the next plan.
        """
        state, leaf, shape = self._state, self._state.leaf_of(application), shape_of(ask)
        if not self._searched.is_current() or len(self._hopeless) >= HOPELESS_MAX:
            self._hopeless.clear()
            self._searched.renew()
        reservation = state.reservations.find(ask)
        known = leaf, shape, ask.priority, reservation.node if reservation else None
        if known in self._hopeless:
            return self._hopeless[known]
        needs = _needs(ask)
        allowed = trigger(leaf, needs)
        if allowed is None:
            self._hopeless[known] = reasons.NOT_BELOW_GUARANTEE
            return reasons.NOT_BELOW_GUARANTEE
        preemption = Preemption(ask, leaf, needs, allowed)
        search = Search(preemption, self._state.tasks, partial(self._tasks.on, spend=plan.search))
        found = self._search(plan, ask, shape, search)
        if found is None:
            self._hopeless[known] = reasons.NO_VICTIMS
            return reasons.NO_VICTIMS
        objection = self._note_exchange(leaf, found.victims, list(allowed.remaining))
        if objection:
            self._hopeless[known] = objection
            self._refuse(plan, leaf, ask, objection)
        else:
            why = reasons.below_guarantee(None if allowed.is_own else allowed.queue.path, allowed.remaining)
            plan.report(self._entry(plan.now_ns, ask, found, why, search.rejected))
            self._carry_out(plan, application, ask, found)
        return None

    def _note_exchange(self, leaf: QueueNode, victims: list[Victim], lacking: list[str]) -> str:
        """Note in the cycle guard which types the queue takes that it lacks.

        Returns: the reason why this would close a preemption cycle, and notes nothing; else "".
        """
        cycle_guard = self._state.preemptions.cycle_guard
        for victim in victims:
            if objection := cycle_guard.objection(victim.leaf.path, leaf.path, _used(victim.task, lacking)):
                return objection
        for victim in victims:
            cycle_guard.note(victim.leaf.path, leaf.path, _used(victim.task, lacking))
        return ""

    def _refuse(self, plan: Plan, leaf: QueueNode, ask: Ask, why: str) -> None:
        preemptions = self._state.preemptions
        preemptions.counts.refused += 1
        preemptions.note_attempt(plan.now_ns, ask, why)
        plan.report(PreemptionRefused(plan.now_ns, ask, leaf.path, why))

    def attempt_on_node(self, plan: Plan, reservation: Reservation) -> None:
        """Preempt victims for an ask that requires its node; guarantees and fences do not apply (PE-60 to PE-66)."""
        ask, node, application = reservation.ask, reservation.node, reservation.application
        leaf = self._state.leaf_of(application)
        wanted = _needs(ask)
        tasks = sorted(self._tasks.on(node.node_id, plan.search).tasks, key=lambda task: pinned_order(task, wanted))
        found: list[Victim] = []

        def may_take(task: Ask) -> bool:
            victim_leaf = self._state.tasks.queue_of_victim(task)
            if victim_leaf is None or not _outranks(ask, task):
                return False
            found.append(Victim(task, victim_leaf))
            return True

        chosen = choose(tasks, lacking(wanted, node.available), may_take)
        if not chosen:
            self._report_condition(plan, leaf, ask, node.node_id)
            return
        victims = [victim for victim in found if victim.task in chosen]
        plan.report(self._entry(plan.now_ns, ask, Solution(node, victims, has_room=False), reasons.REQUIRES_NODE))
        self._state.preemptions.begin(leaf, application, ask, {})
        application.wait_for(ask, PendingCode.PREEMPTING)
        self._state.preemptions.cycle_guard.reset()
        _evict(
            plan, leaf, ask, victims, f"preempting allocations to free up resources to run daemon set ask: {ask.allocation_key}"
        )

    def _report_condition(self, plan: Plan, leaf: QueueNode, ask: Ask, node_id: NodeID) -> None:
        """Report that no victim was found (PE-63), no more often than an ask may try to preempt."""
        preemptions = self._state.preemptions
        if preemptions.next_attempt_ns(ask) > plan.now_ns:
            return
        preemptions.note_attempt(plan.now_ns, ask, reasons.NO_VICTIMS_ON_NODE)
        plan.report(AskCondition(plan.now_ns, ask, leaf.path, conditions.no_victim_on(ask.allocation_key, node_id)))

    def _search(self, plan: Plan, ask: Ask, shape: Shape, search: Search) -> Solution | None:
        """Run a search. It counts as a look at each node that could be reserved, also at those that were ranked before.

        So the asks of other queues are placed between searches, however little these cost.
        """
        usable = self._reserved_nodes(plan.now_ns, ask)
        count, nodes = self._promising.for_search(search, shape, usable, plan.search)
        plan.search(LOOK_WORK * count)
        return search.run(nodes, self._tasks.kinds)

    def _reserved_nodes(self, now_ns: int, ask: Ask) -> list[IndexedNode]:
        """The reserved nodes that could be reserved for the ask (PE-38, PE-52)."""
        reservations = self._state.reservations
        own, old = reservations.find(ask), reservations.older_than(now_ns - RESERVATION_MAX_NS)
        nodes = dict.fromkeys(reservation.node for reservation in (old if own is None else [own, *old]))
        return [node for node in nodes if all(self._gives_way(now_ns, there, ask) for there in reservations.on(node.node_id))]

    def _gives_way(self, now_ns: int, reservation: Reservation, ask: Ask) -> bool:
        if reservation.ask is ask:
            return True
        is_old = reservation.made_ns <= now_ns - RESERVATION_MAX_NS
        is_lower = reservation.ask.priority < ask.priority
        is_normal = not reservation.is_pinned() and ask_id(reservation.ask) not in self._state.preemptions.by_ask
        return is_old and is_lower and is_normal

    def _carry_out(self, plan: Plan, application: PendingApplication, ask: Ask, found: Solution) -> None:
        """Release the victims, reserve the node for the ask, cancel other reservations there (PE-93, PE-50 to PE-52)."""
        state, node, leaf = self._state, found.node, application.leaf
        given_up: list[Fact] = []
        for reservation in state.reservations.on(node.node_id):
            if reservation.ask is not ask:
                given_up.append(state.unreserve(plan.now_ns, reservation))
                state.requeue(reservation.application)
        before = state.reservations.find(ask)
        if before is not None:
            given_up.append(state.unreserve(plan.now_ns, before))
        state.preemptions.note_attempt(plan.now_ns, ask)
        state.preemptions.begin(leaf, application, ask, dict(_needs(ask)))
        _evict(plan, leaf, ask, found.victims, f"preempting allocations to free up resources to run ask: {ask.allocation_key}")
        reserved = state.reserve(plan.now_ns, application, ask, node)
        if before is None or before.node is not node:  # else the node was reserved for the ask already
            plan.report(*given_up, reserved)

    def _entry(self, now_ns: int, ask: Ask, found: Solution, why: str, rejected: Sequence[tuple[NodeID, str]] = ()) -> Preempted:
        """The fact that records the preemption; made before the victims are released.

        Args:
            why: what allows it, in a sentence.
            rejected: nodes that were not chosen, with reasons.
        """
        leaf = self._state.tasks.queue_of(ask)
        freed: dict[QueueUsage, Resource] = {}
        lost: Resource = {}
        for victim in found.victims:
            for queue in victim.leaf.path_up:
                add_to(freed.setdefault(queue, {}), victim.task.resource)
            seconds = (now_ns - self._state.tasks.began_ns(victim.task)) // S_NS
            add_to(lost, {name: amount * seconds for name, amount in victim.task.resource.items()})
        queues = dict.fromkeys([*leaf.path_up, *freed])
        entry = Preempted(
            now_ns,
            ask,
            leaf.path,
            found.node.node_id,
            why,
            tuple((victim.leaf.path, *ask_id(victim.task)) for victim in found.victims),
            shares(queues, {}, {}),
            shares(queues, freed, {queue: dict(_needs(ask)) for queue in leaf.path_up}),
            tuple(rejected[:REJECTED_MAX]),
            lost,
        )
        self._state.preemptions.counts.note(entry)
        return entry


def _needs(ask: Ask) -> Needs:
    """The amounts of an ask that are above 0."""
    return tuple((name, wanted) for name, wanted in shape_of(ask)[0] if wanted > 0)


def _evict(plan: Plan, leaf: QueueUsage, ask: Ask, victims: list[Victim], message: str) -> None:
    who = f"Preempted by {ask.allocation_key} from application {ask.application_id} in {leaf.path}"
    plan.report(*(AskCondition(plan.now_ns, victim.task, victim.leaf.path, who) for victim in victims))
    for victim in victims:
        plan.evict(victim, ask, message)


def _outranks(ask: Ask, task: Ask) -> bool:
    """True if an ask that requires its node may preempt ``task`` (PE-60); never one of its own application (law 3)."""
    return task.priority <= ask.priority and task.application_id != ask.application_id


def _used(task: Ask, names: list[str]) -> list[str]:
    """The ones of these resource types that a task uses."""
    return [name for name in names if task.resource.get(name, 0) > 0]
