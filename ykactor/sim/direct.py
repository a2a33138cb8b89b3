"""The oracle: the cores of a partition in a plain loop, without trio.

It runs the same generators as the actors and carries their commands out by calling the owners. The actors must come to the
same decisions, in whatever order trio runs their tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.messages.confirmations import confirmations
from ykactor.core.messages.facts import Decision
from ykactor.core.messages.submissions import Administration, ApplyConfig, RemovePartition, Submission
from ykactor.core.objects.commands import Command
from ykactor.core.objects.exchange import Exchange, Owner
from ykactor.core.partition.partition import PartitionCore, refusal_in
from ykactor.core.partition.reload import changeover, objection
from ykactor.core.planner.planner import Budget
from ykactor.core.planner.scheduler import SchedulerCore
from ykactor.core.state import moving

R = TypeVar("R")


def carry_out(generator: Exchange[R]) -> R:
    """Run a core's generator to its end; every command is carried out at once."""
    try:
        sends = next(generator)
        while True:
            sends = generator.send(_replies(sends))
    except StopIteration as stop:
        result: R = stop.value
        return result


def _replies(sends: Sequence[tuple[Owner, Command[Any]]]) -> list[Any]:
    return [owner.handle(command) for owner, command in sends]


def run(generator: Generator[None, None, R]) -> R:
    """Run a generator to its end that yields only to let other tasks have a turn."""
    try:
        while True:
            next(generator)
    except StopIteration as stop:
        result: R = stop.value
        return result


class DirectPartition:
    """One partition from ``now_ns`` on; ``publish`` gets the facts of each step.

    ``after_step`` is called between steps, when invariants must hold. With ``confirms`` every release that the scheduler starts
    is confirmed before the next decision.
    """

    def __init__(
        self,
        config: PartitionConfig,
        budget: Budget,
        publish: Callable[[list[Decision]], None],
        after_step: Callable[[PartitionCore, SchedulerCore], None] | None = None,
        now_ns: int = 0,
        *,
        confirms: bool = True,
    ) -> None:
        self.core = PartitionCore(config)
        self.scheduler = SchedulerCore(self.core.roster)
        self._budget = budget
        self._publish = publish
        self._after_step = after_step
        self._confirms = confirms
        self.intake(now_ns, [ApplyConfig(config)])

    def intake(self, now_ns: int, submissions: Iterable[Submission]) -> None:
        """Fire what is due, handle the submissions, and schedule until nothing more can be decided."""
        self.advance(now_ns)
        self.ingest(now_ns, submissions)
        self.settle(now_ns)

    def advance(self, now_ns: int) -> None:
        """Let every timer up to now fire at its own time, each followed by scheduling."""
        while (due_ns := self.core.timers.next_ns()) is not None and due_ns <= now_ns:
            self._take_in(due_ns, carry_out(self.core.fire(due_ns)))
            self.settle(due_ns)

    def ingest(self, now_ns: int, submissions: Iterable[Submission]) -> None:
        """Handle the submissions; nothing is decided yet."""
        self._take_in(now_ns, carry_out(self.core.ingest(now_ns, submissions)))

    def administer(self, now_ns: int, request: Administration) -> str:
        """End or move an application; answers why not, and then nothing has changed."""
        facts = carry_out(self.core.administer(now_ns, request, partial(moving.objection, self.scheduler.indexes)))
        self._take_in(now_ns, facts)
        return refusal_in(facts)

    def _take_in(self, now_ns: int, facts: list[Decision]) -> None:
        facts = run(self.scheduler.observe(facts))
        self._publish(facts)
        self._confirm(now_ns, facts)

    def _confirm(self, now_ns: int, facts: list[Decision]) -> bool:
        """Whether there was something to confirm."""
        confirmed = confirmations(facts) if self._confirms else []
        if confirmed:
            self.ingest(now_ns, confirmed)
        return bool(confirmed)

    def settle(self, now_ns: int) -> None:
        """Schedule until nothing more can be decided."""
        while True:
            result = carry_out(self.scheduler.cycle(now_ns, self._budget))
            self.core.note(result.facts)
            self.core.timers.look_ns = result.look_ns
            self._publish(result.facts)
            has_changed = self._confirm(now_ns, result.facts)
            if self._after_step is not None:
                self._after_step(self.core, self.scheduler)
            if result.at_rest and not has_changed:
                return


class DirectPartitions:
    """Several partitions, and how they change together (``actors.partitions`` in a plain loop).

    ``make`` starts a partition at a time, the first ones at 0.
    """

    def __init__(self, make: Callable[[PartitionConfig, int], DirectPartition], config: SchedulerConfig) -> None:
        self._make = make
        self.partitions = {partition.name: make(partition, 0) for partition in config.partitions}

    def switch(self, now_ns: int, config: SchedulerConfig) -> str:
        """Put another configuration into force; answers why not, and then nothing has changed."""
        change = changeover(self.partitions, config)
        objections = [objection(self.partitions[name].core.roster, partition) for name, partition in change.kept.items()]
        if any(objections):
            return "\n".join(filter(None, objections))
        for name, partition in change.kept.items():
            self.partitions[name].ingest(now_ns, [ApplyConfig(partition)])
        for partition in change.added:
            self.partitions[partition.name] = self._make(partition, now_ns)
        for name in change.removed:
            self.partitions.pop(name).ingest(now_ns, [RemovePartition()])
        return ""
