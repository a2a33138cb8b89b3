"""The instruments of a daemon: whatever counts and measures beside the actors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

import trio

from ykactor.access.model import Role
from ykactor.actors.durations import Histogram
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.metrics.fact_counts import FactCounts


class SessionCounts:
    """Counts.

    Attributes:
        open: sessions by role.
        waits: how often one had to wait because of its limits.
    """

    def __init__(self) -> None:
        self.open: Counter[Role] = Counter()
        self.waits = 0


#: How often it is measured. A hold that is shorter may be missed, and of a longer one so much at most is not seen.
PERIOD_S = 0.05
#: The longest hold is that of the present minute and the one before.
WINDOW_S = 60.0


class LoopHolds:
    """Measures its own lateness, which costs 1 ms of CPU time in a second."""

    def __init__(self) -> None:
        self.holds = Histogram()
        self._window_s = 0.0
        self._max_s = self._max_before_s = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due_s = trio.current_time() + PERIOD_S
            await trio.sleep_until(due_s)
            self.note(trio.current_time() - due_s)

    def note(self, held_s: float) -> None:
        """The timer was so late."""
        self.holds.observe(held_s)
        self._turn_window()
        self._max_s = max(self._max_s, held_s)

    def longest_s(self) -> float:
        """The longest hold of the last one or two minutes."""
        self._turn_window()
        return max(self._max_s, self._max_before_s)

    def _turn_window(self) -> None:
        since_s = trio.current_time() - self._window_s
        if since_s >= WINDOW_S:
            self._max_before_s = self._max_s if since_s < 2 * WINDOW_S else 0.0
            self._max_s = 0.0
            self._window_s += since_s


class Instruments:
    """The measurements and counters beside the actors.

    Args:
        partitions: those that there are.

    Attributes:
        sessions: counts of them.
    """

    def __init__(self, partitions: Container[PartitionName]) -> None:
        self.facts = FactCounts(partitions)
        self.loop = LoopHolds()
        self.sessions = SessionCounts()
