"""Random queue trees and valid configurations for them.

``draw_config`` observes the rules E24 to E27, E38 and E39: it draws from root downwards, and each queue gets a part of what its
parent has left.
"""

import random

import yaml
from msgspec import Struct

from ykactor.core.values.resources import Resource, min_union

#: Property, probability that a queue sets it, values.
_PROPERTIES: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("application.sort.policy", 0.5, ("fifo", "fair", "fair", "stateaware")),
    ("application.sort.priority", 0.15, ("disabled", "disabled", "enabled")),
    ("priority.policy", 0.15, ("fence", "default")),
    ("priority.offset", 0.3, ("-50", "-1", "1", "10", "100", "2147483647", "-2147483648")),
)


class QueueShape(Struct):
    """A queue's position in the tree; limits are drawn separately, so that each configuration can have its own."""

    name: str
    path: str
    depth: int
    children: list["QueueShape"] = []
    #: ``parent: true`` without children: applications for the queue are refused.
    barren: bool = False


def grow_tree(rng: random.Random, queues: int) -> QueueShape:
    """A random recursive tree, at most 1 to 4 levels below root, sometimes with ``root.default``."""
    root = QueueShape("root", "root", 0)
    may_grow = [root]
    depth_max = rng.randint(1, 4)
    default_number = rng.randrange(4 * queues)
    for number in range(queues):
        name, parent = ("default", root) if number == default_number else (f"q{number}", rng.choice(may_grow))
        child = QueueShape(name, f"{parent.path}.{name}", parent.depth + 1)
        parent.children.append(child)
        if child.depth < depth_max:
            may_grow.append(child)
    if len(open_leaves := leaves(root)) > 1 and rng.random() < 0.2:
        open_leaves[-1].barren = True
    return root


def leaves(queue: QueueShape) -> list[QueueShape]:
    """The queues that accept applications, in the order of the configuration."""
    if not queue.children:
        return [] if queue.barren else [queue]
    return [leaf for child in queue.children for leaf in leaves(child)]


def draw_config(rng: random.Random, tree: QueueShape, cluster: Resource) -> str:
    """The text of a valid configuration for this tree."""
    partition: dict[str, object] = {"name": "default", "queues": [_draw_queue(rng, tree, cluster, cluster, {}, 0)]}
    if rng.random() < 0.6:
        policy: dict[str, object] = {"type": rng.choice(("fair", "binpacking"))}
        if rng.random() < 0.5:
            policy["resourceweights"] = {name: rng.choice((0.0, 0.5, 1.0, 4.0)) for name in cluster}
        partition["nodesortpolicy"] = policy
    return yaml.safe_dump({"partitions": [partition]}, sort_keys=False)


def _draw_queue(
    rng: random.Random, queue: QueueShape, cluster: Resource, room: Resource, ceiling: Resource, slots: int
) -> dict[str, object]:
    """The configuration of a queue and everything below it.

    Args:
        cluster: the capacity of all nodes, the scale of the numbers.
        room: the largest guarantee of this queue; lists every type of ``cluster`` (E26, E27).
        ceiling: the parent's effective max (E25).
        slots: the parent's ``maxapplications``; 0 is no limit (E38, E39).
    """
    text: dict[str, object] = {"name": queue.name}
    slots = _draw_slots(rng, slots)
    if slots:
        text["maxapplications"] = slots
    if properties := {key: rng.choice(values) for key, chance, values in _PROPERTIES if rng.random() < chance}:
        text["properties"] = properties
    if queue.barren:
        text["parent"] = True
    if queue.depth == 0:
        text["submitacl"] = "*"
    else:  # E03: root must not have limits
        largest = _draw_max(rng, cluster, ceiling)
        ceiling = min_union(ceiling, largest) or {}
        room = {name: min(quantity, ceiling.get(name, quantity)) for name, quantity in room.items()}
        guaranteed = _draw_guaranteed(rng, room)
        room = room | guaranteed
        text["resources"] = {"max": _quantities(largest), "guaranteed": _quantities(guaranteed)}
    if queue.children:
        rooms = _share_out(rng, room, len(queue.children))
        text["queues"] = [
            _draw_queue(rng, child, cluster, child_room, ceiling, slots)
            for child, child_room in zip(queue.children, rooms, strict=True)
        ]
    return text


def _draw_slots(rng: random.Random, above: int) -> int:
    if above:
        return rng.randint(1, above)
    return rng.randint(2, 8) if rng.random() < 0.1 else 0


def _draw_max(rng: random.Random, cluster: Resource, ceiling: Resource) -> Resource:
    """Draw a max for half of the queues: of some types, rounded up, rarely 0, which forbids the type (QU-32)."""
    largest: Resource = {}
    if rng.random() < 0.5:
        return largest
    for name, quantity in cluster.items():
        if rng.random() < 0.6:
            part = 0 if rng.random() < 0.03 else -(-quantity * rng.choice((15, 30, 50, 80, 110)) // 100)
            largest[name] = min(part, ceiling.get(name, part))
    return largest


def _draw_guaranteed(rng: random.Random, room: Resource) -> Resource:
    """A guarantee for some types, from nothing to all of the room."""
    percents = (0, 25, 50, 75, 100)
    return {name: quantity * rng.choice(percents) // 100 for name, quantity in room.items() if rng.random() < 0.5}


def _share_out(rng: random.Random, whole: Resource, parts: int) -> list[Resource]:
    """``parts`` random shares, rounded down; their sum is at most ``whole``."""
    weights = [rng.randint(1, 10) for _ in range(parts)]
    return [{name: quantity * weight // sum(weights) for name, quantity in whole.items()} for weight in weights]


def _quantities(resource: Resource) -> dict[str, str]:
    """Base units in the notation of the queue file: ``vcore`` needs the suffix ``m`` to be thousandths (CF-29)."""
    return {name: f"{quantity}m" if name == "vcore" else str(quantity) for name, quantity in resource.items()}
