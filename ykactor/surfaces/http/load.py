"""How busy the event loop is."""

from __future__ import annotations

import trio

from ykactor.actors.clock import occupied_s

#: Over which time at least, in seconds.
_WINDOW_S = 0.05
#: A loop is busy that has something to do for so much of it.
_BUSY_SHARE = 0.5


class Load:
    """How much of the time this thread has something to do."""

    def __init__(self) -> None:
        self._is_busy = False
        self._since_s = trio.current_time()
        self._occupied_s = occupied_s()

    def is_busy(self) -> bool:
        """Whether it was busy of late, between the last questions that were far enough apart."""
        now_s = trio.current_time()
        if now_s >= self._since_s + _WINDOW_S:
            occupied = occupied_s()
            self._is_busy = occupied - self._occupied_s > _BUSY_SHARE * (now_s - self._since_s)
            self._since_s, self._occupied_s = now_s, occupied
        return self._is_busy
