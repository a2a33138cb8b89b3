"""Counters of the facts that partitions publish. They begin at zero with the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from typing import Any, NamedTuple

from msgspec import Struct

from ykactor.actors.durations import Histogram
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    ApplicationAdded,
    ApplicationChanged,
    ApplicationLeft,
    ApplicationRejected,
    AskRemoved,
    Audited,
    ConfigurationChanged,
    Fact,
    NodeRejected,
    NodeRemoved,
    PartitionFailed,
    Preempted,
    PreemptionRefused,
    QueueRemoved,
    QuotaPreempted,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.kinds import Consequence, PendingCode, PreemptionKind
from ykactor.core.messages.states import ApplicationState
from ykactor.core.values.ids import ApplicationID, PartitionName, QueuePath
from ykactor.core.values.times import S_NS
from ykactor.surfaces.metrics.series import OTHER, QUEUES_MAX, SeriesOfQueues

#: Applications that were refused were in no queue.
NO_QUEUE = QueuePath("")
#: Upper bounds of waiting times, in seconds.
WAITS_S = (0.01, 0.1, 1, 10, 60, 300, 1800, 3600, 21_600, 86_400)
_STATES_ENDED = {ApplicationState.COMPLETED: "completed", ApplicationState.FAILED: "failed"}
#: The states in which applications of a leaf end, that of applications in no queue, and those of containers of a queue.
ENDED, REJECTED, CONTAINERS = tuple(_STATES_ENDED.values()), ("rejected",), ("allocated", "released")


def _zeros(names: Iterable[str]) -> Counter[str]:
    """Rates are right from the first on only if 0 was read before."""
    return Counter(dict.fromkeys(names, 0))


class Metric(NamedTuple):
    """A counter with a series for each value of its label.

    Attributes:
        meaning: in a sentence.
        values: of the label, those that are shown before anything is counted.
    """

    meaning: str
    label: str
    values: tuple[str, ...]


#: What is counted of facts and Apache YuniKorn has no metric for: ``ykactor_NAME_total``.
COUNTERS = {
    "preemptions": Metric("Decisions to preempt, by kind.", "kind", tuple(PreemptionKind)),
    "preempted_tasks": Metric("Allocations that were preempted, by kind.", "kind", tuple(PreemptionKind)),
    "configurations": Metric(
        "Configurations that were put into force or refused, by partition once.", "result", ("accepted", "rejected")
    ),
    "partition_failures": Metric(
        "Errors of the daemon in a partition, by what followed.", "consequence", tuple(map(str.lower, Consequence))
    ),
    "refusals": Metric("What somebody was not allowed to do, by act.", "act", tuple(map(str.lower, Act))),
}


class Placed(Struct):
    """The asks of a partition that were placed: their number, and the sum of their waits in seconds."""

    count: int = 0
    seconds: float = 0.0


class FactCounts:
    """Counts facts.

    Args:
        partitions: those that there are.

    Attributes:
        queues: what is counted for each queue while it is there.
        ended: for each queue, also for one that is gone: how many applications have ended, by state.
        waited: for each queue, also for one that is gone: for how many nanoseconds asks have waited that wait no more, by code.
        containers: by state, those that were told to the resource manager.
        submissions: applications by result.
        applications: those that have ended, by state.
        nodes: by state.
        waits: of asks until they were placed, in seconds.
        placed: for each partition that there is, and in which asks were placed.
        counters: those of ``COUNTERS``.
        refused_preemptions: because of preemption cycles.
    """

    def __init__(self, partitions: Container[PartitionName]) -> None:
        self._partitions = partitions
        self.queues = SeriesOfQueues()
        self.ended: dict[QueuePath, Counter[str]] = {NO_QUEUE: _zeros(REJECTED)}
        self.waited: dict[QueuePath, Counter[PendingCode]] = {}
        self.containers = _zeros(("allocated", "released", "rejected", "error"))
        self.submissions = _zeros(("new", "accepted", "rejected"))
        self.applications = _zeros(ENDED)
        self.nodes = _zeros(("failed", "decommissioned"))
        self.waits = Histogram(WAITS_S)
        self.placed: dict[PartitionName, Placed] = {}
        self.counters = {name: _zeros(metric.values) for name, metric in COUNTERS.items()}
        self.refused_preemptions = 0
        #: Applications that are accepted for the second time when they go on.
        self._resuming: set[tuple[PartitionName, ApplicationID]] = set()
        self._handlers: dict[type, Callable[[PartitionName, Any], None]] = {
            Released: self._on_released,
            ReleaseStarted: self._on_release_started,
            AllocationRejected: self._on_allocation_rejected,
            AskRemoved: self._on_ask_removed,
            ApplicationAdded: self._on_application_added,
            ApplicationRejected: self._on_application_rejected,
            ApplicationChanged: self._on_application_changed,
            ApplicationLeft: self._on_application_left,
            NodeRemoved: self._on_node_removed,
            NodeRejected: self._on_node_rejected,
            QueueRemoved: self._on_queue_removed,
            Preempted: self._on_preempted,
            QuotaPreempted: self._on_quota_preempted,
            PreemptionRefused: self._on_preemption_refused,
            ConfigurationChanged: self._on_configuration_changed,
            PartitionFailed: self._on_partition_failed,
            Audited: self._on_audited,
        }

    def count(self, partition: PartitionName, facts: Iterable[Fact]) -> None:
        """Count these facts, in their order."""
        handlers = self._handlers
        placed: list[Allocated] = []
        for fact in facts:
            kind = type(fact)
            if kind is Allocated:  # by far the most frequent
                placed.append(fact)  # type: ignore[arg-type]
                continue
            handler = handlers.get(kind)
            if handler is not None:
                if placed and kind is QueueRemoved:
                    self._count_placed(partition, placed)
                handler(partition, fact)
        if placed:
            self._count_placed(partition, placed)

    # ---- containers

    def _count_placed(self, partition: PartitionName, facts: list[Allocated]) -> None:
        """Count these together, 0.3 us for each, and empty the list."""
        by_queue: dict[QueuePath, int] = {}
        turns_ns: dict[QueuePath, int] = {}
        waits: list[float] = []
        for fact in facts:
            path = fact.queue
            by_queue[path] = by_queue.get(path, 0) + 1
            if not fact.recovered:
                waited_ns = fact.at_ns - fact.ask.since_ns
                waits.append(waited_ns / S_NS if waited_ns > 0 else 0.0)
                if fact.waited is None:
                    if waited_ns > 0:
                        turns_ns[path] = turns_ns.get(path, 0) + waited_ns
                    continue
            if fact.waited is not None:
                self._waited(path).update(fact.waited)
        for path, ns in turns_ns.items():
            self._waited(path)[PendingCode.NEXT] += ns
        for path, count in by_queue.items():
            self.queues.of(path).counts["allocated"] += count
        self.containers["allocated"] += len(facts)
        self.waits.observe_all(waits)
        of_partition = self._placed_of(partition)
        of_partition.count += len(waits)
        of_partition.seconds += sum(waits)
        facts.clear()

    def _placed_of(self, partition: PartitionName) -> Placed:
        found = self.placed.get(partition)
        if found is None:
            for name in [name for name in self.placed if name not in self._partitions]:
                del self.placed[name]
            found = self.placed[partition] = Placed()
        return found

    def _on_released(self, _: PartitionName, fact: Released) -> None:
        self.queues.of(fact.queue).counts["released"] += 1
        self.containers["released"] += bool(fact.message)

    def _on_release_started(self, _: PartitionName, fact: ReleaseStarted) -> None:
        self.containers["released"] += bool(fact.message)

    def _on_allocation_rejected(self, _: PartitionName, __: AllocationRejected) -> None:
        self.containers["rejected"] += 1
        self.containers["error"] += 1

    def _on_ask_removed(self, _: PartitionName, fact: AskRemoved) -> None:
        if fact.waited is not None:
            self._waited(fact.queue).update(fact.waited)
        elif fact.pending:
            self._waited(fact.queue)[PendingCode.NEXT] += max(0, fact.at_ns - fact.ask.since_ns)

    def has_own_waits(self, path: QueuePath) -> bool:
        """True if what the asks of a queue have waited for is counted under its own name."""
        return path in self.waited or len(self.waited) < QUEUES_MAX

    def _waited(self, path: QueuePath) -> Counter[PendingCode]:
        return self.waited.setdefault(path if self.has_own_waits(path) else OTHER, Counter())

    # ---- applications

    def _on_application_added(self, _: PartitionName, __: ApplicationAdded) -> None:
        self.submissions["new"] += 1

    def _on_application_rejected(self, _: PartitionName, __: ApplicationRejected) -> None:
        self.submissions["rejected"] += 1
        self._ended(NO_QUEUE)["rejected"] += 1

    def _on_application_changed(self, partition: PartitionName, fact: ApplicationChanged) -> None:
        key = partition, fact.application_id
        if fact.state is ApplicationState.RESUMING:
            self._resuming.add(key)
        elif fact.state is ApplicationState.ACCEPTED and key not in self._resuming:
            self.submissions["accepted"] += 1
        elif fact.state in _STATES_ENDED:
            state = _STATES_ENDED[fact.state]
            self.applications[state] += 1
            self.queues.of(fact.queue).counts[state] += 1
            self._ended(fact.queue)[state] += 1
        if fact.state is not ApplicationState.RESUMING:
            self._resuming.discard(key)

    def _on_application_left(self, partition: PartitionName, fact: ApplicationLeft) -> None:
        self._resuming.discard((partition, fact.application_id))

    def has_own_ends(self, path: QueuePath) -> bool:
        """True if the applications that end in a queue are counted under its own name."""
        return path in self.ended or len(self.ended) < QUEUES_MAX

    def _ended(self, path: QueuePath) -> Counter[str]:
        return self.ended.setdefault(path if self.has_own_ends(path) else OTHER, Counter())

    # ---- nodes and queues

    def _on_node_removed(self, _: PartitionName, __: NodeRemoved) -> None:
        self.nodes["decommissioned"] += 1

    def _on_node_rejected(self, partition: PartitionName, _: NodeRejected) -> None:
        self.nodes["failed"] += partition not in self._partitions

    def _on_queue_removed(self, _: PartitionName, fact: QueueRemoved) -> None:
        self.queues.remove(fact.queue)

    # ---- preemption

    def _on_preempted(self, _: PartitionName, fact: Preempted) -> None:
        self._note_preemption(fact.kind, len(fact.victims))

    def _on_quota_preempted(self, _: PartitionName, fact: QuotaPreempted) -> None:
        if fact.victims:
            self._note_preemption(PreemptionKind.QUOTA, fact.victims)

    def _note_preemption(self, kind: PreemptionKind, victims_count: int) -> None:
        self.counters["preemptions"][kind] += 1
        self.counters["preempted_tasks"][kind] += victims_count

    def _on_preemption_refused(self, _: PartitionName, __: PreemptionRefused) -> None:
        self.refused_preemptions += 1

    # ---- the daemon

    def _on_configuration_changed(self, _: PartitionName, fact: ConfigurationChanged) -> None:
        self.counters["configurations"]["accepted" if fact.is_accepted else "rejected"] += 1

    def _on_partition_failed(self, _: PartitionName, fact: PartitionFailed) -> None:
        self.counters["partition_failures"][fact.consequence.lower()] += 1

    def _on_audited(self, _: PartitionName, fact: Audited) -> None:
        if fact.refusal:
            self.counters["refusals"][fact.act.lower()] += fact.times
