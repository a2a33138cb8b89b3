"""The only place that reads the time.

Times are Unix nanoseconds, in whole microseconds: trio's clock is a float of seconds, which is exact to the microsecond for
decades. With trio's ``MockClock`` the same class runs on virtual time.
"""

import time

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


def worked_and_waited_s() -> tuple[float, float]:
    """CPU seconds of this thread, and the seconds for which it has waited for a processor that others had. Cost: 60 us."""
    try:
        with open(_SCHEDSTAT, "rb") as file:
            worked_ns, waited_ns, _ = map(int, file.read().split())
    except OSError:  # the kernel does not keep it
        return worked_s(), 0.0
    return worked_ns / 1e9, waited_ns / 1e9


class Clock:
    """Unix time that follows trio's clock: monotonic, and virtual if trio's clock is virtual.

    Args:
        start_ns: Unix time now.
    """

    def __init__(self, start_ns: int) -> None:
        self._start_us = start_ns // US_NS
        self._origin_s = trio.current_time()

    @classmethod
    def of_the_system(cls, after_ns: int = 0) -> "Clock":
        """A clock that starts at the system's time and ignores later corrections of the system's time.

        Args:
            after_ns: it starts later than this, whatever the system's time is.
        """
        return cls(max(system_ns(), after_ns + US_NS))

    def now_ns(self) -> int:
        """The current Unix time."""
        return (self._start_us + round((trio.current_time() - self._origin_s) * 1e6)) * US_NS

    def to_trio(self, at_ns: int) -> float:
        """The moment on trio's clock, for ``trio.move_on_at``."""
        return self._origin_s + (at_ns / US_NS - self._start_us) / 1e6
