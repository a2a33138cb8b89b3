"""The scheduler's index of the pending asks of one application, grouped by shape.

The leaf owns the asks; the index is derived from its facts. However many asks are pending, it knows at once which is next, and
whether that one can be skipped because asks of its shape have just failed. Two asks of one application with the same shape
succeed or fail together, so they are in one ``AskQueue`` and are parked together.
"""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.config.access import UserGroups
from ykactor.core.messages.acts import Hold
from ykactor.core.messages.asks import Ask, Shape, order_of, shape_of
from ykactor.core.messages.facts import ApplicationAdded, ChargedTo
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState
from ykactor.core.queueing.equivalence import (
    HAS_NODE,
    PREEMPTS,
    RESERVES,
    AskQueue,
    EquivalenceClass,
    NotifiedAsks,
    QueueKey,
    SchedulingQueue,
)
from ykactor.core.queueing.pending_gang import PendingGang
from ykactor.core.queueing.priorities import Priority, PriorityBag
from ykactor.core.queueing.waits import AskWait, CodeHistory, QueuePast, Waited, Waits, count, name_of
from ykactor.core.quota import headroom
from ykactor.core.quota.headroom import QUEUE_SLOT, USER_SLOT, Shortage
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import GroupChoice, TrackerTuple, charge, credit
from ykactor.core.values.ids import AllocationKey
from ykactor.core.values.resources import Resource, add_to, subtract_from, subtracted
from ykactor.core.values.sorted_list import SortKey

_RUNNING = ApplicationState.RUNNING


