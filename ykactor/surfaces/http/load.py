"""The load of the event loop: how busy it is, and how long work takes."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

import trio

from ykactor.actors.clock import worked_and_waited_s, worked_s
from ykactor.core.values.parts import PART_MAX, Steps, paced

#: Over which time at least, in seconds.
_WINDOW_S = 0.05
#: A loop is busy that has something to do for so much of it.
_BUSY_SHARE = 0.5
#: Of the time at least so much is taken to be its own, however busy other programs are.
_OWN_MIN = 0.1


class Load:
    """The share of the time in which this thread is busy, and the part of that which other programs take."""

    def __init__(self) -> None:
        self._is_busy = False
        self._own = 1.0
        self._since_s = trio.current_time()
        self._worked_s, self._waited_s = worked_and_waited_s()

    def is_busy(self) -> bool:
        """True if the loop was busy for more than half of the last 50 ms window."""
        self._look()
        return self._is_busy

    def own(self) -> float:
        """The share of the time in which it had a processor or needed none; the rest it has waited for one."""
        self._look()
        return self._own

    def _look(self) -> None:
        now_s = trio.current_time()
        if now_s < self._since_s + _WINDOW_S:
            return
        worked_s, waited_s = worked_and_waited_s()
        took_s, waited = now_s - self._since_s, waited_s - self._waited_s
        self._is_busy = worked_s - self._worked_s + waited > _BUSY_SHARE * took_s
        self._own = min(1.0, max(_OWN_MIN, 1 - waited / took_s))
        self._since_s, self._worked_s, self._waited_s = now_s, worked_s, waited_s


# ---- the time that work takes which pauses

R = TypeVar("R")


class Effort:
    """Adds up what work takes of the event loop: without its pauses, and without what other programs take of the machine.

    Attributes:
        seconds: of all work so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def measured(self, work: Steps[R]) -> Steps[R]:
        """The same work, in steps that are whole parts: the clock is not read after each small one."""
        parts = paced(work)
        while True:
            since_s = worked_s()
            try:
                next(parts)
            except StopIteration as stop:
                result: R = stop.value
                return result
            finally:
                self.seconds += worked_s() - since_s
            yield PART_MAX

    @types.coroutine
    def awaited(self, work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
        """Await a coroutine of trio; what it waits for is not counted."""
        answer = None
        try:
            while True:
                since_s = worked_s()
                try:
                    wanted = work.send(answer)
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                finally:
                    self.seconds += worked_s() - since_s
                answer = yield wanted
        finally:
            work.close()
