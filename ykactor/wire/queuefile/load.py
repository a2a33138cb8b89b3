"""Loads a queue file: converts its text to a ``SchedulerConfig``, or reports every mistake with its place.

Called by ``check-config``, at start, and on every reload.
"""

import hashlib
import re

from ykactor.core.config.model import (
    ChildTemplate,
    Limit,
    NodeSortPolicy,
    PartitionConfig,
    PlacementFilter,
    PlacementRule,
    PreemptionSettings,
    QueueConfig,
    SchedulerConfig,
)
from ykactor.core.config.properties import interpret, passed_on_by
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.names import is_group_name, is_user_name
from ykactor.core.values.quantities import parse_quantity
from ykactor.core.values.resources import Resource
from ykactor.wire.queuefile import rules, warnings
from ykactor.wire.queuefile.fields import Place, TextReader, note
from ykactor.wire.queuefile.manifests import DEFAULT_TEXT, Queues, open_queues
from ykactor.wire.queuefile.placement_rules import chain_of, kind_of, name_filter
from ykactor.wire.queuefile.rules import parse_access_list
from ykactor.wire.queuefile.schema import (
    FileText,
    FilterText,
    LimitText,
    NodeSortText,
    PartitionText,
    PreemptionText,
    Quantities,
    QueueText,
    ResourcesText,
    RuleText,
    TemplateText,
)
from ykactor.wire.queuefile.text import ConfigError, Mapping, Mistake, Scalar

__all__ = ["DEFAULT_TEXT", "ConfigError", "Mistake", "checksum_of", "load"]

#: A checksum within the text, which is not part of the checksum. It ends with the line, so that no other text is left out.
_OLD_CHECKSUM = re.compile("checksum: .{0,64}")


def load(text: str, source: str = "queues.yaml") -> SchedulerConfig:
    """The configuration that ``text`` describes: a queue file, or a manifest that contains one (CF-85).

    Empty text means ``DEFAULT_TEXT`` (CF-1). The ``text`` of the configuration is the whole text, its checksum that of the queue
    file.

    Args:
        source: the name of the file, for messages.
    Raises:
        ConfigError with all mistakes: first P1 to P9 by position, then broken rules in the order of validation (CF-74).
    Cost: about 60 us for each queue with libyaml; 150 us for one with limits, access lists and resources; in a
        manifest nearly twice that.
    """
    text = text or DEFAULT_TEXT
    queues = open_queues(text, source)
    mistakes, found = queues.mistakes, queues.warnings
    partitions = _read(queues)
    mistakes.found.sort(key=_position)
    rules.check(partitions, mistakes)
    warnings.collect(partitions, found)
    warned = tuple(map(str, sorted(found.found, key=_position)))
    if mistakes.found:
        raise ConfigError(mistakes.found, warned)
    built = tuple(map(_build_partition, partitions))
    return SchedulerConfig(partitions=built, checksum=checksum_of(queues.text), text=text, warnings=warned)


def written(text: str) -> list[PartitionText]:
    """The partitions of a valid text as they are written, completed (CF-14 to CF-18)."""
    return _read(open_queues(text or DEFAULT_TEXT, "queues.yaml"))


def checksum_of(text: str) -> str:
    """CF-12: SHA-256 of the text without a checksum inside it, in capital hexadecimal digits."""
    return hashlib.sha256(_OLD_CHECKSUM.sub("", text, count=1).encode()).hexdigest().upper()


def _position(mistake: Mistake) -> tuple[int, int]:
    return mistake.line, mistake.column


def _read(queues: Queues) -> list[PartitionText]:
    """The partitions of the file, normalised; reports P2 to P8."""
    document = queues.document
    if document is None or (isinstance(document, Scalar) and document.is_null):
        document = Mapping(1, 1)
    file = TextReader(queues.mistakes).fields(FileText, Place(document, ""))
    if not file.partitions and not queues.mistakes.found:
        note(queues.mistakes, "P8", file, ("partitions",), "found no partition, expected at least one")
    for partition in file.partitions:
        partition.normalise()
    return file.partitions


