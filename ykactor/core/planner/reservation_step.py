"""Step 1 of a pass: asks that have a node kept for them come before all others (SC-150).

A reservation can be turned into an allocation only after something grew, or when it was just made. What is looked at is therefore
remembered, and a step that changes nothing costs O(1) until then.
"""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.asks import AskID, ask_id, order_of
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.predicate_client import PredicateClient
from ykactor.core.nodes.reservations import RESERVATION_MAX_NS, Reservation
from ykactor.core.planner.orders import placement
from ykactor.core.planner.plan import Plan, PlanEnds
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.preemption.laws import Needs
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import queue_shortage
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import TrackerTuple
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.times import NEVER

#: Reservations about which something can be decided, by leaf and application.
Candidates = dict[QueueNode, dict[PendingApplication, list[Reservation]]]


class ReservationStep:
    """Places asks that have a reservation, best first."""

    def __init__(self, state: SchedulerState, predicate_client: PredicateClient, preemptor: Preemptor) -> None:
        self._state = state
        self._preemptor = preemptor
        self._predicate_client = predicate_client
        self._reservations = state.reservations
        #: How many reservations the last pass looked at.
        self.scanned = 0
        #: Those whose node had room when it changed last, or on whose node others may have to be preempted.
        self._hopeful: dict[AskID, Reservation] = {}
        #: Old ones by what they want and of whom, as of ``_grouped``, until the next one is old.
        self._old: dict[tuple[QueueUsage, TrackerTuple, Needs, bool], list[Reservation]] = {}
        self._grouped = (-1, -1)
        self._old_until_ns = 0
        #: Generation and changes of reservations when nothing could be placed the last time.
        self._seen = (-1, -1)
        #: Whether an application was passed over only because it is not its turn in its leaf.
        self._is_kept_back = False

    def run(self, plan: Plan) -> bool:
        """Add to ``plan`` what one pass decides; returns whether that was anything.

        Raises:
            PlanEnds: others have to be preempted: the plan has decided something already, or now that.
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
            self._seen = self._now()
        return False

    def _now(self) -> tuple[int, int]:
        return self._state.generation, self._reservations.changes

    # ---- which reservations are looked at

    def _candidates(self, now_ns: int) -> Candidates:
        self._is_kept_back = False
        for node_id in self._state.nodes.take_changed():
            for reservation in self._reservations.on(node_id):
                self._judge(reservation)
        chosen = {} if self._seen == self._now() else self._with_room()
        chosen.update((ask_id(reservation.ask), reservation) for reservation in self._expired(now_ns))
        self.scanned = len(chosen)
        found: Candidates = {}
        for reservation in chosen.values():
            leaf = self._state.leaf_of(reservation.application)
            found.setdefault(leaf, {}).setdefault(reservation.application, []).append(reservation)
        return found

    def _judge(self, reservation: Reservation) -> None:
        if reservation.is_pinned() or reservation.has_room():  # on a required node others may have to be preempted
            self._hopeful[ask_id(reservation.ask)] = reservation
        else:
            self._hopeful.pop(ask_id(reservation.ask), None)

    def _with_room(self) -> dict[AskID, Reservation]:
        """Those that could be placed if quotas let them, on their own node or on another one."""
        kept = self._reservations.by_ask
        self._hopeful = {name: each for name, each in self._hopeful.items() if kept.get(name) is each}
        chosen = dict(self._hopeful)
        for shape, alike in self._reservations.by_shape.items():
            if self._state.nodes.first_fit(shape) is not None:
                chosen.update(alike)
        return chosen

    def _expired(self, now_ns: int) -> list[Reservation]:
        """Old ones that have no quota any more (SC-60)."""
        if self._grouped != self._now() or now_ns >= self._old_until_ns:
            self._group(now_ns)
        return [each for alike in self._old.values() if _lacks_quota(alike[0]) for each in alike]

    def _group(self, now_ns: int) -> None:
        self._grouped, self._old = self._now(), {}
        self._old_until_ns = self._reservations.next_old_ns(now_ns) or NEVER
        for reservation in self._reservations.older_than(now_ns - RESERVATION_MAX_NS):
            application = reservation.application
            key = application.leaf, application.trackers, reservation.shape[0], reservation.is_pinned()
            self._old.setdefault(key, []).append(reservation)

    def _in_order(self, applications: Iterable[PendingApplication]) -> list[PendingApplication]:
        standing = []
        for application in applications:
            if application.sort_key is None:
                self._is_kept_back = True
            else:
                standing.append(application)
        return sorted(standing, key=lambda application: application.sort_key or ())

    # ---- what becomes of them

    def _serve(self, plan: Plan, application: PendingApplication, reservations: list[Reservation]) -> bool:
        """Reservations of one application, in ask order: first each on its own node, then the normal ones anywhere."""
        if application.slot_shortage() is not None:
            return False
        left = []
        for reservation in sorted(reservations, key=lambda each: order_of(each.ask)):
            if _lacks_quota(reservation):
                if reservation.made_ns <= plan.now_ns - RESERVATION_MAX_NS:  # SC-60
                    self._cancel(plan, reservation)
                    return True  # an ask that comes earlier may want the node
                continue
            if not reservation.has_room():
                if reservation.is_pinned():
                    self._preempt(plan, reservation)
                left.append(reservation)
            elif self._is_refused(reservation):  # reserved in vain
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
        """PE-60: others go for an ask that requires its node (SC-79)."""
        if ask_id(reservation.ask) in self._state.preemptions.by_ask:
            return
        if plan:
            raise PlanEnds
        self._preemptor.attempt_on_node(plan, reservation)
        self._hopeful.pop(ask_id(reservation.ask), None)  # until the node changes
        if ask_id(reservation.ask) in self._state.preemptions.by_ask:
            raise PlanEnds

    def _cancel(self, plan: Plan, reservation: Reservation) -> None:
        plan.report(self._state.unreserve(plan.now_ns, reservation))
        self._state.requeue(reservation.application)

    def _place(self, plan: Plan, reservation: Reservation, node: IndexedNode) -> bool:
        """False when the cluster as a whole is overcommitted, which an ask that requires its node finds out here (SC-43).

        Also while it is not known yet if the ask may run on the node; then the resource manager is asked.
        """
        leaf, ask = self._state.leaf_of(reservation.application), reservation.ask
        if self._predicate_client.may_run(ask, node.node_id, allocate=True) is None:
            self._predicate_client.about_first(plan.now_ns, ask, reservation.shape, node.node_id)
            return False
        if reservation.is_pinned() and queue_shortage(leaf.path_up, reservation.shape[0]) is not None:
            return False
        unreserved = self._state.unreserve(plan.now_ns, reservation, runs=True)
        plan.decide(placement(plan.now_ns, leaf, reservation.application, ask, node))
        plan.report(unreserved)
        return True


def _lacks_quota(reservation: Reservation) -> bool:
    return reservation.application.shortage(reservation.shape) is not None
