"""The load of the event loop: how busy it is, how long work takes, and what of its time large answers may take."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import trio

from ykactor.actors.clock import worked_and_waited_s, worked_s
from ykactor.core.values.parts import PART_MAX, Steps, paced
from ykactor.surfaces.admission.pacing import FairQueue, TokenBucket
from ykactor.surfaces.admission.slots import Slot, Slots

#: Over which time at least, in seconds.
_WINDOW_S = 0.05
#: A loop is busy that has something to do for so much of it.
_BUSY_SHARE = 0.5
#: Of the time at least so much is taken to be its own, however busy other programs are.
_OWN_MIN = 0.1


class LoopLoad:
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


class CpuMeter:
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


# ---- sending large answers, which takes time of the event loop as making them does: 0.5 ms to copy a megabyte into a socket

#: What all readers together may take of the time for it while the loop is busy, and else; of that for which it has a processor.
BUSY_SHARE, IDLE_SHARE = 0.02, 0.1
#: The time of which the share may be taken at once: a large answer now and then does not wait.
BURST_S = 1.0
#: So much of an answer needs no turn.
FREE_BYTES = 2**16
#: Different large bodies that are being sent have no more bytes together: each is in memory until the last has taken it.
BYTES_MAX = 2**28
#: What is expected to be taken, in CPU seconds for a byte, until it was measured.
_COST_S = 0.5e-9
#: How much the last measurement counts.
_WEIGHT = 0.1


class Sending:
    """The CPU time of the loop that large answers may take while they are sent. Those who read them take turns."""

    def __init__(self) -> None:
        #: Of seconds in which no more is sent than may be.
        self._queue = FairQueue(TokenBucket(lambda: 1.0, BURST_S))
        self._loop = LoopLoad()
        self._cost_s = _COST_S
        self._memory = Slots("bytes of large answers", lambda: BYTES_MAX)
        #: By the identity of their parts, the large bodies that are being sent: to how many, and the slot of the first.
        self._bodies: dict[int, tuple[int, Slot]] = {}

    async def send(self, holder: str, length: int, sending: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Send a part of so many bytes when it is the turn of who reads it."""
        share = (BUSY_SHARE if self._loop.is_busy() else IDLE_SHARE) * self._loop.own()
        expected_s, meter = length * self._cost_s, CpuMeter()
        await self._queue.take(holder, expected_s / share)
        try:
            await meter.awaited(sending())
        finally:
            self._queue.bucket.take((meter.seconds - expected_s) / share)
        self._cost_s += _WEIGHT * (meter.seconds / length - self._cost_s)

    def has_room(self, holder: str, parts: Sequence[bytes]) -> bool:
        """True if a body may be sent too: small ones may, and those that somebody else is being sent."""
        length = sum(map(len, parts))
        return length <= FREE_BYTES or id(parts) in self._bodies or not self._memory.refusal(holder, length)

    @contextmanager
    def kept(self, holder: str, parts: Sequence[bytes]) -> Iterator[None]:
        """A body is being sent within this block."""
        key, length = id(parts), sum(map(len, parts))
        if length <= FREE_BYTES:
            yield
            return
        readers, slot = self._bodies.get(key) or (0, self._memory.take(holder, size=length))
        self._bodies[key] = readers + 1, slot
        try:
            yield
        finally:
            readers, slot = self._bodies.pop(key)
            if readers > 1:
                self._bodies[key] = readers - 1, slot
            else:
                slot.release()
