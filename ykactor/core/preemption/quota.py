"""Quota preemption: when it starts in a queue that uses more than its max (CF-81, PE-97), and what the queue must release: the
amounts, its leaves and their tasks (PE-83 to PE-87).

A queue gets a start time when its max is lowered below its usage, or when its usage exceeds its max without a decision of the
scheduler. Queues created by placement never get one. All amounts are per resource type in base units. Tasks that are being
preempted already count as gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.preemption.laws import VictimSet, guarantee
from ykactor.core.preemption.victims import Victim
from ykactor.core.queueing.leaf_order import usage_key
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource, positive
from ykactor.core.values.times import NEVER, S_NS

_HOUR_NS = 3600 * S_NS


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


#: A task that may be preempted, behind its position among others, which is unique, so tasks are never compared.
Candidate = tuple[tuple[object, ...], Ask]


def left(queue: QueueNode, name: str) -> int:
    """The usage of a type by a queue when all its victims have ended."""
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0)


def preemptable(queue: QueueNode) -> Resource:
    """The amounts that a queue must release: its usage above its max, without what it or a queue above is guaranteed (PE-83).

    Types with nothing to release are left out. If a queue on the path is below its guarantee of a type, nothing of that type
    is released.
    """
    amounts = {}
    for name, limit in (queue.config.max or {}).items():
        spare = [left(above, name) - guarantee(above, name) for above in queue.path_up if guarantee(above, name)]
        amounts[name] = min([left(queue, name) - limit, *spare])
    return positive(amounts)


def shares(
    queue: QueueNode, amount: Resource, children: dict[QueueNode, list[QueueNode]]
) -> Iterator[tuple[QueueNode, Resource]]:
    """The leaves at or below a queue that must release tasks, each with its part of ``amount`` (PE-84).

    The amount is divided among children in proportion to what they use above their own guarantees, rounded down; the remainder
    is not released. A part lists all types of ``amount``, also those with 0: tasks that use these types may not be released.
    """
    if queue.is_leaf:
        yield queue, amount
        return
    surplus = {child: _surplus(child, amount) for child in children.get(queue, ())}
    total = {name: sum(above[name] for above in surplus.values()) for name in amount}
    for child, above in surplus.items():
        part = {name: amount[name] * above[name] // total[name] if total[name] else 0 for name in amount}
        if any(part.values()):
            yield from shares(child, part, children)


def _surplus(queue: QueueNode, names: Iterable[str]) -> Resource:
    return {name: max(0, left(queue, name) - guarantee(queue, name)) for name in names}


def candidates(tasks: Iterable[Ask], part: Resource, limit: Resource) -> list[Candidate]:
    """The tasks of a leaf that use a type it must release, in the order in which they are preempted (PE-85, PE-86).

    Results for several parts of the tasks can be merged.

    Args:
        part: the amounts that the leaf must release.
        limit: the max of the queue above its quota; lists all types of ``part``.
    """
    wanted = positive(part).keys()
    return sorted((_order(task, limit, part), task) for task in tasks if wanted & positive(task.resource).keys())


def _order(task: Ask, limit: Resource, part: Resource) -> tuple[object, ...]:
    """Tasks that allow to be preempted first and originators last; then by share of matching types, lower priority, later
    hour of creation, and smaller size.
    """
    used = positive(task.resource)
    wanted = {name: used.get(name, 0) for name in part if part[name]}
    match = 100 * sum(amount > 0 for amount in wanted.values()) // len(used)
    newness = -(task.created_ns // _HOUR_NS)
    size = usage_key(wanted, limit)
    last_resort = not task.allow_preempt_self, task.originator
    return *last_resort, -match, task.priority, newness, size, task.allocation_key, task.application_id


def choose(leaf: QueueNode, tasks: Iterable[Candidate], rest: Resource, spared: VictimSet) -> list[Victim]:
    """Victims in ``leaf``: tasks in order while they fit into what remains to be released; larger ones are skipped (PE-87).

    Args:
        rest: the amounts that remain to be released; reduced by the victims.
        spared: the victims of this run so far; it enforces the guarantees of queues (law 2), also of types not to be released.
    """
    chosen = []
    for _, task in tasks:
        resource = task.resource
        if all(resource.get(name, 0) <= amount for name, amount in rest.items()) and spared.take(leaf, resource):
            chosen.append(Victim(task, leaf))
            for name in rest:
                rest[name] -= resource.get(name, 0)
    return chosen
