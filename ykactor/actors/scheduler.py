"""The scheduler's task: it carries out one phase of a turn at a time, and replies.

The partition's task waits for each reply, so the two tasks never run at the same time. They are separate because each owns its
own state, which only its task writes: the partition the order of input, the scheduler the ledger and all scheduling queues.
"""

from __future__ import annotations

from typing import Any

from ykactor.actors.durations import TurnTimes
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.owners import Owners
from ykactor.core.turn.scheduler import SchedulerCore, SchedulerPhase


class SchedulerActor:
    """One partition's scheduler; ``times``: how long its steps take."""

    def __init__(self, core: SchedulerCore, owners: Owners, times: TurnTimes) -> None:
        self.core = core
        #: One phase at a time, with one reply.
        self.inbox: Mailbox[SchedulerPhase] = Mailbox("scheduler", 1)
        self._outbox: Mailbox[Any] = Mailbox("scheduler replies", 1)
        self._owners = owners
        self._times = times

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            phase = await self.inbox.get()
            self._outbox.put_nowait(await self._owners.carry_out(self.core.handle(phase, self._times.begin)))

    async def carry_out(self, phase: SchedulerPhase) -> Any:
        """Send a phase to the scheduler's task and return its reply. Called by the partition's task only."""
        self.inbox.put_nowait(phase)
        return await self._outbox.get()
