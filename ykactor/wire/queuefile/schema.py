# ruff: noqa: RUF012 (msgspec gives every instance its own empty list or mapping)
"""The keys of the queue file (CF-62 to CF-71): one type for each mapping, and the JSON schema for editors.

``fields`` reads these types. The name of a field without its underscores is the key: ``max_applications`` is
``maxapplications``. Editors show the docstrings: those of the types, and what they say of each field.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct, structs

from ykactor.core.config.properties import PROPERTIES
from ykactor.core.placement.rules import RULES
from ykactor.core.values.quantities import is_queue_name, shown
from ykactor.wire.queuefile.fields import Place, Text, find
from ykactor.wire.queuefile.text import Mapping, Scalar

#: Placement rules in words.
_RULES = [f"`{name}`" + " (the queue that the application names)" * (name == "provided") for name in RULES]
#: Quantities as they are written.
Quantities = dict[str, str]

NODE_SORT_TYPES = ("", "fair", "binpacking")
RESOLVERS = ("", "os", "ldap", "test")
FILTER_TYPES = ("", "allow", "deny")

#: A number of which 0 is no limit.
Count = Annotated[int, Meta(ge=0)]
_PROPERTY_EXAMPLES = {name: {"examples": [*known.examples]} for name, known in PROPERTIES.items() if known.examples}


class ResourcesText(Text):
    """The guarantee and the quota (max) of a queue. Not allowed on the root queue, which has the resources of all nodes.

    Attributes:
        guaranteed: The guarantee: resource type -> quantity, for example `vcore: 500m`, `memory: 16Gi`. A missing type has no
            guarantee.
        max: The quota: resource type -> quantity, for example `vcore: 500m`, `memory: 16Gi`. A missing type is unlimited, a type
            with 0 is forbidden.
    """

    guaranteed: Quantities | None = None
    max: Quantities | None = None


class TemplateText(Text):
    """The settings of a dynamic leaf that is created below this queue, or below a descendant without a template of its own.

    Attributes:
        max_applications: The number of running applications; 0 is no limit.
        properties: The properties of the new leaf.
        resources: The resources of the new leaf.
    """

    max_applications: Count = 0
    properties: dict[str, str] = {}
    resources: ResourcesText | None = None

    @property
    def is_set(self) -> bool:
        """True if the template has any setting; entries without key or value do not count (CF-13)."""
        resources = self.resources or ResourcesText()
        maps = (self.properties, resources.guaranteed or {}, resources.max or {})
        return self.max_applications > 0 or any(key and value for entries in maps for key, value in entries.items())


class LimitText(Text):
    """A limit for each of the named users and groups, in this queue and below it. They do not share the amounts.

    Attributes:
        limit: A comment.
        users: User names. `*`, in quotes and after all names, is each user that is not named here.
        groups: Group names. `*`, in quotes and after at least one name, is all other groups together.
        max_applications: The number of running applications; 0 is no limit.
        max_resources: resource type -> quantity, for example `vcore: 500m`, `memory: 16Gi`. A missing type is unlimited, a type
            with 0 is forbidden.
    """

    limit: str = ""
    users: list[str] = []
    groups: list[str] = []
    max_applications: Count = 0
    max_resources: Quantities = {}


class QueueText(Text):
    """A queue and all queues below it. Applications run in leaves only; a parent divides its resources among its children.

    Attributes:
        name: 1 to 64 letters, digits or `_ : # / @ -`, no dots. Upper and lower case are the same.
        parent: Makes a queue without children a parent, below which placement can create queues.
        queues: The children.
        resources: Not allowed on the root queue.
        max_applications: The number of running applications in this queue and below it; 0 is no limit.
        properties: How this queue orders applications, its priority, and its preemption delays.
        admin_acl: Who may administer this queue and all queues below it: `*`, or users, one space, groups.
        submit_acl: Who may submit to this queue and all queues below it: `*`, or users, one space, groups.
        child_template: The settings of dynamic leaves below a parent.
        limits: Limits of users and groups in this queue and below it.
    """

    labelled: ClassVar[bool] = True

    name: str = ""
    parent: bool = False
    queues: list[QueueText] = []
    resources: ResourcesText | None = None
    max_applications: Count = 0
    properties: Annotated[dict[str, str], Meta(extra_json_schema={"properties": _PROPERTY_EXAMPLES})] = {}
    admin_acl: str = ""
    submit_acl: str = ""
    child_template: TemplateText | None = None
    limits: list[LimitText] = []

    def walk(self) -> Iterator[QueueText]:
        """The queue and all queues below it."""
        yield self
        for child in self.queues:
            yield from child.walk()

    @classmethod
    def label(cls, node: Mapping, above: str, siblings: int) -> str:
        """The path of the queue. A single queue at the top named root is the root; otherwise a root is added (CF-14, CF-15)."""
        name = _peek_name(node)
        if not above and siblings == 1 and name.lower() == "root":
            return "root"
        word = "?" if not name else name.lower() if is_queue_name(name) else shown(name)
        return f"{above or 'root'}.{word}"

    @classmethod
    def refused(cls, place: Place) -> frozenset[str]:
        return frozenset(("resources",)) if place.label == "root" else frozenset()  # E03

    @property
    def path(self) -> str:
        """``root.a.b``, in lower case (CF-16)."""
        return self.place.label

    @property
    def is_root(self) -> bool:
        """The root is the queue without a parent; other queues may be named root too (CF-19)."""
        return self.path == "root"

    @property
    def is_parent(self) -> bool:
        return self.parent or bool(self.queues)


class FilterText(Text):
    """The users for whom a placement rule runs. Without users and groups: all with `allow`, none with `deny`.

    Attributes:
        type: `allow` (also if empty) or `deny`, in any case.
        users: User names, or a single regular expression.
        groups: Group names, or a single regular expression.
    """

    type: str = ""
    users: list[str] = []
    groups: list[str] = []


class RuleText(Text):
    """A placement rule, which chooses the queue of an application. The first rule with a usable queue decides.

    Attributes:
        create: Whether the queue is created if it does not exist.
        parent: The rule that chooses the parent queue; without it the parent is root.
        value: The queue of a `fixed` rule, or the name of the tag of a `tag` rule.
        filter: For which users this rule runs.
    """

    name: Annotated[
        str,
        Meta(
            description=f"{', '.join(_RULES[:-1])} or {_RULES[-1]}, in any case.",
            extra_json_schema={"examples": list(RULES)},
        ),
    ] = ""
    create: bool = False
    parent: RuleText | None = None
    value: str = ""
    filter: FilterText | None = None


class NodeSortText(Text):
    """The order in which nodes are tried for an ask.

    Attributes:
        type: `fair`: the least used node first. `binpacking`: the most used node first.
        resource_weights: Resource type -> its weight in the used share of a node. A type that is not listed does not count.
    """

    type: Annotated[str, Meta(extra_json_schema={"enum": [*NODE_SORT_TYPES]})] = "fair"
    resource_weights: dict[str, Annotated[float, Meta(ge=0)]] = {}


class PreemptionText(Text):
    """The preemption settings of a partition.

    Attributes:
        enabled: Preemption for asks of queues below their guarantee.
        quota_preemption_enabled: Preemption in queues that use more than their max.
    """

    enabled: bool = True
    quota_preemption_enabled: bool = False


class ResolverText(Text):
    """The source of the groups of a user for applications that are submitted without groups.

    Attributes:
        type: Empty: one group with the user's name. `os`: the groups of the user in the operating system.
    """

    type: Annotated[str, Meta(extra_json_schema={"enum": [*RESOLVERS]})] = ""


class PartitionText(Text):
    """A set of nodes, and the queues that share them.

    Attributes:
        name: `default` if empty. Names are compared without case.
        queues: One queue named `root`, or the queues below root, which is then added.
        placement_rules: Tried in this order. Without rules, applications must name an existing leaf.
        limits: The limits of the root queue, written here or there.
        preemption: Whether allocations may be preempted.
        node_sort_policy: The order in which nodes are tried.
        user_group_resolver: The source of users' groups.
    """

    name: str = "default"
    queues: list[QueueText] | None = None
    placement_rules: list[RuleText] = []
    limits: list[LimitText] = []
    preemption: PreemptionText | None = None
    node_sort_policy: NodeSortText | None = None
    user_group_resolver: ResolverText | None = None

    @property
    def root(self) -> QueueText | None:
        """The only queue at the top after ``normalise``; None without ``queues``."""
        return self.queues[0] if self.queues is not None else None

    def normalise(self) -> None:
        """Set the partition's name, add a root above the queues, and move the limits to the root (CF-14, CF-15, CF-18)."""
        if not self.name or self.name.lower() == "default":
            self.name = "default"
        if self.queues is None:
            return
        if not (len(self.queues) == 1 and self.queues[0].is_root):
            place = Place(find(self.place.node, "queues"), self.place.path, "root")
            self.queues = [QueueText(queues=self.queues).placed(place)]
        root = self.queues[0]
        root.parent = True
        root.limits = root.limits or self.limits


