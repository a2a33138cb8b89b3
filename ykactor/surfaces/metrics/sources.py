"""Where the numbers of a scrape are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping

from msgspec import Struct

from ykactor.access.model import Role
from ykactor.actors.gateway import Gateway
from ykactor.actors.partition import PartitionActor
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.metrics.fact_counts import FactCounts
from ykactor.surfaces.metrics.loop import LoopHolds


class Instruments:
    """What is measured and counted beside the actors.

    Args:
        partitions: those that there are.

    Attributes:
        connections: sessions by role.
    """

    def __init__(self, partitions: Container[PartitionName]) -> None:
        self.facts = FactCounts(partitions)
        self.loop = LoopHolds()
        self.connections: Counter[Role] = Counter()


class Sources(Struct, frozen=True):
    """What a scrape reads.

    Attributes:
        has_old_names: see ``yunikorn.add_queues``.
    """

    gateway: Gateway
    actors: Mapping[PartitionName, PartitionActor]
    instruments: Instruments
    has_old_names: bool
