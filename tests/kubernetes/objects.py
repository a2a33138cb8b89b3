"""Objects of the API server as tests write them."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from ykactor.kubernetes import model

_NUMBERS = itertools.count(1)


def uid() -> str:
    return f"{next(_NUMBERS):08x}-0000-4000-8000-000000000000"


def pod(name: str, /, *, cpu: str = "1", node: str = "", namespace: str = "team", **more: Any) -> model.Pod:
    """A pod of ours; ``more`` are fields of its spec, and others of it."""
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": more.pop("uid", None) or uid(),
        "labels": more.pop("labels", {}),
        "annotations": more.pop("annotations", {}),
        "creationTimestamp": f"2030-01-01T00:00:{more.pop('created', 0):02}Z",
        "resourceVersion": str(next(_NUMBERS)),
    }
    if more.pop("deleting", False):
        meta["deletionTimestamp"] = "2030-01-01T00:10:00Z"
    status = {"phase": more.pop("phase", "Pending"), **more.pop("status", {})}
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": more.pop("ports", [])}]
    spec = {"schedulerName": "ykactor", "containers": containers, "nodeName": node, **more}
    return msgspec.json.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": status}), type=model.Pod)


def changed(found: model.Pod, **more: Any) -> model.Pod:
    """The same pod later."""
    meta, spec, status = (msgspec.to_builtins(part) for part in (found.metadata, found.spec, found.status))
    if more.pop("deleting", False):
        meta["deletionTimestamp"] = "2030-01-01T00:10:00Z"
    for name in ("labels", "annotations"):
        if name in more:
            meta[name] = more.pop(name)
    if "phase" in more:
        status["phase"] = more.pop("phase")
    if "node" in more:
        spec["nodeName"] = more.pop("node")
    return msgspec.convert({"metadata": meta, "spec": {**spec, **more}, "status": status}, model.Pod)


def node(name: str, /, *, cpu: str = "4", **more: Any) -> model.Node:
    """A node; ``more`` are fields of its spec, and ``labels``."""
    meta = {"name": name, "uid": more.pop("uid", f"node-{name}"), "labels": more.pop("labels", {})}
    status = {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}
    return msgspec.convert({"metadata": meta, "spec": more, "status": status}, model.Node)


def namespace(name: str, /, **annotations: str) -> model.Namespace:
    """A namespace; ``__`` in the name of an annotation is ``.``."""
    given = {f"yunikorn.apache.org/{key.replace('__', '.')}": value for key, value in annotations.items()}
    return msgspec.convert({"metadata": {"name": name, "annotations": given}}, model.Namespace)


def group(name: str, min_count: int, namespace: str = "team") -> model.PodGroup:
    """A PodGroup with a gang."""
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, model.PodGroup)
