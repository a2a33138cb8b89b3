"""The invariants between two cycles: the owners agree with each other, and the scheduler's state agrees with the owners.

All derived values are computed again from the owners (leaves and nodes) and compared. Called by tests after every step: the
checks are expensive, and they change nothing.
"""

from __future__ import annotations

from ykactor.core.inspection import applications, nodes, objects, orders, preemption, usage
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import SchedulerCore


def violations(partition: PartitionCore, scheduler: SchedulerCore, *, strict_max: bool = False) -> list[str]:
    """All violated invariants (SC-131), one sentence each: the object, what was found, what was expected.

    Args:
        partition, scheduler: of one partition, between two cycles and with every fact observed.
        strict_max: also check that no queue uses more than its ``max``. The planner never exceeds it, but recovered
            allocations, resizes and lowered limits may (QU-41), so this holds only for a history without these.

    Cost: O(all asks, allocations and nodes).
    """
    registry, state = partition.registry, scheduler.state
    return [
        *objects.membership(registry),
        *objects.counts(registry),
        *objects.allocations(registry),
        *objects.node_amounts(registry),
        *nodes.node_index(registry, state.nodes),
        *nodes.reservations(state),
        *preemption.preemptions(registry, state),
        *applications.applications(registry, state),
        *usage.tree(registry, state),
        *usage.usage(registry, state.tree, strict_max=strict_max),
        *usage.trackers(registry, state),
        *orders.orders(registry, state),
        *orders.watched_classes(state),
        *preemption.quota_clocks(state),
    ]
