"""The objects of the API server about volumes, with just the fields that the adapter reads."""

from __future__ import annotations

from collections.abc import Sequence

from ykactor.kubernetes.model import Int32, LabelSelector, NodeSelector, Object, Part, ResourceRequirements


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
