"""Invariants of nodes and reservations: the node index agrees with the nodes, in the right order."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.config.model import NodeSortPolicy
from ykactor.core.inspection.checks import differs
from ykactor.core.messages.asks import Ask, ask_id, shape_of
from ykactor.core.nodes.index import NodeIndex
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.registry import Registry
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import pruned


def node_index(registry: Registry, index: NodeIndex) -> Iterator[str]:
    """Check that the index agrees with the nodes and is sorted (PR-62)."""
    yield from differs("node index", "the set of nodes", sorted(index.nodes), sorted(registry.nodes))
    yield from differs("nodes", "the number of placements that they have not been sent", registry.unsent.count, 0)
    policy = registry.config.node_sort_policy
    expected = []
    for node_id, core in registry.nodes.items():
        node = index.nodes.get(node_id)
        if node is None:
            continue
        where = f"indexed node {node_id}"
        yield from differs(where, "available", pruned(node.available), pruned(core.available))
        yield from differs(where, "schedulable", node.schedulable, core.schedulable)
        yield from differs(where, "revision", node.revision, core.revision)
        score = _score(core, policy)
        yield from differs(where, "score", node.place[0], score)
        if core.schedulable and not node.reserved:
            expected.append((score, node_id))
    order = [node.node_id for node in index.in_order()]
    yield from differs("node index", "the order", order, [node_id for _, node_id in sorted(expected)])


def _score(core: NodeCore, policy: NodeSortPolicy) -> float:
    """The node's score (PR-60 to PR-64)."""
    used = weights = 0.0
    for name in sorted(core.capacity):
        weight = policy.resource_weights.get(name, 0.0)
        if weight > 0 and core.capacity[name]:
            used += weight * (1.0 - core.available.get(name, 0) / float(core.capacity[name]))  # as the index, to the last bit
            weights += weight
    utilisation = used / weights if weights else 0.0
    return utilisation if policy.type == "fair" else 1.0 - utilisation


def reservations(state: SchedulerState) -> Iterator[str]:
    """Check that asks with a reservation are pending, their nodes large enough, and shared by pinned asks only (SC-149)."""
    reservations = list(state.reservations.by_ask.values())
    applications = state.applications.values()
    reserving = {(waiting.application_id, key): ask for waiting in applications for key, ask in waiting.reserving.items()}
    asks = {ask_id(reservation.ask): reservation.ask for reservation in reservations}
    yield from differs("reservations", "the asks", asks, reserving)
    by_node: dict[NodeID, list[Reservation]] = {}
    for reservation in reservations:
        by_node.setdefault(reservation.node.node_id, []).append(reservation)
        node, needs = reservation.node, reservation.shape[0]
        where = f"reservation of {ask_id(reservation.ask)}"
        if state.nodes.nodes.get(node.node_id) is not node or not node.could_fit(needs, ()):
            yield f"{where}: on node {node.node_id}, which is gone or too small"
        keeps_node = reservation.is_pinned() or allows_preemption(reservation.ask)  # even on a drained node (SC-61)
        if not (keeps_node or node.schedulable):
            yield f"{where}: on node {node.node_id}, which is not schedulable"
        yield from differs(where, "the shape", reservation.shape, shape_of(reservation.ask))
    for node_id, node in state.nodes.nodes.items():
        there = by_node.get(node_id, [])
        yield from differs(f"indexed node {node_id}", "reserved", node.reserved, bool(there))
        yield from differs(f"indexed node {node_id}", "the reservations", state.reservations.on(node_id), there)
        if len(there) > 1 and not all(reservation.is_pinned() for reservation in there):
            yield f"indexed node {node_id}: is reserved for several asks, expected one"


def allows_preemption(ask: Ask) -> bool:
    """True if an ask with a reservation tries to preempt unless it has an attempt (PE-70)."""
    return ask.allow_preempt_other and shape_of(ask)[1] is None
