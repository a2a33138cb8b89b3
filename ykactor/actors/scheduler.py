"""The scheduler's task: it waits for the partition to ask for a cycle, carries one out, and answers what was decided."""

from __future__ import annotations

from msgspec import Struct

from ykactor.actors.mailbox import Mailbox
from ykactor.actors.owners import UNDER_WAY_MAX, Owners, Replies
from ykactor.core.decisions import Decision
from ykactor.core.planner import Budget
from ykactor.core.scheduler import CycleResult, SchedulerCore


class RunCycle(Struct, frozen=True):
    """Run one cycle at ``now_ns``; ``facts`` are what the owners reported since the last one."""

    now_ns: int
    facts: list[Decision]
    budget: Budget


class SchedulerActor:
    """One partition's scheduler."""

    def __init__(self, core: SchedulerCore, owners: Owners) -> None:
        self.core = core
        #: At most one cycle is asked for at a time, and one answer waits.
        self.inbox: Mailbox[RunCycle] = Mailbox("scheduler", 1)
        self.results: Mailbox[CycleResult] = Mailbox("scheduler results", 1)
        self._owners = owners
        self._replies: Replies = Mailbox("scheduler replies", UNDER_WAY_MAX)

    async def run(self) -> None:
        """Serve cycles until cancelled."""
        while True:
            order = await self.inbox.get()
            cycle = self.core.cycle(order.now_ns, order.facts, order.budget)
            self.results.put_nowait(await self._owners.carry_out(cycle, self._replies))

    async def cycle(self, now_ns: int, facts: list[Decision], budget: Budget) -> CycleResult:
        """Ask for one cycle and wait for what it decided. Called by the partition's task only."""
        self.inbox.put_nowait(RunCycle(now_ns, facts, budget))
        return await self.results.get()
