"""A queue configuration in the form of ``/ws/v1/config``: as it is written in the queue file, completed, as YAML or as JSON.

Fields with their default are left out, but for names, types, and in JSON for nested objects: those have a factory of their
default, which msgspec never leaves out. YAML has the names of JSON in lower case.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from msgspec import Struct, field, structs

from ykactor.wire.queuefile.fields import Text
from ykactor.wire.queuefile.load import written
from ykactor.wire.queuefile.schema import (
    FilterText,
    LimitText,
    NodeSortText,
    PartitionText,
    PreemptionText,
    Quantities,
    QueueText,
    ResolverText,
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
    resources: Resources = field(default_factory=Resources)


class Limit(_Part, frozen=True, kw_only=True):
    """A limit of users and groups."""

    limit: str = ""
    users: list[str] = []
    groups: list[str] = []
    max_resources: Quantities = {}
    max_applications: int = 0


class Queue(_Part, frozen=True, kw_only=True):
    """A queue and those below it."""

    name: str = field(default_factory=lambda: "root")
    is_parent: bool = field(name="Parent", default=False)
    resources: Resources = field(default_factory=Resources)
    max_applications: int = 0
    properties: dict[str, str] = {}
    admin_acl: str = field(name="AdminACL", default="")
    submit_acl: str = field(name="SubmitACL", default="")
    child_template: Template = field(default_factory=Template)
    queues: list[Queue] = []
    limits: list[Limit] = []


class Filter(_Part, frozen=True, kw_only=True):
    """The users and groups of a placement rule."""

    type: str = field(name="Type", default_factory=str)
    users: list[str] = []
    groups: list[str] = []


class Rule(_Part, frozen=True, kw_only=True):
    """A placement rule."""

    name: str
    create: bool = False
    filter: Filter = field(default_factory=Filter)
    parent: Rule | None = None
    value: str = ""


class NodeSorting(_Part, frozen=True, kw_only=True):
    """The order of nodes."""

    type: str = field(name="Type", default_factory=str)
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
    preemption: Preemption = field(default_factory=Preemption)
    node_sort_policy: NodeSorting = field(default_factory=NodeSorting)
    user_group_resolver: Resolver = field(default_factory=Resolver)


class Configuration(_Part, frozen=True, kw_only=True):
    """A queue file. ``checksum`` is that of its text."""

    partitions: list[Partition]
    checksum: str
    deadlock_detection_enabled: bool
    deadlock_timeout_seconds: int


#: Nested objects that YAML leaves out.
_EMPTY = (Resources(), Template(), Filter(), NodeSorting(), Preemption(), Resolver())


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
        partitions=_shown(written(text)),
        checksum=checksum,
        deadlock_detection_enabled=False,
        deadlock_timeout_seconds=60,
    )


_SHOWN = {
    FilterText: Filter,
    LimitText: Limit,
    NodeSortText: NodeSorting,
    PartitionText: Partition,
    PreemptionText: Preemption,
    QueueText: Queue,
    ResolverText: Resolver,
    ResourcesText: Resources,
    RuleText: Rule,
    TemplateText: Template,
}


def _shown(value: Any) -> Any:
    """Convert what is written in the file: mappings become what shows them, with defaults where nothing is written."""
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if not isinstance(value, Text):
        return value
    kind = _SHOWN[type(value)]
    fields = {name: getattr(value, name) for name in kind.__struct_fields__}
    return kind(**{name: _shown(content) for name, content in fields.items() if content not in (None, "")})
