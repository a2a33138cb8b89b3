"""Dynamic queues: which queues placement creates, and with which settings (QU-9 to QU-17, QU-100 to QU-102).

Nothing is stored here: a template is read when a queue is created and never again (QU-17).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from ykactor.core.config.model import ChildTemplate, QueueConfig
from ykactor.core.config.properties import PREEMPTION_POLICY, SORT_POLICY, SORT_PRIORITY, WALLTIMES, interpret
from ykactor.core.messages.facts import Fact, QueueLimitChanged
from ykactor.core.messages.kinds import QueueLimit
from ykactor.core.objects.registry import QueueCore
from ykactor.core.placement.rules import RECOVERY_QUEUE, tag_value
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.quantities import GUARANTEED_TAG, MAX_APPLICATIONS_TAG, MAX_TAG, brief, parse_quota, parse_uint64

_Queues = dict[QueuePath, QueueCore]


def missing(queues: _Queues, path: QueuePath, *, anew: bool = False) -> list[QueueConfig]:
    """The settings of every queue to create for a leaf at ``path``, parents first (QU-10); ``anew``: as if it were not there."""
    names = path.split(".")
    paths = [QueuePath(".".join(names[:count])) for count in range(1, len(names) + 1)]
    configs: list[QueueConfig] = []
    parent: QueueConfig | None = None
    template: ChildTemplate | None = None
    for each in paths:
        queue = queues.get(each)
        if queue is not None and not (anew and each == path):
            parent = queue.config
            template = parent.child_template if parent.managed else template  # a dynamic parent passes the template on (QU-15)
        else:
            assert parent is not None, "root is always there"
            parent = _config_of(each, parent, template, is_parent=each != path)
            configs.append(parent)
    return configs


def _config_of(path: QueuePath, parent: QueueConfig, template: ChildTemplate | None, *, is_parent: bool) -> QueueConfig:
    """The settings of a new queue: access is inherited; limits and properties of a leaf come from the template (QU-12, QU-16)."""
    if path == RECOVERY_QUEUE:  # QU-13, CF-39
        return QueueConfig(path, is_parent=False, managed=False)
    used = None if is_parent else template
    inherited = {name: parent.property_map[name] for name in WALLTIMES if name in parent.property_map}
    if not is_parent and used is None and SORT_POLICY in parent.property_map:
        inherited[SORT_POLICY] = parent.property_map[SORT_POLICY]
    if not parent.properties.sort_by_priority:  # applies to the whole subtree (CF-37)
        inherited[SORT_PRIORITY] = "disabled"
    if parent.properties.preemption_policy == "disabled":
        inherited[PREEMPTION_POLICY] = "disabled"
    properties = _joined(inherited, used.properties if used is not None else {})
    return QueueConfig(
        path,
        is_parent=is_parent,
        managed=False,
        properties=interpret(properties),
        property_map=properties,
        max=used.max if used else None,
        guaranteed=used.guaranteed if used else None,
        max_applications=used.max_applications if used else 0,
    )


def _joined(inherited: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """The inherited properties, overlaid with the queue's own; the map of the template itself if that makes no difference."""
    return own if inherited.keys() <= own.keys() else inherited | own


def with_quotas(config: QueueConfig, tags: dict[str, str]) -> QueueConfig:
    """The settings of a dynamic leaf after an application with these tags; the same object if nothing changes (QU-100)."""
    if config.managed or not tags or config.path == RECOVERY_QUEUE:
        return config
    quotas = {name: read(tag_value(tags, tag) or "") for tag, (name, read) in _TAGS.items()}
    return _changed(config, {name: quota for name, quota in quotas.items() if quota})


def quotas_objection(tags: dict[str, str]) -> str:
    """The reason why these are no quota tags, each with a quota or empty; "" if they are (QU-107)."""
    for tag, value in tags.items():
        if tag.lower() not in _TAGS:
            return f"tags: found {brief(tag)}, expected {', '.join(_TAGS)}"
        if value and not _TAGS[tag.lower()][1](value):
            return f"tags.{tag}: found {brief(value)}, expected {_EXPECTED[tag.lower()]}, or nothing to remove the quota"
    return ""


def with_set_quotas(queues: _Queues, config: QueueConfig, tags: dict[str, str]) -> QueueConfig:
    """The settings of a dynamic leaf with these quotas; a removed quota becomes that of a new queue (QU-107)."""
    (created,) = missing(queues, config.path, anew=True)
    given = {tag.lower(): value for tag, value in tags.items()}
    return _changed(
        config,
        {name: read(given[tag]) or getattr(created, name) for tag, (name, read) in _TAGS.items() if tag in given},
    )


def _changed(config: QueueConfig, quotas: dict[str, object]) -> QueueConfig:
    """The settings with these quotas; the same object if nothing changes."""
    if all(getattr(config, name) == quota for name, quota in quotas.items()):
        return config
    return structs.replace(config, **quotas)


#: By tag, the field of a queue that it sets, and the parser of its value; a false value is no quota.
_TAGS: dict[str, tuple[str, Callable[[str], object]]] = {
    MAX_TAG: ("max", parse_quota),
    GUARANTEED_TAG: ("guaranteed", parse_quota),
    MAX_APPLICATIONS_TAG: ("max_applications", parse_uint64),
}
_RESOURCE = 'such as {"resources": {"memory": {"value": 1000}}} with a positive quantity'
_EXPECTED = dict(zip(_TAGS, (_RESOURCE, _RESOURCE, "a number above 0"), strict=True))


def limit_changes(before: QueueConfig | None, after: QueueConfig, now_ns: int) -> list[Fact]:
    """The facts about changed limits; a queue that is new (``before`` is None) had none."""
    facts: list[Fact] = []
    for limit in QueueLimit:
        old = None if before is None else getattr(before, limit)
        new = getattr(after, limit)
        if old != new:
            facts.append(QueueLimitChanged(now_ns, after.path, limit, new))
    return facts
