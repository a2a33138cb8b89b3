"""How busy the event loop is."""

from __future__ import annotations

import trio

from ykactor.actors.clock import worked_s

#: Over which time at least, in seconds.
_WINDOW_S = 0.05
#: A loop is busy that works for so much of it.
_BUSY_SHARE = 0.5


class Load:
    """What this thread has worked of the time."""

    def __init__(self) -> None:
        self._is_busy = False
        self._since_s = trio.current_time()
        self._worked_s = worked_s()

    def is_busy(self) -> bool:
        """Whether it was busy of late, between the last questions that were far enough apart."""
        now_s = trio.current_time()
        if now_s >= self._since_s + _WINDOW_S:
            worked = worked_s()
            self._is_busy = worked - self._worked_s > _BUSY_SHARE * (now_s - self._since_s)
            self._since_s, self._worked_s = now_s, worked
        return self._is_busy
