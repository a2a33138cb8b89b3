"""The invariants between two cycles: the owners agree with each other, and the scheduler's state agrees with the owners.

All derived values are computed again from the owners (leaves and nodes) and compared. Called by tests after every step, and for
health checks of a daemon: the checks are expensive, and they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.inspection import applications, nodes, objects, orders, preemption, usage
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.scheduler import SchedulerCore


def violations(partition: PartitionCore, scheduler: SchedulerCore, *, strict_max: bool = False) -> list[str]:
    """All violated invariants (SC-131), one sentence each: the object, what was found, what was expected.

    Args:
        partition, scheduler: the cores of one partition, between two cycles and with every fact observed.
        strict_max: also check that no queue uses more than its ``max``. The planner never exceeds it, but recovered
            allocations, resizes and lowered limits may (QU-41), so this holds only for a history without these.

    Cost: O(all asks, allocations and nodes).
    """
    checked = checks(partition, scheduler.state, strict_max=strict_max)
    return [found for check in checked.values() for found in check if found]


def checks(partition: PartitionCore, state: SchedulerState, *, strict_max: bool = False) -> dict[str, Iterator[str]]:
    """The invariants by subject; each yields its violations, and "" where the check may pause."""
    registry = partition.registry
    return {
        "queues and applications": objects.membership(registry),
        "limits of the configuration": objects.limits(registry),
        "numbers with limits": objects.counts(registry),
        "allocations": objects.allocations(registry),
        "accounts": objects.counted(registry),
        "amounts of nodes": objects.node_amounts(registry),
        "order of nodes": nodes.node_index(registry, state.nodes),
        "reservations": nodes.reservations(state),
        "preemptions": preemption.preemptions(registry, state),
        "pending asks": applications.applications(registry, state),
        "queues": usage.tree(registry, state),
        "usage": usage.usage(registry, state.tree, strict_max=strict_max),
        "limits of users and groups": usage.trackers(registry, state),
        "order of queues and applications": orders.orders(registry, state),
        "classes of asks": orders.watched_classes(state),
        "quota preemption": preemption.quota_clocks(state),
    }
