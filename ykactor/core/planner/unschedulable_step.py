"""The last step for asks that do not fit: reserve a node, or preempt (SC-148).

A class is tried once for all its asks, but each ask becomes eligible to reserve or preempt at its own time. If another ask than
the representative's first is eligible, the class moves to the position of that ask.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.asks import Ask, order_of, shape_of
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.predicate_client import PredicateClient
from ykactor.core.nodes.reservations import RESERVATION_DELAY_NS
from ykactor.core.planner.plan import Plan, PlanEnds
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.preemption.attempts import PreemptionAttempts
from ykactor.core.queueing.equivalence import HAS_NODE, RESERVES, AskQueue
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota import headroom
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.times import MS_NS, NEVER
from ykactor.core.waiting import reasons

#: Attempts to preempt for asks of one leaf in one pass (PE-10).
ATTEMPTS_MAX = 10
#: The time after the pass when asks beyond that may try.
PASS_NS = 100 * MS_NS


class _Turns(Struct):
    """The times when the asks of one class may reserve or preempt.

    Attributes:
        reserves_ns: the shortest time that an ask must have been pending to reserve; NEVER if none may.
        preempts_ns: the same to preempt.
        attempts_from_ns: no ask may preempt before this Unix time.
        preemptions: what asks have tried before.
    """

    reserves_ns: int
    preempts_ns: int
    attempts_from_ns: int
    preemptions: PreemptionAttempts

    @property
    def delay_ns(self) -> int:
        """The shortest time that an ask must have been pending to do either."""
        return min(self.reserves_ns, self.preempts_ns)

    @property
    def from_ns(self) -> int:
        """The time before which no ask may."""
        return self.attempts_from_ns if self.reserves_ns == NEVER else 0

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Equal for two searches if no ask may sooner than before; None if asks may reserve, which depends on their age only."""
        return (self.preempts_ns, self.preemptions.runs_count()) if self.reserves_ns == NEVER else None

    def at_ns(self, ask: Ask) -> int:
        """The Unix time from which an ask may."""
        if self.preempts_ns == NEVER:
            return ask.since_ns + self.reserves_ns
        attempt_ns = max(ask.since_ns + self.preempts_ns, self.preemptions.next_attempt_ns(ask), self.attempts_from_ns)
        return min(ask.since_ns + self.reserves_ns, attempt_ns)


