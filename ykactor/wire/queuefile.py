"""The queue file: text flows in, a ``SchedulerConfig`` flows out, or every mistake with its place.

    text -> yamltext (nodes) -> queueschema (drafts) -> queuerules (mistakes) -> here: inheritance, plain structs

Called by ``check-config``, at start, and on every reload.
"""

import hashlib
import re

from ykactor.core.ids import PartitionName, QueuePath
from ykactor.core.queueconfig import NodeSortPolicy, PartitionConfig, QueueConfig, SchedulerConfig
from ykactor.wire import queueproperties, queuerules
from ykactor.wire.queueschema import PartitionDraft, QueueDraft, read_partitions
from ykactor.wire.yamltext import ConfigError, Mistake, Mistakes, compose

__all__ = ["DEFAULT_TEXT", "ConfigError", "Mistake", "checksum_of", "load"]

#: What runs without a queue file. YuniKorn's default creates a queue per namespace with a placement rule; there are no
#: placement rules in this version, so one leaf takes its place.
DEFAULT_TEXT = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: default
"""

#: An old checksum within the text does not count. It stops at the line's end, so that a short one hides nothing else.
_OLD_CHECKSUM = re.compile("checksum: .{0,64}")


def load(text: str, source: str = "queues.yaml") -> SchedulerConfig:
    """The configuration that ``text`` describes; empty text means ``DEFAULT_TEXT`` (CF-1).

    Args:    source: the name of the file, for messages.
    Raises:  ConfigError with all mistakes: those of the text first (by position), then those of the rules (by stage).
    Cost:    about 80 us for each queue with libyaml.
    """
    text = text or DEFAULT_TEXT
    mistakes, warnings = Mistakes(source), Mistakes(source)
    partitions = read_partitions(compose(text, mistakes), mistakes)
    mistakes.found.sort(key=lambda mistake: (mistake.line, mistake.column))
    queuerules.check(partitions, mistakes)
    if mistakes.found:
        raise ConfigError(mistakes.found)
    built = tuple(_build_partition(partition, warnings) for partition in partitions)
    return SchedulerConfig(partitions=built, checksum=checksum_of(text), text=text, warnings=tuple(map(str, warnings.found)))


def checksum_of(text: str) -> str:
    """CF-12: SHA-256 in capital hexadecimal digits of the text without a checksum that it may contain."""
    return hashlib.sha256(_OLD_CHECKSUM.sub("", text, count=1).encode()).hexdigest().upper()


def _build_partition(draft: PartitionDraft, warnings: Mistakes) -> PartitionConfig:
    assert draft.root is not None, "E02 refuses a partition without queues"
    sort_type = draft.sort_type or "fair"
    weights = draft.resource_weights
    return PartitionConfig(
        name=PartitionName(draft.name),
        root=_build_queue(draft.root, None, warnings),
        node_sort_policy=NodeSortPolicy(sort_type, weights) if weights else NodeSortPolicy(sort_type),
    )


def _build_queue(draft: QueueDraft, parent: dict[str, str] | None, warnings: Mistakes) -> QueueConfig:
    """``parent`` is the property map of the parent queue, None for root."""
    queueproperties.warn(draft, is_root=parent is None, warnings=warnings)
    properties = queueproperties.inherit(parent or {}, draft.properties)
    return QueueConfig(
        path=QueuePath(draft.path),
        is_parent=draft.is_parent,
        properties=queueproperties.interpret(properties),
        raw_properties=properties,
        max=draft.max,
        guaranteed=draft.guaranteed,
        max_applications=draft.max_applications or 0,
        submit_acl=draft.submit_acl,
        admin_acl=draft.admin_acl,
        children=tuple(_build_queue(child, properties, warnings) for child in draft.children),
    )
