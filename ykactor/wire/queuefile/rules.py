"""The validation rules of the queue file, in the order in which mistakes are reported (CF-74).

``check`` takes normalised partitions and adds mistakes. The rules for resources, limits and placement have their own modules.
"""

from collections.abc import Iterator

from ykactor.core.messages.held_limits import TYPES_MAX
from ykactor.core.placement.rules import RECOVERY_NAME
from ykactor.core.values.quantities import is_queue_name, shown
from ykactor.wire.queuefile import access_lists, limit_rules, placement_rules, resource_rules
from ykactor.wire.queuefile.places import find, note
from ykactor.wire.queuefile.schema import NODE_SORT_TYPES, RESOLVERS, PartitionText, Quantities, QueueText
from ykactor.wire.queuefile.text import Mistakes

#: More than any file needs, and small enough that a weighted sum of floats cannot overflow.
WEIGHT_MAX = 1e100
#: Properties of a queue or a template: all queues below inherit them.
PROPERTIES_MAX = 64


def check(partitions: list[PartitionText], mistakes: Mistakes) -> None:
    """Add a mistake for every broken rule."""
    first_of_name: dict[str, PartitionText] = {}
    for partition in partitions:
        root = partition.root
        _check_structure(partition, first_of_name, mistakes)
        if root is not None:
            _check_queue(root, mistakes)
            resource_rules.check(root, {}, mistakes)
        placement_rules.check(partition, mistakes)
        _check_node_sort(partition, mistakes)
        _check_resolver(partition, mistakes)
        if root is not None:
            _check_max_applications(root, mistakes)
            limit_rules.check_path(root, mistakes)
            _check_types(partition, root, mistakes)


def _check_structure(partition: PartitionText, first_of_name: dict[str, PartitionText], mistakes: Mistakes) -> None:
    """E01 to E03 and E05."""
    first = first_of_name.setdefault(partition.name.lower(), partition)
    if first is not partition:
        place = first.place
        text = f"found a second partition {shown(partition.name)}, the first is {place.path} in line {place.node.line}"
        note(mistakes, "E01", partition, ("name",), text)
    root = partition.root
    if root is None:
        note(mistakes, "E02", partition, ("queues",), "found no queues, expected a list (which may be empty)")
        return
    if root.resources is not None:
        for kind, written in (("guaranteed", root.resources.guaranteed), ("max", root.resources.max)):
            if written is not None:
                text = f"root queue must not have resource limits set, found {kind}"
                note(mistakes, "E03", root.resources, (kind,), text)
        root.resources = None  # reported once, and not compared with the queues below
    if partition.limits and partition.limits != root.limits:
        text = f"found limits that differ from those of {root.place.path}, expected limits in one place, or the same in both"
        note(mistakes, "E05", partition, ("limits",), text)


def _check_queue(queue: QueueText, mistakes: Mistakes) -> None:
    """E06 to E20 of this queue and E21, E22 and CF-28 of its children, then the same for each child."""
    for key, acl in (("adminacl", queue.admin_acl), ("submitacl", queue.submit_acl)):
        if not access_lists.is_access_list(acl):
            text = f"found {shown(acl)}, expected users, one space, groups (each a comma-separated list, or *)"
            note(mistakes, "E06", queue, (key,), text)
    limit_rules.check_queue(queue, mistakes)
    _check_properties(queue, mistakes)
    first_of_path: dict[str, QueueText] = {}
    for child in queue.queues:
        if not is_queue_name(child.name):
            text = f"found {shown(child.name)}, expected 1 to 64 letters, digits or _ : # / @ -"
            note(mistakes, "E21", child, ("name",), text)
            continue
        first = first_of_path.setdefault(child.path, child)
        if first is not child:
            text = f"found a second queue {child.path}, the first is in line {find(first.place.node, 'name').line}"
            note(mistakes, "E22", child, ("name",), f"{text} (names are compared without case)")
        if queue.is_root and child.name.lower() == RECOVERY_NAME:
            note(mistakes, "CF-28", child, ("name",), f"the name {RECOVERY_NAME} is reserved for the recovery queue")
    for child in queue.queues:
        _check_queue(child, mistakes)


def _check_properties(queue: QueueText, mistakes: Mistakes) -> None:
    """E49."""
    for owner in (queue, queue.child_template):
        if owner is not None and len(owner.properties) > PROPERTIES_MAX:
            text = f"found {len(owner.properties)} properties, expected at most {PROPERTIES_MAX}"
            note(mistakes, "E49", owner, ("properties",), text)


def _check_node_sort(partition: PartitionText, mistakes: Mistakes) -> None:
    """E36 and E37."""
    policy = partition.node_sort_policy
    if policy is None:
        return
    if policy.type not in NODE_SORT_TYPES:
        note(mistakes, "E36", policy, ("type",), f"found {shown(policy.type)}, expected fair or binpacking")
    for name, weight in policy.resource_weights.items():
        if not 0 <= weight <= WEIGHT_MAX:
            text = f"found {weight}, expected a weight from 0 to {WEIGHT_MAX:g}"
            note(mistakes, "E37", policy, ("resourceweights", name), text)


def _check_resolver(partition: PartitionText, mistakes: Mistakes) -> None:
    """CF-62."""
    resolver = partition.user_group_resolver
    if resolver is not None and resolver.type not in RESOLVERS:
        text = f"found {shown(resolver.type)}, expected {', '.join(filter(None, RESOLVERS))}, or nothing"
        note(mistakes, "CF-62", resolver, ("type",), text)


def _check_types(partition: PartitionText, root: QueueText, mistakes: Mistakes) -> None:
    """E48."""
    found = {name for written in _quantities(root) for name in written}
    if partition.node_sort_policy is not None:
        found.update(partition.node_sort_policy.resource_weights)
    if len(found) > TYPES_MAX:
        note(mistakes, "E48", partition, ("queues",), f"found {len(found)} resource types, expected at most {TYPES_MAX}")


def _quantities(queue: QueueText) -> Iterator[Quantities]:
    """All quantities of a queue and below."""
    template = queue.child_template
    for resources in (queue.resources, template.resources if template is not None else None):
        if resources is not None:
            yield resources.max or {}
            yield resources.guaranteed or {}
    for limit in queue.limits:
        yield limit.max_resources
    for child in queue.queues:
        yield from _quantities(child)


def _check_max_applications(queue: QueueText, mistakes: Mistakes) -> None:
    """E38 and E39, from the top down. A parent without limit (0) allows any number."""
    limit = queue.max_applications
    for child in queue.queues:
        if limit and child.max_applications == 0:
            text = f"found no limit (0), expected 1 to {limit}, the maxapplications of {queue.path}"
            note(mistakes, "E39", child, ("maxapplications",), text)
        elif limit and child.max_applications > limit:
            text = f"found {child.max_applications}, expected at most {limit}, the maxapplications of {queue.path}"
            note(mistakes, "E38", child, ("maxapplications",), text)
        _check_max_applications(child, mistakes)
