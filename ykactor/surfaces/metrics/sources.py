"""The sources of a scrape: whatever has its numbers."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Protocol

from msgspec import Struct

from ykactor.actors.gateway import Gateway
from ykactor.actors.partition import PartitionActor
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.metrics.fact_counts import FactCounts
from ykactor.surfaces.metrics.loop import LoopHolds
from ykactor.surfaces.metrics.session_counts import SessionCounts


class Instruments:
    """The measurements and counters beside the actors.

    Args:
        partitions: those that there are.

    Attributes:
        sessions: counts of them.
    """

    def __init__(self, partitions: Container[PartitionName]) -> None:
        self.facts = FactCounts(partitions)
        self.loop = LoopHolds()
        self.sessions = SessionCounts()


class Certificate(Protocol):
    """The certificate of the daemon."""

    def expires_s(self) -> float:
        """The Unix time at which it expires, in seconds."""


class Sources(Struct, frozen=True):
    """The sources that a scrape reads.

    Attributes:
        has_old_names: see ``yunikorn.add_queues``.
        certificate: None without TLS.
    """

    gateway: Gateway
    actors: Mapping[PartitionName, PartitionActor]
    instruments: Instruments
    has_old_names: bool
    certificate: Certificate | None = None
