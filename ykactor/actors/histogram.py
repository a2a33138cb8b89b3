"""Counts of durations, by length."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

#: Upper bounds in seconds, of what takes between 0.1 ms and 10 s.
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
#: The bounds of all histograms of Apache YuniKorn.
DECADES = (0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000)


class Histogram:
    """Counts values by bands.

    Args:
        bounds: the upper bounds of the bands, ascending; they belong to their band. One more band is above them.

    Attributes:
        counts: for each band, the number of values.
        sum: of all values.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def observe_all(self, values: list[float]) -> None:
        """Count these values, and sort the list."""
        values.sort()
        below = 0
        for band, bound in enumerate(self.bounds):
            if below == len(values):
                break
            up_to = bisect_right(values, bound, below)
            self.counts[band] += up_to - below
            below = up_to
        self.counts[-1] += len(values) - below
        self.sum += sum(values)
