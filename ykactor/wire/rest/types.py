"""The answers of the REST API about partitions: names, types and omitted fields are those of Apache YuniKorn.

A field with a default is left out when it has that value; the others are always there. ``UNSET`` is the default of what limited
readers are not shown and all others always are: a 0 or a false would say something of the cluster (SE-88).

Amounts are base units in signed 64 bits, times Unix nanoseconds, where a field does not say otherwise. Lists have a fixed order:
nodes and queues by name, applications by their submission, tasks by their creation.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Raw, Struct, UnsetType, field

from ykactor.core.values.resources import Resource
from ykactor.wire.rest.amounts import Percent

#: The priority of what has nothing pending.
PRIORITY_MIN = -(2**31)
#: The start of an application that never ran: the first second of the year 1, in Unix milliseconds.
NEVER_STARTED_MS = -62_135_596_800_000


class Payload(Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """An object of an answer."""


class Error(Payload, frozen=True, kw_only=True, rename=None):
    """The answer to a refused request; the status repeats ``status_code``."""

    status_code: int
    message: str
    description: str


class Session(Payload, frozen=True, kw_only=True):
    """The caller. Not of Apache YuniKorn.

    Attributes:
        websockets: their URL without a path, with the host of the request; "" if no browser can reach them.
        is_logged_in: whether a cookie has shown it (SE-98).
    """

    name: str
    roles: list[str]
    websockets: str
    is_logged_in: bool = False


# ---- cluster and partitions


class Cluster(Payload, frozen=True, kw_only=True):
    """One partition, and what is behind it.

    Attributes:
        start_time: of the daemon.
        rm_build_information: what the registered resource manager has told of itself, ``rmId`` among it.
    """

    start_time: int = 0
    rm_build_information: list[dict[str, str]] = []
    partition: str
    cluster_name: str


class Capacity(Payload, frozen=True, kw_only=True):
    """The nodes of a partition together, what is allocated there, and both compared."""

    capacity: Resource = {}
    used_capacity: Resource = {}
    utilization: Percent = {}


class NodeSorting(Payload, frozen=True, kw_only=True):
    """The order of nodes: ``fair`` or ``binpacking``."""

    type: str | UnsetType = UNSET
    resource_weights: dict[str, float] | UnsetType = UNSET


class Partition(Payload, frozen=True, kw_only=True):
    """A partition.

    Attributes:
        cluster_id: the resource manager.
        applications: by state, those that occur; and their ``total``. Ended and rejected ones count.
        total_containers: allocations, also of placeholders.
        state: ``Active``, or ``Stopped`` after too many failures.
        last_state_transition_time: when this daemon has started it, or has stopped it.
    """

    cluster_id: str
    name: str
    capacity: Capacity
    node_sorting_policy: NodeSorting
    preemption_enabled: bool | UnsetType = UNSET
    quota_preemption_enabled: bool | UnsetType = UNSET
    total_nodes: int | UnsetType = UNSET
    applications: dict[str, int]
    total_containers: int
    state: str
    last_state_transition_time: int | UnsetType = UNSET


# ---- applications


class Request(Payload, frozen=True, kw_only=True):
    """An ask that is pending.

    Attributes:
        priority: the text of a number.
        scheduling_attempted: asks like it were tried, and their queues or the nodes had no room.
        triggered_scale_up: the resource manager was told last that no node can take it (AP-147).
    """

    allocation_key: str
    allocation_tags: dict[str, str] = {}
    request_time: int = 0
    resource: Resource = {}
    priority: str
    required_node_id: str = ""
    application_id: str = ""
    placeholder: bool = False
    task_group_name: str = ""
    triggered_preemption: bool = False
    originator: bool = False
    scheduling_attempted: bool = False
    triggered_scale_up: bool = False


class Allocation(Payload, frozen=True, kw_only=True):
    """An ask that runs.

    Attributes:
        request_time: when the ask, or the placeholder that it has replaced, was made.
        allocation_delay: from then to ``allocation_time``.
        placeholder_used: it has replaced a placeholder.
        preempted: it is being preempted.
    """

    allocation_key: str
    allocation_tags: dict[str, str] = {}
    request_time: int = 0
    allocation_time: int = 0
    allocation_delay: int = 0
    resource: Resource = {}
    priority: str
    node_id: str = ""
    application_id: str = ""
    placeholder: bool = False
    placeholder_used: bool = False
    task_group_name: str = ""
    preempted: bool = False
    originator: bool = False


class StateChange(Payload, frozen=True, kw_only=True):
    """The time at which an application came into a state."""

    time: int = 0
    application_state: str = ""


class TaskGroup(Payload, frozen=True, kw_only=True):
    """The placeholders of a task group."""

    task_group_name: str = ""
    count: int = 0
    min_resource: Resource = {}
    replaced: int = 0
    timedout: int = 0


class ResourceHistory(Payload, frozen=True, kw_only=True):
    """Amounts times whole seconds, by type of instance: of tasks that ended, that were preempted, and of placeholders."""

    resource_usage: dict[str, Resource] = {}
    preempted_resource: dict[str, Resource] = {}
    placeholder_resource: dict[str, Resource] = {}


class Application(Payload, frozen=True, kw_only=True):
    """An application.

    Attributes:
        max_used_resource: the most that it has used at a time.
        queue_name: empty if it was rejected before it had a queue.
        requests, allocations: of a live one they are put in encoded (``codec.encode_with``).
        finished_time: 0 while it lives.
        rejected_message: why it was rejected, or how it has ended, if its resource manager has said so.
        state_log: the oldest first.
        reservations: the keys of asks for which a node is reserved.
        start_time: when it entered Running from another state for the last time, Unix milliseconds.
        backoff_deadline: such as ``2026-01-01T00:00:00.5Z``.
    """

    application_id: str = field(name="applicationID")
    used_resource: Resource = {}
    max_used_resource: Resource = {}
    pending_resource: Resource = {}
    partition: str
    queue_name: str
    submission_time: int = 0
    finished_time: int = 0
    requests: list[Request] = []
    allocations: list[Allocation] = []
    application_state: str = ""
    user: str = ""
    groups: list[str] = []
    rejected_message: str = ""
    state_log: list[StateChange] = []
    placeholder_data: list[TaskGroup] = []
    has_reserved: bool = False
    reservations: list[str] = []
    max_request_priority: int = 0
    start_time: int = 0
    resource_history: ResourceHistory
    backoff_deadline: str = ""


# ---- nodes


class ForeignAllocation(Payload, frozen=True, kw_only=True):
    """An allocation that another scheduler, or nobody, has placed on a node.

    Attributes:
        allocation_time: when it was created; 0 if it comes from the journal of an older version, which did not keep that.
        preemptable: False if its tag ``foreign`` is ``static``. No rule depends on it (SC-85).
    """

    allocation_key: str
    allocation_tags: dict[str, str] = {}
    allocation_time: int = 0
    resource: Resource = {}
    priority: str
    node_id: str
    preemptable: bool = False


class Node(Payload, frozen=True, kw_only=True):
    """A node.

    Attributes:
        occupied: by foreign allocations.
        utilized: what is allocated, in percent of the capacity.
        schedulable: False while it is drained.
        allocations, foreign_allocations: may be encoded already.
    """

    node_id: str = field(name="nodeID")
    host_name: str = ""
    rack_name: str = ""
    attributes: dict[str, str]
    capacity: Resource = {}
    allocated: Resource = {}
    occupied: Resource = {}
    available: Resource = {}
    utilized: Percent
    allocations: Sequence[Allocation | Raw] = []
    foreign_allocations: Sequence[ForeignAllocation | Raw] = []
    schedulable: bool
    is_reserved: bool
    reservations: list[str] = []


class UtilizationBand(Payload, frozen=True, kw_only=True):
    """The nodes of which a type is used to a tenth, such as ``10-20%``."""

    bucket_name: str
    num_of_nodes: int = 0
    node_names: list[str] = []


class TypeUtilization(Payload, frozen=True, kw_only=True):
    """The nodes by how much of a type is used; ten bands, the lowest first."""

    type: str
    utilization: list[UtilizationBand]


class NodeUtilizations(Payload, frozen=True, kw_only=True):
    """The nodes of a partition by use."""

    cluster_id: str
    partition: str
    utilizations: list[TypeUtilization]


# ---- placement rules


class RuleFilter(Payload, frozen=True, kw_only=True):
    """The users and groups for which a rule is tried: ``allow`` or ``deny``."""

    type: str
    user_list: list[str] = []
    group_list: list[str] = []
    user_exp: str = ""
    group_exp: str = ""


class PlacementRule(Payload, frozen=True, kw_only=True):
    """A placement rule; the values of ``parameters`` are texts, also ``true`` and ``false``."""

    name: str
    parameters: dict[str, str] = {}
    filter: RuleFilter | None = None
    parent_rule: PlacementRule | None = None
