"""One run of a comparison: the figures of a scenario with a configuration (``Report``), and what is shown of it beside others.

A report is generic: of one run its values are numbers, of a comparison (``sim.comparison``) they are pairs of them. The keys of
the JSON are in ``README.md`` beside this file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ykactor.core.config.model import QueueConfig, SchedulerConfig
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.kinds import PendingCode, QueueLimit
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS
from ykactor.sim.direct import DirectPartition
from ykactor.sim.fairness import PARTS, FairnessAccount, QueueAccount
from ykactor.sim.recorded import opening
from ykactor.sim.simulator import Outcome, simulate, simulate_recording, to_ns
from ykactor.sim.tallies import SLOWDOWN_PARTS, PartitionTallies, Tallies, Tally, label
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario

V = TypeVar("V")
#: A figure of one run; None where there is nothing to measure.
Number = int | float | None
#: The percentiles of waits that are shown as a distribution.
QUANTILES = tuple(range(0, 101, 2))


class Spread(Struct, Generic[V], rename="camel"):
    """A distribution; percentiles are observed values (nearest rank)."""

    mean: V
    p50: V
    p95: V
    max: V


class Causes(Struct, Generic[V], rename="camel"):
    """The parts of waits, by the codes of AP-154, in seconds: on average, and of the asks at these percentiles."""

    mean: dict[str, V]
    p50: dict[str, V]
    p95: dict[str, V]
    max: dict[str, V]


class Group(Struct, Generic[V], rename="camel"):
    """The figures of a queue, a user, a group, a priority, or of all.

    Attributes:
        asks: asks that were placed or wait at the end.
        waiting: those of them that wait at the end; their waits end there.
        wait_seconds: from the creation of an ask to its placement.
        waited_for: the parts of each of these.
        slowdown: bounded slowdown of tasks that ended by themselves: wait and run by run, which counts as at least 10 s.
        used_percent: by type, of what all nodes have offered over time.
        preempted: the number of tasks that were preempted.
        lost: by type, base units times seconds: what these had used.
    """

    asks: V
    waiting: V
    wait_seconds: Spread[V]
    waited_for: Causes[V]
    slowdown: Spread[V]
    used_percent: dict[str, V]
    preempted: V
    lost: dict[str, V]


class QueueGroup(Group[V], Generic[V], rename="camel"):
    """The figures of a queue with all below it.

    Attributes:
        debt, credit: by type, base units times seconds: what it has used less, and more, than it was entitled to.
    """

    debt: dict[str, V]
    credit: dict[str, V]


class Report(Struct, Generic[V], rename="camel"):
    """The figures of a run, or of two.

    Attributes:
        rejected: asks, applications and nodes that were refused.
        in_vain: asks that have preempted and did not run afterwards.
    """

    total: Group[V]
    rejected: V
    in_vain: V
    queues: dict[str, QueueGroup[V]]
    users: dict[str, Group[V]]
    groups: dict[str, Group[V]]
    priorities: dict[str, Group[V]]


class RunReport(Struct):
    """All that is kept of one run.

    Attributes:
        refused: messages of the scenario without any effect.
        seconds: its length.
        shares: by queue with a guarantee, the used part of it in each span of the run.
        used: by type, the used part of the cluster in each span of the run.
        quantiles: seconds waited, at ``QUANTILES``.
        applications: by name, the seconds that one of its asks has waited on average.
    """

    report: Report[Number]
    refused: list[str]
    seconds: float
    shares: dict[str, list[float]]
    used: dict[str, list[float]]
    quantiles: list[float]
    applications: dict[str, float]


def run(scenario: Scenario, progress: Callable[[float], None] = lambda _: None, *, reserves: bool = True) -> RunReport:
    """Run a scenario or a recording; ``progress`` is called with the finished part of it.

    Raises:
        wire.queuefile.ConfigError: the configuration is invalid.
        UnreadableRowError, DamagedStateError: as of ``simulate_recording``.
    """
    books = Books(scenario)
    if scenario.recorded is None:
        books.configure(queuefile.load(scenario.config, scenario.name))
        return books.finish(simulate(scenario, books.observe, progress, reserves=reserves))
    return books.finish(simulate_recording(scenario, books.observe, progress, books.begin, reserves=reserves))


class Books:
    """Takes the facts of a run, and makes its report."""

    def __init__(self, scenario: Scenario) -> None:
        self._begin_ns, self._until_ns = scenario.begin_ns, scenario.begin_ns + to_ns(scenario.until)
        self._tallies = Tallies()
        self._partitions: dict[PartitionName, PartitionTallies] = {}

    def configure(self, config: SchedulerConfig) -> None:
        """Take the first configuration of a scenario."""
        for partition in config.partitions:
            self._tallies_of(partition.name, self._begin_ns, partition.root)

    def begin(self, partitions: Mapping[PartitionName, DirectPartition]) -> None:
        """Take what the partitions of a recording have at its begin."""
        for name, partition in partitions.items():
            account = self._tallies_of(name, self._begin_ns).account
            for path, queue in partition.scheduler.state.tree.nodes.items():
                account.set_limit(self._begin_ns, path, QueueLimit.MAX, queue.max)
                account.set_limit(self._begin_ns, path, QueueLimit.GUARANTEED, queue.config.guaranteed)
            for fact in opening(partition, self._begin_ns):
                self.observe(name, fact)

    def _tallies_of(self, name: PartitionName, at_ns: int, root: QueueConfig | None = None) -> PartitionTallies:
        """The tallies of a partition; if it is new, facts tell its queues beside those of ``root``."""
        partition = self._partitions.get(name)
        if partition is None:
            account = FairnessAccount(at_ns, self._begin_ns, self._until_ns, root)
            partition = self._partitions[name] = PartitionTallies(name, self._tallies, account)
        return partition

    def observe(self, name: PartitionName, fact: Fact) -> None:
        """Take the next fact of a partition."""
        self._tallies_of(name, fact.at_ns).observe(fact)

    def finish(self, outcome: Outcome) -> RunReport:
        """The report at the end of the run."""
        accounts: dict[str, QueueAccount] = {}
        used: dict[str, list[float]] = {}
        for name, partition in self._partitions.items():
            partition.finish(outcome.end_ns, outcome.waited.get(name, {}))
            accounts |= {label(name, queue.path): queue for queue in partition.account}
            used |= {label(name, kind): series.averages() for kind, series in partition.account.used_over_time.items()}
        tallies = self._tallies
        return RunReport(
            self._report(accounts),
            outcome.refused,
            (outcome.end_ns - self._begin_ns) / S_NS,
            {name: queue.share.averages() for name, queue in sorted(accounts.items()) if queue.share is not None},
            used,
            _quantiles(sorted(tallies.waits.all_ns)),
            dict(tallies.mean_waits_s()),
        )

    def _report(self, accounts: dict[str, QueueAccount]) -> Report[Number]:
        tallies = self._tallies
        figures = _Figures(tallies, (partition.account.offered for partition in self._partitions.values()))
        of_queues = self._with_parents()
        return Report(
            figures.group(tallies.total),
            tallies.rejected,
            len(tallies.hoping),
            {name: figures.queue(of_queues.get(name, Tally()), queue) for name, queue in sorted(accounts.items())},
            {name: figures.group(tally) for name, tally in sorted(tallies.users.items())},
            {name: figures.group(tally) for name, tally in sorted(tallies.groups.items())},
            {str(priority): figures.group(tally) for priority, tally in sorted(tallies.priorities.items())},
        )

    def _with_parents(self) -> dict[str, Tally]:
        """The tallies of leaves, and of all queues above them."""
        every: dict[str, Tally] = {}
        for name, partition in self._partitions.items():
            for queue in partition.account:
                if (tally := self._tallies.queues.get(label(name, queue.path))) is None:
                    continue
                for above in queue.path_up:
                    every.setdefault(label(name, above.path), Tally()).add(tally)
        return every


class _Figures:
    """Makes figures of tallies, given what all nodes have offered."""

    def __init__(self, tallies: Tallies, offered: Iterable[Resource]) -> None:
        self._waits = tallies.waits
        self._offered: Resource = {}
        for amounts in offered:
            add_to(self._offered, amounts)

    def group(self, tally: Tally) -> Group[Number]:
        return Group(*self._common(tally))

    def queue(self, tally: Tally, account: QueueAccount) -> QueueGroup[Number]:
        return QueueGroup(*self._common(tally), _unit_seconds(account.debt, PARTS), _unit_seconds(account.credit, PARTS))

    def _common(
        self, tally: Tally
    ) -> tuple[Number, Number, Spread[Number], Causes[Number], Spread[Number], dict[str, Number], Number, dict[str, Number]]:
        places = sorted(tally.waits, key=self._waits.all_ns.__getitem__)
        return (
            len(places),
            tally.waiting,
            _spread([self._waits.all_ns[place] for place in places], S_NS),
            self._causes(places),
            _spread(sorted(tally.slowdowns), SLOWDOWN_PARTS),
            {name: self._percent(name, area) for name, area in sorted(tally.use.items())},
            tally.preempted,
            _unit_seconds(tally.lost),
        )

    def _causes(self, places: list[int]) -> Causes[Number]:
        """Sum up what asks have waited for; ``places`` in the order of their waits."""
        if not places:
            return Causes({}, {}, {}, {})
        sums: Counter[PendingCode] = Counter()
        for place in places:
            for code, part_ns in self._waits.parts(place):
                sums[code] += part_ns
        mean: dict[str, Number] = {code.value: sums[code] / len(places) / S_NS for code in sorted(sums)}
        return Causes(mean, self._of(_ranked(places, 50)), self._of(_ranked(places, 95)), self._of(places[-1]))

    def _of(self, place: int) -> dict[str, Number]:
        return {code.value: part_ns / S_NS for code, part_ns in self._waits.parts(place)}

    def _percent(self, name: str, area: int) -> Number:
        offered = self._offered.get(name, 0)
        return 100 * area * PARTS / offered if offered > 0 else None


def _unit_seconds(areas: Resource, parts: int = 1) -> dict[str, Number]:
    return {name: area / (parts * S_NS) for name, area in sorted(areas.items())}


def _spread(ordered: Sequence[int], unit: int) -> Spread[Number]:
    """The distribution of values, which are in ascending order and in parts of ``unit``."""
    if not ordered:
        return Spread(None, None, None, None)
    count = len(ordered)
    return Spread(sum(ordered) / count / unit, _ranked(ordered, 50) / unit, _ranked(ordered, 95) / unit, ordered[-1] / unit)


def _quantiles(ordered: Sequence[int]) -> list[float]:
    return [_ranked(ordered, percent) / S_NS for percent in QUANTILES] if ordered else []


def _ranked(ordered: Sequence[int], percent: int) -> int:
    return ordered[max(1, -(-percent * len(ordered) // 100)) - 1]