class UnschedulableStep:
    """Reserves and preempts, for one partition.

    Attributes:
        attempts: by leaf, in the current pass.
    """

    def __init__(self, state: SchedulerState, predicate_client: PredicateClient, preemptor: Preemptor) -> None:
        self._state = state
        self._predicate_client = predicate_client
        self._preemptor = preemptor
        self.attempts: dict[QueueNode, int] = {}
        #: Classes that wait for the next plan to preempt, with their leaves.
        self.put_off: list[tuple[QueueNode, AskClass]] = []
        #: The generation in which they were put off.
        self._put_off_in = 0
        #: The node that could be reserved for an ask of the current class.
        self._node: IndexedNode | None = None

    def try_again(self) -> None:
        """Try the classes again that were put off: a plan begins."""
        if self._put_off_in == self._state.generation:  # else growth has woken everything already, and classes may be new
            for leaf, ask_class in self.put_off:
                leaf.applications.wake(ask_class)
                self._state.tree.wake(leaf)
        self.put_off.clear()

    def run(self, plan: Plan, application: PendingApplication, queue: AskQueue, *, is_without_node: bool) -> bool:
        """Reserve or preempt for an ask of the class of ``queue``; returns whether anything was decided.

        Args:
            application: the representative of the class.
            is_without_node: no node has room; else a queue lacks headroom, and nodes were not tried.

        Raises:
            PlanEnds: an ask preempts, in this plan or, if this plan has decided something, in the next one.
        """
        leaf, ask_class = self._state.leaf_of(application), queue.ask_class
        order, now_ns = leaf.applications, plan.now_ns
        assert ask_class is not None
        turns = self._turns(plan, leaf, queue, ask_class, is_without_node=is_without_node)
        if turns is None:
            if is_without_node and self._waits_for_node(leaf, queue, ask_class, now_ns):
                self._state.wait(leaf, ask_class)
            else:
                self._state.park(leaf, ask_class)
            return False
        ask = self._eligible(now_ns, leaf, queue, ask_class, turns)
        if ask is None:
            return False
        if order_of(ask) != queue.sort_key:
            order.reposition(application, queue, order_of(ask))
            return False
        if self._node is not None and ask.since_ns + RESERVATION_DELAY_NS <= now_ns:
            plan.report(*self._state.quota_reports.fits(now_ns, leaf, application, ask))
            plan.report(self._state.reserve(now_ns, application, ask, self._node))
            return True
        if not plan.may_preempt:
            order.park(ask_class)
            self.put_off.append((leaf, ask_class))
            self._put_off_in = self._state.generation
            return False
        if not plan.may_read_owners():
            raise PlanEnds
        self._preempt(plan, leaf, application, ask)
        return False

    def _eligible(self, now_ns: int, leaf: QueueNode, queue: AskQueue, ask_class: AskClass, turns: _Turns) -> Ask | None:
        """The first ask of the class that may reserve or preempt; None if none may, after parking the class until one may."""
        order = leaf.applications
        order.mark_stuck(ask_class)
        self._state.note_eligible()
        ask, _ = queue.first_eligible(now_ns, turns)
        if ask is None:
            at_ns = order.hand_over(ask_class, now_ns, turns)
            if at_ns > now_ns:
                self._state.park(leaf, ask_class)
                self._state.note_eligible(at_ns)
        return ask

    def _waits_for_node(self, leaf: QueueNode, queue: AskQueue, ask_class: AskClass, now_ns: int) -> bool:
        """True if only a node that opens can help the class, and only usage can hold it back: not age, preemption or slots."""
        state, kind = self._state, queue.key[1]
        if queue.predicate or kind == HAS_NODE or (kind != RESERVES and state.preempts()):
            return False
        if ask_class.key[2] or any(queue.max for queue in leaf.path_up[:-1]) or headroom.limits_slots(leaf.path_up, ()):
            return False
        return not state.reserves or ask_class.oldest_ns + RESERVATION_DELAY_NS <= now_ns

    def _turns(
        self, plan: Plan, leaf: QueueNode, queue: AskQueue, ask_class: AskClass, *, is_without_node: bool
    ) -> _Turns | None:
        """The times when asks of the class may reserve or preempt; None if none may before capacity grows or time passes."""
        state, kind, now_ns = self._state, queue.key[1], plan.now_ns
        may_reserve = is_without_node and kind != HAS_NODE and state.reserves
        may_preempt = kind != RESERVES and state.preempts()
        delay_ns = leaf.config.properties.preemption_delay_ns if may_preempt else NEVER
        at_ns = ask_class.oldest_ns + min(delay_ns, RESERVATION_DELAY_NS if may_reserve else NEVER)
        if at_ns > now_ns:
            state.note_eligible(at_ns)
            return None
        self._node = None
        if may_reserve and ask_class.oldest_ns + RESERVATION_DELAY_NS <= now_ns:
            self._node = self._node_to_reserve(plan, queue)
            may_reserve = self._node is not None
        if not may_reserve and not may_preempt:
            return None
        reserves_ns = RESERVATION_DELAY_NS if may_reserve else NEVER
        is_exhausted = self.attempts.get(leaf, 0) >= ATTEMPTS_MAX
        return _Turns(reserves_ns, delay_ns, now_ns + PASS_NS if is_exhausted else 0, state.preemptions)

    def _node_to_reserve(self, plan: Plan, queue: AskQueue) -> IndexedNode | None:
        """The node to reserve (SC-51), if the predicate lets the asks run there (SC-53)."""
        node = self._state.nodes.best_to_reserve(queue.shape)
        if node is None:
            return None
        may_run = self._predicate_client.may_run(queue.first(), node.node_id, allocate=False)
        if not may_run:
            self._predicate_client.about(plan.now_ns, queue.first(), [node.node_id] if may_run is None else [], allocate=False)
            plan.report(*self._predicate_client.take())
        return node if may_run else None

    def _preempt(self, plan: Plan, leaf: QueueNode, application: PendingApplication, ask: Ask) -> None:
        refusal = self._preemptor.attempt(plan, application, ask)
        self.attempts[leaf] = self.attempts.get(leaf, 0) + 1  # PE-16
        if refusal is None:
            raise PlanEnds  # later decisions depend on the confirmation
        if refusal == reasons.NO_VICTIMS and (shape := shape_of(ask))[3]:
            plan.search(len(self._state.nodes.nodes))
            self._predicate_client.about_unknown(plan.now_ns, ask, shape)
            plan.report(*self._predicate_client.take())
        self._state.preemptions.note_attempt(plan.now_ns, ask, refusal, is_vain=True)
