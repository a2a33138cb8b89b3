"""Tells the resource manager why asks are pending: what is new of them, in rounds (AP-146 to AP-148).

To compare is cheap: asks that wait for the same are compared in one word. Sentences and counts of nodes are made only for what is
told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from ykactor.core.messages.asks import Ask, Shape, shape_of
from ykactor.core.messages.facts import Fact, SchedulingStateChanged
from ykactor.core.messages.kinds import SchedulingState, WaitingCause
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota import headroom
from ykactor.core.state import waiting_causes
from ykactor.core.state.node_counts import node_counts
from ykactor.core.state.pending_causes import PendingCauses
from ykactor.core.state.scheduling_states import Pending, Told
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Pace, Pausing, in_parts
from ykactor.core.values.resources import Resource

#: The most asks that one plan tells (about 3 us each, with their entries), items that it looks at, and nodes that it counts.
ASKS_MAX = 2_000
ITEMS_MAX = 50_000
NODES_MAX = 20_000
#: A group of asks takes as long as so many asks.
_GROUP_ITEMS = 10
#: So many items take as long as one of a ``Pace``.
_ITEMS_PER_PACE = 10
#: Longer sentences are cut.
REASON_MAX = 1024

_ON_NODES = (WaitingCause.NODES, WaitingCause.PREDICATE)


class _Group(NamedTuple):
    """Asks of one application that wait for the same.

    Attributes:
        queue, reservation: the one that they are in, or that the only one has; without both they wait for placeholders.
    """

    pending: Pending
    asks: Iterable[Ask]
    queue: AskQueue | None = None
    reservation: Reservation | None = None


class SchedulingStateStep:
    """The rounds of one partition."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._look = _Look(state)

    def run(self, now_ns: int) -> Pausing[list[Fact]]:
        """Begin a round if one is due, or go on with one; to be called when nothing else can be decided. Pauses.

        Returns: what is told; there may be more in this round while ``SchedulingStates.next_application`` is not None.
        """
        states = self._state.scheduling_states
        if states.is_restored:
            states.postpone(now_ns)
        if states.has_changed:
            self._look = _Look(self._state)
        if states.next_application() is None:
            due_ns = states.due_ns()
            if due_ns is None or due_ns > now_ns:
                return []
            states.begin(now_ns, self._state.applications)
        part = _Part(self._state, self._look, now_ns)
        while not part.is_full() and (name := states.next_application()) is not None:
            if (yield from part.look_at(name)):
                states.pass_on()
        if states.next_application() is None:
            self._look = _Look(self._state)  # it must not keep what is gone
        return part.facts


class _Look:
    """What was found out about shapes, for as long as nothing changes.

    Attributes:
        counts: by shape how many nodes cannot take its asks, by reason.
    """

    def __init__(self, state: SchedulerState) -> None:
        self.counts: dict[Shape, dict[str, int]] = {}
        self._state = state

    @cached_property
    def causes(self) -> PendingCauses:
        """The sentences of this look."""
        return PendingCauses(self._state)


