"""Commit: one batch for each node in the plan. The node checks the whole batch, applies it, and replies."""

from __future__ import annotations

from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.objects.commands import PlaceBatch, Placed, Refused
from ykactor.core.objects.exchange import Exchange, send
from ykactor.core.planner.orders import NodeOrder, Placement
from ykactor.core.planner.plan import Plan
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state.state import SchedulerState


class InvariantViolation(Exception):
    """A program error: an internal assumption does not hold. Never caused by input."""


def commit(state: SchedulerState, plan: Plan) -> Exchange[set[IndexedNode]]:
    """Send each node its orders in one batch, and undo the batches that nodes refuse. Returns the nodes that refused."""
    batches: dict[IndexedNode, list[NodeOrder]] = {}
    for order in plan.orders:
        if order.node is not None:
            batches.setdefault(order.node, []).append(order)
    cores = state.registry.nodes
    sends = [
        (cores[node.node_id], PlaceBatch(node.revision, [order.planned.ask for order in batch]))
        for node, batch in batches.items()
    ]
    replies = yield from send(sends)
    refused: set[IndexedNode] = set()
    for (node, batch), reply in zip(batches.items(), replies, strict=True):
        if isinstance(reply, Placed):
            node.revision = reply.revision
        else:
            _undo(state, node, batch, reply)
            refused.add(node)
    if refused:
        _restore_counts(state, [order for order in plan.orders if type(order) is Placement])
    return refused


def _restore_counts(state: SchedulerState, placements: list[Placement]) -> None:
    """What the refused placements were the reason for ends, and what was true before the plan is true again."""
    held_before: dict[PendingApplication, bool] = {}
    for order in placements:
        application = order.application
        if order.is_first and not application.allocated:  # its only placements were refused: it does not count as running (QU-74)
            application.uncount()
            state.requeue(application)
        held_before.setdefault(application, order.held_slot)
    for application, has_held in held_before.items():
        if has_held or application.reserving or (application.gang is not None and application.gang.allocated_ever):  # QU-54
            state.hold_slot(application)
            state.requeue(application)


def _undo(state: SchedulerState, node: IndexedNode, batch: list[NodeOrder], refusal: Refused) -> None:
    """The node index was out of date: undo the batch, and update the index from the node."""
    if refusal.revision == node.revision:
        raise InvariantViolation(f"refused although the index was up to date: {refusal.reason}")
    for order in reversed(batch):
        order.undo(state)
    state.nodes.sync(state.registry.nodes[node.node_id])
    state.capacity_grew()
