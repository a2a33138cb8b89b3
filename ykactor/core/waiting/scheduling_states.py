"""Scheduling states: notifies the resource manager in rounds of news about its pending asks (AP-146 to AP-148).

A round looks at all pending asks, in several plans if there are many. Comparing is cheap: asks that wait for the same are
compared in one word. Sentences and counts of nodes are made only for notifications. These are kept only while a resource manager
is connected that wants them: the next one is notified of everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from ykactor.core.messages.asks import Ask, Shape, shape_of
from ykactor.core.messages.facts import Fact, SchedulingStateChanged
from ykactor.core.messages.kinds import SchedulingState, WaitingCause
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota import headroom
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.resources import Resource
from ykactor.core.values.times import MS_NS, S_NS
from ykactor.core.waiting.causes import Pending, PendingCauses, SchedulerView, is_held, pending_of, pending_of_reserved

#: The shortest time between two entries about one ask.
APART_NS = 15 * S_NS
#: The interval between the begins of rounds: so long for each item that was looked at (an ask; a group of asks is ten more),
#: but within these bounds. An item takes about 0.2 us, so rounds take about 2 % of the time.
ITEM_NS = MS_NS // 100
ROUND_MIN_NS, ROUND_MAX_NS = S_NS, 15 * S_NS
#: The most asks that one plan notifies of (3 us each, with their entries), items that it looks at, and nodes that it counts.
ASKS_MAX = 2_000
ITEMS_MAX = 50_000
NODES_MAX = 20_000
#: A group of asks takes as long as so many asks.
_GROUP_ITEMS = 10
#: So many items take as long as one of other work.
_ITEMS_PER_STEP = 10
#: Longer sentences are cut.
REASON_MAX = 1024

_ON_NODES = (WaitingCause.NODES, WaitingCause.PREDICATE)


class Notification(NamedTuple):
    """The last notification about an ask, and its time."""

    pending: Pending
    at_ns: int


class SchedulingStates:
    """The rounds of one partition, and the last notification about each ask.

    Attributes:
        is_wanted: True if a resource manager is connected that wants to be notified.
        is_restored: True if the partition was restored after the last round.
        has_changed: True if reasons may have changed since the newest round began.
        items: number of items that the newest round has looked at.
        queue_number: the number of the last ask queue of the next application that was looked at.
    """

    def __init__(self) -> None:
        self.want(is_wanted=False)

    def want(self, *, is_wanted: bool) -> None:
        """Forget all notifications: another resource manager is connected, or the same one again, or none."""
        self.is_wanted = is_wanted
        self.is_restored = False
        self.has_changed = True
        self.items = self.queue_number = 0
        #: The notifications by arrival number: up to the last complete round, and kept for the next one.
        self._last: dict[int, Notification] = {}
        self._kept: dict[int, Notification] = {}
        #: The applications that the present round has not looked at yet, the next one last.
        self._ahead: list[ApplicationID] = []
        self._began_ns = self._next_ns = 0
        #: The time when a notification is possible that would have been too early; None if there is none.
        self._early_ns: int | None = None

    def restore(self, *, is_wanted: bool) -> None:
        """Forget all notifications: the partition was restored."""
        self.want(is_wanted=is_wanted)
        self.is_restored = True

    def postpone(self, now_ns: int) -> None:
        """Notify of nothing for ``APART_NS``: after ``restore`` the last notifications are not known."""
        self.is_restored = False
        self._next_ns = now_ns + APART_NS

    # ---- rounds

    def due_ns(self) -> int | None:
        """The time of the next round; None if there can be no news."""
        if not self.is_wanted or not (self.has_changed or self._early_ns is not None):
            return None
        return self._next_ns if self.has_changed else max(self._next_ns, self._early_ns or 0)

    def begin(self, now_ns: int, applications: Iterable[ApplicationID]) -> None:
        """Begin a round."""
        self._ahead = [*applications]
        self._ahead.reverse()
        self._began_ns, self.items = now_ns, 0
        self.has_changed, self._early_ns = False, None
        self._end_if_complete()

    def next_application(self) -> ApplicationID | None:
        """The application that is next in the present round; None if the round is complete."""
        return self._ahead[-1] if self._ahead else None

    def pass_on(self) -> None:
        """Go to the next application: all pending asks of this one were looked at."""
        self._ahead.pop()
        self.queue_number = 0
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if not self._ahead:
            self._last, self._kept = self._kept, {}
            self._next_ns = self._began_ns + min(max(ROUND_MIN_NS, self.items * ITEM_NS), ROUND_MAX_NS)

    # ---- asks

    def is_news(self, now_ns: int, ask: Ask, pending: Pending) -> bool:
        """True if this is news of an ask, and not too early. If it is too early, a later round notifies of it."""
        last = self._keep(ask)
        if last is None:
            return pending.cause is not WaitingCause.UNTRIED
        if pending == last.pending or pending.cause is WaitingCause.UNTRIED:
            return False
        may_ns = last.at_ns + APART_NS
        if may_ns > now_ns:
            self._early_ns = may_ns if self._early_ns is None else min(may_ns, self._early_ns)
        return may_ns <= now_ns

    def _keep(self, ask: Ask) -> Notification | None:
        """Look up the last notification about a pending ask, and keep it for the next round; None if there was none."""
        last = self._kept.get(ask.arrival)
        if last is None:
            last = self._last.get(ask.arrival)
            if last is not None:
                self._kept[ask.arrival] = last
        return last

    def has_notified_failed(self, ask: Ask) -> bool:
        """True if the last notification about an ask is that no node can take it (``SchedulingState.FAILED``)."""
        last = self._kept.get(ask.arrival) or self._last.get(ask.arrival)
        return last is not None and last.pending.has_failed

    def note(self, ask: Ask, notification: Notification) -> None:
        """Note a notification about an ask."""
        self._kept[ask.arrival] = notification

    def forget(self, ask: Ask) -> None:
        """Forget the notification about an ask that was placed and is pending again."""
        self._last.pop(ask.arrival, None)
        self._kept.pop(ask.arrival, None)


class _Group(NamedTuple):
    """Asks of one application that wait for the same.

    Attributes:
        queue, reservation: the queue of the asks, or the reservation of the only ask; without both they wait for placeholders.
    """

    pending: Pending
    asks: Iterable[Ask]
    queue: AskQueue | None = None
    reservation: Reservation | None = None


class SchedulingStateStep:
    """Carries out the rounds of one partition."""

    def __init__(self, state: SchedulerView, states: SchedulingStates) -> None:
        self._state = state
        self._states = states
        #: The causes found since something last changed.
        self._causes = PendingCauses(state)

    def run(self, now_ns: int) -> Steps[list[Fact]]:
        """Begin a round if one is due, or continue one; to be called when nothing else can be decided.

        Returns: the notifications; there may be more in this round while ``SchedulingStates.next_application`` is not None.
        """
        states = self._states
        if states.is_restored:
            states.postpone(now_ns)
        if states.has_changed:
            self._causes = PendingCauses(self._state)
        if states.next_application() is None:
            due_ns = states.due_ns()
            if due_ns is None or due_ns > now_ns:
                return []
            states.begin(now_ns, self._state.applications)
        part = _Part(self._state, states, self._causes, now_ns)
        while not part.is_full() and (name := states.next_application()) is not None:
            if (yield from part.look_at(name)):
                states.pass_on()
        if states.next_application() is None:
            self._causes = PendingCauses(self._state)  # it must not keep objects that are gone
        return part.facts


class _Part:
    """The part of a round that one plan carries out."""

    def __init__(self, state: SchedulerView, states: SchedulingStates, causes: PendingCauses, now_ns: int) -> None:
        self.facts: list[Fact] = []
        self._state = state
        self._states = states
        self._causes = causes
        self._now_ns = now_ns
        self._asks_count = self._items = self._nodes_count = 0

    def is_full(self) -> bool:
        """True if the next plan should continue."""
        return self._asks_count >= ASKS_MAX or self._items >= ITEMS_MAX or self._nodes_count >= NODES_MAX

    def look_at(self, name: ApplicationID) -> Steps[bool]:
        """Notify of news of the asks of an application. Returns False if the part got full before its last ask."""
        application, states = self._state.applications.get(name), self._states
        if application is None:
            return True
        for group in _groups(self._state, application, states.queue_number):
            self._spend(_GROUP_ITEMS)
            for asks in in_parts(group.asks):
                if self._asks_count >= ASKS_MAX or self._nodes_count >= NODES_MAX:
                    return False
                yield 1 + (len(asks) + _GROUP_ITEMS) // _ITEMS_PER_STEP
                yield from self._look_at_asks(application, group, asks)
            if group.queue is not None:
                states.queue_number = group.queue.number
        return True

    def _spend(self, items: int) -> None:
        self._items += items
        self._states.items += items

    def _look_at_asks(self, application: PendingApplication, group: _Group, asks: list[Ask]) -> Steps[None]:
        states, now_ns = self._states, self._now_ns
        self._spend(len(asks))
        news = [ask for ask in asks if states.is_news(now_ns, ask, group.pending)]
        self._asks_count += len(news)
        notification = Notification(group.pending, now_ns)
        for ask in news:
            states.note(ask, notification)
        for shape, alike in _by_shape(group, news):
            self.facts.append((yield from self._notification(application, group, shape, alike)))

    def _notification(
        self, application: PendingApplication, group: _Group, shape: Shape, asks: list[Ask]
    ) -> Steps[SchedulingStateChanged]:
        pending, requested = group.pending, dict(shape[0])
        return SchedulingStateChanged(
            self._now_ns,
            application.application_id,
            tuple(ask.allocation_key for ask in asks),
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
            return self._causes.of(application, group.queue).text
        if group.reservation is not None:
            return self._causes.of_reserved(group.reservation).text
        return self._causes.of_held(application, ask).text

    def _available(self, application: PendingApplication, group: _Group, shape: Shape) -> Resource | None:
        """The most that asks of the group could have (AP-147); None if the reason has no amounts."""
        cause = group.pending.cause
        if cause is WaitingCause.USER:
            return headroom.left_to(application.trackers)
        if cause is WaitingCause.QUEUE:
            return headroom.left_to(self._state.tree.leaf_of(application).path_up, is_pinned=shape[1] is not None)
        if cause is WaitingCause.RESERVED and group.reservation is not None:
            available = group.reservation.node.available
            return {name: max(0, available.get(name, 0)) for name, _ in shape[0]}
        return self._causes.most_free(shape) if cause in _ON_NODES else None

    def _nodes(self, shape: Shape) -> Steps[dict[str, int]]:
        """Count the nodes that cannot take asks of the shape, by reason."""
        if shape not in self._causes.counts:
            self._nodes_count += 1 if shape[1] is not None else len(self._state.nodes.nodes)
        return (yield from self._causes.count_nodes(shape))


def _only(wanted: Resource, available: Resource | None) -> Resource | None:
    """The available amounts of the wanted types."""
    return None if available is None else {name: available[name] for name in wanted if name in available}


def _groups(state: SchedulerView, application: PendingApplication, queue_number: int) -> Iterator[_Group]:
    """The pending asks of an application, without those in queues up to the number, which the round has looked at."""
    own, is_application_held = application.leaf.path, is_held(state, application)
    held = Pending(WaitingCause.HELD, own)
    for queue in application.queues.values():
        if queue.key[1] != HAS_NODE and queue.number > queue_number:
            yield _Group(held if is_application_held else pending_of(state, application, queue), queue, queue=queue)
    for ask in application.reserving.values():
        found = state.reservations.of(ask)
        yield _Group(held if is_application_held else pending_of_reserved(state, found), [ask], reservation=found)
    if application.gang is not None:
        yield _Group(held if is_application_held else Pending(WaitingCause.PLACEHOLDER, own), application.gang.held)


def _by_shape(group: _Group, asks: list[Ask]) -> Iterator[tuple[Shape, list[Ask]]]:
    """Asks of the group that wait for the same reason, with their shape."""
    if group.queue is not None:
        if asks:
            yield group.queue.shape, asks
        return
    for (_, shape), alike in groupby(asks, lambda ask: (ask.task_group_name, shape_of(ask))):
        yield shape, list(alike)
