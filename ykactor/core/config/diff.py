"""The differences between two configurations in sentences, for the log and the event stream."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.config.model import PartitionConfig, QueueConfig

#: Settings of a queue and their names in the queue file: those that are shown with both values, and those that are only named.
_SHOWN = {"max": "max", "guaranteed": "guaranteed", "max_applications": "maxapplications"}
_NAMED = {"submit_acl": "submitacl", "admin_acl": "adminacl", "limits": "limits", "child_template": "child template"}


def queue_changes(before: QueueConfig, after: QueueConfig) -> Iterator[str]:
    """The changes of a queue that stays: one sentence for each setting."""
    if not before.managed:
        yield f"queue {after.path}: managed by the configuration from now on"
    if before.is_parent is not after.is_parent:
        yield f"queue {after.path}: {'leaf becomes parent' if after.is_parent else 'parent becomes leaf once it has no children'}"
    for name, shown in _SHOWN.items():
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"queue {after.path}: {shown} {_text(old)} -> {_text(new)}"
    for key in sorted(before.property_map.keys() | after.property_map.keys()):
        old, new = before.property_map.get(key), after.property_map.get(key)
        if old != new:
            yield f"queue {after.path}: {key} {_text(old)} -> {_text(new)}"
    for name, named in _NAMED.items():
        if getattr(before, name) != getattr(after, name):
            yield f"queue {after.path}: {named} changed"


def partition_changes(before: PartitionConfig, after: PartitionConfig) -> Iterator[str]:
    """The changes of a partition other than those of its queues: one sentence for each."""
    if before.placement_rules != after.placement_rules:
        yield "placement rules changed, for new applications"
    if before.node_sort_policy != after.node_sort_policy:
        old, new = before.node_sort_policy, after.node_sort_policy
        yield f"node sort policy {old.type} {_text(old.resource_weights)} -> {new.type} {_text(new.resource_weights)}"
    if before.preemption != after.preemption:
        yield "preemption switches changed"
    if before.user_group_resolver != after.user_group_resolver:
        yield "usergroupresolver changed: ignored until the partition starts anew"


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {quantity}" for name, quantity in sorted(value.items())) + "}"
    return "not set" if value is None else str(value)
