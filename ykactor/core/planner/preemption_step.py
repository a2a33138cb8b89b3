"""What becomes of an ask that may have others go for it: the search, and the steps of what it found (PE-10 to PE-16, PE-93).

Only a plan that has decided nothing yet may preempt: then the owners are as the indexes have them, and can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ykactor.core.messages.asks import Ask, Shape, ask_id, shape_of
from ykactor.core.messages.facts import AskRemark, Preempted, PreemptionRefused
from ykactor.core.messages.planned import Eviction
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.reservations import RESERVATION_MAX_NS, Reservation
from ykactor.core.planner.steps import EvictionStep, Step
from ykactor.core.preemption.laws import Needs, Trigger, fence_root, shares, trigger
from ykactor.core.preemption.victims import (
    REJECTED_MAX,
    NodeTasks,
    Search,
    Solution,
    Tasks,
    Victim,
    choose,
    lacking,
    pinned_order,
)
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.quota.ledger import Account
from ykactor.core.state.state import Indexes
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS

#: What a search costs for each node, in looks at a node (about 2 us against 0.2).
LOOK_WORK = 10
#: Failed searches that are remembered.
HOPELESS_MAX = 10_000

NOT_BELOW_GUARANTEE = "Preemption queue guarantees check failed"
NO_HELP = "Preemption does not help"


class Preemptor:
    """Preempts for asks of one partition.

    Args:
        spend: is told what a search costs before it is done, in looks at a node; may raise to stop it.
    """

    def __init__(self, indexes: Indexes, spend: Callable[[int], None]) -> None:
        self._indexes = indexes
        self._spend = spend
        self._tasks = Tasks(indexes.tasks_of)
        #: Asks of one queue, shape and priority fare alike as long as nothing changes, but that each may have a node of its own.
        self._hopeless: dict[tuple[Account, Shape, int, IndexedNode | None], str] = {}
        self._stamp = (-1, -1, -1)

    def attempt(self, now_ns: int, leaf: Account, application: WaitingApplication, ask: Ask) -> list[Step] | str:
        """Have others go for an ask that has waited long enough; answers the steps, or why not."""
        shape = shape_of(ask.spec)
        stamp = self._indexes.generation, self._indexes.ledger.changes, self._indexes.preemptions.changes
        if stamp != self._stamp or len(self._hopeless) >= HOPELESS_MAX:
            self._hopeless.clear()
            self._stamp = stamp
        kept = self._indexes.reservations.find(ask)
        known = leaf, shape, ask.spec.priority, kept.node if kept else None
        if known in self._hopeless:
            return self._hopeless[known]
        needs = tuple((name, wanted) for name, wanted in shape[0] if wanted > 0)
        allowed = trigger(leaf, needs)
        if allowed is None:
            self._hopeless[known] = NOT_BELOW_GUARANTEE
            return NOT_BELOW_GUARANTEE
        nodes = list(self._nodes(now_ns, ask, shape))  # in several plans, if many have changed
        self._spend(LOOK_WORK * len(nodes))
        indexes = self._indexes
        search = Search(ask, leaf, needs, allowed, fence_root(leaf, needs), indexes.free_to_go, indexes.queue_of)
        found = search.run(nodes)
        if found is None:
            self._hopeless[known] = NO_HELP
            return NO_HELP
        objection = self._note_exchange(leaf, found.victims, list(allowed.remaining))
        if objection:
            self._hopeless[known] = objection
            return self._refuse(now_ns, leaf, ask, objection)
        return self._carry_out(now_ns, leaf, application, ask, found, _why(allowed), needs, search)

    def _note_exchange(self, leaf: Account, victims: list[Victim], lacking: list[str]) -> str:
        """Note what the queue takes of what it has too little of; answers why it may not, and then nothing is noted."""
        loops = self._indexes.preemptions.loops
        for it in victims:
            if objection := loops.objection(it.leaf.path, leaf.path, _used(it.task, lacking)):
                return objection
        for it in victims:
            loops.note(it.leaf.path, leaf.path, _used(it.task, lacking))
        return ""

    def _refuse(self, now_ns: int, leaf: Account, ask: Ask, why: str) -> list[Step]:
        preemptions = self._indexes.preemptions
        preemptions.counts.refused += 1
        preemptions.note_attempt(now_ns, ask, why)
        return [PreemptionRefused(now_ns, ask, leaf.path, why)]

    def attempt_on_node(self, now_ns: int, leaf: Account, reservation: Reservation) -> list[Step]:
        """Have others go for an ask that requires its node; guarantees and fences play no part (PE-60)."""
        ask, node, needs = reservation.ask, reservation.node, reservation.shape[0]
        wanted = tuple((name, amount) for name, amount in needs if amount > 0)
        tasks = sorted(self._tasks.on(node.node_id, self._spend).tasks, key=lambda task: pinned_order(task, wanted))
        found: list[Victim] = []

        def may_take(task: Ask) -> bool:
            its_leaf = self._indexes.free_to_go(task)
            if its_leaf is None or not _outranks(ask, task):
                return False
            found.append(Victim(task, its_leaf))
            return True

        chosen = choose(tasks, lacking(wanted, node.available), may_take)
        if not chosen:
            return self._remark(now_ns, leaf, ask, node.node_id)
        victims = [victim for victim in found if victim.task in chosen]
        key = ask.spec.allocation_key
        entry = self._entry(now_ns, leaf, ask, node.node_id, "it requires this node", victims, wanted, [])
        self._indexes.preemptions.begin(leaf, reservation.application, ask, {})
        self._indexes.preemptions.loops.reset()
        message = f"preempting allocations to free up resources to run daemon set ask: {key}"
        return [entry, *self._evict(now_ns, leaf, ask, victims, message)]

    def _remark(self, now_ns: int, leaf: Account, ask: Ask, node_id: NodeID) -> list[Step]:
        """PE-63; the owner of the ask is told no more often than it could try otherwise."""
        preemptions, key = self._indexes.preemptions, ask.spec.allocation_key
        if preemptions.next_attempt_ns(ask) > now_ns:
            return []
        preemptions.note_attempt(now_ns, ask, "nobody on its node may go for it, or too few")
        message = f"Unschedulable request '{key}' with required node '{node_id}', no preemption victim found"
        return [AskRemark(now_ns, ask, leaf.path, message)]

    def _nodes(self, now_ns: int, ask: Ask, shape: Shape) -> Iterator[tuple[IndexedNode, NodeTasks]]:
        """The nodes that could be kept for the ask (PE-38, PE-52)."""
        needs, _, selector, predicate = shape
        nodes = self._indexes.nodes
        for node in nodes.nodes.values():
            if not node.schedulable or not node.could_fit(needs, selector):
                continue
            if predicate and nodes.predicates.verdict((predicate, True), node.node_id) is not True:
                continue
            if node.reserved and not all(self._gives_way(now_ns, it, ask) for it in self._indexes.reservations.on(node.node_id)):
                continue
            yield node, self._tasks.on(node.node_id, self._spend)

    def _gives_way(self, now_ns: int, reservation: Reservation, ask: Ask) -> bool:
        if reservation.ask is ask:
            return True
        is_old = reservation.made_ns <= now_ns - RESERVATION_MAX_NS
        is_lower = reservation.ask.spec.priority < ask.spec.priority
        is_normal = not reservation.is_pinned() and ask_id(reservation.ask) not in self._indexes.preemptions.by_ask
        return is_old and is_lower and is_normal

    def _carry_out(
        self,
        now_ns: int,
        leaf: Account,
        application: WaitingApplication,
        ask: Ask,
        found: Solution,
        why: str,
        needs: Needs,
        search: Search,
    ) -> list[Step]:
        """PE-93: victims are told to go, the node is kept for the ask; whoever had it before has it no more."""
        entry = self._entry(now_ns, leaf, ask, found.node.node_id, why, found.victims, needs, search.rejected)
        given_up: list[Step] = []
        indexes = self._indexes
        for reservation in indexes.reservations.on(found.node.node_id):
            if reservation.ask is not ask:
                given_up.append(indexes.unreserve(now_ns, reservation))
                indexes.requeue(indexes.leaf_of(reservation.application), reservation.application)
        kept = indexes.reservations.find(ask)
        if kept is not None:
            given_up.append(indexes.unreserve(now_ns, kept))
        indexes.preemptions.note_attempt(now_ns, ask)
        indexes.preemptions.begin(leaf, application, ask, dict(needs))
        message = f"preempting allocations to free up resources to run ask: {ask.spec.allocation_key}"
        evictions = self._evict(now_ns, leaf, ask, found.victims, message)
        reserved = indexes.reserve(now_ns, leaf, application, ask, found.node)
        if kept is not None and kept.node is found.node:  # it was kept for the ask already
            return [entry, *evictions]
        return [entry, *evictions, *given_up, reserved]

    def _evict(self, now_ns: int, leaf: Account, ask: Ask, victims: list[Victim], message: str) -> list[Step]:
        who = f"Preempted by {ask.spec.allocation_key} from application {ask.spec.application_id} in {leaf.path}"
        steps: list[Step] = [AskRemark(now_ns, it.task, it.leaf.path, who) for it in victims]
        for it in victims:
            self._indexes.evict(it.leaf, it.task, ask)
            steps.append(EvictionStep(Eviction(it.task, message), it.leaf))
        return steps

    def _entry(
        self,
        now_ns: int,
        leaf: Account,
        ask: Ask,
        node_id: NodeID,
        why: str,
        victims: list[Victim],
        needs: Needs,
        rejected: list[tuple[NodeID, str]],
    ) -> Preempted:
        """The decision for the ledger of preemptions; made before anything of it is carried out."""
        freed: dict[Account, Resource] = {}
        lost: Resource = {}
        for it in victims:
            for queue in it.leaf.path_up:
                add_to(freed.setdefault(queue, {}), it.task.spec.resource)
            seconds = (now_ns - self._indexes.began_ns(it.task)) // S_NS
            add_to(lost, {name: amount * seconds for name, amount in it.task.spec.resource.items()})
        queues = dict.fromkeys([*leaf.path_up, *freed])
        entry = Preempted(
            now_ns,
            ask,
            leaf.path,
            node_id,
            why,
            tuple((it.leaf.path, it.task.spec.application_id, it.task.spec.allocation_key) for it in victims),
            shares(queues, {}, {}),
            shares(queues, freed, {queue: dict(needs) for queue in leaf.path_up}),
            tuple(rejected[:REJECTED_MAX]),
            lost,
        )
        self._indexes.preemptions.counts.note(entry)
        return entry


def _outranks(ask: Ask, task: Ask) -> bool:
    """Whether a task may go for an ask that requires its node (PE-60); not for one of its own application (law 3)."""
    return task.spec.priority <= ask.spec.priority and task.spec.application_id != ask.spec.application_id


def _used(task: Ask, names: list[str]) -> list[str]:
    """Which of the types a task uses."""
    return [name for name in names if task.spec.resource.get(name, 0) > 0]


def _why(allowed: Trigger) -> str:
    missing = ", ".join(f"{amount} {name}" for name, amount in allowed.remaining.items())
    whose = "its queue" if allowed.is_own else f"queue {allowed.queue.path}"
    return f"{whose} is {missing} below its guarantee (law 4)"
