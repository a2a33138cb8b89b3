"""The laws of preemption between queues, as sums and comparisons of the amounts in the ledger (PE-91).

All amounts are per resource type in base units; an absent type is 0. The *use* of a queue is its future usage, after all
decisions: victims are subtracted, and the claims of asks that preempt are added (PE-19).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ykactor.core.queueing.priorities import priority_above
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.resources import Resource

#: (resource type, amount above 0) of an ask.
Needs = tuple[tuple[str, int], ...]


def use(queue: QueueUsage, name: str) -> int:
    """The future usage of a type by a queue: allocated, minus its victims, plus claims."""
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0) + queue.claims.get(name, 0)


def guarantee(queue: QueueUsage, name: str) -> int:
    """The queue's guarantee of a type; 0 is none (a configured 0 counts as not configured)."""
    return (queue.config.guaranteed or {}).get(name, 0)


def fence_root(leaf: QueueUsage, needs: Needs) -> QueueUsage:
    """The queue below which an ask of ``leaf`` may look for victims (PE-20, PE-21).

    The first queue on the path up that is a fence, or whose max the ask would exceed: only victims below that queue make room.
    """
    for queue in leaf.path_up:
        if queue.config.properties.preemption_policy == "fence" or _exceeds(queue, needs):
            return queue
    return leaf.path_up[-1]


def _exceeds(queue: QueueUsage, needs: Needs) -> bool:
    limit = queue.max or {}
    return any(name in limit and use(queue, name) + wanted > limit[name] for name, wanted in needs)


class Trigger(Struct, frozen=True):
    """The right to preempt of a queue below its guarantee (law 4).

    Attributes:
        is_own: the leaf itself is below its guarantee; else a queue above it is (PE-27).
        queue: the queue below its guarantee.
        remaining: the amounts below the guarantee, above 0, for each type of the ask that has a guarantee on the path up.
    """

    is_own: bool
    queue: QueueUsage
    remaining: Resource


def trigger(leaf: QueueUsage, needs: Needs) -> Trigger | None:
    """The right of an ask of ``leaf`` to preempt (PE-24 to PE-27); None if a type of the ask has used up its guarantee.

    The ask itself may exceed the guarantee, once (PE-26).
    """
    remaining: dict[str, tuple[int, QueueUsage]] = {}
    for name, _ in needs:
        found = _remaining(leaf, name)
        if found is not None:
            remaining[name] = found
    if not remaining or any(amount <= 0 for amount, _ in remaining.values()):
        return None
    queues = [queue for _, queue in remaining.values()]
    is_own = leaf in queues
    return Trigger(is_own, leaf if is_own else queues[0], {name: amount for name, (amount, _) in remaining.items()})


def _remaining(leaf: QueueUsage, name: str) -> tuple[int, QueueUsage] | None:
    own = guarantee(leaf, name)
    if own:
        return own - use(leaf, name), leaf
    above = [(guarantee(queue, name) - use(queue, name), queue) for queue in leaf.path_up[1:] if guarantee(queue, name)]
    return min(above, key=lambda entry: entry[0], default=None)


def effective_priority(priority: int, leaf: QueueUsage, below: QueueUsage) -> int:
    """The priority of a task of ``leaf`` as its ancestor ``below`` sees it (PE-28)."""
    for queue in leaf.path_up:
        if queue is below:
            break
        priority = priority_above(priority, queue.config.properties)
    return priority


class VictimSet:
    """A growing set of victims for one ask that leaves no queue below its guarantee (law 2, PE-41)."""

    def __init__(self, leaf: QueueUsage, needs: Needs, *, is_own: bool) -> None:
        self._shared = set(leaf.path_up)
        self._wanted = dict(needs)
        self._is_own = is_own
        self._freed: dict[QueueUsage, Resource] = {}

    def take(self, leaf: QueueUsage, resource: Resource) -> bool:
        """Add a task of ``leaf`` if all queues on its path can spare it; returns whether it was added."""
        if not self.can_take(leaf, resource):
            return False
        for queue in leaf.path_up:
            freed = self._freed.setdefault(queue, {})
            for name, amount in resource.items():
                freed[name] = freed.get(name, 0) + amount
        return True

    def can_take(self, leaf: QueueUsage, resource: Resource) -> bool:
        """True if a task of ``leaf`` may be added. If not, it may not later either: the set only grows."""
        return all(self._spares(queue, resource) for queue in leaf.path_up)

    def _spares(self, queue: QueueUsage, resource: Resource) -> bool:
        guaranteed = queue.config.guaranteed
        if not guaranteed:
            return True
        freed, is_exchange = self._freed.get(queue, {}), self._is_own and queue in self._shared
        for name, amount in resource.items():
            bound = guaranteed.get(name, 0)
            if amount <= 0 or not bound:
                continue
            used = use(queue, name)
            left = used - freed.get(name, 0) - amount
            if is_exchange:
                left, bound = left + self._wanted.get(name, 0), min(used, bound)
            if left < bound:
                return False
        return True


def shares(
    queues: Iterable[QueueUsage], freed: dict[QueueUsage, Resource], gained: dict[QueueUsage, Resource]
) -> dict[str, float]:
    """The largest used fraction of each queue's guarantee, by path, as if the amounts had been freed and gained."""
    found = {}
    for queue in queues:
        parts = [
            (use(queue, name) - freed.get(queue, {}).get(name, 0) + gained.get(queue, {}).get(name, 0)) / bound
            for name, bound in (queue.config.guaranteed or {}).items()
            if bound
        ]
        if parts:
            found[str(queue.path)] = max(parts)
    return found
