"""Durations: histograms, and the times of the turns of a partition, by phase.

Other tasks may run during a phase, and then their time counts too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ykactor.actors.clock import elapsed_s
from ykactor.core.messages.facts import Allocated, Fact, Preempted

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


#: The last is to collect what the journal keeps of a turn, and to wait for room in the feed.
PHASES = ("ingest", "observe", "plan", "commit", "settle", "publish")


class PhaseTimes:
    """The times of one phase.

    Attributes:
        last_s: the last one.
    """

    __slots__ = ("histogram", "last_s")

    def __init__(self) -> None:
        self.histogram = Histogram()
        self.last_s = 0.0


class TurnTimes:
    """The times of one partition, in seconds.

    Attributes:
        phases: by name.
        cycles: to plan, commit and settle.
        last_cycle_s, longest_cycle_s: of them; 0 if there was none.
        placements, preemptions: to plan one of them: the mean of its cycle, for each.
    """

    def __init__(self) -> None:
        self.phases = {name: PhaseTimes() for name in PHASES}
        #: The phase in progress, and since when.
        self._phase: PhaseTimes | None = None
        self._since_s = 0.0
        self._of_cycle = self.phases["plan"], self.phases["commit"], self.phases["settle"]
        self.cycles, self.placements, self.preemptions = Histogram(DECADES), Histogram(DECADES), Histogram(DECADES)
        self.last_cycle_s = self.longest_cycle_s = 0.0

    def begin(self, phase: str) -> None:
        """This phase begins, and the one in progress has ended."""
        now_s = elapsed_s()
        if self._phase is not None:
            self._note(self._phase, now_s)
        self._phase, self._since_s = self.phases[phase], now_s

    def end(self) -> None:
        """The phase in progress has ended."""
        if self._phase is not None:
            self._note(self._phase, elapsed_s())
            self._phase = None

    def _note(self, phase: PhaseTimes, now_s: float) -> None:
        phase.last_s = now_s - self._since_s
        phase.histogram.observe(phase.last_s)

    def drop(self) -> None:
        """The phase in progress has failed, and does not count."""
        self._phase = None

    def note_cycle(self, facts: Sequence[Fact]) -> None:
        """A cycle is over, with these facts."""
        plan, commit, settle = self._of_cycle
        self.last_cycle_s = plan.last_s + commit.last_s + settle.last_s
        self.longest_cycle_s = max(self.longest_cycle_s, self.last_cycle_s)
        self.cycles.observe(self.last_cycle_s)
        commit.last_s = settle.last_s = 0.0  # the next cycle may do without them
        if not facts:
            return
        kinds = list(map(type, facts))
        placed, preempted = kinds.count(Allocated), kinds.count(Preempted)
        if placed or preempted:
            mean_s = plan.last_s / (placed + preempted)
            self.placements.observe(mean_s, placed)
            self.preemptions.observe(mean_s, preempted)

    def of_cycles(self) -> dict[str, float]:
        """The number of cycles, and how many seconds the last and the longest one took, and the mean."""
        count = sum(self.cycles.counts)
        return {
            "count": count,
            "lastSeconds": self.last_cycle_s,
            "meanSeconds": self.cycles.sum / count if count else 0.0,
            "maxSeconds": self.longest_cycle_s,
        }
