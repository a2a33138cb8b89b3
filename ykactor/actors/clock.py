"""The only place that reads the time.

Times are Unix nanoseconds, in whole microseconds: trio's clock is a float of seconds, which is exact to the microsecond for
decades. With trio's ``MockClock`` the same class runs on virtual time.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from uuid import uuid4

import trio

from ykactor.core.values.times import US_NS


def system_ns() -> int:
    """The system's Unix time, for what happens outside of trio."""
    return time.time_ns()


#: Seconds from any moment on, to measure how long something takes; not of trio's clock, and a quarter as dear.
elapsed_s = time.perf_counter
#: CPU seconds of this thread: what work takes, whatever else the machine does meanwhile.
worked_s = time.thread_time
_SCHEDSTAT = "/proc/thread-self/schedstat"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PROCESS_ID = f"process {uuid4()}"
#: How soon it is noticed that the clock of the system was corrected.
LOOK_S = 60.0


def worked_and_waited_s() -> tuple[float, float]:
    """CPU seconds of this thread, and the seconds for which it has waited for a processor that others had. Cost: 60 us."""
    try:
        with open(_SCHEDSTAT, "rb") as file:
            worked_ns, waited_ns, _ = map(int, file.read().split())
    except OSError:  # the kernel does not keep it
        return worked_s(), 0.0
    return worked_ns / 1e9, waited_ns / 1e9


class Boot(NamedTuple):
    """The present moment by a clock that nobody can set; moments of different ids have nothing in common.

    Attributes:
        id: of this boot of the machine; of this process where boots have none; "" if time is virtual.
        elapsed_ns: since the boot, also while the machine has slept; otherwise of ``Clock.now_ns``.
    """

    id: str
    elapsed_ns: int


class Clock:
    """Unix time that follows trio's clock: monotonic, and virtual if trio's clock is virtual.

    Args:
        start_ns: Unix time now.
        system_ns: the present time of the system, which may be corrected meanwhile; None: it is as the clock says.
    """

    def __init__(self, start_ns: int, system_ns: Callable[[], int] | None = None) -> None:
        self._start_us = start_ns // US_NS
        self._origin_s = trio.current_time()
        self._system_ns = system_ns

    @classmethod
    def of_the_system(cls, after_ns: int = 0, ahead_ns: int = 0) -> "Clock":
        """A clock that starts at the system's time and ignores later corrections of the system's time.

        Args:
            after_ns: it starts later than this, whatever the system's time is.
            ahead_ns: how far it was ahead of the system's time, if it is not later than ``after_ns`` by itself: time has gone
                on meanwhile.
        """
        now_ns = system_ns()
        start_ns = now_ns if now_ns > after_ns else max(now_ns + ahead_ns, after_ns + US_NS)
        return cls(start_ns, system_ns)

    def now_ns(self) -> int:
        """The current Unix time."""
        return (self._start_us + round((trio.current_time() - self._origin_s) * 1e6)) * US_NS

    def corrected_ns(self) -> int:
        """The current Unix time by the corrected clock of the system: for what others compare with theirs, and nothing else."""
        return self.now_ns() if self._system_ns is None else self._system_ns()

    def ahead_ns(self) -> int:
        """The time by which this clock is ahead of the corrected one; negative if it is behind."""
        return self.now_ns() - self.corrected_ns()

    def boot(self) -> Boot:
        """The present moment since the boot of the machine."""
        if self._system_ns is None:
            return Boot("", self.now_ns())
        with suppress(OSError), open(_BOOT_ID) as file:
            return Boot(file.read().strip(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        return Boot(_PROCESS_ID, self.now_ns())

    def to_trio(self, at_ns: int) -> float:
        """The moment on trio's clock, for ``trio.move_on_at``."""
        return self._origin_s + (at_ns / US_NS - self._start_us) / 1e6

    def corrected_to_trio(self, at_ns: int) -> float:
        """The same for a time by the corrected clock, but soon in any case: it may be corrected meanwhile, so look again."""
        at_s = self.to_trio(at_ns + self.ahead_ns())
        return at_s if self._system_ns is None else min(at_s, trio.current_time() + LOOK_S)
