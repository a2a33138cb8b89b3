"""The queues that have series of their own, and the counts of each: bounded, however many queues come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from ykactor.core.values.ids import QueuePath

#: Queues with series of their own; all others share the series of a queue with this name.
QUEUES_MAX = 10_000
OTHER = QueuePath("other")
#: Amounts of all queues with series of their own; the queues that come after them in the order of the tree share one.
AMOUNTS_MAX = 250_000
#: Names of amounts that are shown although they are 0; if there are more, only those that are not 0 are shown.
NAMES_MAX = 100
#: Zeros of all queues in one kind of amounts; with more queues and types only what is not 0 is shown.
ZEROS_MAX = 50_000


class QueueSeries:
    """The counts and names that the series of one queue need.

    Attributes:
        counts: by state: ``allocated`` and ``released`` containers, ``completed`` and ``failed`` applications.
        shown: by kind of amount, the names of those that were shown: later they are 0, and do not vanish.
        scrape: the number of the last scrape that found the queue.
    """

    __slots__ = ("counts", "scrape", "shown")

    def __init__(self, scrape: int) -> None:
        self.counts: Counter[str] = Counter()
        self.shown: dict[str, dict[str, None]] = {}
        self.scrape = scrape

    def names(self) -> int:
        """The number of names of amounts that were shown."""
        return sum(map(len, self.shown.values()))

    def with_zeros(self, kind: str, amounts: Mapping[str, int]) -> dict[str, int]:
        """These amounts, and 0 for what was shown before and is not there any more, up to ``NAMES_MAX``."""
        known = self.shown.get(kind, {}) | dict.fromkeys(amounts)
        self.shown[kind] = known = known if len(known) <= NAMES_MAX else dict.fromkeys(amounts)
        return {name: amounts.get(name, 0) for name in known}


class SeriesOfQueues:
    """All of them, by path.

    Args:
        queues_max: how many have series of their own.

    Attributes:
        queues_max: the same.
        scrapes: how many there were.
    """

    def __init__(self, queues_max: int = QUEUES_MAX) -> None:
        self.queues_max = queues_max
        self._series: dict[QueuePath, QueueSeries] = {}
        self._other = QueueSeries(0)
        self.scrapes = 0

    def others(self) -> tuple[QueuePath, QueueSeries]:
        """The name that queues without series of their own share, and its series."""
        return OTHER, self._other

    def named(self, path: QueuePath) -> tuple[QueuePath, QueueSeries]:
        """Under which name a queue is shown, and its series."""
        found = self._series.get(path)
        if found is None:
            if len(self._series) >= self.queues_max:
                return self.others()
            found = self._series[path] = QueueSeries(self.scrapes)
        return path, found

    def of(self, path: QueuePath) -> QueueSeries:
        """The series in which a queue is counted."""
        return self._series.get(path) or self.named(path)[1]

    def remove(self, path: QueuePath) -> None:
        """The queue is no more; a later one with this path begins at zero."""
        self._series.pop(path, None)

    def end_scrape(self, found: Collection[QueuePath]) -> None:
        """A scrape has found these queues. Those that are missing twice are gone; one that is missing once may be new."""
        self.scrapes += 1
        for path in found:
            if path in self._series:
                self._series[path].scrape = self.scrapes
        for path in [path for path, series in self._series.items() if series.scrape < self.scrapes - 1]:
            del self._series[path]
