"""Dynamic queues: which queues placement creates, and with which settings (QU-9 to QU-17, QU-100 to QU-102).

Nothing is stored here: a template is read when a queue is created and never again (QU-17).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, structs

from ykactor.core.config.model import ChildTemplate, QueueConfig
from ykactor.core.config.properties import PREEMPTION_POLICY, SORT_POLICY, SORT_PRIORITY, interpret
from ykactor.core.messages.facts import Fact, QueueLimitChanged
from ykactor.core.messages.kinds import QueueLimit
from ykactor.core.objects.registry import QueueCore
from ykactor.core.placement.rules import RECOVERY_QUEUE, tag_value
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.quantities import parse_uint64
from ykactor.core.values.resources import QUANTITY_MAX, Resource

_MAX_TAG = "namespace.resourcequota"
_GUARANTEED_TAG = "namespace.resourceguaranteed"
_APPLICATIONS_TAG = "namespace.resourcemaxapps"

_Queues = dict[QueuePath, QueueCore]


def missing(queues: _Queues, path: QueuePath) -> list[QueueConfig]:
    """The settings of every queue to create for a leaf at ``path``, parents first (QU-10)."""
    names = path.split(".")
    paths = [QueuePath(".".join(names[:count])) for count in range(1, len(names) + 1)]
    configs: list[QueueConfig] = []
    parent: QueueConfig | None = None
    template: ChildTemplate | None = None
    for each in paths:
        queue = queues.get(each)
        if queue is not None:
            parent = queue.config
            template = parent.child_template if parent.managed else template  # a dynamic parent passes the template on (QU-15)
        else:
            assert parent is not None, "root is always there"
            parent = _config_of(each, parent, template, is_parent=each != path)
            configs.append(parent)
    return configs


def _config_of(path: QueuePath, parent: QueueConfig, template: ChildTemplate | None, *, is_parent: bool) -> QueueConfig:
    """Access is inherited; limits and properties of a leaf come from the template (QU-12, QU-16)."""
    if path == RECOVERY_QUEUE:  # QU-13, CF-39
        return QueueConfig(path, is_parent=False, managed=False)
    used = None if is_parent else template
    properties = dict(used.properties) if used is not None else {}
    if not is_parent and used is None and SORT_POLICY in parent.property_map:
        properties[SORT_POLICY] = parent.property_map[SORT_POLICY]
    if not parent.properties.sort_by_priority:  # applies to the whole subtree (CF-37)
        properties.setdefault(SORT_PRIORITY, "disabled")
    if parent.properties.preemption_policy == "disabled":
        properties.setdefault(PREEMPTION_POLICY, "disabled")
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


class _Quantity(Struct):
    value: int


class _Quota(Struct):
    resources: dict[str, _Quantity]


def with_quotas(config: QueueConfig, tags: dict[str, str]) -> QueueConfig:
    """The settings of a dynamic leaf after an application with these tags; the same object if nothing changes (QU-100)."""
    if config.managed or not tags or config.path == RECOVERY_QUEUE:
        return config
    maximum = _quota(tag_value(tags, _MAX_TAG)) or config.max
    guaranteed = _quota(tag_value(tags, _GUARANTEED_TAG)) or config.guaranteed
    applications = parse_uint64(tag_value(tags, _APPLICATIONS_TAG) or "") or config.max_applications
    if (maximum, guaranteed, applications) == (config.max, config.guaranteed, config.max_applications):
        return config
    return structs.replace(config, max=maximum, guaranteed=guaranteed, max_applications=applications)


def _quota(text: str | None) -> Resource | None:
    """Parse the SI's Resource in JSON, base units; None for an invalid quota, which changes nothing (QU-101, QU-102)."""
    if not text:
        return None
    try:
        resource = {name: quantity.value for name, quantity in msgspec.json.decode(text, type=_Quota).resources.items()}
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):  # whatever a client writes
        return None
    values = resource.values()
    legal = any(values) and all(0 <= value <= QUANTITY_MAX for value in values)
    return resource if legal else None


def limit_changes(before: QueueConfig | None, after: QueueConfig, now_ns: int) -> list[Fact]:
    """The facts about changed limits; a queue that is new (``before`` is None) had none."""
    facts: list[Fact] = []
    for limit in QueueLimit:
        old = None if before is None else getattr(before, limit)
        new = getattr(after, limit)
        if old != new:
            facts.append(QueueLimitChanged(now_ns, after.path, limit, new))
    return facts
