"""The tasks of an application: its asks and allocations, and what their rows say of them.

What the row of a task contains (``records.rows.TaskRow``) changes here only, and each method that changes it notes the row.
"""

from __future__ import annotations

import heapq

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.values.ids import AllocationKey, NodeID


class ApplicationTasks:
    """The asks and allocations of one application. Only its methods write it, and note the rows.

    Attributes:
        asks, allocations: pending asks, and running allocations with their node; placeholders are in both.
        began_ns: the begin of each allocation.
        replaced_ns: by allocation that has replaced a placeholder, the creation time of the placeholder.
        replacing: by placeholder, the real ask that replaces it and the node where the ask will run. If that is not the
            placeholder's node, the ask has its place there already.
        released: allocations whose release was started and is not confirmed yet (AP-129).
        preempted: allocations that are preempted and have not ended.
        sized_ns: of tasks that were resized, or that the resource manager has placed itself, since when they count: what was
            before is counted, or nothing.
        real_count, placeholder_count: the numbers of real tasks and of placeholders among the allocations.
    """

    __slots__ = (
        "_changed",
        "_placeholders",
        "allocations",
        "asks",
        "began_ns",
        "placeholder_count",
        "preempted",
        "real_count",
        "released",
        "replaced_ns",
        "replacing",
        "sized_ns",
    )

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self.asks: dict[AllocationKey, Ask] = {}
        self.allocations: dict[AllocationKey, tuple[Ask, NodeID]] = {}
        self.began_ns: dict[AllocationKey, int] = {}
        self.replaced_ns: dict[AllocationKey, int] = {}
        self.replacing: dict[AllocationKey, tuple[Ask, NodeID]] = {}
        #: By real ask, the placeholder that it waits for.
        self._placeholders: dict[AllocationKey, AllocationKey] = {}
        self.released: set[AllocationKey] = set()
        self.preempted: set[AllocationKey] = set()
        self.sized_ns: dict[AllocationKey, int] = {}
        self.real_count = self.placeholder_count = 0

    def has(self, key: AllocationKey) -> bool:
        """True if there is an ask or allocation with this key."""
        return key in self.allocations or key in self.asks or key in self._placeholders

    def has_real_work(self) -> bool:
        """True if an ask is pending or a real task runs; a real ask that waits for its placeholder is neither (AP-41, GA-60)."""
        return bool(self.asks or self.real_count)

    # ---- asks

    def queue(self, ask: Ask) -> None:
        """Add a pending ask."""
        self.asks[ask.allocation_key] = ask
        self._changed.task(ask)

    def update(self, ask: Ask) -> None:
        """Replace a task by itself with other settings; ``restart`` follows if it has another size."""
        key = ask.allocation_key
        if key in self.asks:
            self.asks[key] = ask
        elif key in self.allocations:
            self.allocations[key] = ask, self.allocations[key][1]
        else:
            placeholder = self._placeholders[key]
            self.replacing[placeholder] = ask, self.replacing[placeholder][1]
        self._changed.task(ask)

    def restart(self, now_ns: int, ask: Ask) -> None:
        """Let a task count from now on; everything before is counted."""
        self.sized_ns[ask.allocation_key] = now_ns
        self._changed.task(ask)

    def remove(self, ask: Ask) -> None:
        """Forget a task that has gone."""
        key = ask.allocation_key
        self.asks.pop(key, None)
        self.sized_ns.pop(key, None)
        self._changed.task(ask)

    # ---- allocations

    def begin(self, now_ns: int, ask: Ask, node_id: NodeID, replaced: Ask | None = None) -> None:
        """Turn an ask into an allocation, which may take the place of a placeholder that has ended."""
        key = ask.allocation_key
        if replaced is not None:
            self.replaced_ns[key] = replaced.created_ns
        elif self.asks.pop(key, None) is None and ask.since_ns < now_ns:
            self.sized_ns[key] = now_ns  # the resource manager has placed it itself, so it has not waited
        self.allocations[key] = ask, node_id
        self.began_ns[key] = now_ns
        if ask.placeholder:
            self.placeholder_count += 1
        else:
            self.real_count += 1
        self._changed.task(ask)

    def release(self, key: AllocationKey) -> None:
        """Note that the release of an allocation was started."""
        self.released.add(key)
        self._changed.task(self.allocations[key][0])

    def preempt(self, key: AllocationKey) -> None:
        """Note that an allocation is preempted."""
        self.preempted.add(key)
        self._changed.task(self.allocations[key][0])

    def end(self, key: AllocationKey) -> None:
        """End an allocation, which must be counted already."""
        ask, _ = self.allocations.pop(key)
        del self.began_ns[key]
        self.replaced_ns.pop(key, None)
        self.sized_ns.pop(key, None)
        self.released.discard(key)
        self.preempted.discard(key)
        if ask.placeholder:
            self.placeholder_count -= 1
        else:
            self.real_count -= 1
        self._changed.task(ask)

    # ---- real asks that replace placeholders

    def placeholder_of(self, key: AllocationKey) -> AllocationKey | None:
        """The placeholder that the real ask ``key`` waits for, if any."""
        return self._placeholders.get(key)

    def is_replaced_elsewhere(self, placeholder: AllocationKey) -> bool:
        """True if the real ask that replaces the placeholder already has a place on another node."""
        return placeholder in self.replacing and self.replacing[placeholder][1] != self.allocations[placeholder][1]

    def replace(self, placeholder: AllocationKey, real: Ask, node_id: NodeID) -> None:
        """Let a real ask wait for this placeholder, to run on the node."""
        self.asks.pop(real.allocation_key, None)
        self.replacing[placeholder] = real, node_id
        self._placeholders[real.allocation_key] = placeholder
        self._changed.task(real)

    def end_replacement(self, placeholder: AllocationKey) -> None:
        """Let no real ask wait for this placeholder any more."""
        ended = self.replacing.pop(placeholder, None)
        if ended is not None:
            del self._placeholders[ended[0].allocation_key]
            self._changed.task(ended[0])