class _Part:
    """The part of a round that one plan does."""

    def __init__(self, state: SchedulerState, look: _Look, now_ns: int) -> None:
        self.facts: list[Fact] = []
        self._state = state
        self._look = look
        self._now_ns = now_ns
        self._asks_count = self._items = self._nodes_count = 0
        self._pace = Pace()

    def is_full(self) -> bool:
        """Whether the next plan should go on."""
        return self._asks_count >= ASKS_MAX or self._items >= ITEMS_MAX or self._nodes_count >= NODES_MAX

    def look_at(self, name: ApplicationID) -> Pausing[bool]:
        """Tell what is new of the asks of an application. Returns False if the part got full before its last ask."""
        application, states = self._state.applications.get(name), self._state.scheduling_states
        if application is None:
            return True
        for group in _groups(self._state, application):
            self._spend(_GROUP_ITEMS)
            for asks in in_parts(group.asks):
                if self._asks_count >= ASKS_MAX or self._nodes_count >= NODES_MAX:
                    return False
                if self._pace.is_due(1 + (len(asks) + _GROUP_ITEMS) // _ITEMS_PER_PACE):
                    yield ()
                yield from self._look_at_asks(application, group, asks)
            if group.queue is not None:
                states.queue_number = group.queue.number
        return True

    def _spend(self, items: int) -> None:
        self._items += items
        self._state.scheduling_states.items += items

    def _look_at_asks(self, application: PendingApplication, group: _Group, asks: list[Ask]) -> Pausing[None]:
        states, now_ns = self._state.scheduling_states, self._now_ns
        self._spend(len(asks))
        news = [ask for ask in asks if states.is_news(now_ns, ask, group.pending)]
        self._asks_count += len(news)
        told = Told(group.pending, now_ns)
        for ask in news:
            states.note(ask, told)
        for shape, alike in _by_shape(group, news):
            self.facts.append((yield from self._tell(application, group, shape, alike)))

    def _tell(
        self, application: PendingApplication, group: _Group, shape: Shape, asks: list[Ask]
    ) -> Pausing[SchedulingStateChanged]:
        pending, requested = group.pending, dict(shape[0])
        return SchedulingStateChanged(
            self._now_ns,
            application.application_id,
            tuple(ask.spec.allocation_key for ask in asks),
            SchedulingState.FAILED if pending.has_failed else SchedulingState.SKIPPED,
            pending.cause,
            pending.queue,
            requested,
            _only(requested, self._available(application, group, shape)),
            (yield from self._nodes(shape)) if pending.cause in _ON_NODES else {},
            self._reason(application, group, asks[0])[:REASON_MAX],
        )

    def _reason(self, application: PendingApplication, group: _Group, ask: Ask) -> str:
        if group.queue is not None:
            return self._look.causes.of(application, group.queue).text
        if group.reservation is not None:
            return self._look.causes.of_reserved(group.reservation).text
        return self._look.causes.of_held(application, ask).text

    def _available(self, application: PendingApplication, group: _Group, shape: Shape) -> Resource | None:
        """What asks of the group could have at most (AP-147); None is no answer."""
        cause = group.pending.cause
        if cause is WaitingCause.USER:
            return headroom.left_to_user(application.trackers)
        if cause is WaitingCause.QUEUE:
            return headroom.left_to_queue(self._state.leaf_of(application).path_up, is_pinned=shape[1] is not None)
        if cause is WaitingCause.RESERVED and group.reservation is not None:
            available = group.reservation.node.available
            return {name: max(0, available.get(name, 0)) for name, _ in shape[0]}
        return self._look.causes.most_free(shape) if cause in _ON_NODES else None

    def _nodes(self, shape: Shape) -> Pausing[dict[str, int]]:
        """How many nodes cannot take asks of the shape, by reason."""
        found = self._look.counts.get(shape)
        if found is None:
            self._nodes_count += 1 if shape[1] is not None else len(self._state.nodes.nodes)
            found = self._look.counts[shape] = yield from node_counts(self._state, shape)
        return found


def _only(wanted: Resource, available: Resource | None) -> Resource | None:
    """What is available of the types that are wanted."""
    return None if available is None else {name: available[name] for name in wanted if name in available}


def _groups(state: SchedulerState, application: PendingApplication) -> Iterator[_Group]:
    """The pending asks of an application, but for those in queues that the present round has looked at."""
    own, is_held = application.leaf.path, waiting_causes.is_held(state, application)
    held, queue_number = Pending(WaitingCause.HELD, own), state.scheduling_states.queue_number
    for queue in application.queues.values():
        if queue.key[1] != HAS_NODE and queue.number > queue_number:
            yield _Group(held if is_held else waiting_causes.of_asks(state, application, queue), queue, queue=queue)
    for ask in application.reserving.values():
        found = state.reservations.of(ask)
        yield _Group(held if is_held else waiting_causes.of_reserved(state, found), [ask], reservation=found)
    if application.gang is not None:
        yield _Group(held if is_held else Pending(WaitingCause.PLACEHOLDER, own), application.gang.held)


def _by_shape(group: _Group, asks: list[Ask]) -> Iterator[tuple[Shape, list[Ask]]]:
    """Asks of the group that wait for the same reason, with their shape."""
    if group.queue is not None:
        if asks:
            yield group.queue.shape, asks
        return
    for (_, shape), alike in groupby(asks, lambda ask: (ask.spec.task_group_name, shape_of(ask.spec))):
        yield shape, list(alike)
