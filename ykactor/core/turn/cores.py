"""A partition together with its scheduler."""

from __future__ import annotations

from ykactor.core.config.model import PartitionConfig
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import SchedulerCore

Cores = tuple[PartitionCore, SchedulerCore]


def without_anything(config: PartitionConfig, *, reserves: bool) -> Cores:
    """The cores of a partition without an applied configuration; ``reserves``: asks reserve nodes (SC-50)."""
    core = PartitionCore(config)
    return core, SchedulerCore(core.registry, reserves=reserves)
