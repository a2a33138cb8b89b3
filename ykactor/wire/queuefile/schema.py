# ruff: noqa: RUF012 (msgspec gives every instance its own empty list or mapping)
"""The keys of the queue file (CF-62 to CF-71): one type per mapping, for the reader and for editors.

``wire.yamlfields`` reads these types; ``json_schema`` describes them to whatever completes and checks YAML. A name here is a
key without its underscores: ``max_applications`` is ``maxapplications``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from ykactor.core.config.properties import CHOICES
from ykactor.core.values.quantities import is_queue_name, shown
from ykactor.wire.queuefile.places import Place, Text, find
from ykactor.wire.queuefile.text import Mapping, Scalar

#: Quantities as they are written.
Quantities = dict[str, str]

NODE_SORT_TYPES = ("", "fair", "binpacking")
RESOLVERS = ("", "os", "ldap", "test")
RULE_NAMES = ("provided", "user", "fixed", "tag")
FILTER_TYPES = ("", "allow", "deny")

_QUANTITY = "resource type -> quantity, for example `vcore: 500m`, `memory: 16Gi`"
_PROPERTY_EXAMPLES = {name: {"examples": list(values)} for name, values in CHOICES.items()}


class ResourcesText(Text):
    """What a queue may use and what it is promised. Not allowed on the root queue: its size is that of all nodes."""

    guaranteed: Annotated[
        Quantities | None, Meta(description=f"A promise, not a wall: {_QUANTITY}. A missing type has no guarantee.")
    ] = None
    max: Annotated[
        Quantities | None, Meta(description=f"A wall: {_QUANTITY}. A missing type is unlimited, a type with 0 is forbidden.")
    ] = None


class TemplateText(Text):
    """What a dynamic leaf below this queue, or below a descendant without a template of its own, gets when it is created."""

    max_applications: Annotated[int, Meta(ge=0, description="Running applications; 0 is no limit.")] = 0
    properties: Annotated[dict[str, str], Meta(description="The properties of the new leaf.")] = {}
    resources: Annotated[ResourcesText | None, Meta(description="The resources of the new leaf.")] = None

    @property
    def is_set(self) -> bool:
        """Whether it says anything; entries without key or value do not count (CF-13)."""
        resources = self.resources or ResourcesText()
        maps = (self.properties, resources.guaranteed or {}, resources.max or {})
        return self.max_applications > 0 or any(key and value for entries in maps for key, value in entries.items())


class LimitText(Text):
    """What each of the named users and groups may use in this queue and below it. Each gets the full amount for itself."""

    limit: Annotated[str, Meta(description="A description, for people.")] = ""
    users: Annotated[
        list[str], Meta(description="User names; `*`, in quotes and behind all names, is every user that is not named here.")
    ] = []
    groups: Annotated[
        list[str], Meta(description="Group names; `*`, in quotes and behind at least one name, is all other groups together.")
    ] = []
    max_applications: Annotated[int, Meta(ge=0, description="Running applications; 0 is not limited.")] = 0
    max_resources: Annotated[
        Quantities, Meta(description=f"{_QUANTITY}. A missing type is not limited, a type with 0 may not be used.")
    ] = {}


class QueueText(Text):
    """One queue with all below it. Applications run in leaves only; parents share out what they have."""

    labelled: ClassVar[bool] = True

    name: Annotated[
        str, Meta(description="1 to 64 letters, digits or `_ : # / @ -`; no dots. Compared without case, stored in lower case.")
    ] = ""
    parent: Annotated[bool, Meta(description="Makes a queue without children a parent, for queues that placement creates.")] = (
        False
    )
    queues: Annotated[list[QueueText], Meta(description="The children.")] = []
    resources: Annotated[ResourcesText | None, Meta(description="Not allowed on the root queue.")] = None
    max_applications: Annotated[
        int, Meta(ge=0, description="Applications that run below this queue at a time; 0 is no limit.")
    ] = 0
    properties: Annotated[
        dict[str, str],
        Meta(
            description="How this queue orders what waits, and its priority.",
            extra_json_schema={"properties": _PROPERTY_EXAMPLES},
        ),
    ] = {}
    admin_acl: Annotated[
        str, Meta(description="Who may administer: `*`, or users, one space, groups. Holds for everything below.")
    ] = ""
    submit_acl: Annotated[
        str, Meta(description="Who may submit: `*`, or users, one space, groups. Holds for everything below.")
    ] = ""
    child_template: Annotated[TemplateText | None, Meta(description="For the dynamic leaves below a parent.")] = None
    limits: Annotated[list[LimitText], Meta(description="What users and groups may use here and below.")] = []

    @classmethod
    def label(cls, node: Mapping, above: str, siblings: int) -> str:
        """The queue's path. A single queue named root at the top is the root, others are below one (CF-14, CF-15)."""
        name = _peek_name(node)
        if not above and siblings == 1 and name.lower() == "root":
            return "root"
        word = "?" if not name else name.lower() if is_queue_name(name) else shown(name)
        return f"{above or 'root'}.{word}"

    @property
    def path(self) -> str:
        """``root.a.b``, in lower case (CF-16)."""
        return self.place.label

    @property
    def is_root(self) -> bool:
        """The root is the queue without a parent, whatever others are called (CF-19)."""
        return self.path == "root"

    @property
    def is_parent(self) -> bool:
        return self.parent or bool(self.queues)