class PendingApplication:
    """A live application as the scheduler sees it.

    Attributes:
        state: as the leaf has it, or will have it when the present plan is settled.
        allocated: sum of the allocations, base units, for the fair policy (PR-74).
        submission_ns: as in ``objects.application``; earlier if an ask or allocation is older (PR-40).
        queues: its queues of asks; ``ask_queues`` has them in the order of their first asks. There a queue is parked unless its
            class is offered and the application is the head of the class; written by the leaf's order.
        opened, closed: queues that were created and emptied since the leaf's order was last updated; also opened are those that
            have another first ask while their class waits for a node.
        shown_priority: its priority as counted in the leaf's ``priorities``.
        sort_key: its position by the leaf's policy; None while it has none or is kept back. Written by the leaf's order.
        changed: True if its state or age changed since the leaf's order was last updated; ``used``: True if its usage did.
        in_classes: the ``slots_needed`` in the keys of its classes; None while it is in no class.
        backoff_ns: the end of its back-off (SC-38); 0 while there is none.
        enrolled: True if it counts in ``trackers`` (see ``quota.limits``): from its first ask or allocation on.
        group: the group that it counts against in addition to its user; None is no group. ``charged_to`` has both.
        counted_as_running: True if its trackers count it as a running application (QU-74).
        gang: its task groups; None while it has none.
        unreported: queues that asks or a class joined since their quotas were last reported, and those whose class has another
            answer.
        held: the bits last reported of it (``HELD_BY_QUEUE``, ``HELD_BY_LIMIT``).
        reserving: the asks that a node is reserved for.
        reserved: the part of ``allocated`` that placeholders hold.
        holds_slot: True if a running slot is reserved for it while it is Accepted (QU-54).
        hold: its own hold; None while it has none (OP-1).
        kept_history: what its asks waited for while it was kept back; None if it never was.
        own_waits: of asks that wait, or waited, for something else than their queue.
    """

    __slots__ = (
        "_changed",
        "_last_queue",
        "_queues_made",
        "_waits",
        "allocated",
        "application_id",
        "arrival",
        "ask_queues",
        "asks",
        "backoff_ns",
        "changed",
        "charged_to",
        "closed",
        "counted_as_running",
        "enrolled",
        "gang",
        "group",
        "held",
        "hold",
        "holds_slot",
        "in_classes",
        "kept_history",
        "leaf",
        "opened",
        "own_waits",
        "priorities",
        "queues",
        "reserved",
        "reserving",
        "shown_priority",
        "sort_key",
        "state",
        "stateaware",
        "submission_ns",
        "trackers",
        "unreported",
        "used",
        "who",
    )

    def __init__(self, fact: ApplicationAdded, leaf: QueueUsage, waits: Waits) -> None:
        self._waits = waits
        self._changed = waits.changed
        self.application_id = fact.application_id
        self.leaf = leaf
        self.arrival = fact.arrival
        self.stateaware = fact.stateaware
        self.who = UserGroups(fact.user, fact.groups)
        self.charged_to = ChargedTo(fact.user)
        self.submission_ns = fact.submission_ns
        self.state = ApplicationState.NEW
        self.allocated: Resource = {}
        self.reserved: Resource = {}
        self.holds_slot = False
        self.held = 0
        self.hold: Hold | None = None
        self.gang = PendingGang(fact.placeholder_ask) if fact.placeholder_ask else None
        #: Each with its queue; None for asks that wait for placeholders, and for those with a reservation that do not preempt.
        self.asks: dict[AllocationKey, tuple[Ask, AskQueue | None]] = {}
        self.reserving: dict[AllocationKey, Ask] = {}
        self.queues: dict[QueueKey, AskQueue] = {}
        self._queues_made = 0
        #: The queue that the last ask joined; None if it has no ask any more.
        self._last_queue: AskQueue | None = None
        self.ask_queues: SchedulingQueue[AskQueue] = SchedulingQueue()
        self.opened: list[AskQueue] = []
        self.closed: list[AskQueue] = []
        self.unreported: dict[AskQueue, None] = {}
        self.priorities = PriorityBag()
        self.shown_priority: Priority = None
        self.sort_key: SortKey | None = None
        self.in_classes: int | None = None
        self.changed = True
        self.used = False
        self.backoff_ns = 0
        self.enrolled = False
        self.group: GroupChoice | None = None
        self.trackers: TrackerTuple = ()
        self.counted_as_running = False
        self.kept_history: CodeHistory | None = None
        self.own_waits: dict[AllocationKey, AskWait] = {}

    # ---- what its row contains; ``changed`` and ``used`` are for the leaf's order

    def _note(self) -> None:
        self._changed.application(self.application_id)

    def choose(self, group: GroupChoice | None) -> None:
        """Set the group that it counts against; its trackers are changed by ``track`` and ``untrack``."""
        self.group = group
        self._note()
        self.charged_to = ChargedTo(self.who.user, group.group if group is not None else "")

    def hold_slot(self) -> None:
        """Note that a running slot is reserved for it."""
        self.holds_slot = self.changed = True
        self._note()

    def report_held(self, held: int) -> int:
        """Note the bits that are reported of it now. Returns those that have changed."""
        changed, self.held = self.held ^ held, held
        self._note()
        return changed

    def report_asks(self, queue: AskQueue) -> NotifiedAsks:
        """The last reports of the asks of a queue, from the first report on."""
        if queue.notified is None:
            queue.notified = NotifiedAsks(queue.items(), self._changed)
        return queue.notified

    def back_off(self, until_ns: int) -> None:
        """Begin a back-off, or end it (0)."""
        self.backoff_ns, self.changed = until_ns, True
        self._note()

    # ---- what its asks wait for

    def keep_back(self, queues: Iterable[AskQueue], *, is_queue_held: bool) -> None:
        """Let the asks of these queues wait for what keeps the application out of all classes."""
        code = PendingCode.HELD if is_queue_held else self.kept_back_by()
        history = self.kept_history
        if history is None or history.code is not code:
            history = self.kept_history = history or CodeHistory()
            history.change(self._waits.now_ns, code)
            self._note()
        for queue in queues:
            if self.queues.get(queue.key) is queue:  # else it was emptied meanwhile
                self.follow(queue, history)

    def kept_back_by(self) -> PendingCode:
        """The code of what keeps the application out of all classes, if something does."""
        if self.hold is not None:
            return PendingCode.HELD
        if self.state is ApplicationState.FAILING:
            return PendingCode.FAILING
        return PendingCode.BACKOFF if self.backoff_ns else PendingCode.ORDER

    def follow(self, queue: AskQueue, history: CodeHistory) -> None:
        """Let the asks of a queue wait as a history says from now on. A new queue has always followed its first one."""
        before, queue.history = queue.history, history
        if before is None or before is history or queue.key[1] == HAS_NODE:
            return
        now_ns, past = self._waits.now_ns, queue.past
        if past is None:
            if before.is_plain() and history.is_plain() and before.first is history.first:
                return
            queue.past = past = QueuePast(before.copy(), now_ns)
        else:
            past.history.extend(before, past.joined_ns, now_ns)
            past.joined_ns = now_ns
        key = self.application_id, name_of(queue.key)
        if past.history.is_plain() and history.is_plain() and past.history.first is history.first:
            queue.past = None
            self._waits.queues.discard(key)
        else:
            self._waits.queues[key] = past

    def waited(self, ask: Ask, until_ns: int) -> Waited:
        """Sum up what a pending ask, or one that replaces a placeholder, has waited for up to then."""
        own = self.own_waits.get(ask.allocation_key)
        found, since_ns, code = ({}, ask.since_ns, None) if own is None else (dict(own.before), own.since_ns, own.code)
        queue = self.asks[ask.allocation_key][1] if code is None else None
        if queue is None:
            count(found, code or PendingCode.PLACEHOLDER, until_ns - since_ns)
            return found
        past, history = queue.past, queue.history
        if history is None:
            count(found, PendingCode.NEXT, until_ns - since_ns)
        elif past is None:
            history.add_to(found, since_ns, until_ns)
        else:
            history.add_to(found, max(since_ns, past.joined_ns), until_ns)
            past.history.add_to(found, since_ns, past.joined_ns)
        return found

    def waits_since(self, ask: Ask) -> tuple[PendingCode, int]:
        """The code of what a pending ask waits for, and the Unix time since when asks like it have it."""
        own, queue = self.own_waits.get(ask.allocation_key), self.asks[ask.allocation_key][1]
        since_ns = ask.since_ns if own is None else own.since_ns
        if queue is None or (own is not None and own.code is not None):
            return (None if own is None else own.code) or PendingCode.PLACEHOLDER, since_ns
        if queue.history is None or not queue.history.changes:
            return PendingCode.NEXT if queue.history is None else queue.history.code, since_ns
        return queue.history.code, queue.history.changes[-1][0]

    def finish(self, ask: Ask) -> Waited:
        """End the wait of an ask, which is still pending, or replaces a placeholder. Returns what it waited for, in all."""
        found = self.waited(ask, self._waits.now_ns)
        self.own_waits.pop(ask.allocation_key, None)
        return found or {PendingCode.NEXT: 0}

    def waits_for_turn(self, queue: AskQueue) -> bool:
        """True if the asks of a queue have waited for nothing but their turn, each since its ``since_ns``."""
        if self.own_waits or queue.past is not None:
            return False
        history = queue.history
        return history is None or not (history.changes or history.merged or history.first is not PendingCode.NEXT)

    def wait_for(self, ask: Ask, code: PendingCode | None) -> None:
        """Let one ask wait for something of its own from now on; None: for what its queue will wait for, or for a placeholder."""
        now_ns = self._waits.now_ns
        self.own_waits[ask.allocation_key] = AskWait(now_ns, code, self.waited(ask, now_ns))
        self._changed.task(ask)

    def wait_again(self, ask: Ask) -> None:
        """Let an ask wait that was placed, or was about to replace a placeholder."""
        if ask.allocation_key in self.own_waits:
            self.wait_for(ask, None)
        else:
            self.own_waits[ask.allocation_key] = AskWait(self._waits.now_ns)
            self._changed.task(ask)

    # ---- its asks

    def add(self, ask: Ask) -> None:
        """Add a pending ask. O(log asks) plus a memory move."""
        self.priorities.add(ask.priority)
        if ask.created_ns < self.submission_ns:
            self.submission_ns = ask.created_ns
            self.changed = True
        if self.gang is None:
            self._enqueue(ask)
        else:
            self._wait(ask)

    def _wait(self, ask: Ask) -> None:
        if self.gang is not None and ask.task_group_name in self.gang.open_groups and not ask.placeholder:
            self._keep_back(ask)
        else:
            self._enqueue(ask)

    def _keep_back(self, ask: Ask) -> None:
        assert self.gang is not None
        self.gang.keep_back(order_of(ask), ask)
        self.asks[ask.allocation_key] = ask, None

    def _enqueue(self, ask: Ask, *, has_node: bool = False) -> None:
        order = -ask.priority, ask.created_ns, ask.arrival
        queue = self._last_queue  # neighbours often are alike
        if queue is None or has_node or not queue.takes(ask):
            shape = shape_of(ask)
            may_preempt = ask.allow_preempt_other and shape[1] is None  # PE-11, PE-13
            key = shape, HAS_NODE if has_node else PREEMPTS if may_preempt else RESERVES
            queue = self.queues.get(key)
            if queue is None:
                self._queues_made += 1
                queue = self.queues[key] = AskQueue(key, self._queues_made, self.ask_queues, ask)
                self.opened.append(queue)
                self.ask_queues.put(queue, order)
                self.ask_queues.park(queue)
            self._last_queue = None if has_node else queue
        queue.add(order, ask)
        self.unreported[queue] = None
        if queue.notified is not None:
            queue.notified.add(ask)
        ask_class = queue.ask_class
        if ask_class is not None:
            if ask.since_ns < ask_class.oldest_ns:
                ask_class.oldest_ns = ask.since_ns
            if ask_class.tried.up_to is not None:
                ask_class.tried.add(ask)
            if ask_class.waits_at is not None and queue.first() is ask:
                self.opened.append(queue)
        self.asks[ask.allocation_key] = ask, queue
        first_key = queue.first_key()
        if queue.sort_key != first_key:
            self.ask_queues.put(queue, first_key)

    def reserve(self, ask: Ask, *, contends: bool, preempts: bool) -> None:
        """Take an ask with a reservation out of its queue; it joins another one only if it still tries to preempt.

        Args:
            preempts: True if it waits for the end of what it preempts.
        """
        self.wait_for(ask, PendingCode.PREEMPTING if preempts else PendingCode.RESERVED)
        self._dequeue(ask)
        self.reserving[ask.allocation_key] = ask
        if contends:
            self._enqueue(ask, has_node=True)
        else:
            self.asks[ask.allocation_key] = ask, None

    def unreserve(self, ask: Ask) -> None:
        """Queue an ask again whose reservation ends."""
        self.wait_for(ask, None)
        self._dequeue(ask)
        self._wait(ask)

    def replace(self, before: Ask, after: Ask) -> None:
        """Replace a pending ask by itself with other settings. It has no reservation after it."""
        key = before.allocation_key
        queue, waited = self.asks[key][1], self.waited(before, self._waits.now_ns)
        self.discard(before)
        self.add(after)
        if queue is None or self.asks[key][1] is not queue:
            self.own_waits[key] = AskWait(self._waits.now_ns, None, waited)
            self._changed.task(after)

    def discard(self, ask: Ask) -> None:
        """Remove a pending ask: it is cancelled, or about to be placed."""
        self._dequeue(ask)
        self.priorities.remove(ask.priority)

    def _dequeue(self, ask: Ask) -> None:
        _, queue = self.asks.pop(ask.allocation_key)
        has_node = bool(self.reserving) and self.reserving.pop(ask.allocation_key, None) is not None
        if queue is not None:
            queue.remove(order_of(ask))
            if queue.notified is not None:
                queue.notified.drop(ask)
            first_key = queue.first_key()
            self.ask_queues.put(queue, first_key)
            if first_key is None:
                del self.queues[queue.key]
                if queue is self._last_queue:
                    self._last_queue = None
                self.unreported.pop(queue, None)
                self.closed.append(queue)
                if queue.past is not None:
                    del self._waits.queues[self.application_id, name_of(queue.key)]
        elif not has_node:
            assert self.gang is not None
            self.gang.drop(order_of(ask), ask)

    def change_group(self, name: str, *, is_open: bool) -> None:
        """Let the real asks of a task group wait for placeholders from now on, or no longer."""
        if self.gang is None:
            self.gang = PendingGang({})
        if is_open:
            self.gang.open_groups.add(name)
        else:
            self.gang.open_groups.discard(name)
        for ask in [ask for ask, _ in self.asks.values() if ask.task_group_name == name and not ask.placeholder]:
            self.wait_for(ask, None)
            self._dequeue(ask)
            self._wait(ask)

    def is_steady(self, queue: AskQueue) -> bool:
        """True if the first ask of the queue may begin with ``begin_first``: nothing but usage and the queue will change."""
        return (
            self.state is _RUNNING
            and self.gang is None
            and self.counted_as_running
            and self.in_classes == 0
            and not (self.changed or self.opened or self.closed or self.reserving or self.backoff_ns)
            and queue.notified is None
            and queue.is_alike()
        )

    def begin_first(self, ask: Ask, queue: AskQueue) -> None:
        """Discard and begin the first ask of a queue, while the application is steady."""
        del self.asks[ask.allocation_key]
        self.priorities.remove(ask.priority)
        queue.pop()
        self.ask_queues.put(queue, queue.first_key())
        allocated = self.allocated
        for name, quantity in ask.resource.items():
            allocated[name] = allocated.get(name, 0) + quantity
        self.used = True
        if self.trackers:
            charge(self.trackers, ask.resource)

    def begin(self, ask: Ask) -> None:
        """Count an allocation that begins, and charge its user and group."""
        resource = ask.resource
        add_to(self.allocated, resource)
        if ask.placeholder:
            add_to(self.reserved, resource)
        self.used = True
        if self.trackers:
            charge(self.trackers, resource)
        if not self.counted_as_running:
            self.count()

    def end(self, ask: Ask) -> None:
        """Uncount an allocation that ends."""
        resource = ask.resource
        subtract_from(self.allocated, resource)
        if ask.placeholder:
            subtract_from(self.reserved, resource)
        self.used = True
        if self.trackers:
            credit(self.trackers, resource)

    def track(self, trackers: TrackerTuple) -> None:
        """Count against these trackers from now on, including what already runs."""
        if not self.enrolled:
            self.enrolled = True
            self._note()
        self.trackers = trackers
        if self.allocated or self.counted_as_running:
            charge(trackers, self.allocated)
            self.count()

    def untrack(self) -> None:
        """Stop counting against its trackers; ``counted_as_running`` stays for those of the next ``track``."""
        credit(self.trackers, self.allocated)
        for tracker in self.trackers:
            tracker.applications.pop(self.application_id, None)
        self.trackers = ()

    def count(self) -> None:
        """Count as a running application in its trackers (QU-74)."""
        self.counted_as_running = self.changed = True
        self._note()
        for tracker in self.trackers:
            tracker.applications[self.application_id] = None

    def uncount(self) -> None:
        """Stop counting as a running application: nothing of it is pending or allocated."""
        self.counted_as_running, self.changed = False, True
        self._note()
        for tracker in self.trackers:
            tracker.applications.pop(self.application_id, None)

    def enter(self, state: ApplicationState) -> None:
        """Enter a state that the application is in, or will be in."""
        self.state = state
        self.changed = True
        if state in COUNTED_AS_RUNNING:  # the slot that was reserved is in use now
            self.holds_slot = False
            self._note()

    def leave_classes(self) -> None:
        """Leave all classes: the leaf's order is rebuilt."""
        for queue in self.queues.values():
            queue.ask_class = None
            self.ask_queues.put(queue, queue.first_key())
            if not queue.parked:
                self.ask_queues.park(queue)
        self.opened[:] = self.queues.values()
        self.closed.clear()
        self.sort_key = self.in_classes = None
        self.changed = True

    def completes_gang(self) -> bool:
        """True if its placeholders, including the newest, take it out of Accepted (AP-38)."""
        gang = self.gang
        return gang is not None and self.state is ApplicationState.ACCEPTED and not gang.is_over and gang.is_complete()

    def slots_needed(self) -> int:
        """The running slots that it must find before it may start: ``QUEUE_SLOT`` (QU-51) and ``USER_SLOT`` (QU-73).

        0 where nothing limits them, so that its asks stay in their classes when it starts.
        """
        if self.state is not ApplicationState.ACCEPTED or not headroom.limits_slots(self.leaf.path_up, self.trackers):
            return 0
        return (0 if self.holds_slot else QUEUE_SLOT) | (0 if self.counted_as_running else USER_SLOT)

    def slot_shortage(self) -> Shortage | None:
        """The queue or tracker that lacks a running slot which it needs; None when none does."""
        needed = self.slots_needed()
        return headroom.slot_shortage(self.leaf.path_up, self.trackers, self.application_id, needed) if needed else None

    def shortage(self, shape: Shape) -> Shortage | None:
        """The queue or tracker that has too little left for an ask of this shape, and the type; None when none has."""
        if shape[1] is None and not self.trackers:
            return headroom.queue_shortage(self.leaf.path_up, shape[0])
        return headroom.shortage(self.leaf.path_up, self.trackers, shape[0], is_pinned=shape[1] is not None)

    def real_usage(self) -> Resource:
        """The allocated amounts without placeholders (PR-74)."""
        return subtracted(self.allocated, self.reserved)

    def __repr__(self) -> str:
        return f"<PendingApplication {self.application_id} {self.state}>"


#: Applications whose asks of one shape succeed or fail together.
AskClass = EquivalenceClass[PendingApplication]
