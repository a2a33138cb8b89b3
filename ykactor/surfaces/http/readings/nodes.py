"""Nodes, and how many of them are used how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Raw

from ykactor.core.inspection.node_status import node_status
from ykactor.core.inspection.task_status import allocation_status, foreign_status
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import NodeID
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import nodes as rest
from ykactor.wire.rest.codec import encode_part
from ykactor.wire.rest.tasks import Allocation, allocation, foreign
from ykactor.wire.rest.types import Payload

#: A node or an allocation takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10
_SMALL_MAX = 50


def all_nodes(look: Look) -> Steps[list[bytes]]:
    """All nodes by name, encoded."""
    found = []
    for _, node in sorted(look.core.registry.nodes.items()):
        found.append((yield from _node(look, node)))
        yield _ENTRY_ITEMS
    return found


def is_small(node: NodeCore | None) -> bool:
    """True if the node has so few tasks that to read it takes less than 1 ms."""
    return node is None or len(node.allocations) + len(node.foreign) <= _SMALL_MAX


def one(look: Look, node_id: NodeID) -> Steps[bytes | None]:
    """A node, encoded; None if there is none."""
    node = look.core.registry.nodes.get(node_id)
    return None if node is None else (yield from _node(look, node))


def _node(look: Look, node: NodeCore) -> Steps[bytes]:
    tasks = yield from _encoded(_allocations(look, node))
    others = yield from _encoded((foreign(foreign_status(task, node.node_id)) for _, task in sorted(node.foreign.items())))
    return encode_part(rest.node(node_status(node, look.state.reservations), node, tasks, others))


def _allocations(look: Look, node: NodeCore) -> Iterator[Allocation]:
    """The allocations on a node, by their arrival."""
    registry = look.core.registry
    for (application_id, key), _ in sorted(node.allocations.items(), key=lambda item: item[1].arrival):
        application = registry.leaf_of(application_id).applications[application_id]
        if key in application.allocations:
            yield allocation(allocation_status(look.state, application, key))


def _encoded(items: Iterable[Payload]) -> Steps[list[Raw]]:
    """A node may have thousands of tasks."""
    found = []
    for item in items:
        found.append(Raw(encode_part(item)))
        yield _ENTRY_ITEMS
    return found


def utilizations(look: Look, cluster_id: str) -> Steps[rest.NodeUtilizations]:
    """The nodes by the allocated part of each resource type that they have."""
    bands: dict[str, list[list[str]]] = {}
    for node_id, node in sorted(look.core.registry.nodes.items()):
        for name, capacity in node.capacity.items():
            bands.setdefault(name, [[] for _ in rest.BANDS])[rest.band(node.allocated.get(name, 0), capacity)].append(node_id)
        yield 1
    return rest.utilizations(cluster_id, look.core.name, bands)