#: The resolvers of the core by the types in the file (CF-62).
_RESOLVERS = {"": "", "os": "os", "ldap": "os", "test": ""}


def _build_partition(text: PartitionText) -> PartitionConfig:
    """The configuration of a normalised partition without mistakes."""
    assert text.root is not None, "E02 refuses a partition without queues"
    sort, preemption = text.node_sort_policy or NodeSortText(), text.preemption or PreemptionText()
    sort_type, weights = sort.type or "fair", sort.resource_weights
    return PartitionConfig(
        name=PartitionName(text.name),
        root=_build_queue(text.root, {}, None),
        placement_rules=tuple(map(_build_rule, text.placement_rules)),
        node_sort_policy=NodeSortPolicy(sort_type, weights) if weights else NodeSortPolicy(sort_type),
        preemption=PreemptionSettings(preemption.enabled, preemption.quota_preemption_enabled),
        user_group_resolver=_RESOLVERS[text.user_group_resolver.type] if text.user_group_resolver else "",
    )


def _build_queue(text: QueueText, inherited: dict[str, str], template: ChildTemplate | None) -> QueueConfig:
    """The configuration of a queue and of all queues below.

    Args:
        inherited: the properties that the parent passes on; template: the effective template of the parent (QU-15).
    """
    properties = inherited | text.properties if text.properties else inherited
    passed_on = passed_on_by(properties) if text.queues else {}
    if not text.is_parent:
        template = None  # the template of a leaf is ignored, and not checked (CF-67)
    elif text.child_template is not None and text.child_template.is_set:
        template = _build_template(text.child_template)
    maximum, guaranteed = _build_resources(text.resources)
    return QueueConfig(
        path=QueuePath(text.path),
        is_parent=text.is_parent,
        properties=interpret(properties),
        property_map=properties,
        max=maximum,
        guaranteed=guaranteed,
        max_applications=text.max_applications,
        submit_acl=parse_access_list(text.submit_acl)[0],
        admin_acl=parse_access_list(text.admin_acl)[0],
        limits=tuple(map(_build_limit, text.limits)),
        child_template=template,
        children=tuple(_build_queue(child, passed_on, template) for child in text.queues),
    )


def _build_resources(text: ResourcesText | None) -> tuple[Resource | None, Resource | None]:
    """Max and guarantee. A max with only zeros forbids these types; a guarantee with only zeros is not set (QU-33)."""
    if text is None:
        return None, None
    maximum, guaranteed = _build_resource(text.max), _build_resource(text.guaranteed)
    return maximum, guaranteed if guaranteed and any(guaranteed.values()) else None


def _build_resource(written: Quantities | None) -> Resource | None:
    """The resource; None if nothing is listed."""
    return {name: parse_quantity(name, quantity) for name, quantity in written.items()} if written else None


def _build_template(text: TemplateText) -> ChildTemplate:
    maximum, guaranteed = _build_resources(text.resources)
    properties = {key: value for key, value in text.properties.items() if key and value}
    return ChildTemplate(text.max_applications, properties, maximum, guaranteed)


def _build_limit(text: LimitText) -> Limit:
    return Limit(tuple(text.users), tuple(text.groups), _build_resource(text.max_resources), text.max_applications)


def _build_rule(text: RuleText) -> PlacementRule:
    """The rule with its parent rules, built from the innermost one."""
    rule: PlacementRule | None = None
    for link in reversed(list(chain_of(text))):
        kind = kind_of(link)
        value = link.value.lower() if kind == "fixed" else link.value
        rule = PlacementRule(kind, link.create, value, _build_filter(link.filter), rule)
    assert rule is not None, "a chain has at least one rule"
    return rule


def _build_filter(text: FilterText | None) -> PlacementFilter:
    if text is None:
        return PlacementFilter()
    return PlacementFilter(
        allow=text.type.lower() != "deny",
        users=name_filter(text.users, is_user_name),
        groups=name_filter(text.groups, is_group_name),
    )
