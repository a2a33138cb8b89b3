"""The metrics of Apache YuniKorn, with its names, labels and units, for dashboards that exist. Histograms are in seconds whatever
their names say.

Differences: what several partitions have is added up; ``queue_container`` counts all containers; nothing is ever sorted, so there
is no ``node_sorting_latency_milliseconds``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ykactor.actors.durations import DECADES, Histogram, TurnTimes
from ykactor.core.inspection.queue_status import IN_USE
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Steps
from ykactor.surfaces.metrics.exposition import Exposition, Family, escaped, labels, name_part
from ykactor.surfaces.metrics.fact_counts import CONTAINERS, ENDED, NO_QUEUE, REJECTED, FactCounts
from ykactor.surfaces.metrics.reading import BANDS_COUNT, STATES, PartitionFigures, QueueFigures
from ykactor.surfaces.metrics.series import AMOUNTS_MAX, QueueSeries

RANGES = ("[0,10%]", *(f"({10 * band}%,{10 * band + 10}%]" for band in range(1, BANDS_COUNT)))
#: The states of the live applications of a queue.
_LIVE = tuple(dict.fromkeys(STATES.values()))
#: The states of ``application_total`` that are counted now; those of queues are more.
_TOTALS = ("running", "resuming", "failing", "completing")
_APPLICATIONS, _AMOUNTS = "Applications of the queue by state.", "Amounts of the queue in base units."
#: To write a queue takes as long as so many other items: 30 us.
_QUEUE_ITEMS = 30


class _Shown(NamedTuple):
    """A queue, or the sum of several, as it is shown."""

    figures: QueueFigures
    series: QueueSeries

    def applications(self) -> dict[str, int]:
        """The applications of a leaf by state; those that have ended are counted while the queue is there."""
        if not self.figures.is_leaf:
            return {}
        counts, live = self.series.counts, self.figures.applications
        return {state: live[state] for state in _LIVE} | {state: counts[state] for state in ENDED}

    def amounts(self) -> dict[str, dict[str, int]]:
        """The amounts by state and type. A queue without guarantee or maximum has no value of it: 0 would allow nothing."""
        amounts = self.figures.amounts
        used = {state: self.series.with_zeros(state, amounts[state]) for state in (*IN_USE, "preempting")}
        return amounts | used


def add_scheduler(to: Exposition, figures: Sequence[PartitionFigures], counts: FactCounts, times: Sequence[TurnTimes]) -> None:
    """Add what is of the whole scheduler."""
    name = "yunikorn_scheduler_"
    attempts = to.counter(f"{name}container_allocation_attempt_total", "Allocations told to the resource manager, by state.")
    _add_counts(attempts, "state", counts.containers)
    submissions = to.counter(f"{name}application_submission_total", "Applications that were submitted, by result.")
    _add_counts(submissions, "result", counts.submissions)
    applications = {state: sum(each.applications[state] for each in figures) for state in _TOTALS} | counts.applications
    _add_counts(to.gauge(f"{name}application_total", "Applications by state."), "state", applications)
    nodes = {"active": sum(each.nodes for each in figures), "draining": sum(each.draining for each in figures)} | counts.nodes
    _add_counts(to.gauge(f"{name}node", "Nodes by state."), "state", nodes)
    _add_bands(to, figures)
    cycles = _sum(each.cycles for each in times)
    placements = _sum(each.placements for each in times)
    for part, histogram, meaning in (
        ("scheduling_latency", cycles, "Time of one cycle of one partition"),
        ("scheduling_cycle", cycles, "Time of one cycle; partitions have theirs one by one"),
        ("trynode_latency", placements, "Time to plan a placement, the mean of its cycle"),
        ("trynode_evaluation", placements, "Time to plan a placement, the mean of its cycle"),
        ("trypreemption_latency", _sum(each.preemptions for each in times), "Time to plan a preemption, the mean of its cycle"),
    ):
        to.histogram(f"{name}{part}_milliseconds", f"{meaning}, in seconds.").add_histogram(histogram)


def _add_bands(to: Exposition, figures: Iterable[PartitionFigures]) -> None:
    sums: dict[str, list[int]] = {}
    for partition in figures:
        for resource, bands in partition.bands.items():
            known = sums.setdefault(name_part(resource), [0] * BANDS_COUNT)
            sums[name_part(resource)] = [left + right for left, right in zip(known, bands, strict=True)]
    for resource, bands in sums.items():
        family = to.gauge(f"yunikorn_scheduler_{resource}_node_usage_total", "Nodes by how much of the type is allocated.")
        for band, count in zip(RANGES, bands, strict=True):
            family.add(count, labels(range=band))


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    total = Histogram(DECADES)
    for each in histograms:
        total.counts = [left + right for left, right in zip(total.counts, each.counts, strict=True)]
        total.sum += each.sum
    return total


def add_queues(
    to: Exposition, figures: Iterable[PartitionFigures], counts: FactCounts, *, has_old_names: bool = False
) -> Steps[None]:
    """Add what is of queues.

    Args:
        has_old_names: whether to add what Apache YuniKorn had up to version 1.7, with the path in the name of the metric.
    """
    shown: dict[QueuePath, _Shown] = {}
    amounts = 0
    for partition in figures:
        for path, queue in partition.queues.items():
            name, series = counts.queues.named(path) if amounts < AMOUNTS_MAX else counts.queues.others()
            amounts += series.names() + sum(map(len, queue.amounts.values()))
            if name in shown:
                shown[name].figures.add(queue)
            else:
                shown[name] = _Shown(queue, series)
            yield 1
    for path, each in shown.items():
        _add_queue(to, path, each)
        yield _QUEUE_ITEMS
    if has_old_names:
        yield from _add_old_names(to, shown)
    yield from _add_containers(to, shown)
    yield from _add_ended(to, counts, shown)


def _add_queue(to: Exposition, path: QueuePath, queue: _Shown) -> None:
    own = labels(queue=path)
    applications = to.gauge("yunikorn_queue_app", _APPLICATIONS)
    for state, count in queue.applications().items():
        applications.add(count, f'{own},state="{state}"')
    resource = to.gauge("yunikorn_queue_resource", _AMOUNTS)
    for state, amounts in queue.amounts().items():
        for name, amount in amounts.items():
            resource.add(amount, f'{own},resource="{escaped(name)}",state="{state}"')


def _add_containers(to: Exposition, shown: Mapping[QueuePath, _Shown]) -> Steps[None]:
    """Different paths can give the same name, which then has the sum."""
    sums: dict[str, Counter[str]] = {}
    for path, queue in shown.items():
        found, is_shown = queue.series.counts, queue.figures.is_leaf
        for state in CONTAINERS:
            if is_shown or found[state]:
                sums.setdefault(name_part(path), Counter())[state] += found[state]
        yield 1
    for name, by_state in sums.items():
        _add_counts(to.counter(f"yunikorn_{name}_queue_container", "Containers of the queue by state."), "state", by_state)
        yield 1


def _add_ended(to: Exposition, counts: FactCounts, shown: Mapping[QueuePath, _Shown]) -> Steps[None]:
    """Also of queues that are gone. Applications that were refused were in no queue."""
    _add_counts(to.gauge("yunikorn_queue_app", _APPLICATIONS), "state", counts.ended[NO_QUEUE], 'queue="",')
    total = to.counter("yunikorn_queue_app_total", "Applications of the queue that have ended, also after the queue was removed.")
    empty = [path for path, queue in shown.items() if queue.figures.is_leaf and counts.has_own_ends(path)]
    for path in dict.fromkeys([*counts.ended, *empty]):  # a copy: more may end during a pause
        by_state = dict.fromkeys(REJECTED if path == NO_QUEUE else ENDED, 0) | counts.ended.get(path, Counter())
        _add_counts(total, "state", by_state, f"{labels(queue=path)},")
        yield 1


def _add_old_names(to: Exposition, shown: Mapping[QueuePath, _Shown]) -> Steps[None]:
    sums: dict[str, QueueFigures] = {}
    for path, queue in shown.items():
        amounts = {state: dict(by_type) for state, by_type in queue.amounts().items()}  # they may be added to
        figures = QueueFigures(queue.figures.is_leaf, amounts, Counter(queue.applications()))
        name = name_part(path)
        if name in sums:
            sums[name].add(figures)
        else:
            sums[name] = figures
        yield _QUEUE_ITEMS
    for name, figures in sums.items():
        _add_counts(to.gauge(f"yunikorn_{name}_queue_app", _APPLICATIONS), "state", figures.applications)
        family = to.gauge(f"yunikorn_{name}_queue_resource", _AMOUNTS)
        for state, by_type in figures.amounts.items():
            for resource, amount in by_type.items():
                family.add(amount, f'resource="{escaped(resource)}",state="{state}"')
        yield _QUEUE_ITEMS


def _add_counts(family: Family, label: str, counts: Mapping[str, int], before: str = "") -> None:
    for value, count in counts.items():
        family.add(count, f'{before}{label}="{value}"')
