"""Two runs from one state of the partitions, as it is and with a change, and what is different at their ends.

The state is that of a journal (``surfaces.files.recovery``). Each run has partitions of its own, made from the same rows, so
neither changes anything of the daemon, and both decide as the daemon would: they are driven by ``sim.direct``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal, NamedTuple

from msgspec import Struct, field, structs

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import (
    AllocationRejected,
    ApplicationChanged,
    ApplicationRejected,
    AskRemoved,
    ConfigurationChanged,
    Fact,
    Released,
)
from ykactor.core.objects.application import Application
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.times import S_NS
from ykactor.core.waiting.causes import PendingCauses, can_never_run
from ykactor.core.waiting.reasons import PendingCause
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.simulator import Record, run_directly
from ykactor.sim.told import ToldEnds
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

#: Makes the partitions of the recorded state, anew with each call.
Fork = Callable[[], Mapping[PartitionName, Cores]]

#: How long, and for how many ends of tasks, a run goes on after its scenario.
_WAIT_MAX_NS, _ENDS_MAX = 24 * 3600 * S_NS, 1_000

TaskState = Literal["runs", "waits", "ended", "refused"]


class Status(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The status of a task or application at the end of a run.

    Attributes:
        state: of a task; of an application its state, such as ``Running``.
        queue_name: "" of a task that was refused.
        node_id: where it runs, or has run.
        reason: why it waits, has ended, or was refused.
        after_seconds: how long after the begin of the run it began to run, or ended; None: before, or it waits.
    """

    state: TaskState | str
    queue_name: str = ""
    node_id: str = field(name="nodeID", default="")
    reason: str = ""
    after_seconds: float | None = None


class Difference(Struct, frozen=True, rename="camel"):
    """Tasks of one application that end alike in each run, but not in both; without keys it is the application itself.

    Attributes:
        as_it_is, what_if: the status in each run; None: it is not there.
    """

    partition_name: str
    application_id: str = field(name="applicationID")
    allocation_keys: tuple[str, ...]
    as_it_is: Status | None
    what_if: Status | None


class Totals(Struct, frozen=True):
    """The number of tasks at the end of a run, by their state; those that ended or were refused meanwhile."""

    runs: int
    waits: int
    ended: int
    refused: int


class Comparison(Struct, frozen=True, rename="camel"):
    """The result of both runs.

    Attributes:
        begin_ns: the Unix time of their begin.
        seconds: how long they are.
        changes: a sentence for each partition, queue or setting that a configuration has changed.
        refused: why messages of the scenario had no effect.
    """

    begin_ns: int
    seconds: float
    changes: list[str]
    refused: list[str]
    as_it_is: Totals
    what_if: Totals
    differences: list[Difference]


class Subject(NamedTuple):
    """A task; an application if ``key`` is ""."""

    partition: PartitionName
    application_id: str
    key: str


Statuses = dict[Subject, Status]


class Run:
    """A run.

    Attributes:
        told: the status that the facts so far have told last, of everything that may be gone.
        changes: a sentence for each partition, queue or setting that a configuration has changed.
        rejected: why partitions have rejected a configuration.
        refused: why messages had no effect; known at its end. So are the partitions in ``changes``.
        partitions: the present ones.
        seconds: how long it was; known at its end.
    """

    def __init__(self, begin_ns: int) -> None:
        self.told: Statuses = {}
        self.changes: list[str] = []
        self.rejected: list[str] = []
        self.refused: list[str] = []
        self.partitions: Mapping[PartitionName, DirectPartition] = {}
        self.seconds = 0.0
        self._begin_ns = begin_ns

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        self.told |= _told(partition, fact, self._begin_ns)
        if isinstance(fact, ConfigurationChanged):
            self.changes += [in_partition(partition, change) for change in fact.changes]
            self.rejected += [] if fact.is_accepted else [fact.reason]

    def statuses(self) -> Statuses:
        """The status of all applications and tasks."""
        found = dict(self.told)
        for name, partition in self.partitions.items():
            registry, causes = partition.core.registry, PendingCauses(partition.scheduler.state)
            for application_id in registry.applications:
                application = registry.leaf_of(application_id).applications[application_id]
                found |= _present(name, partition, application, causes, self._begin_ns)
        return found


