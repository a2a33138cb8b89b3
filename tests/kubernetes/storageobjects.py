"""Claims, volumes and what is said about them, as tests write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ykactor.kubernetes.model import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ykactor.kubernetes.volumes import SELECTED_NODE

Body = dict[str, Any]
DRIVER, ZONE = "csi.example", "zone"
COMPLETED = "pv.kubernetes.io/bind-completed"


def claim(name: str, /, *, selected: str = "", bound: str = "", **more: Any) -> PersistentVolumeClaim:
    """A claim of the class ``wait``; ``bound`` is its volume, and ``more`` are fields of its spec, and others of it."""
    annotations = (
        more.pop("annotations", {}) | ({SELECTED_NODE: selected} if selected else {}) | ({COMPLETED: "yes"} if bound else {})
    )
    meta = {"name": name, "namespace": more.pop("namespace", "team"), "uid": f"claim-{name}", "annotations": annotations}
    meta["ownerReferences"] = [{"uid": more.pop("owner", "")}]
    if more.pop("deleting", False):
        meta["deletionTimestamp"] = "2030-01-01T00:10:00Z"
    status = {"phase": more.pop("phase", "Bound" if bound else "Pending")}
    spec = {
        "storageClassName": "wait",
        "volumeName": bound,
        "accessModes": ["ReadWriteOncePod" if more.pop("one_pod", False) else "ReadWriteOnce"],
        "resources": {"requests": {"storage": more.pop("size", "1Gi")}},
        **more,
    }
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, PersistentVolumeClaim)


def volume(
    name: str, /, of: str = "", *, zones: Sequence[str] = (), driver: str = DRIVER, namespace: str = "team"
) -> PersistentVolume:
    """A volume of a claim, in some zones."""
    spec: Body = {"claimRef": {"namespace": namespace, "name": of}, "csi": {"driver": driver}}
    if zones:
        expression = {"key": ZONE, "operator": "In", "values": list(zones)}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, PersistentVolume)


def storage_class(
    name: str = "wait", /, *, waits: bool = True, zones: Sequence[str] = (), provisioner: str = DRIVER
) -> StorageClass:
    body: Body = {"metadata": {"name": name}, "provisioner": provisioner}
    body["volumeBindingMode"] = "WaitForFirstConsumer" if waits else "Immediate"
    if zones:
        body["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return msgspec.convert(body, StorageClass)


def driver(name: str = DRIVER, /, *, tracks_room: bool = True) -> CSIDriver:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"storageCapacity": tracks_room}}, CSIDriver)


def csi_node(name: str, /, **limits: int | None) -> CSINode:
    """The volume limits of a node's drivers; ``__`` in the name of a driver is ``.``."""
    drivers = [{"name": each.replace("__", "."), "allocatable": {"count": count}} for each, count in limits.items()]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, CSINode)


def capacity(
    name: str, size: str | None, /, *, largest: str | None = None, zone: str | None = "z1", of: str = "wait"
) -> CSIStorageCapacity:
    """Room for volumes in a zone; for all nodes with a ``zone`` of "", for none with None."""
    body: Body = {"metadata": {"name": name, "namespace": "csi"}, "storageClassName": of}
    if zone is not None:
        body["nodeTopology"] = {"matchLabels": {ZONE: zone} if zone else {}}
    return msgspec.convert({**body, "capacity": size, "maximumVolumeSize": largest}, CSIStorageCapacity)


def using(*claims: str, ephemeral: Sequence[str] = ()) -> list[Body]:
    """The volumes of a pod."""
    named: list[Body] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}} for number, each in enumerate(claims)
    ]
    return named + [{"name": each, "ephemeral": {}} for each in ephemeral]
