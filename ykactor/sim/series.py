"""A quantity over the time of a run, as its averages over equal spans."""

from __future__ import annotations

from array import array

#: The spans of a run.
SPANS = 100


class Series:
    """A quantity that holds for spans of time; 8 bytes for each span of the run."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self._begin_ns = begin_ns
        self._length_ns = max(1, end_ns - begin_ns)
        self._areas = array("d", bytes(8 * SPANS))

    def add(self, since_ns: int, until_ns: int, value: float) -> None:
        """Add ``value`` from one time to another; what is behind the end counts in the last span."""
        if not value:
            return
        at = self._place(since_ns)
        last = self._place(until_ns)
        areas = self._areas
        begin = at
        for place in range(min(int(begin), SPANS - 1), min(int(last), SPANS - 1) + 1):
            end = last if place == SPANS - 1 else min(place + 1.0, last)
            areas[place] += (end - begin) * value
            begin = end

    def averages(self) -> list[float]:
        """The average of each span."""
        return list(self._areas)

    def _place(self, at_ns: int) -> float:
        return SPANS * (at_ns - self._begin_ns) / self._length_ns
