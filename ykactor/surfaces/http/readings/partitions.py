"""Partitions and their placement rules."""

from __future__ import annotations

from collections.abc import Callable

from ykactor.actors.standing import Standing
from ykactor.core.inspection.partition_status import partition_totals
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import partitions as rest


def summary(look: Look, cluster_id: str, standing: Callable[[PartitionName], Standing]) -> Steps[rest.Partition]:
    """A partition with its totals; to a limited reader only those of the applications in view."""
    core, own = look.core, standing(look.core.name)
    totals = yield from partition_totals(core, look.state, look.shows)
    return rest.partition(totals, core.registry.config, cluster_id, own.state.value, own.since_ns)


def placement_rules(look: Look) -> list[rest.PlacementRule]:
    """The rules in the order in which they are tried."""
    return rest.placement_rules(look.core.registry.config)
