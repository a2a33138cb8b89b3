"""The oracle: the cores of a partition in a plain loop, without trio.

It runs the same generators as the actors, and carries out their commands by calling the owners. The actors must make the same
decisions, in whatever order trio runs their tasks. Simulations, replay, replicas and what-ifs run by it, because it costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.messages.acts import Administration
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import ApplyConfig, RemovePartition, Submission
from ykactor.core.objects.registry import Core, Exchange
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.partition.reload import changeover, objection
from ykactor.core.state import wakeups
from ykactor.core.turn.scheduler import Cores, Cycle, Ingest, Publish, SchedulerCore, Turn, without_anything
from ykactor.core.turn.turn import Cause, CycleDue, Input, Request, TimersDue, TurnResult, turn
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import PART_MAX, Steps, finished

R = TypeVar("R")


def carry_out(generator: Exchange[R]) -> R:
    """Run a core's generator to its end and return its result; every command is carried out at once."""
    return finished(_carried_out(generator))


def _carried_out(generator: Exchange[R]) -> Steps[R]:
    """The same, with a pause wherever the core makes one."""
    try:
        sends = next(generator)
        while True:
            if not sends:
                yield PART_MAX
            sends = generator.send(_replies(sends))
    except StopIteration as stop:
        result: R = stop.value
        return result


def _replies(sends: Sequence[tuple[Core, Any]]) -> list[Any]:
    return [owner.handle(command) for owner, command in sends]


def run_turn(
    cores: Cores, now_ns: int, cause: Cause, publish: Callable[[list[Fact]], object], *, confirms: bool = False
) -> TurnResult:
    """Run one turn of ``core.turn``; ``publish`` is called with its facts, in order."""
    return finished(turn_in_steps(cores, turn(*cores, now_ns, cause, confirms=confirms), publish))


def turn_in_steps(cores: Cores, phases: Turn[TurnResult], publish: Callable[[list[Fact]], object]) -> Steps[TurnResult]:
    """The same for a turn that has been begun, with a pause wherever the cores make one."""
    reply: Any = None
    try:
        while True:
            phase = phases.send(reply)
            if isinstance(phase, Publish):
                reply = publish(phase.facts)
            else:
                reply = yield from _carried_out(phase.input if isinstance(phase, Ingest) else cores[1].handle(phase))
    except StopIteration as stop:
        result: TurnResult = stop.value
        return result


