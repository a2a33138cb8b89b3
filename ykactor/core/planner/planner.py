"""The walk: chooses the next ask and its node (PR-25 to PR-31, SC-20 to SC-45).

``Planner.plan`` reads the scheduler's state, updates it with each placement, and returns a ``Plan``. Each decision starts at
the root queue with current values; the sorted structures of ``queueing`` are updated incrementally, so nothing is sorted again.
There is no head-of-line blocking: a candidate that cannot place anything is parked and skipped, so that the cost of a decision
does not depend on the number of pending asks.

A plan can let other tasks run before it is complete (``objects.registry``). Nothing that it reads changes meanwhile.

At the end, each leaf in the plan is sent a batch with its orders, in parts if it is long (``settle``): it turns asks into
allocations and changes states of applications.
"""

from __future__ import annotations

from contextlib import suppress

from ykactor.core.messages.asks import Shape
from ykactor.core.messages.fact_order import with_state_changes
from ykactor.core.messages.facts import Allocated, Fact
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.planned import Budget, Cancellation, Eviction, Replacement
from ykactor.core.messages.states import ApplicationState
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.predicate_client import PredicateClient
from ykactor.core.objects.commands import Positioned, SettleBatch
from ykactor.core.objects.registry import Exchange, Send
from ykactor.core.planner.placeholder_step import PlaceholderStep
from ykactor.core.planner.plan import TRY_WORK, Plan, PlanEnds
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.planner.quota_preemption_step import enforce_quotas
from ykactor.core.planner.reservation_step import ReservationStep
from ykactor.core.planner.unschedulable_step import UnschedulableStep
from ykactor.core.queueing.equivalence import HAS_NODE, RESERVES, AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import queue_shortage, shortage_code
from ykactor.core.quota.limits import Tracker
from ykactor.core.state import wakeups
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps, in_parts, paced
from ykactor.core.waiting.scheduling_states import SchedulingStateStep

#: After a plan with this much search work, the next plan searches for no victims, so that other asks are placed meanwhile.
SEARCH_WORK_MAX = 10_000
_ACCEPTED = ApplicationState.ACCEPTED
_NODES, _PREDICATE = PendingCode.NODES, PendingCode.PREDICATE
#: Work units of looking at one reservation.
SCAN_WORK = 5


def _shape_of(application: PendingApplication) -> Shape:
    queue = application.ask_queues.first()
    assert queue is not None, "it is the head of a class"
    return queue.shape


