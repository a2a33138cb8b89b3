"""Step 1 of a pass: asks that have a node kept for them come before all others (section 6.3 of SC).

A reservation can be turned into an allocation only after something grew, or when it was just made. What is looked at is therefore
remembered, and a step that changes nothing costs O(1) until then.
"""

from __future__ import annotations

from ykactor.core import headroom
from ykactor.core.backlog import Shape, WaitingApplication, order_of
from ykactor.core.indexes import Indexes
from ykactor.core.inquiry import Inquiry
from ykactor.core.ledger import Account
from ykactor.core.messages import ask_id
from ykactor.core.nodesort import IndexedNode
from ykactor.core.preempting import Preemptor
from ykactor.core.reservations import RESERVATION_MAX_NS, Reservation
from ykactor.core.steps import PlanEnds, Step, place

#: Applications with a reservation about which something can be decided, by leaf.
Candidates = dict[Account, dict[WaitingApplication, None]]


class ReservedStep:
    """Places what has a node kept for it, best first."""

    def __init__(self, indexes: Indexes, inquiry: Inquiry, preemptor: Preemptor) -> None:
        self._indexes = indexes
        self._preemptor = preemptor
        self._inquiry = inquiry
        self._reservations = indexes.reservations
        self._steps: list[Step] = []
        #: Generation and changes of reservations when nothing could be placed the last time.
        self._seen = (-1, -1)
        self._may_preempt = False
        #: Whether somebody was passed over only because it is not its turn in its leaf.
        self._is_kept_back = False

    def run(self, now_ns: int, *, may_preempt: bool) -> list[Step]:
        """What one pass decides; empty when there is nothing.

        Raises:
            PlanEnds: others would have to go, and the plan has decided something already (not ``may_preempt``).
        """
        self._steps = []
        self._may_preempt = may_preempt
        candidates = self._candidates(now_ns)
        while candidates:
            leaf = self._indexes.ledger.first_of(candidates)
            for application in self._in_order(candidates.pop(leaf)):
                is_served = self._serve(now_ns, leaf, application)
                self._steps += self._inquiry.take()
                if is_served:
                    return self._steps
        if not self._steps and not self._is_kept_back:
            self._seen = self._now()
        return self._steps

    def _now(self) -> tuple[int, int]:
        return self._indexes.generation, self._reservations.changes

    def _candidates(self, now_ns: int) -> Candidates:
        found: Candidates = {}
        self._is_kept_back = False
        places: dict[Shape, IndexedNode | None] = {}
        wanted = self._reservations.by_ask.values() if self._seen != self._now() else ()
        hopeful = [it for it in wanted if self._has_room(it, places)]
        for reservation in [*hopeful, *self._expired(now_ns)]:
            leaf = self._indexes.leaf_of(reservation.application)
            found.setdefault(leaf, {})[reservation.application] = None
        return found

    def _has_room(self, reservation: Reservation, places: dict[Shape, IndexedNode | None]) -> bool:
        needs, _, selector, _ = reservation.shape
        if reservation.node.fits(needs, selector):
            return True
        if reservation.is_pinned():  # others may have to go for it
            return ask_id(reservation.ask) not in self._indexes.preemptions.by_ask
        if reservation.shape not in places:
            places[reservation.shape] = self._indexes.nodes.first_fit(reservation.shape)
        return places[reservation.shape] is not None

    def _expired(self, now_ns: int) -> list[Reservation]:
        """Old ones that have no quota any more (row 2)."""
        old = self._reservations.older_than(now_ns - RESERVATION_MAX_NS)
        return [reservation for reservation in old if self._lacks(reservation)]

    def _lacks(self, reservation: Reservation) -> bool:
        application, leaf = reservation.application, self._indexes.leaf_of(reservation.application)
        return headroom.lacks(self._indexes.ledger, leaf, application, reservation.shape) is not None

    def _in_order(self, applications: dict[WaitingApplication, None]) -> list[WaitingApplication]:
        standing = [application for application in applications if application.sort_key is not None]
        if len(standing) < len(applications):
            self._is_kept_back = True
        return sorted(standing, key=lambda it: it.sort_key or ())

    def _serve(self, now_ns: int, leaf: Account, application: WaitingApplication) -> bool:
        """The reservations of one application, in ask order: first each on its own node, then the normal ones anywhere."""
        if application.slots_needed() and headroom.lacks_slot(self._indexes.ledger, leaf, application) is not None:
            return False
        served = []
        for ask in sorted(application.reserving.values(), key=order_of):
            reservation = self._reservations.of(ask)
            if self._lacks(reservation):
                if reservation.made_ns <= now_ns - RESERVATION_MAX_NS:  # SC-60
                    self._let_go(now_ns, leaf, reservation)
                    return True  # somebody who comes earlier may want the node
                continue
            needs, _, selector, _ = reservation.shape
            if not reservation.node.fits(needs, selector):
                if reservation.is_pinned() and self._preempt(now_ns, leaf, reservation):
                    return True
                served.append(reservation)
            elif self._inquiry.may_run(ask, reservation.node.node_id, allocate=True) is False:  # it was kept in vain
                self._let_go(now_ns, leaf, reservation)
                return True
            elif self._place(now_ns, leaf, reservation, reservation.node):
                return True
        for reservation in served:
            node = None if reservation.is_pinned() else self._indexes.nodes.first_fit(reservation.shape)
            if node is not None and self._place(now_ns, leaf, reservation, node):
                return True
        return False

    def _preempt(self, now_ns: int, leaf: Account, reservation: Reservation) -> bool:
        """Row 3: others go for an ask that requires its node."""
        if ask_id(reservation.ask) in self._indexes.preemptions.by_ask:
            return False
        if self._steps or not self._may_preempt:
            raise PlanEnds
        self._steps += self._preemptor.attempt_on_node(now_ns, leaf, reservation)
        return ask_id(reservation.ask) in self._indexes.preemptions.by_ask

    def _let_go(self, now_ns: int, leaf: Account, reservation: Reservation) -> None:
        self._steps.append(self._indexes.unreserve(now_ns, reservation))
        self._indexes.requeue(leaf, reservation.application)

    def _place(self, now_ns: int, leaf: Account, reservation: Reservation, node: IndexedNode) -> bool:
        """False when the cluster as a whole is overcommitted, which an ask that requires its node finds out here (SC-43).

        Also while it is not known yet if the ask may run on the node; then it is asked about.
        """
        ledger = self._indexes.ledger
        if self._inquiry.may_run(reservation.ask, node.node_id, allocate=True) is None:
            self._inquiry.about_first(now_ns, reservation.ask, reservation.shape, node.node_id)
            return False
        if reservation.is_pinned() and ledger.shortage(leaf.path_up, reservation.shape[0]) is not None:
            return False
        unreserved = self._indexes.unreserve(now_ns, reservation)
        placement = place(self._indexes, now_ns, leaf, reservation.application, reservation.ask, node)
        self._steps += [placement, unreserved]
        return True