def with_config(scenario: Scenario, text: str) -> Scenario:
    """The scenario with a configuration that is put into force before its messages."""
    first = TimedRequest(0, si.UpdateConfigurationRequest(config=text))
    return structs.replace(scenario, messages=[first, *scenario.messages])


def compare(fork: Fork, scenario: Scenario, begin_ns: int, *, reserves: bool) -> Comparison:
    """Run the state until the end of the scenario without and with its messages; returns what is different.

    Args:
        scenario: its configuration has no effect (``with_config``).
        begin_ns: the Unix time at which both runs begin, in whole microseconds; not before that of the state.
        reserves: whether asks reserve nodes in partitions that the scenario adds.
    """
    as_it_is = run_from(fork, structs.replace(scenario, messages=[]), begin_ns, reserves=reserves)
    what_if = run_from(fork, scenario, begin_ns, reserves=reserves)
    before, after = as_it_is.statuses(), what_if.statuses()
    return Comparison(
        begin_ns,
        scenario.until,
        what_if.changes,
        [*what_if.refused, *what_if.rejected],
        _totals(before),
        _totals(after),
        list(differences(before, after)),
    )


class Watcher:
    """Watches a run; this one sees nothing."""

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""

    def look(self, run: Run, at_ns: int) -> None:
        """Look at the run after an instant of its scenario, at this Unix time."""

    def waits(self, run: Run) -> bool:
        """True if the run goes on after its scenario until the next end that is known."""
        return False


def run_from(fork: Fork, scenario: Scenario, begin_ns: int, watcher: Watcher | None = None, *, reserves: bool) -> Run:
    """Run the state until the end of a scenario, with its messages; and until later known ends, as long as the watcher waits."""
    run, watches = Run(begin_ns), watcher or Watcher()

    def observe(partition: PartitionName, fact: Fact) -> None:
        run.observe(partition, fact)
        watches.observe(partition, fact)

    record = Record(observe, begin_ns)
    record.is_open = True

    def make(config: PartitionConfig, now_ns: int, cores: Cores | None = None) -> DirectPartition:
        publish = partial(record.add, config.name)
        confirms = scenario.confirm_releases
        return DirectPartition(
            config, CYCLE_BUDGET, publish, now_ns=now_ns, confirms=confirms, reserves=reserves, wakes=True, cores=cores
        )

    def look(at_ns: int) -> None:
        record.flush()
        watches.look(run, at_ns)

    made = {name: make(cores[0].registry.config, begin_ns, cores) for name, cores in fork().items()}
    first, direct = set(made), DirectPartitions(make, made)
    run.partitions = direct.partitions
    record.endings = ends = ToldEnds(direct.partitions)
    ends.resume(begin_ns)
    end_ns = run_directly(scenario, direct, record, begin_ns, look)
    beyond_ns = begin_ns + _WAIT_MAX_NS + 1
    for _ in range(_ENDS_MAX):
        if not watches.waits(run) or (next_ns := ends.next_ns(beyond_ns)) == beyond_ns:
            break
        quiet = Scenario("", "", (next_ns - end_ns) / S_NS, confirm_releases=scenario.confirm_releases)
        end_ns = run_directly(quiet, direct, record, end_ns, look)
    run.seconds = (end_ns - begin_ns) / S_NS
    record.flush()
    run.refused = record.refused
    run.changes = [*_partition_changes(first, set(run.partitions)), *run.changes]
    return run


def waiting(name: PartitionName, partition: DirectPartition) -> Iterator[tuple[Subject, PendingCause, Ask]]:
    """Each pending ask of a partition with its cause."""
    causes = PendingCauses(partition.scheduler.state)
    for application in partition.scheduler.state.applications.values():
        for key, (ask, _) in application.asks.items():
            yield Subject(name, application.application_id, key), causes.of_ask(application, key), ask


