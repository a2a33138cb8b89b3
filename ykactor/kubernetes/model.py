"""The objects of the API server, with just the fields that the adapter reads: unknown ones are ignored, absent ones default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct, field

#: A larger number would make the daemon refuse all that is told together with it.
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class Part(Struct, rename="camel", frozen=True, gc=False):
    """A struct inside an object."""


class OwnerReference(Part, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class ObjectMeta(Part, frozen=True):
    """``deletion_timestamp`` is set while the object is being deleted; a finalizer may keep it for ever."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: Sequence[OwnerReference] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Object(Struct, rename="camel", frozen=True, gc=False):
    """Any object of the API server."""

    metadata: ObjectMeta = ObjectMeta()


# ---- constraints of nodes and pods


class Requirement(Part, frozen=True):
    """``key operator values`` of a node selector or a label selector."""

    key: str
    operator: str
    values: Sequence[str] = ()


class NodeSelectorTerm(Part, frozen=True):
    match_expressions: Sequence[Requirement] = ()
    match_fields: Sequence[Requirement] = ()


class NodeSelector(Part, frozen=True):
    node_selector_terms: Sequence[NodeSelectorTerm] = ()


class NodeAffinity(Part, frozen=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Sequence[Raw] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class LabelSelector(Part, frozen=True):
    match_labels: Mapping[str, str] = {}
    match_expressions: Sequence[Requirement] = ()


class PodAffinityTerm(Part, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: Sequence[str] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: Sequence[str] = ()
    mismatch_label_keys: Sequence[str] = ()


class PodAffinity(Part, frozen=True):
    """Terms for or against nodes near other pods."""

    required: Sequence[PodAffinityTerm] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: Sequence[Raw] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Part, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Part, frozen=True):
    """An empty ``key`` tolerates every key, an empty ``effect`` every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Part, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: Sequence[str] = ()


# ---- pods


class ResourceRequirements(Part, frozen=True):
    requests: Mapping[str, str] = {}


class ContainerPort(Part, frozen=True):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class Container(Part, frozen=True):
    """``restart_policy`` is ``Always`` for a sidecar, which is among the init containers."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: Sequence[ContainerPort] = ()
    restart_policy: str = ""


class ClaimSource(Part, frozen=True):
    claim_name: str = ""


class EphemeralSource(Part, frozen=True):
    """A claim that lives as long as its pod; the adapter reads nothing of it."""


class Volume(Part, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class LocalReference(Part, frozen=True):
    name: str = ""


class SchedulingGroup(Part, frozen=True):
    pod_group_name: str | None = None


class PodSpec(Part, frozen=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: Int32 = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    overhead: Mapping[str, str] = {}
    resources: ResourceRequirements = ResourceRequirements()
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: Sequence[Toleration] = ()
    topology_spread_constraints: Sequence[TopologySpreadConstraint] = ()
    scheduling_gates: Sequence[LocalReference] = ()
    scheduling_group: SchedulingGroup | None = None
    volumes: Sequence[Volume] = ()
    resource_claims: Sequence[Raw] = ()
    image_pull_secrets: Sequence[LocalReference] = ()


class Condition(Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerStatus(Part, frozen=True):
    name: str = ""
    allocated_resources: Mapping[str, str] = {}
    resources: ResourceRequirements = ResourceRequirements()


class PodStatus(Part, frozen=True):
    """``allocated_resources`` and ``resources`` are of the pod as a whole."""

    phase: str = ""
    nominated_node_name: str = ""
    allocated_resources: Mapping[str, str] = {}
    resources: ResourceRequirements = ResourceRequirements()
    conditions: Sequence[Condition] = ()
    container_statuses: Sequence[ContainerStatus] = ()
    init_container_statuses: Sequence[ContainerStatus] = ()


class Pod(Object, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# ---- nodes


class Taint(Part, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Part, frozen=True):
    unschedulable: bool = False
    taints: Sequence[Taint] = ()


class NodeStatus(Part, frozen=True):
    allocatable: Mapping[str, str] = {}


class Node(Object, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# ---- what says more about pods


class Namespace(Object, frozen=True):
    """Quotas and the parent queue are in its annotations."""


class ConfigMap(Object, frozen=True):
    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}


class PriorityClass(Object, frozen=True):
    """A PriorityClass; an annotation says whether its pods may be preempted."""


class DisruptionBudgetSpec(Part, frozen=True):
    selector: LabelSelector | None = None


class DisruptionBudgetStatus(Part, frozen=True):
    disruptions_allowed: int = 0


class PodDisruptionBudget(Object, frozen=True):
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class GangPolicy(Part, frozen=True):
    min_count: Annotated[int, Meta(ge=1)] = 1


class GroupPolicy(Part, frozen=True):
    gang: GangPolicy | None = None


class PodGroupSpec(Part, frozen=True):
    scheduling_policy: GroupPolicy = GroupPolicy()
    scheduling_constraints: Mapping[str, Any] | None = None


class PodGroupStatus(Part, frozen=True):
    conditions: Sequence[Condition] = ()


class PodGroup(Object, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class LeaseSpec(Part, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    spec: LeaseSpec = LeaseSpec()


# ---- what the server answers


class ListMeta(Part, frozen=True):
    """``continue_`` names the next page; empty in the last one."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class Page(Struct, rename="camel", frozen=True):
    """A page of a list, whose items are read one by one."""

    metadata: ListMeta = ListMeta()
    items: Sequence[Raw] | None = None


class Status(Struct, rename="camel", frozen=True, gc=False):
    """The body of an error, and the object of a watch event of the type ERROR."""

    message: str = ""
    reason: str = ""
    code: int = 0


class WatchEvent(Struct, frozen=True):
    """``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: Raw


class ClaimSpec(Part, frozen=True):
    storage_class_name: str = ""
    volume_name: str = ""
    access_modes: Sequence[str] = ()
    resources: ResourceRequirements = ResourceRequirements()


class ClaimStatus(Part, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClaimReference(Part, frozen=True):
    namespace: str = ""
    name: str = ""


class VolumeNodeAffinity(Part, frozen=True):
    required: NodeSelector | None = None


class CSISource(Part, frozen=True):
    driver: str = ""


class VolumeSpec(Part, frozen=True):
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None


class PersistentVolume(Object, frozen=True):
    spec: VolumeSpec = VolumeSpec()


class TopologyRequirement(Part, frozen=True):
    key: str
    values: Sequence[str] = ()


class TopologyTerm(Part, frozen=True):
    match_label_expressions: Sequence[TopologyRequirement] = ()


class StorageClass(Object, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: Sequence[TopologyTerm] = ()


class CSIDriverSpec(Part, frozen=True):
    storage_capacity: bool = False


class CSIDriver(Object, frozen=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class VolumeLimit(Part, frozen=True):
    count: Int32 | None = None


class CSINodeDriver(Part, frozen=True):
    name: str
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Part, frozen=True):
    drivers: Sequence[CSINodeDriver] = ()


class CSINode(Object, frozen=True):
    """The limits of the drivers of a node; it has the name of the node."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIStorageCapacity(Object, frozen=True):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None
