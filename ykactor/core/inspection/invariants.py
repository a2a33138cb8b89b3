"""What must hold between two cycles: the owners agree with each other, and the scheduler's ledger and orders with them.

Everything derived is reckoned anew from the truth (leaves and nodes) and compared. Who calls it: tests, after every
step; nothing here is cheap, and nothing here decides.
"""

from __future__ import annotations

from ykactor.core.inspection import applications, nodes, objects, orders, preemption, usage
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import SchedulerCore


def violations(partition: PartitionCore, scheduler: SchedulerCore, *, strict_max: bool = False) -> list[str]:
    """What does not hold, one sentence each: the object, what was found, what was expected. Empty when all is well.

    Args:
        partition, scheduler: of one partition, between two cycles and with every fact observed.
        strict_max: also demand that no queue uses more than its ``max``. The planner never leads above it, but recovered
            allocations, resizes and lowered limits may (QU-41), so only a history without these can promise it.
    Cost:   O(all asks, allocations and nodes).
    Source: SC-131.
    """
    registry, state = partition.registry, scheduler.state
    return [
        *objects.membership(registry),
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