def is_for_ever(cause: PendingCause, ask: Ask) -> bool:
    """True if waiting does not help an ask that is pending for this cause."""
    place = cause.place
    queue, most, resource = (QueuePath(""), None, "") if place is None else (place.queue_name, place.max, place.resource)
    return can_never_run(cause.code, queue, most, ask.resource.get(resource, 0))


def in_partition(name: str, sentence: str) -> str:
    """A sentence about a partition, which is named unless it is the default one."""
    return sentence if name == "default" else f"partition {name}: {sentence}"


def _partition_changes(before: set[PartitionName], after: set[PartitionName]) -> Iterator[str]:
    yield from (f"partition {name}: removed with its nodes, its applications fail" for name in sorted(before - after))
    yield from (f"partition {name}: added" for name in sorted(after - before))


# ---- the status of everything at the end of a run


def _told(partition: PartitionName, fact: Fact, begin_ns: int) -> Statuses:
    """The status that a fact tells of something that is gone after it, or may be."""
    match fact:
        case Released(ask=ask, queue=queue, node_id=node_id, termination_type=kind):
            ended = Status("ended", queue, node_id, kind.value, _after(fact.at_ns, begin_ns))
            return {Subject(partition, ask.application_id, ask.allocation_key): ended}
        case AskRemoved(ask=ask, queue=queue, pending=True):
            ended = Status("ended", queue, "", "it was withdrawn before it ran", _after(fact.at_ns, begin_ns))
            return {Subject(partition, ask.application_id, ask.allocation_key): ended}
        case AllocationRejected(allocation_key=key, application_id=application_id, reason=reason):
            return {Subject(partition, application_id, key): Status("refused", reason=reason)}
        case ApplicationRejected(application_id=application_id, reason=reason):
            return {Subject(partition, application_id, ""): Status("Rejected", reason=reason)}
        case ApplicationChanged(application_id=application_id, queue=queue, state=state, why=why):
            return {Subject(partition, application_id, ""): Status(state.value, queue, reason=why)}
        case _:
            return {}


def _present(
    name: PartitionName, partition: DirectPartition, application: Application, causes: PendingCauses, begin_ns: int
) -> Statuses:
    """The status of an application and of its tasks, as they are now."""
    owner, queue, tasks = application.application_id, application.queue, application.tasks
    found = {Subject(name, owner, ""): Status(application.lifecycle.state.value, queue)}
    for key, (_, node_id) in tasks.allocations.items():
        after = _after(tasks.began_ns[key], begin_ns)
        found[Subject(name, owner, key)] = Status("runs", queue, node_id, after_seconds=after)
    for placeholder, (ask, node_id) in tasks.replacing.items():
        waits = Status("waits", queue, node_id, f"it replaces the placeholder {placeholder}")
        found[Subject(name, owner, ask.allocation_key)] = waits
    pending = partition.scheduler.state.applications.get(owner)
    if pending is not None:
        texts = ((key, causes.of_ask(pending, key).text) for key in pending.asks)
        found |= {Subject(name, owner, key): Status("waits", queue, reason=text) for key, text in texts}
    return found


def _after(at_ns: int, begin_ns: int) -> float | None:
    return None if at_ns < begin_ns else (at_ns - begin_ns) / S_NS


def _totals(statuses: Statuses) -> Totals:
    counts = Counter(status.state for subject, status in statuses.items() if subject.key)
    return Totals(counts["runs"], counts["waits"], counts["ended"], counts["refused"])


# ---- what is different


def differences(before: Statuses, after: Statuses) -> Iterator[Difference]:
    """The differences by partition, application and first key; the application itself comes before its tasks."""
    together: dict[tuple[PartitionName, str, bool, Status | None, Status | None], list[str]] = {}
    for subject in sorted(before.keys() | after.keys()):
        one, other = before.get(subject), after.get(subject)
        if one != other:
            alike = subject.partition, subject.application_id, bool(subject.key), one, other
            together.setdefault(alike, []).append(subject.key)
    for (partition, application_id, are_tasks, one, other), keys in together.items():
        yield Difference(partition, application_id, tuple(keys) if are_tasks else (), one, other)
