"""Partitions of a recording: they schedule at the times at which the daemon did, and what a run begins with.

A daemon schedules a little later than it could: after the rest of its input, or when its timer fires. With the same configuration
the recorded times make the run the same to the microsecond. With another one there is more to do at other times: what is due and
not recorded then is done ``PATIENCE_NS`` later. While no daemon ran, a run decides nothing either.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from msgspec import Struct, structs

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.facts import Allocated, ApplicationAdded, AskAdded, Fact, NodeAdded
from ykactor.core.messages.submissions import ApplyConfig, RefuseConfig, RemovePartition, Submission
from ykactor.core.records.base import Base, partition_from, renewed
from ykactor.core.turn.scheduler import Cores
from ykactor.core.turn.turn import CycleDue, Input, TimersDue
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.times import MS_NS
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.wire.scenario.model import Scenario, TimedRequest
from ykactor.wire.scenario.recording import Lives, Outage, Recorded, Rows, Turn

#: How long what is due waits for its recorded time.
PATIENCE_NS = 100 * MS_NS
#: Called with the name of a partition and the facts of a step.
Observe = Callable[[PartitionName, list[Fact]], None]
#: Why a configuration of a recording has no effect.
REPLACED = "left out: the run has another configuration"


def outage_before(outages: Sequence[Outage], at_ns: int) -> Outage | None:
    """The last outage that has begun before a time; None if there is none."""
    place = bisect_left(outages, at_ns, key=lambda outage: outage.from_ns)
    return outages[place - 1] if place else None


class RecordedPartition(DirectPartition):
    """A partition that schedules at recorded times, else ``PATIENCE_NS`` after it could; never in an outage.

    Attributes:
        outages: those of the recording.
    """

    outages: Sequence[Outage] = ()

    def __init__(
        self,
        config: PartitionConfig,
        publish: Callable[[list[Fact]], None],
        now_ns: int,
        *,
        reserves: bool,
        cores: Cores | None = None,
    ) -> None:
        #: Since when something may be decided or a timer is due; None if nothing is. It may be due before it is known.
        self._undecided_ns: int | None = now_ns
        #: When something will be due if nothing happens before.
        self._due_ns: int | None = None
        super().__init__(config, CYCLE_BUDGET, publish, now_ns=now_ns, confirms=False, reserves=reserves, wakes=True, cores=cores)

    def next_ns(self) -> int | None:
        due_ns = self._due_ns if self._undecided_ns is None else self._undecided_ns
        if due_ns is None:
            return None
        outage = outage_before(self.outages, due_ns + PATIENCE_NS)
        return (due_ns if outage is None else max(due_ns, outage.to_ns)) + PATIENCE_NS

    def schedule(self, now_ns: int) -> None:
        """Note what may be decided; it waits for its recorded time."""
        known_ns, self._due_ns = self._due_ns, super().next_ns()
        is_due = self._due_ns is not None and self._due_ns <= now_ns
        if self._undecided_ns is None and (is_due or not self._at_rest):
            self._undecided_ns = now_ns if known_ns is None else min(known_ns, now_ns)

    def _fire(self, now_ns: int) -> None:
        self._undecided_ns = self._due_ns = None
        due_ns = self.core.timers.next_ns()
        if due_ns is not None and due_ns <= now_ns:
            self.run_turn(now_ns, TimersDue())
        super().schedule(now_ns)
        self.schedule(now_ns)

    def take_turn(self, now_ns: int, cause: CycleDue | TimersDue) -> None:
        """Run a cycle, or fire the timers, at a recorded time; nothing if there is nothing to do."""
        if isinstance(cause, TimersDue):
            due_ns = self.core.timers.next_ns()
            if due_ns is not None and due_ns <= now_ns:
                self.run_turn(now_ns, cause)
            self.schedule(now_ns)
            return
        if self._at_rest and not self.is_eligible(now_ns):
            return
        outcome = self.run_turn(now_ns, cause)
        assert outcome.cycle is not None
        self._at_rest, self._cycled_ns = outcome.cycle.at_rest, now_ns
        self._undecided_ns = self._due_ns = None
        self.schedule(now_ns)

    def renew(self, now_ns: int) -> None:
        """Make the partition from its own rows, as the daemon has done."""
        core, scheduler, _ = finished(renewed(self.core, self.scheduler))
        self.restore(core, scheduler)
        self.schedule(now_ns)


class RecordedPartitions(DirectPartitions):
    """The partitions of a recording.

    Args:
        observe: called with the name of a partition and the facts of each step.
        recorded: the header of the recording.
        cores: their states by name.
        reserves: whether asks reserve nodes in partitions that another configuration adds (SC-50).
    """

    def __init__(self, observe: Observe, recorded: Recorded, cores: dict[PartitionName, Cores], *, reserves: bool) -> None:
        self._observe = observe
        self._outages = recorded.outages
        self._reserves = reserves
        super().__init__(self._new, {})
        for each in cores.values():
            self.add(each, recorded.begin_ns)

    def _new(self, config: PartitionConfig, now_ns: int, cores: Cores | None = None) -> DirectPartition:
        publish = partial(self._observe, config.name)
        made = RecordedPartition(config, publish, now_ns, reserves=self._reserves, cores=cores)
        made.outages = self._outages
        return made

    def add(self, cores: Cores, now_ns: int) -> None:
        """Add a partition with a state."""
        config = cores[0].registry.config
        self.partitions[config.name] = self._new(config, now_ns, cores)


class Due(Struct, frozen=True):
    """The recorded time of a cycle or of timers."""

    partition: PartitionName
    cause: CycleDue | TimersDue

    def carry_out(self, direct: DirectPartitions, at_ns: int) -> None:
        """Let the partition do it, if it is there."""
        partition = direct.partitions.get(self.partition)
        if isinstance(partition, RecordedPartition):
            partition.take_turn(at_ns, self.cause)


class Renewed(Struct, frozen=True):
    """A partition that was made anew."""

    partition: PartitionName

    def carry_out(self, direct: DirectPartitions, at_ns: int) -> None:
        """Make the partition anew, if it is there."""
        partition = direct.partitions.get(self.partition)
        if isinstance(partition, RecordedPartition):
            partition.renew(at_ns)


class Added(Struct, frozen=True):
    """A partition that was added; its first turn follows."""

    partition: PartitionName
    cores: Cores

    def carry_out(self, direct: DirectPartitions, at_ns: int) -> None:
        """Add the partition."""
        assert isinstance(direct, RecordedPartitions)
        direct.add(self.cores, at_ns)


class Removed(Struct, frozen=True):
    """A partition that was removed."""

    partition: PartitionName

    def carry_out(self, direct: DirectPartitions, at_ns: int) -> None:
        """Remove the partition, if it is there."""
        partition = direct.partitions.pop(self.partition, None)
        if partition is not None:
            partition.ingest(at_ns, [RemovePartition()])


#: What happens in a recording beside input.
Happening = Due | Added | Removed | Renewed


class Beginning(NamedTuple):
    """The first state of a recording, the lives of its tasks, and the messages that follow."""

    partitions: dict[PartitionName, Cores]
    lives: list[Lives]
    messages: Iterator[TimedRequest]


def beginning(scenario: Scenario) -> Beginning:
    """Divide a recording.

    Raises:
        UnreadableRowError, DamagedStateError: a state is damaged, or of another version.
    """
    messages = iter(scenario.messages)
    first: list[Rows | Lives] = []
    rest: Iterator[TimedRequest] = iter(())
    for message in messages:
        if not isinstance(message.request, Rows | Lives) or message.at:
            rest = chain([message], messages)
            break
        first.append(message.request)
    if scenario.config:
        rest = filter(None, map(_without_configuration, rest))
    return Beginning(states(first), [each for each in first if isinstance(each, Lives)], rest)


def states(lines: Sequence[object]) -> dict[PartitionName, Cores]:
    """The partitions of the rows among these lines. Raises:  UnreadableRowError, DamagedStateError."""
    bases: dict[PartitionName, Base] = {}
    for line in lines:
        if isinstance(line, Rows):
            base = bases.setdefault(line.partition_name, Base(line.reserves, []))
            base.rows.extend(line.rows)
    return {name: finished(partition_from(base)) for name, base in bases.items()}


def _without_configuration(message: TimedRequest) -> TimedRequest | None:
    """The message with another configuration than the recorded ones; None if nothing is left."""
    request = message.request
    if isinstance(request, Rows):
        return None
    if not isinstance(request, Turn) or not isinstance(request.cause, Input):
        return message
    submissions = request.cause.submissions
    if any(isinstance(each, RemovePartition) for each in submissions):
        return None
    if not any(isinstance(each, ApplyConfig) for each in submissions):
        return message
    left: list[Submission] = [RefuseConfig(REPLACED) if isinstance(each, ApplyConfig) else each for each in submissions]
    return structs.replace(message, request=structs.replace(request, cause=Input(left)))


def opening(partition: DirectPartition, begin_ns: int) -> Iterator[Fact]:
    """Facts that tell what a partition has when a run begins: nodes, applications, what runs, and what waits since when."""
    registry = partition.core.registry
    for node_id, node in registry.nodes.items():
        yield NodeAdded(begin_ns, node_id, node.capacity, node.schedulable, node.attributes)
    for name, queue in registry.applications.items():
        application = registry.leaf_of(name).applications[name]
        who = application.who
        yield ApplicationAdded(begin_ns, name, queue, who.user, application.submission_ns, application.arrival, groups=who.groups)
        for ask in application.tasks.asks.values():
            yield AskAdded(ask.since_ns, ask, queue)
        for ask, node_id in application.tasks.allocations.values():
            yield Allocated(begin_ns, ask, queue, node_id, recovered=True)
