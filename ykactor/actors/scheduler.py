"""The scheduler's task: it waits for the partition to ask for a cycle, carries one out, and answers what was decided."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

import trio
from msgspec import Struct

from ykactor.actors.mailbox import Mailbox
from ykactor.actors.owners import UNDER_WAY_MAX, Owners, Replies
from ykactor.core.messages.facts import Decision
from ykactor.core.planner.plan import Budget
from ykactor.core.planner.scheduler import CycleResult, SchedulerCore

R = TypeVar("R")


class Observe(Struct, frozen=True):
    """Take in what the owners reported."""

    facts: list[Decision]


class RunCycle(Struct, frozen=True):
    """Run one cycle at ``now_ns``."""

    now_ns: int
    budget: Budget


class SchedulerActor:
    """One partition's scheduler."""

    def __init__(self, core: SchedulerCore, owners: Owners) -> None:
        self.core = core
        #: One order at a time, and one answer to it.
        self.inbox: Mailbox[Observe | RunCycle] = Mailbox("scheduler", 1)
        self.answers: Mailbox[CycleResult | list[Decision]] = Mailbox("scheduler answers", 1)
        self._owners = owners
        self._replies: Replies = Mailbox("scheduler replies", UNDER_WAY_MAX)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            order = await self.inbox.get()
            if isinstance(order, Observe):
                self.answers.put_nowait(await breathe(self.core.observe(order.facts)))
            else:
                cycle = self.core.cycle(order.now_ns, order.budget)
                self.answers.put_nowait(await self._owners.carry_out(cycle, self._replies))

    async def observe(self, facts: list[Decision]) -> list[Decision]:
        """Have the facts taken in; answers them with their consequences. Called by the partition's task only."""
        self.inbox.put_nowait(Observe(facts))
        return cast("list[Decision]", await self.answers.get())

    async def cycle(self, now_ns: int, budget: Budget) -> CycleResult:
        """Ask for one cycle and wait for what it decided. Called by the partition's task only."""
        self.inbox.put_nowait(RunCycle(now_ns, budget))
        return cast("CycleResult", await self.answers.get())


async def breathe(generator: Generator[None, None, R]) -> R:
    """Run a generator to its end; wherever it yields other tasks have their turn."""
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return cast("R", stop.value)
        await trio.lowlevel.checkpoint()
