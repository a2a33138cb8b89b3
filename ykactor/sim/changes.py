"""Makes the changes that could let an ask be placed: each by a configuration, a message or an act of an operator.

``apply`` makes several, one after the other, with what follows from each; raises are one configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from ykactor.core.config.model import Limit, QueueConfig
from ykactor.core.inspection.changes import (
    AddNode,
    Change,
    DropTerm,
    EndHold,
    Free,
    Prioritise,
    Raise,
    Resize,
    Undrain,
    Wait,
)
from ykactor.core.messages.acts import (
    Administration,
    CancelTask,
    HoldApplication,
    HoldQueue,
    Operator,
    SetPriority,
    SetQueueQuotas,
)
from ykactor.core.messages.asks import REQUIRED_NODE_TAGS, Ask, AskID, unstamped
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.messages.submissions import ApplyConfig, ReleaseAllocations, Submission, UpdateNode
from ykactor.core.values import selector
from ykactor.core.values.ids import NodeID, QueuePath
from ykactor.core.values.quantities import MAX_APPLICATIONS_TAG, MAX_TAG
from ykactor.core.values.times import S_NS
from ykactor.sim.direct import DirectPartition

_ASKER = Operator("explain")


def apply(partition: DirectPartition, ask_id: AskID, changes: Sequence[Change], now_ns: int) -> str:
    """Make changes at a time, and schedule until nothing more can be decided after each. Returns why one is refused; else "".

    Args:
        ask_id: the pending ask that they are for.
    """
    raises = [change for change in changes if isinstance(change, Raise) and not change.is_dynamic]
    if raises:
        config = partition.core.registry.config
        root = _raised(config.root, raises)
        if refusal := next(_objections(root, [change.queue_name for change in raises]), ""):
            return refusal
        partition.intake(now_ns, [ApplyConfig(structs.replace(config, root=root))])
    for change in changes:
        if isinstance(change, Wait):
            partition.advance(now_ns + round(change.seconds * S_NS))
        elif change not in raises:
            for act in _acts(partition, ask_id, change):
                if refusal := partition.administer(now_ns, act):
                    return refusal
            partition.intake(now_ns, _submissions(partition, ask_id, change))
    return ""


# ---- acts and messages


def _acts(partition: DirectPartition, ask_id: AskID, change: Change) -> Iterator[Administration]:
    match change:
        case EndHold(queue_name=queue):
            yield HoldQueue(queue, False, _ASKER) if queue else HoldApplication(ask_id[0], False, _ASKER)
        case Free(tasks=tasks):
            yield from (CancelTask(*task, _ASKER) for task in tasks)
        case Prioritise(after=after):
            yield SetPriority(*ask_id, after, _ASKER)
        case Raise(queue_name=queue, resource="", after=after):
            yield SetQueueQuotas(queue, {MAX_APPLICATIONS_TAG: str(after)})
        case Raise(queue_name=queue, resource=resource, after=after):
            most = {**(partition.core.registry.queues[queue].config.max or {}), resource: after}
            quota = {"resources": {name: {"value": amount} for name, amount in most.items()}}
            yield SetQueueQuotas(queue, {MAX_TAG: json.dumps(quota)})


def _submissions(partition: DirectPartition, ask_id: AskID, change: Change) -> list[Submission]:
    application_id, key = ask_id
    match change:
        case Resize(resource=resource, after=after):
            ask = _ask(partition, ask_id)
            return [structs.replace(ask, resource={**ask.resource, resource: after})]
        case DropTerm(index=index):
            ask = _ask(partition, ask_id)
            again = structs.replace(ask, tags=_without_term(ask.tags, index), failures=())
            return [ReleaseAllocations(application_id, key, TerminationType.STOPPED_BY_RM), again]
        case Undrain(node_id=node_id):
            return [UpdateNode(node_id, NodeAction.DRAIN_TO_SCHEDULABLE)]
        case AddNode(like=like):
            node = partition.core.registry.nodes[like]
            return [UpdateNode(_new_name(partition, like), NodeAction.CREATE, dict(node.capacity), dict(node.attributes))]
        case _:
            return []


def _ask(partition: DirectPartition, ask_id: AskID) -> Ask:
    """The pending ask as it was sent."""
    return unstamped(partition.scheduler.state.applications[ask_id[0]].asks[ask_id[1]][0])


def _new_name(partition: DirectPartition, like: NodeID) -> NodeID:
    """A name that no node has and that comes behind that of the node."""
    name = f"{like}-new"
    while NodeID(name) in partition.core.registry.nodes:
        name += "-new"
    return NodeID(name)


def _without_term(tags: dict[str, str], index: int | None) -> dict[str, str]:
    if index is None:
        return {name: value for name, value in tags.items() if name not in REQUIRED_NODE_TAGS}
    terms = list(selector.parse(tags[selector.TAG]))
    del terms[index]
    return {**tags, selector.TAG: ", ".join(map(selector.text, terms))}


# ---- raises are a configuration


def _raised(queue: QueueConfig, raises: Sequence[Raise]) -> QueueConfig:
    """The configuration of a queue and those below it with raises."""
    for change in raises:
        if change.queue_name == queue.path:
            queue = _with(queue, change)
    if not any(change.queue_name.startswith(f"{queue.path}.") for change in raises):
        return queue
    return structs.replace(queue, children=tuple(_raised(child, raises) for child in queue.children))


def _with(queue: QueueConfig, change: Raise) -> QueueConfig:
    if change.whose:
        decides = limit_of(queue, change.whose)
        limits = (_with_limit(limit, change) if limit is decides else limit for limit in queue.limits)
        return structs.replace(queue, limits=tuple(limits))
    if change.resource:
        return structs.replace(queue, max={**(queue.max or {}), change.resource: change.after})
    return structs.replace(queue, max_applications=change.after)


def _with_limit(limit: Limit, change: Raise) -> Limit:
    if change.resource:
        return structs.replace(limit, max_resources={**(limit.max_resources or {}), change.resource: change.after})
    return structs.replace(limit, max_applications=change.after)


def limit_of(queue: QueueConfig, whose: str) -> Limit | None:
    """The limit that a queue sets for a user or group: the last one that names it, else that for ``*`` (QU-62)."""
    kind, _, name = whose.partition(" ")
    named = {each: limit for limit in queue.limits for each in (limit.users if kind == "user" else limit.groups)}
    return named.get(name) or named.get("*")


def _objections(root: QueueConfig, paths: Iterable[QueuePath]) -> Iterator[str]:
    """The amounts of these queues that the queue file may not have: more than above (E18, E20, E25, E38, E40 to E47)."""
    for path in paths:
        lineage = list(_lineage(root, path))
        queue = lineage[-1]
        for above in lineage[:-1]:
            if _exceeds(queue.max, above.max) or _exceeds_count(queue.max_applications, above.max_applications):
                yield f"queue {path} may not have more than {above.path}"
        for limit in queue.limits:
            if _exceeds(limit.max_resources, queue.max) or _exceeds_count(limit.max_applications, queue.max_applications):
                yield f"a limit in queue {path} may not be above its max"
            for above in lineage[:-1]:
                yield from (f"a limit in {path} may not be above that in {above.path}" for _ in _wider(limit, above))


def _wider(limit: Limit, above: QueueConfig) -> Iterator[str]:
    """The users and groups for which a limit allows more than the queue above."""
    for whose in [*(f"user {name}" for name in limit.users), *(f"group {name}" for name in limit.groups)]:
        other = limit_of(above, whose)
        if other is not None and (
            _exceeds(limit.max_resources, other.max_resources) or _exceeds_count(limit.max_applications, other.max_applications)
        ):
            yield whose


def _lineage(root: QueueConfig, path: QueuePath) -> Iterator[QueueConfig]:
    """The queues from root down to a path."""
    queue = root
    yield queue
    while queue.path != path:
        queue = next(child for child in queue.children if f"{path}.".startswith(f"{child.path}."))
        yield queue


def _exceeds(amounts: dict[str, int] | None, most: dict[str, int] | None) -> bool:
    return any(amount > (most or {}).get(name, amount) for name, amount in (amounts or {}).items())


def _exceeds_count(count: int, most: int) -> bool:
    """True if a number of running applications is above another one; 0 is no limit."""
    return most > 0 and count > most
