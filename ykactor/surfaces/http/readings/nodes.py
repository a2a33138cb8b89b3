"""Nodes, and how many of them are used how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Raw

from ykactor.core.inspection.node_status import node_status
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import NodeID
from ykactor.core.values.parts import Pace, Pausing
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.readings.tasks import allocation, foreign
from ykactor.wire.rest import types
from ykactor.wire.rest.amounts import percent, used
from ykactor.wire.rest.codec import encode_part

_HOST, _RACK = "si/hostname", "si/rackname"
#: A node or an allocation takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10
_SMALL_MAX = 50
_BANDS = tuple(f"{low}-{low + 10}%" for low in range(0, 100, 10))


def all_nodes(look: Look) -> Pausing[list[bytes]]:
    """All nodes by name, encoded."""
    found, pace = [], Pace()
    for _, node in sorted(look.core.registry.nodes.items()):
        found.append((yield from _node(look, node, pace)))
        if pace.is_due(_ENTRY_ITEMS):
            yield ()
    return found


def is_small(node: NodeCore | None) -> bool:
    """Whether the node has so few tasks that to read it takes less than 1 ms."""
    return node is None or len(node.allocations) + len(node.foreign) <= _SMALL_MAX


def one(look: Look, node_id: NodeID) -> Pausing[bytes | None]:
    """A node, encoded; None if there is none."""
    node = look.core.registry.nodes.get(node_id)
    return None if node is None else (yield from _node(look, node, Pace()))


def _node(look: Look, node: NodeCore, pace: Pace) -> Pausing[bytes]:
    tasks = yield from _encoded(_allocations(look, node), pace)
    others = yield from _encoded((foreign(look, task, node.node_id) for _, task in sorted(node.foreign.items())), pace)
    status = node_status(node, look.state.reservations)
    shown = types.Node(
        node_id=node.node_id,
        host_name=node.attributes.get(_HOST, ""),
        rack_name=node.attributes.get(_RACK, ""),
        attributes=node.attributes,
        capacity=used(status.capacity),
        allocated=status.allocated,
        occupied=status.occupied,
        available=status.available,
        utilized=percent(node.allocated, node.capacity),
        allocations=tasks,
        foreign_allocations=others,
        schedulable=status.schedulable,
        is_reserved=bool(status.reservations),
        reservations=status.reservations,
    )
    return encode_part(shown)


def _allocations(look: Look, node: NodeCore) -> Iterator[types.Allocation]:
    """What runs there, by its arrival."""
    registry = look.core.registry
    for (application_id, key), _ in sorted(node.allocations.items(), key=lambda item: item[1].arrival):
        application = registry.leaf_of(application_id).applications[application_id]
        if key in application.allocations:
            yield allocation(look, application, key)


def _encoded(items: Iterable[types.Payload], pace: Pace) -> Pausing[list[Raw]]:
    """A node may have thousands of tasks."""
    found = []
    for item in items:
        found.append(Raw(encode_part(item)))
        if pace.is_due(_ENTRY_ITEMS):
            yield ()
    return found


def utilizations(look: Look, cluster_id: str) -> Pausing[types.NodeUtilizations]:
    """For each type that a node has, the nodes by how much of it is allocated."""
    bands: dict[str, list[list[str]]] = {}
    pace = Pace()
    for node_id, node in sorted(look.core.registry.nodes.items()):
        for name, capacity in node.capacity.items():
            bands.setdefault(name, [[] for _ in _BANDS])[_band(node.allocated.get(name, 0), capacity)].append(node_id)
        if pace.is_due():
            yield ()
    return types.NodeUtilizations(
        cluster_id=cluster_id,
        partition=look.core.name,
        utilizations=[
            types.TypeUtilization(
                type=name,
                utilization=[
                    types.UtilizationBand(bucket_name=band, num_of_nodes=len(nodes), node_names=nodes)
                    for band, nodes in zip(_BANDS, by_band, strict=True)
                ],
            )
            for name, by_band in sorted(bands.items())
        ],
    )


def _band(amount: int, capacity: int) -> int:
    """0 up to 10 percent, then one for each further 10; the last one also above 100."""
    whole = max(0, 100 * amount // capacity)
    return min(max(0, -(-whole // 10) - 1), len(_BANDS) - 1)
