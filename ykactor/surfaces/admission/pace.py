"""The pace of requests: holders take turns, and none goes on before what was taken of the event loop is made up for."""

from __future__ import annotations

from collections import deque

import trio

from ykactor.surfaces.admission.slots import ConnectionSlots, Slot, Slots

#: Requests in a second, of all connections of one kind; more have to wait. So many may come at once.
REQUESTS_PER_S = 500
BURST = 100


class Turns:
    """Lets holders (``slots``) go on by turns, however many of each wait, so that all together take a share of the time.

    ``run`` has to run meanwhile.

    Args:
        burst_s: what may be taken at once when nothing was taken for a while, in seconds of the time.
    """

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        #: When all that was taken is made up for.
        self._even_at_s = 0.0
        #: Who waits, by holder; the first holder is next.
        self._waiting: dict[str, deque[tuple[trio.Event, float]]] = {}
        self._grown = trio.lowlevel.ParkingLot()

    async def wait(self, holder: str, takes_s: float) -> None:
        """Wait for a turn of a holder, and take so much of the time."""
        if not self._waiting and trio.current_time() >= self._due_s:
            self.take(takes_s)
            return
        turn = trio.Event(), takes_s
        self._waiting.setdefault(holder, deque()).append(turn)
        self._grown.unpark_all()
        try:
            await turn[0].wait()
        except trio.Cancelled:
            if not turn[0].is_set():
                self._leave(holder, turn)
            raise

    def take(self, takes_s: float) -> None:
        """More of the time was taken, or less than was said before."""
        self._even_at_s = max(self._even_at_s, trio.current_time()) + takes_s

    @property
    def _due_s(self) -> float:
        return self._even_at_s - self._burst_s

    def _leave(self, holder: str, turn: tuple[trio.Event, float]) -> None:
        self._waiting[holder].remove(turn)
        if not self._waiting[holder]:
            del self._waiting[holder]

    async def run(self) -> None:
        """Give turns until cancelled."""
        while True:
            while not self._waiting:
                await self._grown.park()
            await trio.sleep_until(self._due_s)
            if self._waiting and trio.current_time() >= self._due_s:
                self._give()

    def _give(self) -> None:
        """Give the turn to the first of the next holder, which is the last one then."""
        holder = next(iter(self._waiting))
        turns = self._waiting.pop(holder)
        turn, takes_s = turns.popleft()
        if turns:
            self._waiting[holder] = turns
        self.take(takes_s)
        turn.set()


class Paces:
    """The paces at which requests are answered, one for each kind of slots: a request takes 0.3 ms of the loop."""

    def __init__(self, slots: ConnectionSlots) -> None:
        self._unproven = Turns(BURST / REQUESTS_PER_S)
        self._of: dict[Slots, Turns] = {kind: Turns(BURST / REQUESTS_PER_S) for kind in (slots.readers, slots.metrics)}

    async def run(self) -> None:
        """Give turns until cancelled."""
        async with trio.open_nursery() as nursery:
            for turns in (self._unproven, *self._of.values()):
                nursery.start_soon(turns.run)

    async def wait(self, slot: Slot) -> None:
        """Wait until the next request of a connection may be answered; holders take turns."""
        await self._of.get(slot.slots, self._unproven).wait(slot.holder, 1 / REQUESTS_PER_S)
