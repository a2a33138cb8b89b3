"""What the scheduler knows: the ledger and the orders of one partition, kept true by the facts of their owners.

``observe`` is called between cycles with everything that the owners reported. Between two calls only the planner
changes the indexes, and what it changes the owners confirm. ``invariants`` rebuilds them from the owners' views and
compares.

What follows from a fact in the scheduler's own books is a fact too: ``observe`` answers what it was given with such
*consequences* in their places.

``observe`` *breathes*: it yields wherever other tasks may have a turn, so that thousands of queues or facts do not keep sockets
waiting. Nobody reads the indexes before it has come to its end.

Waking is decided here, in one place. What was parked is tried again
- everywhere, when an amount in use became smaller or a limit larger (``generation``);
- in one leaf, when something changed there and a line of it is not parked (``wake``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.messages.asks import Ask, ask_id, shape_of
from ykactor.core.messages.fact_order import in_order
from ykactor.core.messages.facts import (
    Allocated,
    AllocationResized,
    AnswererChanged,
    ApplicationAdded,
    ApplicationChanged,
    ApplicationLeft,
    ApplicationMoved,
    AskAdded,
    AskRemoved,
    AskResized,
    AskReturned,
    ConfigurationChanged,
    Decision,
    ForeignChanged,
    GroupLinkChanged,
    LimitChanged,
    LookAgain,
    NodeAdded,
    NodeCapacityChanged,
    NodeRemoved,
    NodeSchedulable,
    NodeUseChanged,
    Payer,
    PlaceGivenUp,
    PredicateAnswered,
    PredicatesForgotten,
    QueueAdded,
    QueueLimitChanged,
    QueueRemoved,
    QueueTypeChanged,
    Released,
    ReleaseStarted,
    Reserved,
    TaskGroupChanged,
    Unreserved,
    UsageChanged,
)
from ykactor.core.messages.kinds import Change, QueueLimit
from ykactor.core.messages.states import COUNTED_AS_RUNNING, WINDING_UP, ApplicationState
from ykactor.core.nodes.index import IndexedNode, NodeIndex
from ykactor.core.nodes.reservations import RESERVATION_DELAY_NS, Reservation, Reservations
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.registry import Roster
from ykactor.core.preemption.attempts import Preemptions
from ykactor.core.preemption.cycles import OUTSIDE
from ykactor.core.preemption.quota_clocks import QuotaClocks
from ykactor.core.queueing.equivalence import Line
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.queueing.task_groups import WaitingGang
from ykactor.core.quota.ledger import Account, Ledger
from ykactor.core.quota.limits import GroupChoice, QueueLimits, Trackers, choose_group, in_force, keep_group, still_holds
from ykactor.core.state.pending_reasons import Remarks
from ykactor.core.values.ids import ApplicationID, NodeID, QueuePath
from ykactor.core.values.resources import Resource, fits, positive, saturated, subtracted
from ykactor.core.values.times import NEVER

#: Facts and applications worked in before other tasks get their turn.
BREATH = 1000


class Indexes:
    """Ledger, applications and nodes as the planner sees them.

    Attributes:
        waiting: every live application with its leaf's account.
        trackers: the limits of users and groups that somebody counts against.
        remarks: what those who wait are to be told.
        reservations: the nodes that are kept for asks.
        clocks: when queues that are over their max have to give back.
        generation: one higher whenever something grew.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.ledger = Ledger()
        self.nodes = NodeIndex(roster.config.node_sort_policy)
        self.waiting: dict[ApplicationID, tuple[Account, WaitingApplication]] = {}
        self.trackers = Trackers()
        #: Applications in which a real ask can take the place of a placeholder, by leaf.
        self.replaceable: dict[Account, dict[WaitingApplication, None]] = {}
        self.reservations = Reservations(self.nodes)
        self.remarks = Remarks(self.ledger)
        self.preemptions = Preemptions()
        self.clocks = QuotaClocks()
        #: When an ask becomes old enough to reserve, as far as that matters: None while no ask has failed to find a node.
        self.ripe_ns: int | None = None
        #: Those of which nobody could until a node or an answer changes, and what these were when they were offered again last.
        self.aside: dict[WaitingApplication, Account] = {}
        self._recalled = 0, 0
        #: One higher whenever something was answered or forgotten.
        self.answers = 0
        #: Applications that are left alone, and until when.
        self.backoffs: dict[WaitingApplication, int] = {}
        self.generation = 0
        #: What ``observe`` has seen and works in at its end, once for each: applications, changes of pending amounts by leaf,
        #: leaves, nodes.
        self._touched: dict[WaitingApplication, Account] = {}
        self._pending_changes: dict[Account, Resource] = {}
        self._touched_leaves: dict[Account, None] = {}
        self._touched_nodes: dict[NodeID, None] = {}
        self._tree_is_stale = False
        #: Whether there are steps in this observation whose facts have to be put in order.
        self._is_out_of_order = False
        #: Facts that follow from the one in work and are to be told with it.
        self._consequences: list[Decision] = []

    def observe(self, facts: list[Decision]) -> Generator[None, None, list[Decision]]:
        """Work in what happened, in order; answers it with its consequences. Breathes."""
        told: list[Decision] = []
        self._is_out_of_order = False
        for start in range(0, len(facts), BREATH):
            for fact in facts[start : start + BREATH]:
                if type(fact) is NodeRemoved:
                    self._is_out_of_order = True
                    self._cancel(fact.at_ns, self.reservations.on(fact.node_id))
                    told += self._take_consequences()
                told.append(fact)
                if type(fact) is AskAdded:  # by far the most frequent
                    self._on_ask_added(fact.ask)
                elif type(fact) is ConfigurationChanged:
                    yield from self._on_configuration_changed(fact)
                else:
                    self._observe(fact)
                if self._consequences:
                    told += self._take_consequences()
            yield from self._work_in(facts[start].at_ns)
            told += self._take_consequences()
            yield
        if not self._is_out_of_order:
            return told
        ordered: list[Decision] = []
        for some in in_order(told):
            ordered += some
            yield
        return ordered

    def _take_consequences(self) -> list[Decision]:
        taken, self._consequences = self._consequences, []
        return taken

    def _observe(self, fact: Decision) -> None:
        if type(fact) in OUTSIDE:
            self.preemptions.loops.reset()
        match fact:
            case AskRemoved(at_ns, ask, _, True):
                self._discard(at_ns, ask)
                self._uncount_idle(ask.spec.application_id)
            case Released(at_ns, ask, _, node_id):
                self.preemptions.confirm(at_ns, self.waiting[ask.spec.application_id][0], ask)
                self._change_usage(at_ns, ask, None, node_id)
                self._uncount_idle(ask.spec.application_id)
            case ReleaseStarted():
                self._on_release_started(fact.ask)
            case AskReturned():
                self._on_ask_added(fact.ask)
            case TaskGroupChanged():
                self._on_task_group_changed(fact)
            case ApplicationChanged(_, application_id, _, state):
                self._on_application_changed(application_id, state)
            case ApplicationAdded(_, application_id, path):
                self.waiting[application_id] = self.ledger.accounts[path], WaitingApplication(fact)
                self._adopt_quotas(path)
            case ApplicationMoved(at_ns, application_id, _, path):
                self._on_application_moved(at_ns, application_id, self.ledger.accounts[path])
            case ApplicationLeft(at_ns, application_id, _):
                self._on_application_left(at_ns, application_id)
            case Allocated(at_ns, ask, _, node_id):
                self._on_recovered(at_ns, ask, node_id)
            case AskResized(at_ns, before, after, _):
                self._on_ask_resized(at_ns, before, after)
            case AllocationResized(at_ns, before, after, _, node_id):
                self._change_usage(at_ns, before, after, node_id)
                if not fits(before.spec.resource, after.spec.resource):
                    self._note_growth(at_ns, after)
                if ask_id(after) in self.preemptions.victims:
                    self.preemptions.resize_victim(self.waiting[after.spec.application_id][0], after)
            case NodeAdded() | ForeignChanged() | PlaceGivenUp():
                self._touch_node(fact.node_id)
            case NodeSchedulable(at_ns, node_id, schedulable):
                self._touch_node(node_id)
                if not schedulable:  # SC-61: what others go for is not given up
                    reservations, fought_for = self.reservations.on(node_id), self.preemptions.by_ask
                    self._cancel(at_ns, [it for it in reservations if not it.is_pinned() and ask_id(it.ask) not in fought_for])
            case NodeCapacityChanged(at_ns, node_id, capacity):
                self._touch_node(node_id)
                self.nodes.predicates.forget("", node_id)
                if node_id in self.nodes.nodes:
                    self.nodes.set_capacity(self.nodes.nodes[node_id], capacity)
                reservations = self.reservations.on(node_id)
                self._cancel(at_ns, [it for it in reservations if not fits(capacity, it.ask.spec.resource)])  # SC-104
            case PredicateAnswered() | PredicatesForgotten() | AnswererChanged() | LookAgain():
                self._observe_answers(fact)
            case NodeRemoved(_, node_id):
                self.nodes.predicates.forget("", node_id)
                if node_id in self.nodes.nodes:  # it is not when it came and went between two observations
                    self.nodes.remove(node_id)
                self._touched_nodes.pop(node_id, None)
            case QueueLimitChanged(_, "root", QueueLimit.MAX, total):
                self.ledger.set_root_max(total)
                self.generation += 1
            case QueueAdded(_, path, False):
                self._on_dynamic_queue_added(path)
            case QueueRemoved(at_ns, path):
                self._on_queue_removed(at_ns, path)
            case QueueTypeChanged():
                self._tree_is_stale = True  # of very few

    def _work_in(self, at_ns: int) -> Iterator[None]:
        if self._tree_is_stale:
            yield from self._reconfigure(at_ns)
        for leaf, change in self._pending_changes.items():
            self.ledger.change_pending(leaf, change)
        self._pending_changes.clear()
        yield from self.ledger.refresh_shares()
        for number, (application, leaf) in enumerate(self._touched.items(), 1):
            if not application.enrolled:
                self._enroll(at_ns, leaf, application)
            self._replace(leaf, application)
            if application.queues:
                self.remarks.note(leaf, application)
            if number % BREATH == 0:
                yield
        self._touched.clear()
        for node_id in self._touched_nodes:
            self.nodes.sync(self._roster.nodes[node_id])
        self._touched_nodes.clear()
        for number, leaf in enumerate(self._touched_leaves, 1):
            self.ledger.refresh_priority(leaf)
            self._update_places(leaf)
            if leaf.applications.has_ready():
                self.wake(leaf)
            if number % BREATH == 0:
                yield
        self._touched_leaves.clear()

    # ---- asks

    def _on_ask_added(self, ask: Ask) -> None:
        leaf, application = self.waiting[ask.spec.application_id]
        application.add(ask)
        if self.ripe_ns is not None:
            delay_ns = leaf.config.properties.preemption_delay_ns if ask.spec.allow_preempt_other else RESERVATION_DELAY_NS
            self.watch(ask.since_ns + min(delay_ns, RESERVATION_DELAY_NS))
        self._change_pending(leaf, ask.spec.resource, 1)
        self._touch(leaf, application)

    def _discard(self, at_ns: int, ask: Ask) -> None:
        leaf, application = self.waiting[ask.spec.application_id]
        if ask.spec.allocation_key in application.reserving:
            self._cancel(at_ns, [self.reservations.of(ask)])
        self.preemptions.forget(ask)
        application.discard(ask)
        self._change_pending(leaf, ask.spec.resource, -1)
        self._touch(leaf, application)

    def _on_ask_resized(self, at_ns: int, before: Ask, after: Ask) -> None:
        """The node that is kept for it stays so, if it is large enough."""
        leaf, application = self.waiting[after.spec.application_id]
        is_kept = False
        if ask_id(before) in self.preemptions.by_ask:  # it fought for something else
            self.preemptions.end(leaf, before)
        if before.spec.allocation_key in application.reserving:
            reservation = self.reservations.of(before)
            is_kept = fits(reservation.node.capacity, after.spec.resource)
            if not is_kept:
                self._cancel(at_ns, [reservation])
        application.discard(before)
        self._change_pending(leaf, before.spec.resource, -1)
        self._on_ask_added(after)
        if is_kept:
            application.reserve(after, contends=self._contends(after))
            self.reservations.resize(after)

    def _change_pending(self, leaf: Account, resource: Resource, sign: int) -> None:
        change = self._pending_changes.get(leaf)
        if change is None:
            change = self._pending_changes[leaf] = {}
        for name, quantity in resource.items():
            change[name] = change.get(name, 0) + sign * quantity

    # ---- applications

    def _touch(self, leaf: Account, application: WaitingApplication) -> None:
        self._touched[application] = leaf
        self._touched_leaves[leaf] = None

    def _on_application_changed(self, application_id: ApplicationID, state: ApplicationState) -> None:
        if state is ApplicationState.EXPIRED:
            return  # it ended long ago; another one may live under its id (AP-72)
        leaf, application = self.waiting[application_id]
        if application.state in COUNTED_AS_RUNNING and state not in COUNTED_AS_RUNNING:
            self.ledger.give_slot_back(leaf, application_id)
            self.generation += 1
        application.enter(state)
        if state in COUNTED_AS_RUNNING:
            self.ledger.take_slot(leaf, application_id)
            self.remarks.is_stale = True
        if state is ApplicationState.RESUMING and application.gang is not None:
            application.gang.is_over = True
        self._touch(leaf, application)

    def _on_application_left(self, at_ns: int, application_id: ApplicationID) -> None:
        leaf, application = self.waiting.pop(application_id)
        self._tell_link(at_ns, leaf, application, application.group, Change.REMOVE)
        self._touched.pop(application, None)
        self.remarks.forget(application)
        self.backoffs.pop(application, None)
        if application.counted:
            application.uncount()
        self.trackers.let_go(application.trackers)
        leaf.applications.remove(application)
        self._forget_pairs(leaf, application)
        leaf.priorities.replace(application.shown_priority, None)
        self.ledger.give_slot_back(leaf, application_id)
        self.generation += 1
        self._touched_leaves[leaf] = None

    def _on_application_moved(self, at_ns: int, application_id: ApplicationID, leaf: Account) -> None:
        """All that counts in its old leaf counts in the new one instead; its limits are those of the new path."""
        old, application = self.waiting[application_id]
        self.waiting[application_id] = leaf, application
        self._tell_usage(at_ns, application.payer, old, Change.REMOVE, application.allocated)
        for ask, _ in application.asks.values():
            self._change_pending(old, ask.spec.resource, -1)
            self._change_pending(leaf, ask.spec.resource, 1)
        self._forget_pairs(old, application)
        self.ledger.move(old, leaf, application)
        self.preemptions.move(old, leaf, application)
        if application.enrolled:
            self.trackers.let_go(application.trackers)
            application.let_go()
            self._change_group(at_ns, leaf, application, keep_group(leaf.limits_up(), application.who, application.group))
            self._tell_first_sights(at_ns, leaf, application)
            self._hold_trackers(leaf, application)
        self._tell_usage(at_ns, application.payer, leaf, Change.ADD, application.allocated)
        self._touch(leaf, application)
        self._touched_leaves[old] = None
        self.generation += 1

    # ---- allocations

    def _on_recovered(self, at_ns: int, ask: Ask, node_id: NodeID) -> None:
        application = self.waiting[ask.spec.application_id][1]
        if ask.spec.allocation_key in application.asks:  # it waited here until the resource manager placed it (AP-112)
            self._discard(at_ns, ask)
        application.submission_ns = min(application.submission_ns, ask.created_ns)  # PR-40
        application.changed = True
        self._change_usage(at_ns, None, ask, node_id)
        self._note_growth(at_ns, ask)

    def _note_growth(self, at_ns: int, task: Ask) -> None:
        if self.enforces_quotas():
            self.clocks.grow(at_ns, self.waiting[task.spec.application_id][0])

    def _change_usage(self, at_ns: int, ended: Ask | None, begun: Ask | None, node_id: NodeID) -> None:
        either = ended or begun
        assert either is not None
        leaf, application = self.waiting[either.spec.application_id]
        self._tell_change(at_ns, leaf, application, ended, begun, node_id)
        if begun is not None:
            self.remarks.is_stale = True
            self.ledger.use(leaf, begun.spec.resource)
            application.begin(begun)
            if begun.spec.placeholder and ended is None:
                self.place_placeholder(leaf, application, begun, node_id)
            elif application.gang is not None and ended is not None and begun.spec.placeholder:
                application.gang.resize(ended, begun)
        if ended is not None:
            self.ledger.free(leaf, ended.spec.resource)
            application.end(ended)
            if application.gang is not None and begun is None:
                application.gang.withdraw(ended.spec.allocation_key)
            self.generation += 1
        self._touch_node(node_id)
        self._touch(leaf, application)

    def _tell_change(
        self, at_ns: int, leaf: Account, application: WaitingApplication, ended: Ask | None, begun: Ask | None, node_id: NodeID
    ) -> None:
        """What follows for node and user; a resize leaves the node's allocations as they are."""
        payer = application.payer
        if ended is None or begun is None:
            self._is_out_of_order = True
            either, change = (ended, Change.REMOVE) if ended else (begun, Change.ADD)
            assert either is not None
            self._consequences.append(NodeUseChanged(at_ns, either, leaf.path, node_id, change))
            self._tell_usage(at_ns, payer, leaf, change, either.spec.resource)
        else:
            before, after = ended.spec.resource, begun.spec.resource
            self._tell_usage(at_ns, payer, leaf, Change.ADD, positive(subtracted(after, before)))
            self._tell_usage(at_ns, payer, leaf, Change.REMOVE, positive(subtracted(before, after)))

    def _tell_usage(self, at_ns: int, payer: Payer, leaf: Account, change: Change, resource: Resource) -> None:
        if resource and (payer.user or payer.group):
            self._consequences.append(UsageChanged(at_ns, payer, leaf.path, change, saturated(resource)))

    # ---- reservations

    def preempts(self) -> bool:
        """Whether asks may preempt at all."""
        return self._roster.config.preemption.enabled

    def enforces_quotas(self) -> bool:
        """Whether queues that are over their max have to give back at all."""
        return self._roster.config.preemption.quota_enabled

    def evict(self, leaf: Account, task: Ask, preemptor: Ask | None) -> None:
        """A task will be told to go; if it is a placeholder nobody takes its place any more."""
        self.preemptions.add_victim(leaf, task, preemptor)
        gang = self.waiting[task.spec.application_id][1].gang
        if gang is not None:
            gang.withdraw(task.spec.allocation_key)

    def tasks_of(self, node_id: NodeID) -> NodeCore:
        """The owner of what runs on a node; only for a plan that has decided nothing yet."""
        return self._roster.nodes[node_id]

    def began_ns(self, task: Ask) -> int:
        """When a task began to run; only for a plan that has decided nothing yet."""
        application_id, key = ask_id(task)
        return self._roster.leaf(self.waiting[application_id][0].path).applications[application_id].began_ns[key]

    def free_to_go(self, task: Ask) -> Account | None:
        """The queue of a task that may have to go for others: it runs, and nobody has told it to end (PE-30). Else None.

        Reads the owners: only for a plan that has decided nothing yet.
        """
        application_id, key = ask_id(task)
        leaf = self.waiting[application_id][0]
        truth = self._roster.leaf(leaf.path).applications[application_id]
        is_free = key in truth.allocations and key not in truth.gang.released and shape_of(task.spec)[1] is None
        return leaf if is_free else None

    def free_tasks(self, leaf: Account) -> list[Ask]:
        """The tasks of a leaf that may have to go (see ``free_to_go``); only for a plan that has decided nothing yet."""
        applications = self._roster.leaf(leaf.path).applications.values()
        return [task for it in applications for task, _ in it.allocations.values() if self.free_to_go(task) is not None]

    def queue_of(self, task: Ask) -> Account:
        """The queue of a task's application."""
        return self.waiting[task.spec.application_id][0]

    def leaf_of(self, application: WaitingApplication) -> Account:
        """Where the application waits."""
        return self.waiting[application.application_id][0]

    def reserve(self, now_ns: int, leaf: Account, application: WaitingApplication, ask: Ask, node: IndexedNode) -> Reserved:
        """Keep ``node`` for an ask that waits. No amount changes (SC-55), but its application has begun (SC-24)."""
        application.reserve(ask, contends=self._contends(ask))
        self.reservations.add(now_ns, application, ask, node)
        self._keep_slot(leaf, application)
        self.requeue(leaf, application)
        return Reserved(now_ns, ask, leaf.path, node.node_id)

    def _contends(self, ask: Ask) -> bool:
        """Whether an ask that has a node goes on trying to preempt (PE-70)."""
        may_preempt = ask.spec.allow_preempt_other and shape_of(ask.spec)[1] is None
        return may_preempt and ask_id(ask) not in self.preemptions.by_ask

    def unreserve(self, at_ns: int, reservation: Reservation, *, runs: bool = False) -> Unreserved:
        """The node is offered to everybody again, and the ask stands in line; the caller brings the places up to date.

        ``runs``: the ask will be placed at once.
        """
        self.reservations.remove(reservation)
        reservation.application.unreserve(reservation.ask)
        if ask_id(reservation.ask) in self.preemptions.by_ask:
            self.preemptions.end(self.leaf_of(reservation.application), reservation.ask, runs=runs)
        self.generation += 1
        leaf = self.leaf_of(reservation.application)
        self.remarks.note(leaf, reservation.application)
        return Unreserved(at_ns, reservation.ask, leaf.path, reservation.node.node_id)

    def _cancel(self, at_ns: int, reservations: list[Reservation]) -> None:
        for reservation in reservations:
            self._consequences.append(self.unreserve(at_ns, reservation))
            self._touch(self.leaf_of(reservation.application), reservation.application)

    def watch(self, at_ns: int = NEVER) -> None:
        """Asks found no room: some may act at ``at_ns``, and those to come matter too."""
        self.ripe_ns = at_ns if self.ripe_ns is None else min(self.ripe_ns, at_ns)

    def come_of_age(self, now_ns: int) -> None:
        """Try everything again if somebody has become old enough, or if a contest was won for nothing."""
        for contest in self.preemptions.overdue(now_ns):
            leaf = self.leaf_of(contest.application)
            self.preemptions.end(leaf, contest.ask)
            contest.application.reserve(contest.ask, contends=self._contends(contest.ask))
            self.nodes.mark(self.reservations.of(contest.ask).node)
            self.requeue(leaf, contest.application)
            self.ripe_ns = now_ns
        for application in [it for it, until_ns in self.backoffs.items() if until_ns <= now_ns]:
            self._end_backoff(application)
        if self.ripe_ns is not None and self.ripe_ns <= now_ns:
            self.ripe_ns = None
            self.generation += 1

    def back_off(self, leaf: Account, application: WaitingApplication, until_ns: int) -> None:
        """Leave an application alone; new asks do not change that."""
        application.backoff_ns = self.backoffs[application] = until_ns
        application.changed = True
        self.requeue(leaf, application)

    def _end_backoff(self, application: WaitingApplication) -> None:
        del self.backoffs[application]
        application.backoff_ns, application.changed = 0, True
        leaf = self.leaf_of(application)
        self.requeue(leaf, application)
        self.wake(leaf)

    def next_ns(self, after_ns: int) -> int | None:
        """When time alone may change what is decided, if a plan was made at ``after_ns`` and nothing happens; None is never."""
        times = [
            self.ripe_ns,
            self.reservations.next_old_ns(after_ns),
            self.preemptions.next_ns(),
            min(self.backoffs.values(), default=None),
        ]
        if self.enforces_quotas():
            times.append(self.clocks.next_ns())
        return min((at_ns for at_ns in times if at_ns is not None and at_ns < NEVER), default=None)

    # ---- placeholders

    def place_placeholder(self, leaf: Account, application: WaitingApplication, ask: Ask, node_id: NodeID) -> None:
        """A placeholder runs: it may be replaced, and keeps a slot for its application (QU-54)."""
        assert application.gang is not None
        application.gang.place(ask, node_id)
        if application.state in WINDING_UP:  # it has to go at once
            application.gang.withdraw(ask.spec.allocation_key)
        self._keep_slot(leaf, application)

    def _keep_slot(self, leaf: Account, application: WaitingApplication) -> None:
        """An application that is still Accepted has something: what it needs to run is kept for it (QU-54)."""
        if application.state is ApplicationState.ACCEPTED and not application.holds_slot:
            application.holds_slot = application.changed = True
            self.ledger.hold_slot(leaf, application.application_id)
            self.remarks.is_stale = True

    def _on_task_group_changed(self, fact: TaskGroupChanged) -> None:
        leaf, application = self.waiting[fact.application_id]
        if fact.is_open:  # from now on they wait for placeholders
            asks = [it for it in application.reserving.values() if it.spec.task_group_name == fact.task_group_name]
            self._cancel(fact.at_ns, [self.reservations.of(ask) for ask in asks if not ask.spec.placeholder])
        application.change_group(fact.task_group_name, is_open=fact.is_open)
        self.generation += 1  # whoever stands in line now may be old enough to reserve
        self._touch(leaf, application)

    def _on_release_started(self, ask: Ask) -> None:
        leaf, application = self.waiting[ask.spec.application_id]
        if application.gang is not None:
            application.gang.withdraw(ask.spec.allocation_key)
            self._touch(leaf, application)

    def _note_pairs(self, leaf: Account, gang: WaitingGang, application: WaitingApplication) -> None:
        self._forget_pairs(leaf, application)
        if gang.has_pair() and application.state is not ApplicationState.FAILING:
            self.replaceable.setdefault(leaf, {})[application] = None

    def set_aside(self, leaf: Account, application: WaitingApplication) -> None:
        """Of the pairs that are left in an application none can be joined until a node, an answer or the application changes."""
        if application in self.replaceable.get(leaf, ()):
            self._forget_pairs(leaf, application)
            self.aside[application] = leaf

    def recall(self) -> None:
        """Offer again what was set aside if a node or an answer has changed."""
        changes = self.nodes.openings, self.answers
        if self._recalled != changes:
            self._recalled = changes
            for application, leaf in self.aside.items():
                self.replaceable.setdefault(leaf, {})[application] = None
            self.aside.clear()

    def _forget_pairs(self, leaf: Account, application: WaitingApplication) -> None:
        self.aside.pop(application, None)
        if leaf in self.replaceable:
            self.replaceable[leaf].pop(application, None)
            if not self.replaceable[leaf]:
                del self.replaceable[leaf]

    def _observe_answers(self, fact: PredicateAnswered | PredicatesForgotten | AnswererChanged | LookAgain) -> None:
        """What the resource manager says about nodes, or does not say; whoever waits looks again."""
        predicates, is_news = self.nodes.predicates, True
        match fact:
            case PredicateAnswered(_, predicate, node_id, allocate, error):
                is_news = predicates.answer((predicate, allocate), node_id, error)
            case PredicatesForgotten(_, predicate, node_id):
                predicates.forget(predicate, node_id)
            case AnswererChanged(_, is_there):
                predicates.set_answered(is_there)
            case LookAgain(at_ns):
                is_news = predicates.expire(at_ns)
        if is_news:
            self.answers += 1
            self.generation += 1

    def _touch_node(self, node_id: NodeID) -> None:
        if node_id in self._roster.nodes:
            self._touched_nodes[node_id] = None
            self.generation += 1

    # ---- orders

    def _replace(self, leaf: Account, application: WaitingApplication) -> bool:
        """Bring the places of an application in its leaf up to date; answers whether its priority changed."""
        if application.gang is not None:
            self._note_pairs(leaf, application.gang, application)
        priority = application.priorities.highest
        if priority == application.shown_priority:
            if leaf.applications.has_moved(application):
                leaf.applications.update(application)
            return False
        leaf.applications.update(application)
        leaf.priorities.replace(application.shown_priority, priority)
        application.shown_priority = priority
        return True

    def requeue(self, leaf: Account, application: WaitingApplication) -> None:
        """Bring the places of an application and of all queues above it up to date at once: the planner looks at them next."""
        if self._replace(leaf, application):
            self.ledger.refresh_priority(leaf)
        self._update_places(leaf)

    def _update_places(self, leaf: Account) -> None:
        for account in leaf.path_up:
            if account.parent is not None:
                account.parent.children.update(account)

    def park(self, leaf: Account, line: Line) -> None:
        """Nothing in the line can be placed until something grows."""
        leaf.applications.park(line)
        self.remarks.note_line(leaf, line)

    def wake(self, leaf: Account) -> None:
        """Something in ``leaf`` may be placeable now: offer it and its ancestors again."""
        for account in leaf.path_up:
            if account.parent is not None:
                account.parent.children.wake(account)

    # ---- limits

    def _enroll(self, at_ns: int, leaf: Account, application: WaitingApplication) -> None:
        """The application holds its trackers from its first ask or allocation on (QU-70)."""
        if not (application.asks or application.allocated):
            return
        application.choose(choose_group(leaf.limits_up(), application.who))
        self._tell_link(at_ns, leaf, application, application.group, Change.SET)
        self._tell_usage(at_ns, Payer("", application.payer.group), leaf, Change.ADD, application.allocated)
        self._tell_first_sights(at_ns, leaf, application)
        self._hold_trackers(leaf, application)

    def _change_group(self, at_ns: int, leaf: Account, application: WaitingApplication, group: GroupChoice | None) -> None:
        """The application counts against this group from now on, which may be the one that it had."""
        before = application.group
        application.choose(group)
        if (before and before.group) != (group and group.group):
            self._tell_link(at_ns, leaf, application, before, Change.REMOVE)
            self._tell_link(at_ns, leaf, application, group, Change.SET)

    def _tell_link(
        self, at_ns: int, leaf: Account, application: WaitingApplication, group: GroupChoice | None, change: Change
    ) -> None:
        if group is not None:
            self._consequences.append(GroupLinkChanged(at_ns, application.application_id, leaf.path, group.group, change))

    def _tell_first_sights(self, at_ns: int, leaf: Account, application: WaitingApplication) -> None:
        user = application.who.user
        for path in self.trackers.first_sights(leaf.limits_up(), user):
            self._consequences.append(LimitChanged(at_ns, path, Principal(PrincipalKind.USER, user), Change.SET))

    def _uncount_idle(self, application_id: ApplicationID) -> None:
        """At once, not when all is worked in: what is asked for next begins to count anew (QU-74)."""
        application = self.waiting[application_id][1]
        if application.counted and not application.asks and not application.allocated:
            application.uncount()
            self.generation += 1

    def _hold_trackers(self, leaf: Account, application: WaitingApplication) -> None:
        application.hold(self.trackers.hold(leaf.limits_up(), application.who, application.group))

    def _renew_trackers(self, at_ns: int, leaf: Account, application: WaitingApplication) -> None:
        """Other limits hold: count what runs against them; the group stays as long as its queue limits it (QU-76, QU-77)."""
        if application.enrolled:
            limits_up = leaf.limits_up()
            if application.group is not None and not still_holds(limits_up, application.group):
                before = application.payer.group
                self._change_group(at_ns, leaf, application, choose_group(limits_up, application.who))
                if application.payer.group != before:  # what runs counts against the other group (QU-77)
                    self._tell_usage(at_ns, Payer("", before), leaf, Change.REMOVE, application.allocated)
                    self._tell_usage(at_ns, Payer("", application.payer.group), leaf, Change.ADD, application.allocated)
            self._hold_trackers(leaf, application)

    # ---- configuration

    def _on_configuration_changed(self, fact: ConfigurationChanged) -> Iterator[None]:
        """At once: what follows may be about new queues."""
        if not fact.is_accepted:
            return
        configs = {path: account.config for path, account in self.ledger.accounts.items()}
        before = in_force(self._limits(), self.trackers)
        yield from self._reconfigure(fact.at_ns)
        self.clocks.adopt(fact.at_ns, configs, self.ledger.accounts.values())
        after = in_force(self._limits(), self.trackers)
        gone = [LimitChanged(fact.at_ns, *key, Change.REMOVE) for key in before if key not in after]
        changed = [LimitChanged(fact.at_ns, *key, Change.SET) for key in after if after[key] != before.get(key)]
        self._consequences += gone + changed

    def _limits(self) -> Iterator[QueueLimits]:
        return (account.limits for account in self.ledger.accounts.values() if account.limits is not None)

    def _on_queue_removed(self, at_ns: int, path: QueuePath) -> None:
        limits = self.ledger.accounts[path].limits
        if limits is not None:
            self._consequences += [LimitChanged(at_ns, *key, Change.REMOVE) for key in in_force([limits], Trackers())]
        self.clocks.forget(self.ledger.accounts[path])
        self.ledger.remove(path)

    def _on_dynamic_queue_added(self, path: QueuePath) -> None:
        if path not in self.ledger.accounts:  # it is when a configuration was observed after it came
            core = self._roster.queues[path]
            self.ledger.add(core.config, isinstance(core, LeafCore))

    def _adopt_quotas(self, path: QueuePath) -> None:
        """An application may have brought other quotas for its dynamic leaf (QU-100)."""
        account, core = self.ledger.accounts[path], self._roster.queues[path]
        if account.config is core.config or not isinstance(core, LeafCore):
            return
        standing = account.applications.standing()  # also those of which we are about to hear that they have left
        self.remarks.forget_lines(account)
        self.ledger.reconfigure_leaf(account, core.config)
        waiting = [self.waiting[name][1] for name in core.applications if name in self.waiting]
        for application in dict.fromkeys([*standing, *waiting]):
            application.leave_lines()
            self._touch(account, application)
        self.generation += 1

    def _reconfigure(self, at_ns: int) -> Iterator[None]:
        """The queue tree or its settings changed: all orders and trackers begin anew."""
        self._tree_is_stale = False
        self.remarks.forget_lines()
        queues = self._roster.queues.values()
        yield from self.ledger.configure((queue.config, isinstance(queue, LeafCore)) for queue in queues)
        yield from self.nodes.configure(self._roster.config.node_sort_policy)
        self.trackers = Trackers()
        self.replaceable.clear()
        self.aside.clear()
        for number, (application_id, (old, application)) in enumerate(list(self.waiting.items()), 1):
            leaf = self.ledger.accounts[old.path]
            self.waiting[application_id] = leaf, application
            application.leave_lines()
            self._renew_trackers(at_ns, leaf, application)
            self._touch(leaf, application)
            if number % BREATH == 0:
                yield
        self.generation += 1
