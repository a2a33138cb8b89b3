"""A scenario on a virtual clock: the daemon's own actors, without its sockets.

trio's ``MockClock`` jumps to the next timer whenever every task waits, so a simulated day costs only its decisions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from typing import Any

import trio
import trio.testing
from msgspec import Struct

from ykactor.actors.clock import Clock
from ykactor.actors.commands import FeedCommand, Intake, Publication, Quiesce
from ykactor.actors.partition import CYCLE_BUDGET, PartitionActor
from ykactor.core.decisions import Decision
from ykactor.core.ids import PartitionName
from ykactor.core.indexes import Indexes
from ykactor.core.partition import PartitionCore
from ykactor.core.planner import Budget
from ykactor.core.queueconfig import SchedulerConfig
from ykactor.core.snapshot import final_state, waiting_asks
from ykactor.sim.direct import DirectPartition
from ykactor.sim.script import Instant, instants, to_ns, unknown_partitions
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario

#: Called after each instant with the share of the scenario that is done, 0 to 1.
Progress = Callable[[float], None]


class Outcome(Struct):
    """What a simulation came to.

    Attributes:
        facts: all of them, by time, then partition, then order of decision.
        final: see ``core.snapshot.final_state``; of several partitions, one for each below ``partitions``.
        waiting: (allocation key, queue, reason) of every ask that still waits.
        refused: messages of which nothing took effect, and why.
        end_ns: the time of the last instant.
    """

    facts: list[Decision]
    final: dict[str, Any]
    waiting: list[tuple[str, str, str]]
    refused: list[str]
    end_ns: int


class _Record:
    """Collects what partitions publish from the first instant on; the first configuration is not news."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.facts: dict[PartitionName, list[Decision]] = {partition.name: [] for partition in config.partitions}
        self.refused: list[str] = []
        self.is_open = False

    def add(self, name: PartitionName, facts: list[Decision]) -> None:
        if self.is_open:
            self.facts[name] += facts

    def prepare(self, instant: Instant) -> None:
        """Answer at the door what reaches no partition."""
        self.refused += instant.refused
        first = next(iter(self.facts))
        self.facts[first] += unknown_partitions(instant, list(self.facts))

    def outcome(self, cores: list[tuple[PartitionCore, Indexes]], end_ns: int) -> Outcome:
        """Everything, once the scenario has ended."""
        facts = list(heapq.merge(*(self.facts[name] for name in sorted(self.facts)), key=lambda fact: fact.at_ns))
        finals = {core.name: final_state(core, indexes) for core, indexes in cores}
        final = next(iter(finals.values())) if len(finals) == 1 else {"partitions": finals}
        waiting = [ask for _, indexes in cores for ask in waiting_asks(indexes)]
        return Outcome(facts, final, waiting, self.refused, end_ns)


def simulate(scenario: Scenario, progress: Progress = lambda _: None, budget: Budget = CYCLE_BUDGET) -> Outcome:
    """Run a scenario through the actors.

    Raises:
        wire.queuefile.ConfigError: the scenario's configuration is wrong.
    """
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(partial(simulate_here, scenario, progress, budget), clock=clock)


async def simulate_here(scenario: Scenario, progress: Progress, budget: Budget) -> Outcome:
    """As ``simulate``, inside a running trio whose clock jumps."""
    config = queuefile.load(scenario.config, scenario.name)
    record = _Record(config)
    clock = Clock(0)

    async def publish(command: FeedCommand) -> None:
        assert isinstance(command, Publication)
        record.add(command.partition, command.facts)

    actors = {partition.name: PartitionActor(partition, clock, publish, budget=budget) for partition in config.partitions}
    end_ns = 0
    async with trio.open_nursery() as nursery:
        for actor in actors.values():
            await nursery.start(actor.run)
        record.is_open = True
        for instant in instants(scenario, config):
            end_ns = instant.at_ns
            await trio.sleep_until(clock.to_trio(end_ns))
            record.prepare(instant)
            for name, actor in actors.items():
                await _settle(actor)  # timers that fall due now come first
                await actor.inbox.put(Intake(instant.work.get(name, [])))
                await _settle(actor)
            progress(end_ns / max(1, to_ns(scenario.until)))
        outcome = record.outcome([(actor.core, actor.scheduler_core.indexes) for actor in actors.values()], end_ns)
        nursery.cancel_scope.cancel()
    return outcome


async def _settle(actor: PartitionActor) -> None:
    """Wait until nothing more can be decided at this instant."""
    settled = trio.Event()
    await actor.inbox.put(Quiesce(lambda _: settled.set()))
    await settled.wait()


def simulate_directly(scenario: Scenario, progress: Progress = lambda _: None, budget: Budget = CYCLE_BUDGET) -> Outcome:
    """Run a scenario through the oracle, a plain loop over the same cores; the outcome is the same."""
    config = queuefile.load(scenario.config, scenario.name)
    record = _Record(config)
    partitions = {
        partition.name: DirectPartition(partition, budget, partial(record.add, partition.name))
        for partition in config.partitions
    }
    record.is_open = True
    end_ns = 0
    for instant in instants(scenario, config):
        end_ns = instant.at_ns
        record.prepare(instant)
        for name, partition in partitions.items():
            partition.intake(end_ns, instant.work.get(name, []))
        progress(end_ns / max(1, to_ns(scenario.until)))
    return record.outcome([(partition.core, partition.scheduler.indexes) for partition in partitions.values()], end_ns)
