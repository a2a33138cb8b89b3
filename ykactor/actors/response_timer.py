"""A timer for calls that may never return: it tells when the present one takes too long, without touching it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import trio


class ResponseTimer:
    """Watches one call after the other.

    Args:
        limit_s: how long a call may take.
        on_late: called once for each call that takes longer, while it still goes on; must not block or raise.
    """

    def __init__(self, limit_s: float, on_late: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._on_late = on_late
        #: When the present call is late.
        self._due_s = inf
        self._waiting = trio.CancelScope()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The block is a call."""
        self._due_s = trio.current_time() + self._limit_s
        # To change a deadline takes longer than all the rest. An earlier one is let be: when it comes, ``run`` looks again.
        if self._waiting.deadline == inf:
            self._waiting.deadline = self._due_s
        try:
            yield
        finally:
            self._due_s = inf

    async def run(self) -> None:
        """Tell of late calls until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._due_s) as self._waiting:
                await trio.sleep_forever()
            if self._due_s <= trio.current_time():
                self._due_s = inf
                self._on_late()