class DirectPartition:
    """One partition.

    Args:
        config: the first configuration; applied at ``now_ns``.
        budget: the bounds of one cycle.
        publish: called with the facts of each step.
        after_step: called between steps, when invariants must hold.
        now_ns: Unix time of the start.
        confirms: confirm the releases that the scheduler starts before the next decision.
        reserves: whether asks reserve nodes.
        wakes: also run a cycle when time alone makes a decision possible, as a daemon does (SC-5).
        cores: those of a partition with a state; ``config`` and ``reserves`` are its own. None: a partition without anything.

    Attributes:
        wakes: as given; may be changed between two steps.
    """

    def __init__(
        self,
        config: PartitionConfig,
        budget: Budget,
        publish: Callable[[list[Fact]], None],
        after_step: Callable[[PartitionCore, SchedulerCore], None] | None = None,
        now_ns: int = 0,
        *,
        confirms: bool = True,
        reserves: bool = True,
        wakes: bool = False,
        cores: Cores | None = None,
    ) -> None:
        self.core, self.scheduler = cores or without_anything(config, reserves=reserves)
        self.wakes = wakes
        self._budget = budget
        self._publish = publish
        self._after_step = after_step
        self._confirms = confirms
        #: Nothing can be decided until something happens, as ``actors.partition`` has it; and the time of the last cycle.
        self._at_rest = cores is None
        self._cycled_ns = 0
        if cores is None:
            self.intake(now_ns, [ApplyConfig(config)])

    def intake(self, now_ns: int, submissions: Iterable[Submission]) -> None:
        """Fire due timers, handle the submissions, and schedule until nothing more can be decided."""
        self.advance(now_ns)
        self.ingest(now_ns, submissions)
        self.schedule(now_ns)

    def next_ns(self) -> int | None:
        """The time at which the next timer fires, or the partition wakes by itself; None if neither will."""
        wake_ns = wakeups.wake_ns(self.scheduler.state, self._cycled_ns) if self.wakes else None
        return min((at_ns for at_ns in (self.core.timers.next_ns(), wake_ns) if at_ns is not None), default=None)

    def advance(self, now_ns: int) -> None:
        """Fire every timer up to ``now_ns`` at its own time, each followed by scheduling; wake whenever time alone decides."""
        while (due_ns := self.next_ns()) is not None and due_ns <= now_ns:
            self._fire(due_ns)

    def wake_at(self, now_ns: int) -> None:
        """Fire all that is due at once, as a process does that was suspended until now."""
        self._fire(now_ns)

    def _fire(self, now_ns: int) -> None:
        due_ns = self.core.timers.next_ns()
        if due_ns is not None and due_ns <= now_ns:
            self.run_turn(now_ns, TimersDue())
        self.schedule(now_ns)

    def restore(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        """Go on with a partition that was made from rows; a cycle runs next, because nothing is known of earlier searches."""
        self.core, self.scheduler, self._at_rest = core, scheduler, False

    def ingest(self, now_ns: int, submissions: Iterable[Submission]) -> None:
        """Handle the submissions without scheduling."""
        self.run_turn(now_ns, Input(list(submissions)))

    def administer(self, now_ns: int, request: Administration) -> str:
        """End or move an application. Returns why this is refused, and nothing has changed; else ""."""
        return self.run_turn(now_ns, Request(request)).refusal

    def schedule(self, now_ns: int) -> None:
        """Schedule until nothing more can be decided."""
        if self.is_eligible(now_ns):
            self._at_rest = False
        while not self._at_rest:
            cycle, has_confirmed = self.cycle(now_ns)
            self._at_rest, self._cycled_ns = cycle.at_rest and not has_confirmed, now_ns
            if self._after_step is not None:
                self._after_step(self.core, self.scheduler)

    def is_eligible(self, now_ns: int) -> bool:
        """True if the time that has passed alone may make a decision possible."""
        eligible_ns = wakeups.next_ns(self.scheduler.state, self._cycled_ns)
        return eligible_ns is not None and eligible_ns <= now_ns

    def cycle(self, now_ns: int) -> tuple[Cycle, bool]:
        """Run one cycle; returns its result, and whether releases were confirmed after it."""
        outcome = self.run_turn(now_ns, CycleDue(self._budget))
        assert outcome.cycle is not None
        return outcome.cycle, outcome.has_confirmed

    def run_turn(self, now_ns: int, cause: Cause) -> TurnResult:
        """Run one turn; see ``core.turn``. Nodes have been sent all placements afterwards, so that they can be read."""
        outcome = run_turn((self.core, self.scheduler), now_ns, cause, self._publish, confirms=self._confirms)
        carry_out(self.core.registry.unsent.show())
        if outcome.has_observed:
            self._at_rest = False
        return outcome


class DirectPartitions:
    """Several partitions and their common change of configuration (``actors.partitions`` in a plain loop).

    Args:
        make: makes a partition that starts at a Unix time, when a configuration adds it.
        partitions: the first ones, by name.
    """

    def __init__(
        self,
        make: Callable[[PartitionConfig, int], DirectPartition],
        partitions: dict[PartitionName, DirectPartition],
    ) -> None:
        self._make = make
        self.partitions = partitions

    def switch(self, now_ns: int, config: SchedulerConfig) -> str:
        """Change to another configuration. Returns why a partition cannot, and nothing has changed; else ""."""
        change = changeover(self.partitions, config)
        objections = [objection(self.partitions[name].core.registry, partition) for name, partition in change.kept.items()]
        if any(objections):
            return "\n".join(filter(None, objections))
        for name, partition in change.kept.items():
            self.partitions[name].ingest(now_ns, [ApplyConfig(partition)])
        for partition in change.added:
            self.partitions[partition.name] = self._make(partition, now_ns)
        for name in change.removed:
            self.partitions.pop(name).ingest(now_ns, [RemovePartition()])
        return ""
