"""Nodes, and how many of them are used how much."""

from __future__ import annotations

from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import NodeID
from ykactor.core.values.parts import Pace, Pausing
from ykactor.surfaces.http.readings.look import Look, limit, percent, used
from ykactor.surfaces.http.readings.tasks import allocation, foreign
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode_part

_HOST, _RACK = "si/hostname", "si/rackname"
#: A node or an allocation takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10
_BANDS = tuple(f"{low}-{low + 10}%" for low in range(0, 100, 10))


def all_nodes(look: Look) -> Pausing[list[bytes]]:
    """All nodes by name, encoded."""
    found, pace = [], Pace()
    for _, node in sorted(look.core.registry.nodes.items()):
        found.append(encode_part(_node(look, node)))
        if pace.is_due(_ENTRY_ITEMS * (1 + len(node.allocations) + len(node.foreign))):
            yield ()
    return found


def one(look: Look, node_id: NodeID) -> types.Node | None:
    """A node; None if there is none."""
    node = look.core.registry.nodes.get(node_id)
    return None if node is None else _node(look, node)


def _node(look: Look, node: NodeCore) -> types.Node:
    registry = look.core.registry
    reserved = look.state.reservations.on(node.node_id)
    return types.Node(
        node_id=node.node_id,
        host_name=node.attributes.get(_HOST, ""),
        rack_name=node.attributes.get(_RACK, ""),
        attributes=node.attributes,
        capacity=used(node.capacity),
        allocated=used(node.allocated),
        occupied=used(node.occupied),
        available=limit(node.available),
        utilized=percent(node.allocated, node.capacity),
        allocations=[
            allocation(look, registry.leaf_of(application_id).applications[application_id], key)
            for (application_id, key), _ in sorted(node.allocations.items(), key=lambda item: item[1].arrival)
            if key in registry.leaf_of(application_id).applications[application_id].allocations
        ],
        foreign_allocations=[foreign(spec, node.node_id) for _, spec in sorted(node.foreign.items())],
        schedulable=node.schedulable,
        is_reserved=bool(reserved),
        reservations=[reservation.ask.spec.allocation_key for reservation in reserved],
    )


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
