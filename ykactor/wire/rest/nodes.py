"""Nodes as the REST API shows them: the names of Apache YuniKorn, and what each is made of (``types``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Raw, field

from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.resources import Resource, saturated_and_pruned
from ykactor.wire.rest.applications import Allocation, ForeignAllocation
from ykactor.wire.rest.types import Payload, Percent, percent

_HOST, _RACK = "si/hostname", "si/rackname"
#: The bands of use, the lowest first.
BANDS = tuple(f"{low}-{low + 10}%" for low in range(0, 100, 10))


class Node(Payload, frozen=True, kw_only=True):
    """A node.

    Attributes:
        occupied: by foreign allocations.
        utilized: what is allocated, in percent of the capacity.
        schedulable: False while it is drained.
        allocations, foreign_allocations: may be encoded already.
    """

    node_id: str = field(name="nodeID")
    host_name: str = ""
    rack_name: str = ""
    attributes: dict[str, str]
    capacity: Resource = {}
    allocated: Resource = {}
    occupied: Resource = {}
    available: Resource = {}
    utilized: Percent
    allocations: Sequence[Allocation | Raw] = []
    foreign_allocations: Sequence[ForeignAllocation | Raw] = []
    schedulable: bool
    is_reserved: bool
    reservations: list[str] = []


class UtilizationBand(Payload, frozen=True, kw_only=True):
    """The nodes of which a type is used to a tenth, such as ``10-20%``."""

    bucket_name: str
    num_of_nodes: int = 0
    node_names: list[str] = []


class TypeUtilization(Payload, frozen=True, kw_only=True):
    """The nodes by how much of a type is used; ten bands, the lowest first."""

    type: str
    utilization: list[UtilizationBand]


class NodeUtilizations(Payload, frozen=True, kw_only=True):
    """The nodes of a partition by use."""

    cluster_id: str
    partition: str
    utilizations: list[TypeUtilization]


def node(status: NodeStatus, core: NodeCore, allocations: Sequence[Raw], others: Sequence[Raw]) -> Node:
    """A node with its tasks and those of other schedulers, encoded; what no snapshot has comes from the node itself."""
    return Node.of(
        status,
        node_id=core.node_id,
        host_name=core.attributes.get(_HOST, ""),
        rack_name=core.attributes.get(_RACK, ""),
        attributes=core.attributes,
        capacity=saturated_and_pruned(status.capacity),
        utilized=percent(core.allocated, core.capacity),
        allocations=allocations,
        foreign_allocations=others,
        is_reserved=bool(status.reservations),
    )


def utilizations(cluster_id: str, partition: str, bands: Mapping[str, Sequence[list[str]]]) -> NodeUtilizations:
    """The nodes of a partition by type and band."""
    return NodeUtilizations(
        cluster_id=cluster_id,
        partition=partition,
        utilizations=[
            TypeUtilization(
                type=name,
                utilization=[
                    UtilizationBand(bucket_name=band, num_of_nodes=len(nodes), node_names=nodes)
                    for band, nodes in zip(BANDS, by_band, strict=True)
                ],
            )
            for name, by_band in sorted(bands.items())
        ],
    )


def band(amount: int, capacity: int) -> int:
    """0 up to 10 percent, then one for each further 10; the last one also above 100."""
    whole = max(0, 100 * amount // capacity)
    return min(max(0, -(-whole // 10) - 1), len(BANDS) - 1)
