"""The reservations of a partition: nodes that are reserved for asks (SC-149).

A reservation is not usage. It only keeps other asks off the node. A normal reservation has its node alone; reservations of asks
that require the node share it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ykactor.core.messages.asks import Ask, AskID, Shape, ask_id, shape_of
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.nodes.index import IndexedNode, NodeIndex
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.values.ids import NodeID
from ykactor.core.values.sorted_list import NeedList
from ykactor.core.values.times import NEVER, S_NS

#: The time that an ask waits before it may reserve a node (SC-50).
RESERVATION_DELAY_NS = 2 * S_NS
#: The time that a node stays reserved for an ask that lacks quota (SC-60).
RESERVATION_MAX_NS = 3600 * S_NS


class Reservation(Struct, frozen=True, gc=False):
    """A node that is reserved for an ask since ``made_ns``."""

    ask: Ask
    application: PendingApplication
    node: IndexedNode
    shape: Shape
    made_ns: int

    def is_pinned(self) -> bool:
        """True if the ask requires this node."""
        return self.shape[1] is not None

    def has_room(self) -> bool:
        """True if the ask fits on its node now; the node must be schedulable unless the ask requires it (SC-61, SC-72)."""
        needs, _, selector, _ = self.shape
        return self.node.fits(needs, selector) and (self.node.schedulable or self.is_pinned())


class ReservedShapes:
    """The shapes of asks with a reservation that require no node; finds those that fit on an offered node.

    Those that fit nowhere are looked up again only when they fit on a node that opened.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self._nodes = nodes
        #: To be looked up: they are new, or fitted on some node when that was last asked.
        self._hopeful: dict[Shape, None] = {}
        #: They fit on no node, except on those that opened since ``_seen``.
        self._hopeless: NeedList[Shape] = NeedList()
        self._numbers: dict[Shape, tuple[int]] = {}
        self._added = 0
        self._seen = 0

    def add(self, shape: Shape) -> None:
        """Add a shape."""
        self._hopeful[shape] = None

    def remove(self, shape: Shape) -> None:
        """Forget a shape."""
        if shape in self._numbers:
            self._hopeless.remove(self._numbers.pop(shape))
        else:
            del self._hopeful[shape]

    def fitting(self) -> list[Shape]:
        """The shapes that fit on an offered node now; the predicate service may have refused other nodes."""
        self._look_at_opened()
        found = []
        for shape in list(self._hopeful):
            if self._nodes.first_fit(shape) is not None:
                found.append(shape)
            elif not shape[3]:  # answers of the predicate service open a node too
                self._give_up(shape)
        return found

    def _give_up(self, shape: Shape) -> None:
        del self._hopeful[shape]
        self._added += 1
        self._numbers[shape] = (self._added,)
        self._hopeless.add((self._added,), shape[0], shape)

    def _look_at_opened(self) -> None:
        opened = self._nodes.opened.since(self._seen)
        self._seen = self._nodes.opened.count
        if opened is None:
            self._hopeful.update(dict.fromkeys(self._numbers))
            self._numbers.clear()
            self._hopeless = NeedList()
            return
        for node in opened:
            while node.offered and (found := self._hopeless.first(node.available)) is not None:
                number, shape = found
                self._hopeless.remove(number)
                del self._numbers[shape]
                self._hopeful[shape] = None


class Reservations:
    """All reservations of a partition; everything that is reported of reservations is derived from here (SC-57)."""

    def __init__(self, nodes: NodeIndex, changed: Changed) -> None:
        self._nodes = nodes
        #: In the order in which they were made.
        self.by_ask: KeptRows[AskID, Reservation] = KeptRows(changed.reservation)
        #: The reservations of asks that do not require their node.
        self._by_shape: dict[Shape, dict[AskID, Reservation]] = {}
        self._shapes = ReservedShapes(nodes)
        self._by_node: dict[NodeID, dict[AskID, Reservation]] = {}
        #: The number of reservations that were made or renewed.
        self.changes = 0
        #: The last answer of ``next_old_ns``, and the time for which it was given; None after a change.
        self._next_old: tuple[int, int] | None = None

    def of(self, ask: Ask) -> Reservation:
        """The reservation of an ask; it must have one."""
        return self.by_ask[ask_id(ask)]

    def find(self, ask: Ask) -> Reservation | None:
        """The reservation of an ask, if it has one."""
        return self.by_ask.get(ask_id(ask))

    def on(self, node_id: NodeID) -> list[Reservation]:
        """The reservations of a node, the oldest first."""
        return list(self._by_node.get(node_id, {}).values())

    def add(self, now_ns: int, application: PendingApplication, ask: Ask, node: IndexedNode) -> None:
        """Reserve ``node`` for ``ask``, which must have no reservation."""
        reservation = Reservation(ask, application, node, shape_of(ask), now_ns)
        self._put(reservation)
        self._nodes.set_reserved(node, reserved=True)

    def renew(self, ask: Ask) -> None:
        """Update the reservation of an ask that has another size or priority."""
        old = self.of(ask)
        self._drop_shape(old)
        self._put(Reservation(ask, old.application, old.node, shape_of(ask), old.made_ns))
        self._nodes.mark(old.node)

    def _put(self, reservation: Reservation) -> None:
        identity, node_id = ask_id(reservation.ask), reservation.node.node_id
        self.by_ask[identity] = self._by_node.setdefault(node_id, {})[identity] = reservation
        if not reservation.is_pinned():
            if reservation.shape not in self._by_shape:
                self._by_shape[reservation.shape] = {}
                self._shapes.add(reservation.shape)
            self._by_shape[reservation.shape][identity] = reservation
        self.changes += 1
        self._next_old = None

    def _drop_shape(self, reservation: Reservation) -> None:
        if not reservation.is_pinned():
            alike = self._by_shape[reservation.shape]
            del alike[ask_id(reservation.ask)]
            if not alike:
                del self._by_shape[reservation.shape]
                self._shapes.remove(reservation.shape)

    def remove(self, reservation: Reservation) -> None:
        """End a reservation; a node without others is offered again."""
        node, identity = reservation.node, ask_id(reservation.ask)
        del self.by_ask[identity]
        self._next_old = None
        self._drop_shape(reservation)
        others = self._by_node[node.node_id]
        del others[identity]
        if not others:
            del self._by_node[node.node_id]
            self._nodes.set_reserved(node, reserved=False)

    def with_room_elsewhere(self) -> Iterator[Reservation]:
        """The reservations whose asks require no node and fit on an offered one."""
        for shape in self._shapes.fitting():
            yield from self._by_shape[shape].values()

    def next_old_ns(self, after_ns: int) -> int:
        """The time after ``after_ns`` when the next reservation reaches the age ``RESERVATION_MAX_NS``, or ``NEVER``.

        The same until a reservation begins or ends, or this time has come.
        """
        known = self._next_old
        if known is not None and known[0] <= after_ns < known[1]:
            return known[1]
        ends = (reservation.made_ns + RESERVATION_MAX_NS for reservation in self.by_ask.values())
        old_ns = next((each for each in ends if each > after_ns), NEVER)
        self._next_old = after_ns, old_ns
        return old_ns

    def older_than(self, made_ns: int) -> list[Reservation]:
        """The reservations made at ``made_ns`` or before, the oldest first."""
        old = []
        for reservation in self.by_ask.values():
            if reservation.made_ns > made_ns:
                break
            old.append(reservation)
        return old
