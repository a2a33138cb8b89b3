"""Since when, and from when on, queues have to give back what they use above their max (CF-81, PE-97).

A queue gets a start when its max is lowered below what it uses, or when it grows above its max by no decision of ours; nothing of
this outlives the process. Queues that placement created never get one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ykactor.core.config.model import QueueConfig
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.values.ids import QueuePath


def exceeds(queue: QueueNode) -> bool:
    """Whether the queue uses more of some type than its configured max."""
    return any(queue.allocated.get(name, 0) > limit for name, limit in (queue.config.max or {}).items())


def gives_back(config: QueueConfig) -> bool:
    """Whether a queue that is over its max has to give back at all."""
    return config.managed and bool(config.max) and config.properties.quota_preemption_delay_ns > 0


def next_start(start_ns: int | None, before: QueueConfig | None, queue: QueueNode, now_ns: int) -> int | None:
    """When a queue has to give back, None for never, after its settings became other than ``before`` (CF-81).

    A start moves with the delay, also into the past. There is a new one when the delay was switched on, or when the max became
    smaller in some type, whatever became of others (PE-81); a max that was only raised begins nothing.
    """
    if not gives_back(queue.config) or not exceeds(queue):
        return None
    delay_ns = queue.config.properties.quota_preemption_delay_ns
    before_ns = before.properties.quota_preemption_delay_ns if before is not None else 0
    if start_ns is not None:
        return start_ns + delay_ns - before_ns
    return now_ns + delay_ns if not before_ns or _is_lowered(before, queue.config) else None


def _is_lowered(before: QueueConfig | None, after: QueueConfig) -> bool:
    """Whether the max became smaller in some type; one that was not listed was not limited."""
    old = (before.max if before is not None else None) or {}
    return any(name not in old or limit < old[name] for name, limit in (after.max or {}).items())


class QuotaClocks:
    """The starts of all queues of a partition that have one."""

    def __init__(self) -> None:
        self.starts: dict[QueueNode, int] = {}

    def adopt(self, now_ns: int, before: Mapping[QueuePath, QueueConfig], queues: Iterable[QueueNode]) -> None:
        """The queues have other settings than ``before``."""
        known, self.starts = self.starts, {}
        for queue in queues:
            start_ns = next_start(known.get(queue), before.get(queue.path), queue, now_ns)
            if start_ns is not None:
                self.starts[queue] = start_ns

    def grow(self, now_ns: int, leaf: QueueNode) -> None:
        """Something runs in ``leaf`` that we have not placed, or has grown there (QU-41)."""
        for queue in leaf.path_up:
            if queue not in self.starts and gives_back(queue.config) and exceeds(queue):
                self.starts[queue] = now_ns + queue.config.properties.quota_preemption_delay_ns

    def forget(self, queue: QueueNode) -> None:
        """The queue is gone, or has given what it could: there is no second run (PE-82)."""
        self.starts.pop(queue, None)

    def due(self, now_ns: int) -> list[QueueNode]:
        """Who has to give back now, in name order; those below another that has to wait for another plan (PE-96).

        Forgets those that are not over their max any more.
        """
        self.starts = {queue: start_ns for queue, start_ns in self.starts.items() if exceeds(queue)}
        found: dict[QueueNode, None] = {}
        for queue in sorted(self.starts, key=lambda queue: queue.path.split(".")):
            if self.starts[queue] <= now_ns and not any(above in found for above in queue.path_up):
                found[queue] = None
        return list(found)

    def next_ns(self) -> int | None:
        """When the next queue has to give back."""
        return min(self.starts.values(), default=None)
