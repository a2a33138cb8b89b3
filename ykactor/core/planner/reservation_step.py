"""Step 1 of a pass: asks that have a node kept for them come before all others (SC-150).

A reservation can be turned into an allocation only after something grew, or when it was just made. What is looked at is therefore
remembered, and a step that changes nothing costs O(1) until then.
"""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.asks import AskID, ask_id, order_of
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.nodes.inquiry import Inquiry
from ykactor.core.nodes.reservations import RESERVATION_MAX_NS, Reservation
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.planner.steps import PlanEnds, Step, place
from ykactor.core.preemption.laws import Needs
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.quota import headroom
from ykactor.core.quota.ledger import Account
from ykactor.core.quota.limits import TrackerTuple
from ykactor.core.state.state import Indexes
from ykactor.core.values.times import NEVER

#: Reservations about which something can be decided, by leaf and application.
Candidates = dict[Account, dict[WaitingApplication, list[Reservation]]]


class ReservedStep:
    """Places what has a node kept for it, best first."""

    def __init__(self, indexes: Indexes, inquiry: Inquiry, preemptor: Preemptor) -> None:
        self._indexes = indexes
        self._preemptor = preemptor
        self._inquiry = inquiry
        self._reservations = indexes.reservations
        self._steps: list[Step] = []
        #: How many reservations the last pass looked at.
        self.scanned = 0
        #: Those whose node had room when it changed last, or on whose node others may have to go.
        self._hopeful: dict[AskID, Reservation] = {}
        #: Old ones by what they want and of whom, as of ``_grouped``, until the next one is old.
        self._old: dict[tuple[Account, TrackerTuple, Needs, bool], list[Reservation]] = {}
        self._grouped = (-1, -1)
        self._old_until_ns = 0
        #: Generation and changes of reservations when nothing could be placed the last time.
        self._seen = (-1, -1)
        #: Whether somebody was passed over only because it is not its turn in its leaf.
        self._is_kept_back = False

    def run(self, now_ns: int, steps: list[Step]) -> bool:
        """What one pass decides; answers whether that was something.

        Args:
            steps: of the plan so far; gets what is decided.

        Raises:
            PlanEnds: others have to go: the plan has decided something already, or now that.
        """
        self._steps, count = steps, len(steps)
        candidates = self._candidates(now_ns)
        while candidates:
            leaf = self._indexes.ledger.first_of(candidates)
            here = candidates.pop(leaf)
            for application in self._in_order(here):
                is_served = self._serve(now_ns, leaf, application, here[application])
                self._steps += self._inquiry.take()
                if is_served:
                    return True
        if len(steps) > count:
            return True
        if not self._is_kept_back:
            self._seen = self._now()
        return False

    def _now(self) -> tuple[int, int]:
        return self._indexes.generation, self._reservations.changes

    def _candidates(self, now_ns: int) -> Candidates:
        self._is_kept_back = False
        for node_id in self._indexes.nodes.take_changed():
            for reservation in self._reservations.on(node_id):
                self._judge(reservation)
        chosen = {} if self._seen == self._now() else self._with_room()
        chosen.update((ask_id(it.ask), it) for it in self._expired(now_ns))
        self.scanned = len(chosen)
        found: Candidates = {}
        for reservation in chosen.values():
            leaf = self._indexes.leaf_of(reservation.application)
            found.setdefault(leaf, {}).setdefault(reservation.application, []).append(reservation)
        return found

    def _judge(self, reservation: Reservation) -> None:
        if reservation.is_pinned() or reservation.has_room():  # on a required node others may have to go
            self._hopeful[ask_id(reservation.ask)] = reservation
        else:
            self._hopeful.pop(ask_id(reservation.ask), None)

    def _with_room(self) -> dict[AskID, Reservation]:
        """Those that could be placed if quotas let them, on their own node or on another one."""
        kept = self._reservations.by_ask
        self._hopeful = {name: it for name, it in self._hopeful.items() if kept.get(name) is it}
        chosen = dict(self._hopeful)
        for shape, alike in self._reservations.by_shape.items():
            if self._indexes.nodes.first_fit(shape) is not None:
                chosen.update(alike)
        return chosen

    def _expired(self, now_ns: int) -> list[Reservation]:
        """Old ones that have no quota any more (SC-60)."""
        if self._grouped != self._now() or now_ns >= self._old_until_ns:
            self._group(now_ns)
        ledger = self._indexes.ledger
        return [
            reservation
            for (leaf, *_), alike in self._old.items()
            if headroom.lacks(ledger, leaf, alike[0].application, alike[0].shape) is not None
            for reservation in alike
        ]

    def _group(self, now_ns: int) -> None:
        self._grouped, self._old = self._now(), {}
        self._old_until_ns = self._reservations.next_old_ns(now_ns) or NEVER
        for reservation in self._reservations.older_than(now_ns - RESERVATION_MAX_NS):
            application = reservation.application
            wants = reservation.shape[0], reservation.is_pinned()
            key = self._indexes.leaf_of(application), application.trackers, *wants
            self._old.setdefault(key, []).append(reservation)

    def _lacks(self, reservation: Reservation) -> bool:
        application, leaf = reservation.application, self._indexes.leaf_of(reservation.application)
        return headroom.lacks(self._indexes.ledger, leaf, application, reservation.shape) is not None

    def _in_order(self, applications: Iterable[WaitingApplication]) -> list[WaitingApplication]:
        standing = []
        for application in applications:
            if application.sort_key is None:
                self._is_kept_back = True
            else:
                standing.append(application)
        return sorted(standing, key=lambda it: it.sort_key or ())

    def _serve(
        self, now_ns: int, leaf: Account, application: WaitingApplication, reservations: list[Reservation]
    ) -> bool:
        """Reservations of one application, in ask order: first each on its own node, then the normal ones anywhere."""
        if application.slots_needed() and headroom.lacks_slot(self._indexes.ledger, leaf, application) is not None:
            return False
        served = []
        for reservation in sorted(reservations, key=lambda it: order_of(it.ask)):
            if self._lacks(reservation):
                if reservation.made_ns <= now_ns - RESERVATION_MAX_NS:  # SC-60
                    self._let_go(now_ns, leaf, reservation)
                    return True  # somebody who comes earlier may want the node
                continue
            if not reservation.has_room():
                if reservation.is_pinned():
                    self._preempt(now_ns, leaf, reservation)
                served.append(reservation)
            elif self._inquiry.may_run(reservation.ask, reservation.node.node_id, allocate=True) is False:  # it was kept in vain
                self._let_go(now_ns, leaf, reservation)
                return True
            elif self._place(now_ns, leaf, reservation, reservation.node):
                return True
        for reservation in served:
            node = None if reservation.is_pinned() else self._indexes.nodes.first_fit(reservation.shape)
            if node is not None and self._place(now_ns, leaf, reservation, node):
                return True
        return False

    def _preempt(self, now_ns: int, leaf: Account, reservation: Reservation) -> None:
        """PE-60: others go for an ask that requires its node."""
        if ask_id(reservation.ask) in self._indexes.preemptions.by_ask:
            return
        if self._steps:
            raise PlanEnds
        self._steps += self._preemptor.attempt_on_node(now_ns, leaf, reservation)
        self._hopeful.pop(ask_id(reservation.ask), None)  # until the node changes
        if ask_id(reservation.ask) in self._indexes.preemptions.by_ask:
            raise PlanEnds

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
        unreserved = self._indexes.unreserve(now_ns, reservation, runs=True)
        placement = place(self._indexes, now_ns, leaf, reservation.application, reservation.ask, node)
        self._steps += [placement, unreserved]
        return True