class FilterText(Text):
    """For whom a placement rule runs. Without users and groups: allow is everybody, deny is nobody."""

    type: Annotated[str, Meta(description="`allow` (also if empty) or `deny`, in any case.")] = ""
    users: Annotated[list[str], Meta(description="User names, or one regular expression alone.")] = []
    groups: Annotated[list[str], Meta(description="Group names, or one regular expression alone.")] = []


class RuleText(Text):
    """One placement rule: which queue an application goes to. The first rule with a usable result decides."""

    name: Annotated[
        str,
        Meta(
            description="`provided` (the queue that was submitted), `user`, `fixed` or `tag`, in any case.",
            extra_json_schema={"examples": list(RULE_NAMES)},
        ),
    ] = ""
    create: Annotated[bool, Meta(description="Whether a queue that does not exist is created.")] = False
    parent: Annotated[RuleText | None, Meta(description="The rule that gives the queue above; without one that is root.")] = None
    value: Annotated[str, Meta(description="The queue of a `fixed` rule, the name of the tag of a `tag` rule.")] = ""
    filter: Annotated[FilterText | None, Meta(description="For whom this rule runs.")] = None


class NodeSortText(Text):
    """Which node an ask is tried on first."""

    type: Annotated[
        str,
        Meta(
            description="`fair`: the least used node first. `binpacking`: the most used one.",
            extra_json_schema={"enum": [*NODE_SORT_TYPES]},
        ),
    ] = "fair"
    resource_weights: Annotated[
        dict[str, Annotated[float, Meta(ge=0)]],
        Meta(description="Resource type -> how much it counts in what is used. A type that is not listed does not count."),
    ] = {}


class PreemptionText(Text):
    """Whether running work may be stopped for other work."""

    enabled: Annotated[bool, Meta(description="Preemption for queues below their guarantee.")] = True
    quota_preemption_enabled: Annotated[bool, Meta(description="Preemption in queues above a lowered max.")] = False


class ResolverText(Text):
    """Who knows the groups of a user that is submitted without groups."""

    type: Annotated[
        str,
        Meta(
            description="Empty: one group with the user's name. `os`: the groups that the operating system knows.",
            extra_json_schema={"enum": [*RESOLVERS]},
        ),
    ] = ""


class PartitionText(Text):
    """Nodes that are scheduled together, and the queues that share them."""

    name: Annotated[str, Meta(description="`default` if empty. Names are compared without case.")] = "default"
    queues: Annotated[
        list[QueueText] | None, Meta(description="One queue named `root`, or the queues below a root that is added.")
    ] = None
    placement_rules: Annotated[
        list[RuleText], Meta(description="Tried in this order. Without rules applications must name an existing leaf.")
    ] = []
    limits: Annotated[list[LimitText], Meta(description="The limits of the root queue; write them here or there.")] = []
    preemption: Annotated[PreemptionText | None, Meta(description="Switches of preemption.")] = None
    node_sort_policy: Annotated[NodeSortText | None, Meta(description="How nodes are ordered.")] = None
    user_group_resolver: Annotated[ResolverText | None, Meta(description="Where groups of users come from.")] = None

    @property
    def root(self) -> QueueText | None:
        """The one queue that is left at the top after ``normalise``, None if there is no ``queues``."""
        return self.queues[0] if self.queues is not None else None

    def normalise(self) -> None:
        """Name the partition, put a root above the queues and the limits on the root (CF-14, CF-15, CF-18)."""
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
    """The queue configuration of ykactor, in the form of Apache YuniKorn's queues.yaml."""

    partitions: Annotated[list[PartitionText], Meta(description="At least one.", min_length=1)] = []
    checksum: Annotated[str, Meta(description="Ignored and computed anew.")] = ""


#: The reader has a default for every key, so that it can go on; an editor may insist.
_REQUIRED = {FileText: ["partitions"], PartitionText: ["queues"], QueueText: ["name"], RuleText: ["name"]}


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors; it knows keys and kinds, ``wire.queuerules`` knows the rest."""
    (root,), definitions = msgspec.json.schema_components([FileText], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition["properties"] = {key: _or_null(_as_yaml(value)) for key, value in definition["properties"].items()}
    for kind, keys in _REQUIRED.items():
        definitions[kind.__name__]["required"] = keys
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": definitions}


def _as_yaml(schema: dict[str, Any]) -> dict[str, Any]:
    """Text may be any scalar: ``memory: 1000`` is as good as ``memory: "1000"`` (CF-5)."""
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            schema[inner] = _as_yaml(schema[inner])
    if "anyOf" in schema:
        schema["anyOf"] = [_as_yaml(choice) for choice in schema["anyOf"]]
    if schema.get("type") == "string" and "enum" not in schema:
        schema["type"] = ["string", "number", "boolean", "null"]
    return schema


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A key without a value is a key that is not set (CF-10)."""
    if "enum" in schema:
        schema["enum"].append(None)
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    return schema


def _peek_name(node: Mapping) -> str:
    """The ``name`` of a queue before the queue is read: paths in messages need it. "" if it is missing or no text."""
    for key, value in node.entries():
        if isinstance(key, Scalar) and key.text == "name":
            return value.text if isinstance(value, Scalar) and not value.is_null else ""
    return ""
