"""Queues above their max, and why they stay there: for events, snapshots and metrics. No decision depends on it.

It is computed from the ledger on demand, in a few sums for each queue; tasks are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ykactor.core.messages.kinds import AboveMaxCause
from ykactor.core.preemption.laws import guarantee
from ykactor.core.preemption.quota import gives_back, left
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.resources import Resource, positive
from ykactor.core.waiting import reasons


class AboveMax(NamedTuple):
    """A queue that uses more than its max although all its victims count as gone.

    Attributes:
        amounts: the excess by type, base units.
        cause: the code of the reason why it stays above its max.
        why: the same as a sentence; ``reason`` has the excess too.
    """

    amounts: Resource
    cause: AboveMaxCause
    why: str

    @property
    def reason(self) -> str:
        """``2 vcore above its maximum; it has given back what it could``."""
        return reasons.above_max(self.amounts, self.why)


def above_max(state: SchedulerState, queue: QueueNode) -> AboveMax | None:
    """The excess of a queue over its max, and why it stays there; None if it is not above it."""
    amounts = positive({name: left(queue, name) - limit for name, limit in (queue.config.max or {}).items()})
    if not amounts:
        return None
    cause, why = _why(state, queue)
    return AboveMax(amounts, cause, why)


def _why(state: SchedulerState, queue: QueueNode) -> tuple[AboveMaxCause, str]:
    if not (state.enforces_quotas() and gives_back(queue.config)):
        return AboveMaxCause.OFF, reasons.QUOTA_PREEMPTION_OFF
    start_ns = state.clocks.starts.get(queue)
    if start_ns is not None:
        return AboveMaxCause.WAITS, reasons.gives_back_at(start_ns)
    guarded = [reasons.guarded(name, missing, "" if above is queue else above.path) for name, missing, above in _guards(queue)]
    if guarded:
        return AboveMaxCause.GUARANTEE, reasons.guarded_by(guarded)
    return AboveMaxCause.GIVEN, reasons.HAS_GIVEN_BACK


def _guards(queue: QueueNode) -> Iterator[tuple[str, int, QueueNode]]:
    """The types in use that are guarded (PE-83, PE-87): each with the amount below the nearest guarantee, and its queue."""
    for name in sorted(queue.allocated):
        missing = [(guarantee(above, name) - left(above, name), above) for above in queue.path_up if guarantee(above, name)]
        most, above = max(missing, key=lambda entry: entry[0], default=(-1, queue))
        if most >= 0 and left(queue, name) > 0:
            yield name, most, above
