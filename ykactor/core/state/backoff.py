"""Leaving an application alone for a while whose asks fit nowhere (SC-38, PR-54)."""

from __future__ import annotations

from heapq import merge

from ykactor.core.messages.asks import Ask, order_of
from ykactor.core.queueing.pending import WaitingApplication


def has_enough(application: WaitingApplication, count_max: int) -> bool:
    """Whether ``count_max`` of its asks fit nowhere, all of them before one that has not been looked at or is behind them."""
    count = 0
    for ask in merge(*application.queues.values(), key=order_of):
        if count == count_max:
            return True
        verdict = _fits_nowhere(application, ask)
        if verdict is None:
            return False
        count += verdict
    return False


def _fits_nowhere(application: WaitingApplication, ask: Ask) -> bool | None:
    """Whether an ask in line counts; None when it is still to be looked at. Those that lack quota or require a node do not."""
    queue = application.asks[ask.spec.allocation_key][1]
    assert queue is not None
    line = queue.line
    if line is None or not (line.parked or (line.stuck and queue.sort_key is not None and order_of(ask) < queue.sort_key)):
        return None
    return queue.required_node is None and isinstance(line.reason, str)
