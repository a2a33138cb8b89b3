"""The status of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ykactor.core.inspection.shown import Shown
from ykactor.core.values.resources import Resource, saturated, saturated_and_pruned

if TYPE_CHECKING:  # the clients of a daemon load this file, and need no scheduler
    from ykactor.core.nodes.reservations import Reservations
    from ykactor.core.objects.node import NodeCore


class NodeStatus(Shown, frozen=True, kw_only=True):
    """A node.

    Attributes:
        allocations: the keys of its allocations, foreign ones included.
        occupied: the amounts of foreign allocations.
        reservations: the keys of the asks that it is reserved for.
        dominant_share: the share in use of its scarcest resource, foreign allocations included.
    """

    allocated: Resource
    allocations: list[str]
    schedulable: bool
    occupied: Resource
    capacity: Resource
    available: Resource
    reservations: list[str]
    dominant_share: float = 0.0


def node_state(node: NodeStatus) -> str:
    """``Schedulable``; else ``Draining`` while tasks of applications run there, and ``Drained`` after them."""
    if node.schedulable:
        return "Schedulable"
    return "Draining" if node.allocated else "Drained"


def node_status(node: NodeCore, reservations: Reservations) -> NodeStatus:
    """The status of a node."""
    return NodeStatus(
        allocated=saturated_and_pruned(node.allocated),
        allocations=sorted([key for _, key in node.allocations] + list(node.foreign)),
        schedulable=node.schedulable,
        occupied=saturated_and_pruned(node.occupied),
        capacity=node.capacity,
        available=saturated(node.available),
        reservations=[reservation.ask.allocation_key for reservation in reservations.on(node.node_id)],
        dominant_share=_dominant_share(node),
    )


def _dominant_share(node: NodeCore) -> float:
    available = saturated(node.available)
    shares = (1 - available.get(name, 0) / total for name, total in node.capacity.items() if total > 0)
    return round(max(shares, default=0.0), 4)