class FileText(Text):
    """The queue configuration of ykactor, in the format of Apache YuniKorn's queues.yaml.

    Attributes:
        partitions: At least one.
        checksum: Ignored; the checksum is computed from the text.
    """

    partitions: Annotated[list[PartitionText], Meta(min_length=1)] = []
    checksum: str = ""


#: Keys that the schema requires. In the types every key has a default, so that reading can continue after a mistake.
_REQUIRED = {FileText: ["partitions"], PartitionText: ["queues"], QueueText: ["name"], RuleText: ["name"]}


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors. It checks keys and types; only ``rules`` checks everything."""
    (root,), definitions = msgspec.json.schema_components([FileText], ref_template="#/$defs/{name}")
    for kind in Text.__subclasses__():
        if kind.__module__ != __name__:
            continue  # a mapping of the access file
        definition = definitions[kind.__name__]
        describe(definition, kind)
        definition["properties"] = {key: _or_null(_as_yaml(value)) for key, value in definition["properties"].items()}
    for required, keys in _REQUIRED.items():
        definitions[required.__name__]["required"] = keys
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": definitions}


#: A field in the docstring of a class, and what is said of it.
_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def describe(definition: dict[str, Any], kind: type[Struct]) -> None:
    """Give each property of the schema of a struct what the docstring of the struct says of the field."""
    definition["description"], _, attributes = (inspect.getdoc(kind) or "").partition("\n\nAttributes:\n")
    keys, properties = {field.name: field.encode_name for field in structs.fields(kind)}, definition["properties"]
    for name, text in _ATTRIBUTE.findall(attributes):
        properties[keys[name]] = {"description": " ".join(text.split()), **properties[keys[name]]}


def _as_yaml(schema: dict[str, Any]) -> dict[str, Any]:
    """Any scalar is allowed as text: ``memory: 1000`` is the same as ``memory: "1000"`` (CF-5)."""
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            schema[inner] = _as_yaml(schema[inner])
    if "anyOf" in schema:
        schema["anyOf"] = [_as_yaml(choice) for choice in schema["anyOf"]]
    if schema.get("type") == "string" and "enum" not in schema:
        schema["type"] = ["string", "number", "boolean", "null"]
    return schema


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Null is allowed for every key, which is then not set (CF-10)."""
    if "enum" in schema:
        schema["enum"].append(None)
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    return schema


def _peek_name(node: Mapping) -> str:
    """The ``name`` of a queue that is not read yet, for paths in messages; "" if it is missing or not a scalar."""
    for key, value in node.entries():
        if isinstance(key, Scalar) and key.text == "name":
            return value.text if isinstance(value, Scalar) and not value.is_null else ""
    return ""
