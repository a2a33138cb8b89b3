"""The scheduler's task: it waits for an order of the partition, runs one cycle, and replies with what was decided."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import trio
from msgspec import Struct

from ykactor.actors.mailbox import Mailbox
from ykactor.actors.owners import IN_FLIGHT_MAX, Owners, Replies
from ykactor.core.messages.facts import Decision
from ykactor.core.planner.plan import Budget
from ykactor.core.planner.scheduler import CycleResult, SchedulerCore

R = TypeVar("R")


class Observe(Struct, frozen=True):
    """Observe what the owners reported."""

    facts: list[Decision]


class RunCycle(Struct, frozen=True):
    """Run one cycle at ``now_ns``."""

    now_ns: int
    budget: Budget


class SchedulerActor:
    """One partition's scheduler."""

    def __init__(self, core: SchedulerCore, owners: Owners) -> None:
        self.core = core
        #: One order at a time, with one reply.
        self.inbox: Mailbox[Observe | RunCycle] = Mailbox("scheduler", 1)
        self._observed: Mailbox[list[Decision]] = Mailbox("scheduler observed", 1)
        self._results: Mailbox[CycleResult] = Mailbox("scheduler results", 1)
        self._owners = owners
        self._replies: Replies = Mailbox("scheduler replies", IN_FLIGHT_MAX)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            order = await self.inbox.get()
            if isinstance(order, Observe):
                self._observed.put_nowait(await breathe(self.core.observe(order.facts)))
            else:
                cycle = self.core.cycle(order.now_ns, order.budget)
                self._results.put_nowait(await self._owners.carry_out(cycle, self._replies))

    async def observe(self, facts: list[Decision]) -> list[Decision]:
        """Let the scheduler observe facts. Returns them with their consequences. Called by the partition's task only."""
        self.inbox.put_nowait(Observe(facts))
        return await self._observed.get()

    async def cycle(self, now_ns: int, budget: Budget) -> CycleResult:
        """Run one cycle. Returns what it decided. Called by the partition's task only."""
        self.inbox.put_nowait(RunCycle(now_ns, budget))
        return await self._results.get()


async def breathe(generator: Generator[None, None, R]) -> R:
    """Run a generator to its end; other tasks have a turn wherever it yields."""
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            result: R = stop.value
            return result
        await trio.lowlevel.checkpoint()
