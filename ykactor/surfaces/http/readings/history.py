"""A sample of a partition, of which its history consists."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.inspection.partition_status import partition_totals
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, saturated_and_pruned
from ykactor.core.values.times import S_NS
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.metrics.fact_counts import Placed
from ykactor.surfaces.metrics.reading import by_reason
from ykactor.wire.rest.history import PartitionSample

#: Types of resources in a sample: those that everybody has, and the first others by name.
TYPES_MAX = 8
_FIRST = ("vcore", "memory")


def sample(look: Look, placed: Placed | None) -> Steps[PartitionSample]:
    """The sample of a partition at this moment.

    Args:
        placed: the asks of it that were placed so far; None: none.
    """
    state, root = look.state, look.state.tree.root
    totals = yield from partition_totals(look.core, state, look.shows)
    reasons = yield from by_reason(state)
    oldest_ns = yield from _oldest_ns(state)
    types = _types(state.tree.root_max or {}, root.allocated, root.pending)
    return PartitionSample(
        at=look.now_ns,
        capacity=_of(types, state.tree.root_max or {}),
        allocated=_of(types, root.allocated),
        pending=_of(types, root.pending),
        applications=len(root.running),
        allocations=totals.allocations,
        pending_asks=reasons.total(),
        reasons={reason.value: count for reason, count in reasons.items()},
        oldest_wait=max(0, look.now_ns - oldest_ns) / S_NS if oldest_ns else 0.0,
        placed=placed.count if placed else 0,
        waited=round(placed.seconds, 3) if placed else 0.0,
        evicted=state.preemptions.counts.evictions,
    )


def _oldest_ns(state: SchedulerState) -> Steps[int]:
    """The time since which the oldest pending ask waits; 0 without one."""
    oldest_ns = 0
    for application in state.applications.values():
        for queue in application.queues.values():
            if (first := queue.peek()) is not None:
                oldest_ns = min(oldest_ns or first.since_ns, first.since_ns)
            yield 1
    return oldest_ns


def _types(*amounts: Iterable[str]) -> list[str]:
    found = {name for each in amounts for name in each}
    return [*(name for name in _FIRST if name in found), *sorted(found.difference(_FIRST))][:TYPES_MAX]


def _of(types: Iterable[str], amounts: Resource) -> Resource:
    return saturated_and_pruned({name: amounts[name] for name in types if name in amounts})
