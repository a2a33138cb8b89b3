"""What is left to asks for which there is no room: to have a node kept, or to preempt (SC-148).

Each ask has its own turn, although a line is tried for all its asks at once: where it is another one's than that which we came
for, the line takes its place.
"""

from __future__ import annotations

from collections.abc import Callable

from ykactor.core.messages.asks import Ask, order_of
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.inquiry import Inquiry
from ykactor.core.nodes.reservations import RESERVATION_DELAY_NS
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.planner.steps import PlanEnds, Step
from ykactor.core.queueing.equivalence import HAS_NODE, RESERVES, AskQueue, Line
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.quota.ledger import Account
from ykactor.core.state.state import Indexes
from ykactor.core.values.times import MS_NS, NEVER

#: Attempts to preempt of the asks of one leaf in one pass; the others have to wait for another one (PE-10).
ATTEMPTS_MAX = 10
PASS_NS = 100 * MS_NS


class LastResorts:
    """Reserves and preempts, for one partition."""

    def __init__(self, indexes: Indexes, inquiry: Inquiry, preemptor: Preemptor) -> None:
        self._indexes = indexes
        self._inquiry = inquiry
        self._preemptor = preemptor
        #: Attempts made in the present pass.
        self._attempts: dict[Account, int] = {}
        #: Lines that wait for the next plan to preempt, with their leaves.
        self.put_off: list[tuple[Account, Line]] = []
        self._put_off_in = 0
        self._may_preempt = True
        #: Of the line in work: the node that could be kept for one of its asks.
        self._node: IndexedNode | None = None

    def begin_plan(self, *, may_preempt: bool) -> None:
        """Another plan begins: whoever was put off has his turn, or is put off again (not ``may_preempt``)."""
        self._may_preempt = may_preempt
        if self._put_off_in == self._indexes.generation:  # else everybody is offered again, in lines that may be new
            for leaf, line in self.put_off:
                leaf.applications.wake(line)
                self._indexes.wake(leaf)
        self.put_off.clear()

    def begin_pass(self) -> None:
        """The walk begins anew at root."""
        self._attempts.clear()

    def run(
        self,
        now_ns: int,
        leaf: Account,
        application: WaitingApplication,
        queue: AskQueue,
        steps: list[Step],
        *,
        is_without_node: bool,
    ) -> bool:
        """Do what can be done for the line of ``queue``, in which ``application`` is first; answers whether that was something.

        Args:
            steps: of the plan so far; gets what is decided.
            is_without_node: no node has room; else a queue has none, and nodes were not tried.

        Raises:
            PlanEnds: it is somebody's turn to preempt: the plan has decided something already, or now that.
        """
        order, line = leaf.applications, queue.line
        assert line is not None
        acts_ns = self._turns(now_ns, leaf, queue, line, steps, is_without_node=is_without_node)
        if acts_ns is None:
            self._indexes.park(leaf, line)
            return False
        order.get_stuck(line)
        self._indexes.watch()
        ask, _ = queue.first_acting(now_ns, acts_ns)
        if ask is None:
            at_ns = order.pass_on(line, now_ns, acts_ns)
            if at_ns > now_ns:
                self._indexes.park(leaf, line)
                self._indexes.watch(at_ns)
            return False
        if order_of(ask) != queue.sort_key:
            order.set_back(application, queue, order_of(ask))
            return False
        if self._node is not None and ask.since_ns + RESERVATION_DELAY_NS <= now_ns:
            steps += self._indexes.remarks.fits(now_ns, leaf, application, ask)
            steps.append(self._indexes.reserve(now_ns, leaf, application, ask, self._node))
            return True
        if not self._may_preempt:
            order.park(line)
            self.put_off.append((leaf, line))
            self._put_off_in = self._indexes.generation
            return False
        if steps:
            raise PlanEnds
        self._preempt(now_ns, leaf, application, ask, steps)
        return False

    def _turns(
        self, now_ns: int, leaf: Account, queue: AskQueue, line: Line, steps: list[Step], *, is_without_node: bool
    ) -> Callable[[Ask], int] | None:
        """When an ask of the line may act; None when none may before something grows, or becomes older."""
        kind = queue.key[1]
        may_reserve = is_without_node and kind != HAS_NODE and not self._indexes.reservations.disabled
        may_preempt = kind != RESERVES and self._indexes.preempts()
        delay_ns = leaf.config.properties.preemption_delay_ns if may_preempt else NEVER
        at_ns = line.oldest_ns + min(delay_ns, RESERVATION_DELAY_NS if may_reserve else NEVER)
        if at_ns > now_ns:
            self._indexes.watch(at_ns)
            return None
        self._node = None
        if may_reserve and line.oldest_ns + RESERVATION_DELAY_NS <= now_ns:
            self._node = self._node_to_keep(now_ns, queue, steps)
            may_reserve = self._node is not None
        if not may_reserve and not may_preempt:
            return None
        return self._turn_of(now_ns, leaf, RESERVATION_DELAY_NS if may_reserve else NEVER, delay_ns)

    def _turn_of(self, now_ns: int, leaf: Account, reserves_ns: int, preempts_ns: int) -> Callable[[Ask], int]:
        preemptions = self._indexes.preemptions
        is_exhausted = self._attempts.get(leaf, 0) >= ATTEMPTS_MAX
        attempts_from_ns = now_ns + PASS_NS if is_exhausted else 0

        def acts_ns(ask: Ask) -> int:
            if preempts_ns == NEVER:
                return ask.since_ns + reserves_ns
            attempt_ns = max(ask.since_ns + preempts_ns, preemptions.next_attempt_ns(ask), attempts_from_ns)
            return min(ask.since_ns + reserves_ns, attempt_ns)

        return acts_ns

    def _node_to_keep(self, now_ns: int, queue: AskQueue, steps: list[Step]) -> IndexedNode | None:
        """The node to reserve (SC-51), if the resource manager lets the asks run there (SC-53)."""
        node = self._indexes.nodes.best_to_reserve(queue.shape)
        if node is None:
            return None
        may_run = self._inquiry.may_run(queue.first(), node.node_id, allocate=False)
        if not may_run:
            self._inquiry.about(now_ns, queue.first(), [node.node_id] if may_run is None else [], allocate=False)
            steps += self._inquiry.take()
        return node if may_run else None

    def _preempt(self, now_ns: int, leaf: Account, application: WaitingApplication, ask: Ask, steps: list[Step]) -> None:
        found = self._preemptor.attempt(now_ns, leaf, application, ask)
        self._attempts[leaf] = self._attempts.get(leaf, 0) + 1  # PE-16
        if isinstance(found, str):
            self._indexes.preemptions.note_attempt(now_ns, ask, found)
        else:
            steps += found
            raise PlanEnds  # what is next builds on the confirmation
