"""How many nodes cannot take an ask, by reason: each node counts once, for the first check that it fails."""

from __future__ import annotations

from collections import Counter

from ykactor.core.messages import reasons
from ykactor.core.messages.asks import Shape
from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.selector import left_out_of, selects

#: Reasons that are counted on their own, the most frequent ones; the others are counted together.
REASONS_MAX = 8


def node_counts(state: SchedulerState, shape: Shape) -> Pausing[dict[str, int]]:
    """The nodes by reason; of an ask that requires its node only this one. O(nodes)."""
    required, counts, pace = shape[1], Counter[str](), Pace()
    nodes = state.nodes.nodes.values() if required is None else [state.nodes.nodes.get(required)]
    for node in nodes:
        if node is not None:
            counts[_why_not(state, shape, node)] += 1
        if pace.is_due():
            yield ()
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found = dict(ranked[:REASONS_MAX])
    if len(ranked) > REASONS_MAX:
        found[reasons.OTHERS] = found.get(reasons.OTHERS, 0) + sum(count for _, count in ranked[REASONS_MAX:])
    return found


def _why_not(state: SchedulerState, shape: Shape, node: IndexedNode) -> str:
    """Why a node cannot take an ask of the shape at present."""
    needs, required, selector, predicate = shape
    if required is None and not node.schedulable:
        return reasons.DRAINED
    if selector and not selects(selector, node.attributes):
        return reasons.LEFT_OUT if node.node_id in left_out_of(selector) else reasons.NOT_SELECTED
    for name, wanted in needs:
        if wanted > 0 and wanted > node.capacity.get(name, 0):
            return reasons.too_small(name)
    if required is None and node.reserved:
        return reasons.RESERVED_FOR_OTHERS
    for name, wanted in needs:
        if wanted > 0 and wanted > node.available.get(name, 0):
            return reasons.too_full(name)
    predicates, question = state.nodes.predicates, (predicate, True)
    verdict = predicates.verdict(question, node.node_id)
    if verdict is False:
        return predicates.refusals(question).get(node.node_id, reasons.NO_PREDICATE_SERVICE)
    return reasons.HAS_ROOM if verdict else reasons.PREDICATE_UNKNOWN
