"""The configured queue tree of a partition: plain data, already validated by ``wire.queuefile``.

Everything inherited is resolved here (CF-35 to CF-38), so that readers of a ``QueueConfig`` need not look at its
parents.
"""

from msgspec import Struct, field

from ykactor.core.ids import PartitionName, QueuePath
from ykactor.core.resources import Resource


class QueueProperties(Struct, frozen=True):
    """The effective properties of one queue (section 6 of CF): the queue's own values over what it inherits."""

    #: ``fifo``, ``fair`` or ``stateaware``; of use on leaves only.
    sort_policy: str = "fifo"
    #: ``application.sort.priority``: False means that priorities do not order this queue's children or applications (PR-20).
    sort_by_priority: bool = True
    #: ``priority.policy: fence``.
    priority_fence: bool = False
    #: ``priority.offset``, int32.
    priority_offset: int = 0


class QueueConfig(Struct, frozen=True):
    """One managed queue."""

    path: QueuePath
    #: A parent may have no children (``parent: true``).
    is_parent: bool
    properties: QueueProperties = QueueProperties()
    #: The own property map after inheritance, unknown keys included.
    raw_properties: dict[str, str] = {}
    #: None is "no limit"; a type that is not listed is unlimited, a type with 0 is forbidden (QU-31, QU-32).
    max: Resource | None = None
    #: None is "no guarantee".
    guaranteed: Resource | None = None
    #: Running applications; 0 is "no limit" (QU-50).
    max_applications: int = 0
    submit_acl: str = ""
    admin_acl: str = ""
    #: In the order of the text.
    children: tuple["QueueConfig", ...] = ()


class NodeSortPolicy(Struct, frozen=True):
    """How nodes are ordered (section 8 of PR)."""

    #: ``fair`` or ``binpacking``.
    type: str = "fair"
    #: Relative; only the listed types count (PR-63).
    resource_weights: dict[str, float] = field(default_factory=lambda: {"vcore": 1.0, "memory": 1.0})


class PartitionConfig(Struct, frozen=True):
    """One partition."""

    name: PartitionName
    root: QueueConfig
    node_sort_policy: NodeSortPolicy = NodeSortPolicy()


class SchedulerConfig(Struct, frozen=True):
    """The whole text. ``checksum`` is CF-12's; ``warnings`` are values that were replaced by their default."""

    partitions: tuple[PartitionConfig, ...]
    checksum: str
    text: str
    warnings: tuple[str, ...] = ()
