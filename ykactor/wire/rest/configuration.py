"""A queue configuration in the form of ``/ws/v1/config``: as it is written in the queue file, completed, as YAML or as JSON.

Fields with their default are left out, but for names, and in JSON for nested objects. YAML has the names of JSON in lower case.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from msgspec import Struct, field, structs

from ykactor.wire.queuefile.load import written
from ykactor.wire.queuefile.schema import (
    FilterText,
    LimitText,
    PartitionText,
    Quantities,
    QueueText,
    ResourcesText,
    RuleText,
    TemplateText,
)
from ykactor.wire.rest.codec import escaped


class _Part(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="pascal", gc=False):
    """A mapping."""


class Resources(_Part, frozen=True, kw_only=True):
    """Quantities as they are written."""

    guaranteed: Quantities = {}
    max: Quantities = {}


class Template(_Part, frozen=True, kw_only=True):
    """The settings of dynamic leaves."""

    max_applications: int = 0
    properties: dict[str, str] = {}
    resources: Resources


class Limit(_Part, frozen=True, kw_only=True):
    """A limit of users and groups."""

    limit: str = ""
    users: list[str] = []
    groups: list[str] = []
    max_resources: Quantities = {}
    max_applications: int = 0


class Queue(_Part, frozen=True, kw_only=True):
    """A queue and those below it."""

    name: str
    parent: bool = False
    resources: Resources
    max_applications: int = 0
    properties: dict[str, str] = {}
    admin_acl: str = field(name="AdminACL", default="")
    submit_acl: str = field(name="SubmitACL", default="")
    child_template: Template
    queues: list[Queue] = []
    limits: list[Limit] = []


class Filter(_Part, frozen=True, kw_only=True):
    """The users and groups of a placement rule."""

    type: str = field(name="Type")
    users: list[str] = []
    groups: list[str] = []


class Rule(_Part, frozen=True, kw_only=True):
    """A placement rule."""

    name: str
    create: bool = False
    filter: Filter
    parent: Rule | None = None
    value: str = ""


class NodeSorting(_Part, frozen=True, kw_only=True):
    """The order of nodes."""

    type: str = field(name="Type")
    resource_weights: dict[str, float] = {}


class Preemption(_Part, frozen=True, kw_only=True):
    """The switches of a partition."""

    enabled: bool | None = None
    quota_preemption_enabled: bool = False


class Resolver(_Part, frozen=True, kw_only=True):
    """The source of users' groups."""

    type: str = field(name="type", default="")


class Partition(_Part, frozen=True, kw_only=True):
    """A partition."""

    name: str
    queues: list[Queue] = []
    placement_rules: list[Rule] = []
    preemption: Preemption
    node_sort_policy: NodeSorting
    user_group_resolver: Resolver


class Configuration(_Part, frozen=True, kw_only=True):
    """A queue file. ``checksum`` is that of its text."""

    partitions: list[Partition]
    checksum: str
    deadlock_detection_enabled: bool
    deadlock_timeout_seconds: int


#: Nested objects that YAML leaves out.
_EMPTY = (Resources(), Template(resources=Resources()), Filter(type=""), NodeSorting(type=""), Preemption(), Resolver())


def json_of(text: str, checksum: str) -> bytes:
    """The configuration of a valid text, as JSON without a line feed at its end."""
    return escaped(msgspec.json.encode(_configuration(text, checksum)))


def yaml_of(text: str, checksum: str) -> bytes:
    """The same as YAML."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    content = yaml.dump(_plain(_configuration(text, checksum)), Dumper=dumper, sort_keys=False, allow_unicode=True)
    return str(content).encode()


def _plain(value: Any) -> Any:
    """Structs as mappings with the keys of YAML; keys of mappings, such as names of resources, stay."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, Struct):
        return value
    shown = {}
    for known in structs.fields(value):
        content = getattr(value, known.name)
        is_default = not known.required and content in (known.default, [], {}) and content is not True
        if not is_default and content not in _EMPTY:
            shown[known.encode_name.lower()] = _plain(content)
    return shown


def _configuration(text: str, checksum: str) -> Configuration:
    return Configuration(
        partitions=[*map(_partition, written(text))],
        checksum=checksum,
        deadlock_detection_enabled=False,
        deadlock_timeout_seconds=60,
    )


def _partition(text: PartitionText) -> Partition:
    sorting, preemption, resolver = text.node_sort_policy, text.preemption, text.user_group_resolver
    return Partition(
        name=text.name,
        queues=[*map(_queue, text.queues or [])],
        placement_rules=[*map(_rule, text.placement_rules)],
        preemption=Preemption()
        if preemption is None
        else Preemption(enabled=preemption.enabled, quota_preemption_enabled=preemption.quota_preemption_enabled),
        node_sort_policy=NodeSorting(type="")
        if sorting is None
        else NodeSorting(type=sorting.type, resource_weights=sorting.resource_weights),
        user_group_resolver=Resolver() if resolver is None else Resolver(type=resolver.type),
    )


def _queue(text: QueueText) -> Queue:
    return Queue(
        name=text.name or "root",
        parent=text.is_parent,
        resources=_resources(text.resources),
        max_applications=text.max_applications,
        properties=text.properties,
        admin_acl=text.admin_acl,
        submit_acl=text.submit_acl,
        child_template=_template(text.child_template),
        queues=[*map(_queue, text.queues)],
        limits=[*map(_limit, text.limits)],
    )


def _resources(text: ResourcesText | None) -> Resources:
    return Resources() if text is None else Resources(guaranteed=text.guaranteed or {}, max=text.max or {})


def _template(text: TemplateText | None) -> Template:
    if text is None:
        return Template(resources=Resources())
    return Template(max_applications=text.max_applications, properties=text.properties, resources=_resources(text.resources))


def _limit(text: LimitText) -> Limit:
    return Limit(
        limit=text.limit,
        users=text.users,
        groups=text.groups,
        max_resources=text.max_resources,
        max_applications=text.max_applications,
    )


def _rule(text: RuleText) -> Rule:
    return Rule(
        name=text.name,
        create=text.create,
        filter=_filter(text.filter),
        parent=None if text.parent is None else _rule(text.parent),
        value=text.value,
    )


def _filter(text: FilterText | None) -> Filter:
    return Filter(type="") if text is None else Filter(type=text.type, users=text.users, groups=text.groups)
