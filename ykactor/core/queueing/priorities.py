"""Dynamic priorities: the priority of a queue, computed from those of its content (PR-10 to PR-18)."""

import heapq

from ykactor.core.config.properties import QueueProperties

PRIORITY_MIN = -(2**31)
PRIORITY_MAX = 2**31 - 1

#: None is "has no priority": nothing is pending. No number means that, not even the lowest (PR-16).
Priority = int | None


def queue_priority(raw: Priority, properties: QueueProperties) -> Priority:
    """The priority that a queue shows to its parent when the highest priority inside is ``raw``."""
    return None if raw is None else priority_above(raw, properties)


def priority_above(priority: int, properties: QueueProperties) -> int:
    """The priority outside a queue of what has ``priority`` inside (PR-11)."""
    return properties.priority_offset if properties.priority_fence else clamp(priority + properties.priority_offset)


def clamp(priority: int) -> int:
    """Cut to int32."""
    return max(PRIORITY_MIN, min(PRIORITY_MAX, priority))


def sort_rank(priority: Priority) -> int:
    """A key that sorts higher priorities first, and "no priority" after every number."""
    return -PRIORITY_MIN + 1 if priority is None else -priority


class PriorityBag:
    """A multiset of priorities that knows its highest: a count for each, and a heap from which stale ones are dropped lazily."""

    __slots__ = ("_counts", "_heap", "highest")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        #: Negated priorities; those that no longer occur are dropped when they reach the top.
        self._heap: list[int] = []
        self.highest: Priority = None

    def add(self, priority: int) -> None:
        """Add one ``priority``. O(1) if it occurs already, else O(log distinct)."""
        counts = self._counts
        if priority in counts:
            counts[priority] += 1
            return
        counts[priority] = 1
        heap = self._heap
        heapq.heappush(heap, -priority)
        if len(heap) > 2 * len(counts) + 64:  # too many stale ones below the top
            heap[:] = [-priority for priority in counts]
            heapq.heapify(heap)
        self.highest = -heap[0]

    def remove(self, priority: int) -> None:
        """Remove one ``priority``, which must be in the bag. Amortised O(log distinct)."""
        counts = self._counts
        if counts[priority] > 1:
            counts[priority] -= 1
            return
        del counts[priority]
        heap = self._heap
        while heap and -heap[0] not in counts:
            heapq.heappop(heap)
        self.highest = -heap[0] if heap else None

    def replace(self, old: Priority, new: Priority) -> None:
        """One member changed from ``old`` to ``new``; None is "not in the bag"."""
        if new is not None:
            self.add(new)
        if old is not None:
            self.remove(old)
