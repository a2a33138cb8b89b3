"""Keeps the scheduler's state true: takes in the facts of the owners and adds what follows from them.

``observe`` is called between cycles with everything that the owners reported. What follows from a fact in the scheduler's own
books is a fact too: ``observe`` returns what it was given with such consequences in their places.

It is a generator that yields wherever other tasks may have a turn, so that thousands of queues or facts do not keep sockets
waiting. Nobody reads the state before it has come to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from ykactor.core.messages.asks import Ask, ask_id
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
    LookAgain,
    NodeAdded,
    NodeCapacityChanged,
    NodeRemoved,
    NodeSchedulable,
    NodeUseChanged,
    PlaceGivenUp,
    PredicateAnswered,
    PredicatesForgotten,
    QueueAdded,
    QueueLimitChanged,
    QueueRemoved,
    QueueTypeChanged,
    Released,
    ReleaseStarted,
    TaskGroupChanged,
)
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState
from ykactor.core.nodes.reservations import RESERVATION_DELAY_NS, Reservation
from ykactor.core.preemption.cycles import OUTSIDE
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.state import enrolment, reconfigure
from ykactor.core.state.state import SchedulerState
from ykactor.core.state.worklist import Worklist
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import fits, positive, subtracted

#: Facts and applications worked in before other tasks get their turn.
BREATH = 1000


class Observer:
    """Takes in facts for one partition."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._work = Worklist()
        #: Whether there are steps in this observation whose facts have to be put in order.
        self._is_out_of_order = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            AskReturned: self._on_ask_returned,
            AskRemoved: self._on_ask_removed,
            AskResized: self._on_ask_resized,
            Released: self._on_released,
            ReleaseStarted: self._on_release_started,
            TaskGroupChanged: self._on_task_group_changed,
            ApplicationChanged: self._on_application_changed,
            ApplicationAdded: self._on_application_added,
            ApplicationMoved: self._on_application_moved,
            ApplicationLeft: self._on_application_left,
            Allocated: self._on_allocated,
            AllocationResized: self._on_allocation_resized,
            NodeAdded: self._on_node_touched,
            ForeignChanged: self._on_node_touched,
            PlaceGivenUp: self._on_node_touched,
            NodeSchedulable: self._on_node_schedulable,
            NodeCapacityChanged: self._on_node_capacity_changed,
            NodeRemoved: self._on_node_removed,
            PredicateAnswered: self._on_predicate_answered,
            PredicatesForgotten: self._on_predicates_forgotten,
            AnswererChanged: self._on_answerer_changed,
            LookAgain: self._on_look_again,
            QueueLimitChanged: self._on_queue_limit_changed,
            QueueAdded: self._on_queue_added,
            QueueRemoved: self._on_queue_removed,
            QueueTypeChanged: self._on_queue_type_changed,
        }

    def observe(self, facts: list[Decision]) -> Generator[None, None, list[Decision]]:
        """Take in what happened, in order; returns it with its consequences."""
        observed: list[Decision] = []
        self._is_out_of_order = False
        for start in range(0, len(facts), BREATH):
            for fact in facts[start : start + BREATH]:
                if type(fact) is NodeRemoved:
                    self._is_out_of_order = True
                    self._cancel(fact.at_ns, self._state.reservations.on(fact.node_id))
                    observed += self._work.take_consequences()
                observed.append(fact)
                if type(fact) is AskAdded:  # by far the most frequent
                    self._add(fact.ask)
                elif type(fact) is ConfigurationChanged:
                    yield from self._on_configuration_changed(fact)
                else:
                    self._observe(fact)
                if self._work.consequences:
                    observed += self._work.take_consequences()
            yield from self._bring_up_to_date(facts[start].at_ns)
            observed += self._work.take_consequences()
            yield
        if not self._is_out_of_order:
            return observed
        ordered: list[Decision] = []
        for some in in_order(observed):
            ordered += some
            yield
        return ordered

    def _observe(self, fact: Decision) -> None:
        if type(fact) in OUTSIDE:
            self._state.preemptions.loops.reset()
        handler = self._handlers.get(type(fact))
        if handler is not None:
            handler(fact)

    def _bring_up_to_date(self, at_ns: int) -> Iterator[None]:
        state, work = self._state, self._work
        if work.tree_changed:
            yield from reconfigure.rebuild(state, work, at_ns)
        for leaf, change in work.pending.items():
            state.ledger.change_pending(leaf, change)
        work.pending.clear()
        yield from state.tree.refresh_shares()
        for number, application in enumerate(work.applications, 1):
            if not application.enrolled:
                work.consequences += enrolment.enrol(state, at_ns, application)
            state.replace(application)
            if application.queues:
                state.remarks.note(state.leaf_of(application), application)
            if number % BREATH == 0:
                yield
        work.applications.clear()
        for node_id in work.nodes:
            state.nodes.sync(state.registry.nodes[node_id])
        work.nodes.clear()
        for number, leaf in enumerate(work.leaves, 1):
            state.tree.refresh_priority(leaf)
            state.tree.update_places(leaf)
            if leaf.applications.has_ready():
                state.tree.wake(leaf)
            if number % BREATH == 0:
                yield
        work.leaves.clear()

    # ---- asks

    def _owner_of(self, ask: Ask) -> tuple[QueueNode, WaitingApplication]:
        application = self._state.applications[ask.spec.application_id]
        return self._state.leaf_of(application), application

    def _on_ask_returned(self, fact: AskReturned) -> None:
        self._add(fact.ask)

    def _add(self, ask: Ask) -> None:
        leaf, application = self._owner_of(ask)
        application.add(ask)
        if self._state.next_eligible_ns is not None:
            delay_ns = leaf.config.properties.preemption_delay_ns if ask.spec.allow_preempt_other else RESERVATION_DELAY_NS
            self._state.note_eligible(ask.since_ns + min(delay_ns, RESERVATION_DELAY_NS))
        self._work.change_pending(leaf, ask.spec.resource, 1)
        self._work.touch(leaf, application)

    def _on_ask_removed(self, fact: AskRemoved) -> None:
        if fact.pending:
            self._discard(fact.at_ns, fact.ask)
            self._uncount_idle(fact.ask)

    def _discard(self, at_ns: int, ask: Ask) -> None:
        leaf, application = self._owner_of(ask)
        if ask.spec.allocation_key in application.reserving:
            self._cancel(at_ns, [self._state.reservations.of(ask)])
        self._state.preemptions.forget(ask)
        application.discard(ask)
        self._work.change_pending(leaf, ask.spec.resource, -1)
        self._work.touch(leaf, application)

    def _on_ask_resized(self, fact: AskResized) -> None:
        """The node that is reserved for it stays so, if it is large enough."""
        state, before, after = self._state, fact.before, fact.after
        leaf, application = self._owner_of(after)
        keeps_node = False
        if ask_id(before) in state.preemptions.by_ask:  # it preempted others for something else
            state.preemptions.end(leaf, before)
        if before.spec.allocation_key in application.reserving:
            reservation = state.reservations.of(before)
            keeps_node = fits(reservation.node.capacity, after.spec.resource)
            if not keeps_node:
                self._cancel(fact.at_ns, [reservation])
        application.discard(before)
        self._work.change_pending(leaf, before.spec.resource, -1)
        self._add(after)
        if keeps_node:
            application.reserve(after, contends=state.may_still_preempt(after))
            state.reservations.resize(after)

    def _on_task_group_changed(self, fact: TaskGroupChanged) -> None:
        application = self._state.applications[fact.application_id]
        if fact.is_open:  # from now on they wait for placeholders
            reserving = application.reserving.values()
            asks = [ask for ask in reserving if ask.spec.task_group_name == fact.task_group_name and not ask.spec.placeholder]
            self._cancel(fact.at_ns, [self._state.reservations.of(ask) for ask in asks])
        application.change_group(fact.task_group_name, is_open=fact.is_open)
        self._state.capacity_grew()  # asks that are queued now may be old enough to reserve
        self._work.touch(self._state.leaf_of(application), application)

    # ---- applications

    def _on_application_added(self, fact: ApplicationAdded) -> None:
        self._state.applications[fact.application_id] = WaitingApplication(fact, self._state.tree.nodes[fact.queue])
        reconfigure.adopt_quotas(self._state, self._work, fact.queue)

    def _on_application_changed(self, fact: ApplicationChanged) -> None:
        state, entered = self._state, ApplicationState(fact.state)
        if entered is ApplicationState.EXPIRED:
            return  # it ended long ago; another one may live under its id (AP-72)
        application = state.applications[fact.application_id]
        leaf = state.leaf_of(application)
        if application.state in COUNTED_AS_RUNNING and entered not in COUNTED_AS_RUNNING:
            state.ledger.give_slot_back(leaf, fact.application_id)
            state.capacity_grew()
        application.enter(entered)
        if entered in COUNTED_AS_RUNNING:
            state.ledger.take_slot(leaf, fact.application_id)
            state.remarks.usage_grew()
        if entered is ApplicationState.RESUMING and application.gang is not None:
            application.gang.is_over = True
        self._work.touch(leaf, application)

    def _on_application_left(self, fact: ApplicationLeft) -> None:
        state = self._state
        application = state.applications.pop(fact.application_id)
        leaf = state.leaf_of(application)
        self._work.consequences += enrolment.leave(state, fact.at_ns, application)
        self._work.applications.pop(application, None)
        state.remarks.forget(application)
        state.backoffs.pop(application, None)
        leaf.applications.remove(application)
        state.pairs.forget(leaf, application)
        leaf.priorities.replace(application.shown_priority, None)
        state.ledger.give_slot_back(leaf, fact.application_id)
        state.capacity_grew()
        self._work.leaves[leaf] = None

    def _on_application_moved(self, fact: ApplicationMoved) -> None:
        """All that counts in its old leaf counts in the new one instead; its limits are those of the new path."""
        state, work = self._state, self._work
        application, leaf = state.applications[fact.application_id], state.tree.nodes[fact.to_queue]
        old = state.leaf_of(application)
        for ask, _ in application.asks.values():
            work.change_pending(old, ask.spec.resource, -1)
            work.change_pending(leaf, ask.spec.resource, 1)
        state.pairs.forget(old, application)
        state.tree.move(application, leaf)
        name, runs = application.application_id, application.state in COUNTED_AS_RUNNING
        state.ledger.move(old, leaf, name, application.allocated, runs=runs, holds_slot=application.holds_slot)
        state.preemptions.move(old, leaf, application)
        work.consequences += enrolment.move(state, fact.at_ns, application, old)
        work.touch(leaf, application)
        work.leaves[old] = None
        state.capacity_grew()

    def _uncount_idle(self, ask: Ask) -> None:
        """At once, not when all is worked in: what is asked for next begins to count anew (QU-74)."""
        application = self._state.applications[ask.spec.application_id]
        if application.counted and not application.asks and not application.allocated:
            application.uncount()
            self._state.capacity_grew()

    # ---- allocations

    def _on_allocated(self, fact: Allocated) -> None:
        """An allocation that came with its node, or one that replaces a placeholder."""
        ask, application = fact.ask, self._state.applications[fact.ask.spec.application_id]
        if ask.spec.allocation_key in application.asks:  # it was pending until the resource manager placed it (AP-112)
            self._discard(fact.at_ns, ask)
        application.submission_ns = min(application.submission_ns, ask.created_ns)  # PR-40
        application.changed = True
        self._change_usage(fact.at_ns, None, ask, fact.node_id)
        self._note_growth(fact.at_ns, ask)

    def _on_allocation_resized(self, fact: AllocationResized) -> None:
        before, after = fact.before, fact.after
        self._change_usage(fact.at_ns, before, after, fact.node_id)
        if not fits(before.spec.resource, after.spec.resource):
            self._note_growth(fact.at_ns, after)
        if ask_id(after) in self._state.preemptions.victims:
            self._state.preemptions.resize_victim(self._owner_of(after)[0], after)

    def _on_released(self, fact: Released) -> None:
        self._state.preemptions.confirm(fact.at_ns, self._owner_of(fact.ask)[0], fact.ask)
        self._change_usage(fact.at_ns, fact.ask, None, fact.node_id)
        self._uncount_idle(fact.ask)

    def _on_release_started(self, fact: ReleaseStarted) -> None:
        leaf, application = self._owner_of(fact.ask)
        if application.gang is not None:
            application.gang.withdraw(fact.ask.spec.allocation_key)
            self._work.touch(leaf, application)

    def _note_growth(self, at_ns: int, task: Ask) -> None:
        if self._state.enforces_quotas():
            self._state.clocks.grow(at_ns, self._owner_of(task)[0])

    def _change_usage(self, at_ns: int, ended: Ask | None, begun: Ask | None, node_id: NodeID) -> None:
        state, either = self._state, ended or begun
        assert either is not None
        leaf, application = self._owner_of(either)
        self._report_change(at_ns, application, ended, begun, node_id)
        if begun is not None:
            state.remarks.usage_grew()
            state.ledger.use(leaf, begun.spec.resource)
            application.begin(begun)
            if begun.spec.placeholder and ended is None:
                state.place_placeholder(application, begun, node_id)
            elif application.gang is not None and ended is not None and begun.spec.placeholder:
                application.gang.resize(ended, begun)
        if ended is not None:
            state.ledger.free(leaf, ended.spec.resource)
            application.end(ended)
            if application.gang is not None and begun is None:
                application.gang.withdraw(ended.spec.allocation_key)
            state.capacity_grew()
        self._touch_node(node_id)
        self._work.touch(leaf, application)

    def _report_change(
        self, at_ns: int, application: WaitingApplication, ended: Ask | None, begun: Ask | None, node_id: NodeID
    ) -> None:
        """What follows for node and user; a resize leaves the node's allocations as they are."""
        leaf, payer, consequences = application.leaf, application.payer, self._work.consequences
        if ended is None or begun is None:
            self._is_out_of_order = True
            either, change = (ended, "REMOVE") if ended else (begun, "ADD")
            assert either is not None
            consequences.append(NodeUseChanged(at_ns, either, leaf.path, node_id, change))
            consequences += enrolment.usage_changed(at_ns, payer, leaf, change, either.spec.resource)
        else:
            before, after = ended.spec.resource, begun.spec.resource
            consequences += enrolment.usage_changed(at_ns, payer, leaf, "ADD", positive(subtracted(after, before)))
            consequences += enrolment.usage_changed(at_ns, payer, leaf, "REMOVE", positive(subtracted(before, after)))

    # ---- nodes and reservations

    def _touch_node(self, node_id: NodeID) -> None:
        if node_id in self._state.registry.nodes:
            self._work.nodes[node_id] = None
            self._state.capacity_grew()

    def _cancel(self, at_ns: int, reservations: list[Reservation]) -> None:
        for reservation in reservations:
            self._work.consequences.append(self._state.unreserve(at_ns, reservation))
            self._work.touch(self._state.leaf_of(reservation.application), reservation.application)

    def _on_node_touched(self, fact: NodeAdded | ForeignChanged | PlaceGivenUp) -> None:
        self._touch_node(fact.node_id)

    def _on_node_schedulable(self, fact: NodeSchedulable) -> None:
        self._touch_node(fact.node_id)
        if not fact.schedulable:  # SC-61: an ask that preempts others keeps its node
            reservations, preempting = self._state.reservations.on(fact.node_id), self._state.preemptions.by_ask
            given_up = [each for each in reservations if not each.is_pinned() and ask_id(each.ask) not in preempting]
            self._cancel(fact.at_ns, given_up)

    def _on_node_capacity_changed(self, fact: NodeCapacityChanged) -> None:
        nodes = self._state.nodes
        self._touch_node(fact.node_id)
        nodes.predicates.forget("", fact.node_id)
        if fact.node_id in nodes.nodes:
            nodes.set_capacity(nodes.nodes[fact.node_id], fact.capacity)
        reservations = self._state.reservations.on(fact.node_id)
        self._cancel(fact.at_ns, [each for each in reservations if not fits(fact.capacity, each.ask.spec.resource)])  # SC-104

    def _on_node_removed(self, fact: NodeRemoved) -> None:
        nodes = self._state.nodes
        nodes.predicates.forget("", fact.node_id)
        if fact.node_id in nodes.nodes:  # it is not when it came and went between two observations
            nodes.remove(fact.node_id)
        self._work.nodes.pop(fact.node_id, None)

    # ---- what the resource manager says about nodes

    def _on_predicate_answered(self, fact: PredicateAnswered) -> None:
        if self._state.nodes.predicates.answer((fact.predicate, fact.allocate), fact.node_id, fact.error):
            self._state.capacity_grew()

    def _on_predicates_forgotten(self, fact: PredicatesForgotten) -> None:
        self._state.nodes.predicates.forget(fact.predicate, fact.node_id)
        self._state.capacity_grew()

    def _on_answerer_changed(self, fact: AnswererChanged) -> None:
        self._state.nodes.predicates.set_answered(fact.is_there)
        self._state.capacity_grew()

    def _on_look_again(self, fact: LookAgain) -> None:
        if self._state.nodes.predicates.expire(fact.at_ns):
            self._state.capacity_grew()

    # ---- configuration

    def _on_configuration_changed(self, fact: ConfigurationChanged) -> Iterator[None]:
        """At once: what follows may be about new queues."""
        self._state.preemptions.loops.reset()
        if fact.state == "accepted":
            yield from reconfigure.apply(self._state, self._work, fact.at_ns)

    def _on_queue_limit_changed(self, fact: QueueLimitChanged) -> None:
        if fact.queue == "root" and fact.limit == "max":
            self._state.tree.set_root_max(fact.resource)
            self._state.capacity_grew()

    def _on_queue_added(self, fact: QueueAdded) -> None:
        if not fact.managed:
            reconfigure.add_queue(self._state, fact.queue)

    def _on_queue_removed(self, fact: QueueRemoved) -> None:
        self._work.consequences += reconfigure.remove_queue(self._state, fact.at_ns, fact.queue)

    def _on_queue_type_changed(self, _: QueueTypeChanged) -> None:
        self._work.tree_changed = True  # of very few
