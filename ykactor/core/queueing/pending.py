"""The scheduler's index of the pending asks of one application, grouped by shape.

The leaf owns the asks; the index is derived from its facts. However many asks are pending, it knows at once which is next, and
whether that one can be skipped because asks of its shape have just failed. Two asks of one application with the same shape
succeed or fail together, so they are in one ``AskQueue`` and are parked together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ykactor.core.config.access import UserGroups
from ykactor.core.messages.acts import Hold
from ykactor.core.messages.asks import Ask, Shape, order_of, shape_of
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import ApplicationAdded, ChargedTo
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
from ykactor.core.queueing.priorities import Priority, PriorityBag
from ykactor.core.quota import headroom
from ykactor.core.quota.headroom import QUEUE_SLOT, USER_SLOT, Shortage
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.quota.limits import GroupChoice, TrackerTuple, charge, credit
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.core.values.resources import Resource, add_to, subtract_from, subtracted
from ykactor.core.values.sorted_list import SortedList, SortKey

#: A placeholder and its node.
PlacedPlaceholder = tuple[Ask, NodeID]


class PendingGang:
    """The task groups of one application.

    Attributes:
        total, allocated_ever: the announced amounts, and the sum of all placeholders ever allocated (AP-38, GA-61).
        open_groups: groups whose real asks wait for placeholders (GA-13).
        held: these asks, in ask order.
        replaceable: running placeholders that may be replaced, by group, in the order of their creation.
        is_over: True if the gang has timed out (GA-50).
    """

    __slots__ = ("_held_counts", "_places", "allocated_ever", "held", "is_over", "open_groups", "replaceable", "total")

    def __init__(self, total: Resource) -> None:
        self.total = total
        self.allocated_ever: Resource = {}
        self.open_groups: set[str] = set()
        self.held: SortedList[Ask] = SortedList()
        self._held_counts: Counter[str] = Counter()
        self.replaceable: dict[str, SortedList[PlacedPlaceholder]] = {}
        self._places: dict[AllocationKey, tuple[str, SortKey]] = {}
        self.is_over = False

    def keep_back(self, key: SortKey, ask: Ask) -> None:
        """Keep back a real ask, which waits for placeholders."""
        self.held.add(key, ask)
        self._held_counts[ask.task_group_name] += 1

    def drop(self, key: SortKey, ask: Ask) -> None:
        """Drop a real ask, which no longer waits for placeholders."""
        self.held.remove(key)
        self._held_counts[ask.task_group_name] -= 1

    def place(self, ask: Ask, node_id: NodeID) -> None:
        """Count an allocated placeholder, and offer it."""
        add_to(self.allocated_ever, ask.resource)
        self.offer(ask, node_id)

    def offer(self, ask: Ask, node_id: NodeID) -> None:
        """Offer a running placeholder, which may be replaced."""
        group, key = ask.task_group_name, (ask.created_ns, ask.allocation_key)
        self.replaceable.setdefault(group, SortedList()).add(key, (ask, node_id))
        self._places[ask.allocation_key] = group, key

    def resize(self, before: Ask, after: Ask) -> None:
        """Update a placeholder that has another size."""
        subtract_from(self.allocated_ever, before.resource)
        add_to(self.allocated_ever, after.resource)
        place = self._places.get(after.allocation_key)
        if place is not None:
            group, key = place
            _, node_id = self.replaceable[group].remove(key)
            self.replaceable[group].add(key, (after, node_id))

    def hand_back(self, ask: Ask) -> None:
        """Uncount a placeholder that was placed and is pending again."""
        subtract_from(self.allocated_ever, ask.resource)

    def withdraw(self, key: AllocationKey) -> None:
        """Withdraw a placeholder that has ended or will end, and cannot be replaced. A second call changes nothing."""
        place = self._places.pop(key, None)
        if place is not None:
            self.replaceable[place[0]].remove(place[1])

    def is_complete(self) -> bool:
        """True if placeholders were allocated for everything that was announced."""
        return bool(self.total) and all(self.allocated_ever.get(name, 0) >= quantity for name, quantity in self.total.items())

    def has_pair(self) -> bool:
        """True if a real ask waits and a placeholder of its group may be replaced."""
        return any(count and self.replaceable.get(group) for group, count in self._held_counts.items())

    def parts_count(self) -> int:
        """The number of asks that wait for placeholders plus the number of placeholders that may be replaced."""
        return len(self.held) + len(self._places)

    def placeholders_for(self, ask: Ask) -> Iterator[PlacedPlaceholder]:
        """The placeholders that a real ask may replace, in the order in which they are tried (GA-74).

        Lazy: usually only the first is needed. A placeholder that was yielded may be withdrawn meanwhile.
        """
        replaceable = self.replaceable.get(ask.task_group_name)
        return replaceable.walk() if replaceable else iter(())


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
    """

    __slots__ = (
        "_changed",
        "_last_queue",
        "_queues_made",
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
        "leaf",
        "opened",
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

    def __init__(self, fact: ApplicationAdded, leaf: QueueUsage, changed: Changed) -> None:
        self._changed = changed
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

    def reserve(self, ask: Ask, *, contends: bool) -> None:
        """Take an ask with a reservation out of its queue; it joins another one only if it still tries to preempt."""
        self._dequeue(ask)
        self.reserving[ask.allocation_key] = ask
        if contends:
            self._enqueue(ask, has_node=True)
        else:
            self.asks[ask.allocation_key] = ask, None

    def unreserve(self, ask: Ask) -> None:
        """Queue an ask again whose reservation ends."""
        self._dequeue(ask)
        self._wait(ask)

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
        self.opened.clear()
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
