"""The configuration of partitions and queues: plain data, already validated by ``wire.queuefile``; and how two of them differ.

Everything inherited by managed queues is resolved here (CF-35 to CF-38, QU-15), so that readers of a ``QueueConfig`` need
not look at its parents.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from ykactor.core.config.properties import QueueProperties
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.resources import Resource


class AccessList(Struct, frozen=True, forbid_unknown_fields=True):
    """The users and groups that an ACL names (QU-106); without entries nobody."""

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


class Limit(Struct, frozen=True, forbid_unknown_fields=True):
    """The limit of each of the named users and groups in a queue and below (QU-60); ``*`` is everybody else."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    #: None is "not limited"; a type that is not listed is not limited, a type with 0 may not be used.
    max_resources: Resource | None = None
    #: Running applications; 0 is "not limited".
    max_applications: int = 0


class ChildTemplate(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that a dynamic leaf gets when it is created (QU-16)."""

    max_applications: int = 0
    properties: dict[str, str] = {}
    max: Resource | None = None
    guaranteed: Resource | None = None


class QueueConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one queue."""

    path: QueuePath
    #: A parent may have no children (``parent: true``).
    is_parent: bool
    properties: QueueProperties = QueueProperties()
    #: The property map that ``properties`` interprets: after inheritance, unknown keys included.
    property_map: dict[str, str] = {}
    #: None is "no limit"; a type that is not listed is unlimited, a type with 0 is forbidden (QU-31, QU-32).
    max: Resource | None = None
    #: None is "no guarantee".
    guaranteed: Resource | None = None
    #: Running applications; 0 is "no limit" (QU-50).
    max_applications: int = 0
    submit_acl: AccessList = AccessList()
    admin_acl: AccessList = AccessList()
    #: In the order of the text.
    limits: tuple[Limit, ...] = ()
    #: For dynamic leaves below: the queue's own template, or that of the nearest ancestor that has one (QU-15).
    child_template: ChildTemplate | None = None
    #: In the order of the text.
    children: tuple[QueueConfig, ...] = ()
    #: False for a queue that placement created (QU-9).
    managed: bool = True


class NameFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """The users or the groups of a placement filter (PL-13 to PL-15).

    Attributes:
        listed: True if the text lists any entries, also if all of them were dropped as illegal.
        names: literal names.
        expression: a regular expression that is searched for in the name; "" is none.
    """

    listed: bool = False
    names: frozenset[str] = frozenset()
    expression: str = ""


class PlacementFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """The users and groups for which a placement rule is tried (PL-10 to PL-15)."""

    allow: bool = True
    users: NameFilter = NameFilter()
    groups: NameFilter = NameFilter()


class PlacementRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One placement rule, with the rule that gives its parent queue (PL-21, PL-55)."""

    #: Of ``placement.rules.RULES``.
    name: str
    create: bool = False
    #: The queue of ``fixed`` in lower case, the tag's name of ``tag``.
    value: str = ""
    filter: PlacementFilter = PlacementFilter()
    parent: PlacementRule | None = None


class NodeSortPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """The order of nodes (PR-62)."""

    #: ``fair`` or ``binpacking``.
    type: str = "fair"
    #: Relative; only the listed types count (PR-63).
    resource_weights: dict[str, float] = field(default_factory=lambda: {"vcore": 1.0, "memory": 1.0})


class PreemptionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The preemption switches of a partition (CF-70)."""

    enabled: bool = True
    quota_enabled: bool = False


class PartitionConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one partition."""

    name: PartitionName
    root: QueueConfig
    node_sort_policy: NodeSortPolicy = NodeSortPolicy()
    #: Without rules an application must name an existing leaf (PL-2).
    placement_rules: tuple[PlacementRule, ...] = ()
    preemption: PreemptionSettings = PreemptionSettings()
    #: Which groups a user has that is submitted without: "" (one group of the same name) or ``os`` (QU-93).
    user_group_resolver: str = ""


class SchedulerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of all partitions. ``checksum`` is that of CF-12; ``warnings`` name values replaced by their default."""

    partitions: tuple[PartitionConfig, ...]
    checksum: str
    text: str
    warnings: tuple[str, ...] = ()


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