class Backoffs:
    """The asks of one application for which nodes are left out (AP-144), by the time when the first node no longer is."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        #: A heap of times, arrivals and keys. Some entries do not hold any more: their asks run, have gone, or wait for longer.
        self._entries: list[tuple[int, int, AllocationKey]] = []

    def note(self, ask: Ask) -> int | None:
        """Note when the first node is no longer left out for a pending ask. Returns this time; None if none is left out."""
        due_ns = _due_ns(ask)
        if due_ns is not None:
            heapq.heappush(self._entries, (due_ns, ask.arrival, ask.allocation_key))
        return due_ns

    def due_ns(self, asks: dict[AllocationKey, Ask]) -> int | None:
        """The time when the next node is no longer left out for one of the pending asks; None if none is left out."""
        while self._entries:
            due_ns, arrival, key = self._entries[0]
            ask = asks.get(key)
            if ask is not None and (_due_ns(ask), ask.arrival) == (due_ns, arrival):
                return due_ns
            heapq.heappop(self._entries)
        return None

    def take_due(self, asks: dict[AllocationKey, Ask], now_ns: int) -> list[Ask]:
        """Take out the pending asks with a node that is no longer left out, in the order of their arrival.

        Costs nothing for asks whose time is not over.
        """
        due: dict[int, Ask] = {}
        while (due_ns := self.due_ns(asks)) is not None and due_ns <= now_ns:
            _, arrival, key = heapq.heappop(self._entries)
            due[arrival] = asks[key]
        return [due[arrival] for arrival in sorted(due)]


def _due_ns(ask: Ask) -> int | None:
    return min((failure.until_ns for failure in ask.failures if failure.until_ns), default=None)
