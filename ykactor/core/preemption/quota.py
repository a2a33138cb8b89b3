"""How a queue gives back what it uses above its max: how much, who below it, and which tasks (PE-83 to PE-87).

All amounts are per type and in base units. What has been told to go already counts as gone.
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


def left(queue: QueueNode, name: str) -> int:
    """What the queue uses of a type when everybody who was told to go has gone."""
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0)


def preemptable(queue: QueueNode) -> Resource:
    """What a queue has to give back: what it uses above its max, but nothing that somebody is guaranteed (PE-83).

    Types of which there is nothing to give back are left out. A queue above that is below its guarantee has nothing to spare:
    its deficit is not an allowance.
    """
    amounts = {}
    for name, limit in (queue.config.max or {}).items():
        spare = [left(above, name) - guarantee(above, name) for above in queue.path_up if guarantee(above, name)]
        amounts[name] = min([left(queue, name) - limit, *spare])
    return positive(amounts)


def shares(
    queue: QueueNode, amount: Resource, children: dict[QueueNode, list[QueueNode]]
) -> Iterator[tuple[QueueNode, Resource]]:
    """The leaves in or below a queue that give back, each with its part of ``amount`` (PE-84).

    Children give in proportion to what they use above their own guarantee, rounded down; the losses stay. A part lists all types
    of ``amount``, those with 0 too: nothing of these may go.
    """
    if queue.is_leaf:
        yield queue, amount
        return
    surplus = {child: _surplus(child, amount) for child in children.get(queue, ())}
    total = {name: sum(it[name] for it in surplus.values()) for name in amount}
    for child, its_surplus in surplus.items():
        part = {name: amount[name] * its_surplus[name] // total[name] if total[name] else 0 for name in amount}
        if any(part.values()):
            yield from shares(child, part, children)


def _surplus(queue: QueueNode, names: Iterable[str]) -> Resource:
    return {name: max(0, left(queue, name) - guarantee(queue, name)) for name in names}


def candidates(tasks: Iterable[Ask], part: Resource, limit: Resource) -> list[Ask]:
    """Of the tasks of a leaf those that use what it has to give, in the order in which they would go (PE-85, PE-86).

    Args:
        part: what the leaf has to give.
        limit: the max of the queue that gives back; lists all types of ``part``.
    """
    wanted = positive(part).keys()
    able = [task for task in tasks if wanted & positive(task.spec.resource).keys()]
    return sorted(able, key=lambda task: _order(task, limit, part))


def _order(task: Ask, limit: Resource, part: Resource) -> tuple[object, ...]:
    """The willing first and owners last, then who gives little else, matters less, is newer by the hour, or is smaller."""
    spec = task.spec
    used = positive(spec.resource)
    wanted = {name: used.get(name, 0) for name in part if part[name]}
    match = 100 * sum(amount > 0 for amount in wanted.values()) // len(used)
    newness = -(task.created_ns // _HOUR_NS)
    size = usage_key(wanted, limit)
    willing = not spec.allow_preempt_self, spec.originator
    return *willing, -match, spec.priority, newness, size, spec.allocation_key, spec.application_id


def choose(leaf: QueueNode, tasks: Iterable[Ask], part: Resource, spared: VictimSet) -> list[Victim]:
    """Tasks of ``leaf`` in order, as long as they fit in what it has to give; who is too large is passed over (PE-87).

    Args:
        spared: who goes already in this run; it knows what queues are guaranteed (law 2), in types that are not to be given too.
    """
    rest, chosen = dict(part), []
    for task in tasks:
        resource = task.spec.resource
        if all(resource.get(name, 0) <= amount for name, amount in rest.items()) and spared.take(leaf, resource):
            chosen.append(Victim(task, leaf))
            rest = {name: amount - resource.get(name, 0) for name, amount in rest.items()}
    return chosen
