"""The times when quota preemption starts in queues that use more than their max (CF-81, PE-97).

A queue gets a start time when its max is lowered below its usage, or when its usage exceeds its max without a decision of the
scheduler. Queues created by placement never get one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.times import NEVER


def exceeds(queue: QueueNode) -> bool:
    """True if the queue uses more of some type than its configured max."""
    return any(queue.allocated.get(name, 0) > limit for name, limit in (queue.config.max or {}).items())


def gives_back(config: QueueConfig) -> bool:
    """True if the settings of a queue enable quota preemption: configured, with a max and a delay."""
    return config.managed and bool(config.max) and config.properties.quota_preemption_delay_ns > 0


def next_start(start_ns: int | None, before: QueueConfig | None, queue: QueueNode, now_ns: int) -> int | None:
    """The start of quota preemption of a queue after its settings changed from ``before``; None for never (CF-81).

    A known start moves with the delay, also into the past. There is a new start when the delay was switched on, or when the max
    of some type was lowered, whatever changed in other types (PE-81). A max that was only raised starts nothing.
    """
    if not gives_back(queue.config) or not exceeds(queue):
        return None
    delay_ns = queue.config.properties.quota_preemption_delay_ns
    before_ns = before.properties.quota_preemption_delay_ns if before is not None else 0
    if start_ns is not None:
        return start_ns + delay_ns - before_ns
    return now_ns + delay_ns if not before_ns or _is_lowered(before, queue.config) else None


def _is_lowered(before: QueueConfig | None, after: QueueConfig) -> bool:
    """True if the max of some type was lowered; a type that was not listed was unlimited."""
    old = (before.max if before is not None else None) or {}
    return any(name not in old or limit < old[name] for name, limit in (after.max or {}).items())


class QuotaClocks:
    """The start times of a partition's queues, Unix nanoseconds."""

    def __init__(self, changed: Changed) -> None:
        self.starts: KeptRows[QueueNode, int] = KeptRows(lambda queue: changed.quota_clock(queue.path))

    def adopt(self, now_ns: int, before: Mapping[QueuePath, QueueConfig], queues: Iterable[QueueNode]) -> None:
        """Update the start times after the settings of queues have changed from ``before``."""
        known = dict(self.starts)
        self.starts.clear()
        for queue in queues:
            start_ns = next_start(known.get(queue), before.get(queue.path), queue, now_ns)
            if start_ns is not None:
                self.starts[queue] = start_ns

    def grow(self, now_ns: int, leaf: QueueNode) -> None:
        """Set start times after usage of ``leaf`` grew without a decision: by a recovered or a resized allocation (QU-41)."""
        for queue in leaf.path_up:
            if queue not in self.starts and gives_back(queue.config) and exceeds(queue):
                self.starts[queue] = now_ns + queue.config.properties.quota_preemption_delay_ns

    def forget(self, queue: QueueNode) -> None:
        """Forget a queue that was removed, or whose quota preemption has run: there is no second run (PE-82)."""
        self.starts.discard(queue)

    def due(self, now_ns: int) -> list[QueueNode]:
        """Queues whose start time has come, in name order, without those below another such queue (PE-96).

        Forgets queues that are no longer above their max.
        """
        for queue in [queue for queue in self.starts if not exceeds(queue)]:
            self.forget(queue)
        found: dict[QueueNode, None] = {}
        for queue in sorted(self.starts, key=lambda queue: queue.path.split(".")):
            if self.starts[queue] <= now_ns and not any(above in found for above in queue.path_up):
                found[queue] = None
        return list(found)

    def next_ns(self) -> int:
        """The next start time; ``NEVER`` if there is none."""
        return min(self.starts.values(), default=NEVER)
