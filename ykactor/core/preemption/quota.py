"""Quota preemption: the amounts that a queue above its max must release, its leaves and their tasks (PE-83 to PE-87).

All amounts are per resource type in base units. Tasks that are being preempted already count as gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.messages.asks import Ask
from ykactor.core.preemption.laws import VictimSet, guarantee
from ykactor.core.preemption.victims import Victim
from ykactor.core.queueing.leaf_order import usage_key
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.values.resources import Resource, positive
from ykactor.core.values.times import S_NS

_HOUR_NS = 3600 * S_NS

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