class Planner:
    """Plans for one partition."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._predicate_client = PredicateClient(state.nodes)
        preemptor = self.preemptor = Preemptor(state)
        self._reserved = ReservationStep(state, self._predicate_client, preemptor)
        self._placeholders = PlaceholderStep(state, self._predicate_client)
        self._unschedulable = UnschedulableStep(state, self._predicate_client, preemptor)
        self._scheduling_states = SchedulingStateStep(state, state.scheduling_states)
        #: Search work of the last plan.
        self._search_work = 0

    def plan(self, now_ns: int, budget: Budget) -> Exchange[Plan]:
        """Take all decisions that are possible at Unix time ``now_ns``, best first, within ``budget``."""
        self._state.tree.waits.now_ns = now_ns
        plan = Plan(self._state, now_ns, budget, may_preempt=self._search_work < SEARCH_WORK_MAX)
        if self._unschedulable.put_off:
            self._unschedulable.try_again()
        yield from self._decide(plan)
        if self._state.scheduling_states.is_wanted:
            yield from self._tell(plan)
        plan.work, self._search_work = plan.effort.spent, plan.search_work
        plan.recheck_ns = self._recheck_ns()
        return plan

    def _recheck_ns(self) -> int | None:
        """The time when a new plan is due although nothing has changed; None if there is none."""
        predicates, states = self._state.nodes.predicates, self._state.scheduling_states
        answers_ns = predicates.due_ns() if predicates.deadlines else None
        states_ns = states.due_ns() if states.is_wanted else None
        if answers_ns is None or states_ns is None:
            return states_ns if answers_ns is None else answers_ns
        return min(answers_ns, states_ns)

    def _decide(self, plan: Plan) -> Exchange[None]:
        state = self._state
        wakeups.on_deadlines(state, plan.now_ns)
        changes = state.nodes.opened.count, state.nodes.predicates.changes
        if changes != state.pairs.recalled_at:
            state.pairs.recall(changes)
        if state.enforces_quotas():
            yield from paced(enforce_quotas(state, plan))
            if plan:  # a step that reads the owners needs a plan of its own
                plan.spend(TRY_WORK * len(plan))
                return
        if not state.tree.root_max or state.tree.root.hold is not None:  # no node resources (PR-26), or all is held
            plan.at_rest = True
            return
        with suppress(PlanEnds):  # parked candidates stay parked: the next plan continues here
            yield from self._walk(plan)
        if plan.at_rest:
            facts = yield from paced(state.quota_reports.report(plan.now_ns))
            if facts:
                plan.report(*facts)
            plan.at_rest = not state.quota_reports.has_news()
        plan.at_rest = plan.at_rest and not self._unschedulable.put_off

    def _tell(self, plan: Plan) -> Exchange[None]:
        """Tell the resource manager why asks are pending, when nothing else is left to decide."""
        states = self._state.scheduling_states
        states.has_changed = states.has_changed or not plan.is_idle()
        if plan.at_rest:
            plan.report(*(yield from paced(self._scheduling_states.run(plan.now_ns))))
            plan.at_rest = states.next_application() is None

    def _walk(self, plan: Plan) -> Exchange[None]:
        """Take one decision after the other, each from root, until nothing more can be placed or the plan is full."""
        state, queue = self._state, None
        while not plan.at_rest:
            if queue is None:  # a pass begins
                if plan.is_full():
                    return
                if plan.is_pause_due():
                    yield []
                if state.next_eligible_ns is not None:  # the last placement may have let its application join other classes
                    wakeups.on_ages(state, plan.now_ns)
                if state.reservations.by_ask and self._place_reserved(plan):
                    continue
                if state.pairs.by_leaf:  # in a plan of their own
                    if not plan:
                        self._placeholders.run(plan)
                    if plan:
                        return
                if self._unschedulable.attempts:
                    self._unschedulable.attempts.clear()
                queue = state.tree.root
            if queue.is_leaf:
                application = queue.applications.first(state.generation, state.nodes.opened)
                if application is not None:
                    tried = self._try(plan, queue, application)
                    if tried:
                        queue = None
                        continue
                    if tried is None:
                        yield from paced(state.nodes.prepare(_shape_of(application)))
                    if plan.is_pause_due():
                        yield []
                    continue
            else:
                child = queue.children.first(state.generation)
                if child is not None:
                    queue = child
                    continue
            queue = self._leave(plan, queue)

    def _leave(self, plan: Plan, queue: QueueNode) -> QueueNode:
        """Park a queue in which nothing more can be placed, and return its parent. Of root: nothing can be placed at all."""
        if queue.parent is None:
            plan.at_rest = True
            return queue
        queue.parent.children.park(queue)
        return queue.parent

    def _place_reserved(self, plan: Plan) -> bool:
        """Serve asks with a reservation; returns whether anything was decided."""
        if plan and plan.is_out_of_work():
            raise PlanEnds
        count = len(plan)
        is_served = self._reserved.run(plan)
        if is_served:  # else the cost is not counted: with a small budget the same scan would use up every plan
            plan.spend(TRY_WORK * (len(plan) - count) + SCAN_WORK * self._reserved.scanned)
        return is_served

    def _try(self, plan: Plan, leaf: QueueNode, application: PendingApplication) -> bool | None:
        """Try the first class of a leaf, whose head is the application; returns whether anything was decided.

        If nothing was, the class is parked, or has another position (SC-21 to SC-24, SC-148). None: looking at all nodes for its
        shape takes long, and must be done first.
        """
        state = self._state
        plan.try_candidate()
        if leaf.config.properties.backoff_count and self._backs_off(plan, leaf, application):
            return False
        queue = application.ask_queues.first()
        assert queue is not None
        ask_class = queue.ask_class
        assert ask_class is not None
        short = application.slot_shortage() if application.state is _ACCEPTED else None
        short = ask_class.shortage = short or application.shortage(queue.shape)
        if short is not None:
            leaf.applications.found_short(ask_class, shortage_code(short))
            if queue.key[1] != RESERVES and short[1] and not isinstance(short[0], Tracker):  # PE-73
                return self._unschedulable.run(plan, application, queue, is_without_node=False)
        elif queue.required_node is not None:
            if self._try_required(plan, leaf, application, queue):
                return True
        elif queue.is_heavy and not state.nodes.is_ready(queue.shape):
            return None
        elif queue.key[1] == HAS_NODE or (node := state.nodes.first_fit(queue.shape)) is None:
            self._report_refusals(plan, leaf, queue)
            is_refused = state.nodes.predicates.refuses((queue.predicate, True))
            leaf.applications.found_short(ask_class, _PREDICATE if is_refused else _NODES)
            if self._unschedulable.run(plan, application, queue, is_without_node=True):
                return True
            self._backs_off(plan, leaf, application)
            return False
        elif not queue.predicate or not self._is_held_up(plan, leaf, queue, node):
            self._place(plan, leaf, application, queue, node)
            return True
        else:
            leaf.applications.found_short(ask_class, _PREDICATE)
        state.park(leaf, ask_class)
        return False

    def _place(self, plan: Plan, leaf: QueueNode, application: PendingApplication, queue: AskQueue, node: IndexedNode) -> None:
        ask = queue.first()
        if application.held or queue.notified is not None:
            plan.report(*self._state.quota_reports.fits(plan.now_ns, leaf, application, ask))
        plan.place(leaf, application, ask, node)

    def _backs_off(self, plan: Plan, leaf: QueueNode, application: PendingApplication) -> bool:
        """Start the back-off of the application if too many of its asks fit nowhere; returns whether it started (SC-38)."""
        properties = leaf.config.properties
        is_enough = bool(properties.backoff_count) and wakeups.has_enough(application, properties.backoff_count)
        if is_enough:
            wakeups.back_off(self._state, application, plan.now_ns + properties.backoff_delay_ns)
        return is_enough

    # ---- predicates

    def _report_refusals(self, plan: Plan, leaf: QueueNode, queue: AskQueue) -> None:
        self._predicate_client.report_refusals(plan.now_ns, queue.first(), leaf.path, queue.shape)
        plan.report(*self._predicate_client.take())

    def _is_held_up(self, plan: Plan, leaf: QueueNode, queue: AskQueue, node: IndexedNode) -> bool:
        """True if a predicate refuses the node for the asks, or is not known yet; in this case it is requested."""
        may_run = self._predicate_client.may_run(queue.first(), node.node_id, allocate=True)
        if may_run:
            return False
        if may_run is None:
            self._predicate_client.about_first(plan.now_ns, queue.first(), queue.shape, node.node_id)
            plan.report(*self._predicate_client.take())
        else:
            self._report_refusals(plan, leaf, queue)
        return True

    # ---- asks that require their node

    def _try_required(self, plan: Plan, leaf: QueueNode, application: PendingApplication, queue: AskQueue) -> bool:
        """Place an ask that requires its node, or reserve the node at once; False if neither is possible (SC-70 to SC-76)."""
        assert queue.required_node is not None
        state, ask_class = self._state, queue.ask_class
        assert ask_class is not None
        node = state.nodes.nodes.get(queue.required_node)
        if node is None or not node.could_fit(queue.needs, queue.selector):  # SC-71: also preempting would not help
            leaf.applications.found_short(ask_class, _NODES)
            return False
        has_room = node.fits(queue.needs, queue.selector)
        is_refused = self._predicate_client.may_run(queue.first(), node.node_id, allocate=True) is False
        if (has_room or is_refused) and self._is_held_up(plan, leaf, queue, node):  # a reservation would not help
            leaf.applications.found_short(ask_class, _PREDICATE)
            return False
        for reservation in state.reservations.on(node.node_id):
            if not reservation.is_pinned():
                plan.report(state.unreserve(plan.now_ns, reservation))  # SC-74
                state.requeue(reservation.application)
        if has_room and not node.reserved and queue_shortage(leaf.path_up, queue.needs) is None:
            self._place(plan, leaf, application, queue, node)
        else:
            plan.report(*state.quota_reports.fits(plan.now_ns, leaf, application, queue.first()))
            plan.report(state.reserve(plan.now_ns, application, queue.first(), node))  # SC-76
        return True


#: So many replies are put together in the time of one other item.
_REPLIES = 10


def settle(state: SchedulerState, plan: Plan) -> Exchange[list[Fact]]:
    """Send each leaf what is decided for it. Returns all facts in the order of the plan (AP-96)."""
    sends: list[Send[Positioned]] = []
    for leaf, batch in plan.batches.items():
        owner = state.registry.leaf(leaf.path)
        sends += ((owner, SettleBatch(plan.now_ns, part)) for part in in_parts(batch))
    replies: list[Positioned] = yield sends
    facts = yield from paced(_in_plan_order(plan, replies))
    return facts


def _in_plan_order(plan: Plan, replies: list[Positioned]) -> Steps[list[Fact]]:
    """The reported facts and the facts that decisions led to, in the order of the plan."""
    facts, changes = list[Fact](), dict[int, list[Fact]]()
    for reply in replies:
        changes.update(reply)
        yield len(reply) // _REPLIES
    for part in in_parts(enumerate(plan.entries)):
        for position, entry in part:
            caused = changes.get(position)
            if type(entry) is Allocated:  # by far the most frequent
                facts += with_state_changes(caused, entry) if caused else (entry,)
            elif isinstance(entry, Replacement | Cancellation | Eviction):
                facts += caused or ()
            else:
                facts.append(entry)
        yield len(part)
    return facts
