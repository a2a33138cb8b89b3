"""The answers of the REST API about the last day. Not of Apache YuniKorn."""

from __future__ import annotations

from ykactor.core.values.resources import Resource
from ykactor.wire.rest.types import Payload


class PartitionSample(Payload, frozen=True, kw_only=True):
    """A partition at one moment.

    Attributes:
        at: the time of the sample.
        capacity, allocated, pending: of root, of up to eight types of resources.
        applications: running ones.
        pending_asks: their number; ``reasons`` has it by what they wait for, as the metric ``ykactor_pending_asks`` does.
        oldest_wait: for how long the oldest pending ask waits, in seconds.
        placed: asks that were placed since the start of the daemon; ``waited`` is the sum of their waits, in seconds.
        evicted: tasks that were preempted since the start of the daemon.
    """

    at: int
    capacity: Resource = {}
    allocated: Resource = {}
    pending: Resource = {}
    applications: int = 0
    allocations: int = 0
    pending_asks: int = 0
    reasons: dict[str, int] = {}
    oldest_wait: float = 0.0
    placed: int = 0
    waited: float = 0.0
    evicted: int = 0
