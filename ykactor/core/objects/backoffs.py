"""Back-offs: pending asks for which nodes are left out, because they could not start there (AP-144)."""

from __future__ import annotations

import heapq

from ykactor.core.messages.asks import Ask
from ykactor.core.values.ids import AllocationKey


class Backoffs:
    """The asks of one application for which nodes are left out, by the time when the first node no longer is."""

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
