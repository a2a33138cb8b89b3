"""Partitions: their totals, placement rules and nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Raw

from ykactor.actors.partition import Standing
from ykactor.core.inspection.node_status import node_status
from ykactor.core.inspection.partition_status import partition_totals
from ykactor.core.inspection.task_status import allocation_status, foreign_status
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import NodeID, PartitionName
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import nodes, partitions
from ykactor.wire.rest.applications import Allocation, allocation, foreign
from ykactor.wire.rest.codec import Item, encode_each, encode_part


def summary(look: Look, cluster_id: str, standing: Callable[[PartitionName], Standing]) -> Steps[partitions.Partition]:
    """A partition with its totals; to a limited reader only those of the applications in view."""
    core, own = look.core, standing(look.core.name)
    totals = yield from partition_totals(core, look.state, look.shows)
    return partitions.partition(totals, core.registry.config, cluster_id, own.state.value, own.since_ns)


def placement_rules(look: Look) -> list[partitions.PlacementRule]:
    """The rules in the order in which they are tried."""
    return partitions.placement_rules(look.core.registry.config)


# ---- nodes, and how many of them are used how much

#: A node or an allocation takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10
_SMALL_MAX = 50


def all_nodes(look: Look) -> Steps[list[bytes]]:
    """All nodes by name, encoded."""
    found = []
    for _, node in sorted(look.core.registry.nodes.items()):
        found.append((yield from _read_node(look, node)))
        yield _ENTRY_ITEMS
    return found


def attributes(look: Look) -> Steps[Item]:
    """The attributes of each node, by its name; encoded."""
    found: dict[str, dict[str, str]] = {}
    for node_id, node in sorted(look.core.registry.nodes.items()):
        found[node_id] = dict(node.attributes)
        yield 1
    return encode_part(found)


def is_small_node(node: NodeCore | None) -> bool:
    """True if the node has so few tasks that to read it takes less than 1 ms."""
    return node is None or len(node.allocations) + len(node.foreign) <= _SMALL_MAX


def node(look: Look, node_id: NodeID) -> Steps[bytes | None]:
    """A node, encoded; None if there is none."""
    node = look.core.registry.nodes.get(node_id)
    return None if node is None else (yield from _read_node(look, node))


def _read_node(look: Look, node: NodeCore) -> Steps[bytes]:
    foreigners = (foreign(foreign_status(task, node.node_id)) for _, task in sorted(node.foreign.items()))
    tasks = yield from encode_each(_allocations(look, node), _ENTRY_ITEMS)
    others = yield from encode_each(foreigners, _ENTRY_ITEMS)
    shown = nodes.node(node_status(node, look.state.reservations), node, [*map(Raw, tasks)], [*map(Raw, others)])
    return encode_part(shown)


def _allocations(look: Look, node: NodeCore) -> Iterator[Allocation]:
    """The allocations on a node, by their arrival."""
    registry = look.core.registry
    for (application_id, key), _ in sorted(node.allocations.items(), key=lambda item: item[1].arrival):
        application = registry.leaf_of(application_id).applications[application_id]
        if key in application.tasks.allocations:
            yield allocation(allocation_status(look.state, application, key))


def utilizations(look: Look, cluster_id: str) -> Steps[nodes.NodeUtilizations]:
    """The nodes by the allocated part of each resource type that they have."""
    bands: dict[str, list[list[str]]] = {}
    for node_id, node in sorted(look.core.registry.nodes.items()):
        for name, capacity in node.capacity.items():
            bands.setdefault(name, [[] for _ in nodes.BANDS])[nodes.band(node.allocated.get(name, 0), capacity)].append(node_id)
        yield 1
    return nodes.utilizations(cluster_id, look.core.name, bands)
