"""Step 1 of a pass: asks with a reserved node come before all others (SC-150).

A reservation can become an allocation only after some capacity grew, or when the reservation is new. The step therefore remembers
its result: after a pass that placed nothing, a pass costs O(1) until something changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.asks import AskID, ask_id, order_of
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.predicate_client import PredicateClient
from ykactor.core.nodes.reservations import RESERVATION_MAX_NS, Reservation
from ykactor.core.planner.plan import Plan, PlanEnds
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.preemption.laws import Needs
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import queue_shortage
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import TrackerTuple
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.stamp import Stamp

#: Reservations that may lead to a decision, by leaf and application.
Candidates = dict[QueueNode, dict[PendingApplication, list[Reservation]]]


class ReservationStep:
    """Places asks that have a reservation, best first."""

    def __init__(self, state: SchedulerState, predicate_client: PredicateClient, preemptor: Preemptor) -> None:
        self._state = state
        self._preemptor = preemptor
        self._predicate_client = predicate_client
        self._reservations = state.reservations
        #: Number of reservations that the last pass looked at.
        self.scanned = 0
        #: Reservations whose node had room at its last change, or whose ask requires its node and may preempt there.
        self._hopeful: dict[AskID, Reservation] = {}
        #: Expired reservations, grouped by all that their quota depends on; valid until ``_old_until_ns``.
        self._old: dict[tuple[QueueUsage, TrackerTuple, Needs, bool], list[Reservation]] = {}
        self._grouped = Stamp(self._counters)
        self._old_until_ns = 0
        #: The last pass that could place nothing.
        self._fruitless = Stamp(self._counters)
        #: True if an application was skipped because it has no place in its leaf's order now (see ``LeafOrder.sort_key``).
        self._is_kept_back = False

    def run(self, plan: Plan) -> bool:
        """Add the decisions of one pass to ``plan``; returns whether anything was decided.

        Raises:
            PlanEnds: an ask preempts on its required node, in this plan or, if this plan has decided something, in the next one.
        """
        count = len(plan)
        candidates = self._candidates(plan.now_ns)
        while candidates:
            leaf = self._state.tree.first_of(candidates)
            here = candidates.pop(leaf)
            for application in self._in_order(here):
                is_served = self._serve(plan, application, here[application])
                plan.report(*self._predicate_client.take())
                if is_served:
                    return True
        if len(plan) > count:
            return True
        if not self._is_kept_back:
            self._fruitless.renew()
        return False

    def _counters(self) -> tuple[int, int]:
        return self._state.generation, self._reservations.changes

    # ---- which reservations are looked at

    def _candidates(self, now_ns: int) -> Candidates:
        self._is_kept_back = False
        for node_id in self._state.nodes.take_changed():
            for reservation in self._reservations.on(node_id):
                self._judge(reservation)
        chosen = {} if self._fruitless.is_current() else self._with_room()
        chosen.update((ask_id(reservation.ask), reservation) for reservation in self._expired(now_ns))
        self.scanned = len(chosen)
        found: Candidates = {}
        for reservation in chosen.values():
            leaf = self._state.leaf_of(reservation.application)
            found.setdefault(leaf, {}).setdefault(reservation.application, []).append(reservation)
        return found

    def _judge(self, reservation: Reservation) -> None:
        if reservation.is_pinned() or reservation.has_room():  # on a required node the ask may preempt
            self._hopeful[ask_id(reservation.ask)] = reservation
        else:
            self._hopeful.pop(ask_id(reservation.ask), None)

    def _with_room(self) -> dict[AskID, Reservation]:
        """Reservations for which a node, their own or another one, has room; quotas are not checked."""
        current = self._reservations.by_ask
        self._hopeful = {key: reservation for key, reservation in self._hopeful.items() if current.get(key) is reservation}
        chosen = dict(self._hopeful)
        chosen.update((ask_id(reservation.ask), reservation) for reservation in self._reservations.with_room_elsewhere())
        return chosen

    def _expired(self, now_ns: int) -> list[Reservation]:
        """Old reservations that no longer have quota (SC-60)."""
        if not self._grouped.is_current() or now_ns >= self._old_until_ns:
            self._group(now_ns)
        return [reservation for group in self._old.values() if _lacks_quota(group[0]) for reservation in group]

    def _group(self, now_ns: int) -> None:
        self._grouped.renew()
        self._old = {}
        self._old_until_ns = self._reservations.next_old_ns(now_ns)
        for reservation in self._reservations.older_than(now_ns - RESERVATION_MAX_NS):
            application = reservation.application
            key = application.leaf, application.trackers, reservation.shape[0], reservation.is_pinned()
            self._old.setdefault(key, []).append(reservation)

    def _in_order(self, applications: Iterable[PendingApplication]) -> list[PendingApplication]:
        eligible = []
        for application in applications:
            if application.sort_key is None:
                self._is_kept_back = True
            else:
                eligible.append(application)
        return sorted(eligible, key=lambda application: application.sort_key or ())

    # ---- placing, cancelling, preempting

    def _serve(self, plan: Plan, application: PendingApplication, reservations: list[Reservation]) -> bool:
        """Decide about the reservations of one application in ask order: each on its own node, then normal ones on any node."""
        if application.slot_shortage() is not None:
            return False
        left = []
        for reservation in sorted(reservations, key=lambda reservation: order_of(reservation.ask)):
            if _lacks_quota(reservation):
                if reservation.made_ns <= plan.now_ns - RESERVATION_MAX_NS:  # SC-60
                    self._cancel(plan, reservation)
                    return True  # an earlier ask may want the node
                continue
            if not reservation.has_room():
                if reservation.is_pinned():
                    self._preempt(plan, reservation)
                left.append(reservation)
            elif self._is_refused(reservation):  # the reservation is of no use
                self._cancel(plan, reservation)
                return True
            elif self._place(plan, reservation, reservation.node):
                return True
        for reservation in left:
            node = None if reservation.is_pinned() else self._state.nodes.first_fit(reservation.shape)
            if node is not None and self._place(plan, reservation, node):
                return True
        return False

    def _is_refused(self, reservation: Reservation) -> bool:
        return self._predicate_client.may_run(reservation.ask, reservation.node.node_id, allocate=True) is False

    def _preempt(self, plan: Plan, reservation: Reservation) -> None:
        """Preempt for an ask that requires its node (PE-60, SC-79)."""
        if ask_id(reservation.ask) in self._state.preemptions.by_ask:
            return
        if not plan.may_read_owners():
            raise PlanEnds
        self._preemptor.attempt_on_node(plan, reservation)
        self._hopeful.pop(ask_id(reservation.ask), None)  # until the node changes
        if ask_id(reservation.ask) in self._state.preemptions.by_ask:
            raise PlanEnds

    def _cancel(self, plan: Plan, reservation: Reservation) -> None:
        plan.report(self._state.unreserve(plan.now_ns, reservation))
        self._state.requeue(reservation.application)

    def _place(self, plan: Plan, reservation: Reservation, node: IndexedNode) -> bool:
        """Place the ask of a reservation on ``node``; returns whether it was placed.

        Not placed: an ask that requires its node while a queue lacks headroom (SC-43), and an ask whose predicate for the node is
        not known yet; in this case it is requested.
        """
        leaf, ask = self._state.leaf_of(reservation.application), reservation.ask
        if self._predicate_client.may_run(ask, node.node_id, allocate=True) is None:
            self._predicate_client.about_first(plan.now_ns, ask, reservation.shape, node.node_id)
            return False
        if reservation.is_pinned() and queue_shortage(leaf.path_up, reservation.shape[0]) is not None:
            return False
        unreserved = self._state.unreserve(plan.now_ns, reservation, runs=True)
        plan.place(leaf, reservation.application, ask, node)
        plan.report(unreserved)
        return True


def _lacks_quota(reservation: Reservation) -> bool:
    return reservation.application.shortage(reservation.shape) is not None
