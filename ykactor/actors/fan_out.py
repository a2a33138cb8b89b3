"""The service of subscribers: in rounds, in short slots of the event loop, so that planning never waits for many of them.

One task serves all subscribers, without waking theirs. A round brings each of them up to the newest event at its start, so those
with the same selection of events get the same batches. An event that comes after a pause starts a round at once; under load the
next round starts some ms after the last one, with more events in each write.
"""

from collections.abc import Callable
from math import inf
from typing import Protocol

import trio

#: The shortest time between the starts of two rounds, and what each subscriber adds to it: a write costs about 20 us however
#: short it is, and with this interval such costs take a third of the loop at most.
ROUND_S = 0.005
ROUND_EACH_S = 60e-6
#: The time that subscribers take before other tasks run, and the same when they are about to miss events.
SLOT_S = 0.001
URGENT_SLOT_S = 0.01
#: While there is something to plan, subscribers wait this long for their next slot; how often they look.
GIVE_WAY_S = 0.004
GIVE_WAY_STEPS = 4


class Subscriber(Protocol):
    """Served in each round."""

    def serve(self, target: int, now: float) -> float:
        """Take events up to number ``target``, or some of them; never waits.

        Returns when it wants to be served again: infinity if not before the next event.
        """


class FanOut:
    """Serves the subscribers that wait for events.

    Args:
        ring_max: number of events that the feed keeps; subscribers that are half of it behind are urgent.
        is_idle: whether there is nothing to plan.
    """

    def __init__(self, ring_max: int, is_idle: Callable[[], bool]) -> None:
        self._is_idle = is_idle
        #: The subscribers that wait for events, in the order in which they began to wait.
        self.waiting: dict[Subscriber, None] = {}
        self._sequence = 0
        self._urgent_behind = ring_max // 2
        self._due = trio.Event()

    def grow(self, sequence: int) -> None:
        """Note that there are events up to ``sequence``."""
        self._sequence = sequence
        if self.waiting:
            self._due.set()

    def join(self, subscriber: Subscriber) -> None:
        """Serve it from now on; the first time at once."""
        self.waiting[subscriber] = None
        self._due.set()

    def leave(self, subscriber: Subscriber) -> None:
        """Serve it no more."""
        del self.waiting[subscriber]

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._due.wait()
        next_at, target = -inf, 0
        while True:
            if trio.current_time() >= next_at:
                next_at = trio.current_time() + ROUND_S + ROUND_EACH_S * len(self.waiting)
                self._due, target = trio.Event(), self._sequence
            again_at = await self._round(target)
            if again_at > trio.current_time():
                await trio.sleep_until(next_at)
                with trio.move_on_at(again_at):
                    await self._due.wait()

    async def _round(self, target: int) -> float:
        """Serve all; when the next round is to begin."""
        again_at = inf
        now = slot_ends_at = trio.current_time()
        for subscriber in list(self.waiting):
            if now >= slot_ends_at:
                await self._give_way()
                now = trio.current_time()
                is_urgent = self._sequence - target > self._urgent_behind
                slot_ends_at = now + (URGENT_SLOT_S if is_urgent else SLOT_S)
            if subscriber in self.waiting:
                again_at = min(again_at, subscriber.serve(target, now))
            now = trio.current_time()
        return again_at

    async def _give_way(self) -> None:
        """Let all other tasks run once, and while there is something to plan, for some ms."""
        await trio.lowlevel.checkpoint()
        for _ in range(GIVE_WAY_STEPS):
            if self._is_idle():
                return
            await trio.sleep(GIVE_WAY_S / GIVE_WAY_STEPS)
