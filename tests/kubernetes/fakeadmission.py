"""What the fake API server refuses of an object, and what it fills in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUANTITY = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")
_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for taint in ("not-ready", "unreachable")
)


class Refused(Exception):
    """An answer that is an error; ``text`` is a plain one, without a Status."""

    def __init__(self, status: int, reason: str, message: str, *, text: str = "", **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.text = text
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": status,
        }


def invalid(kind: str, name: str, message: str) -> Refused:
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {message}', name=name, kind=kind)


def busy() -> Refused:
    """The server has too much to do: the answer is no JSON."""
    return Refused(429, "TooManyRequests", "too many requests", text="Too many requests, please try again later.\n")


def drop_unknown(resource: str, body: Body, version: str) -> None:
    """Fields that came later are dropped silently."""
    if resource == "pods" and version == "1.20":
        for name in ("schedulingGates", "schedulingGroup", "resources"):
            body["spec"].pop(name, None)
        for container in body["spec"].get("initContainers", ()):
            container.pop("restartPolicy", None)
        for status in body.get("status", {}).get("containerStatuses", ()):
            status.pop("allocatedResources", None)
            status.pop("resources", None)


# ---- what is refused


def check_new(resource: str, namespace: str, body: Body, version: str) -> None:
    """Refuse a new object that is wrong."""
    if resource == "pods":
        _check_pod(body)
    elif resource == "events":
        regarding = body.get("regarding", {}).get("namespace", "")
        if (regarding or ("default" if version != "1.20" else "")) != namespace:
            text = f'involvedObject.namespace: Invalid value: "{regarding}": does not match event.namespace'
            raise invalid("Event", body["metadata"].get("name", ""), text)


def _check_pod(body: Body) -> None:
    spec, name = body.get("spec", {}), body["metadata"].get("name", "")
    quantities = list(_quantities(spec))
    if not all(_QUANTITY.fullmatch(each) for each in quantities):
        text = "quantities must match the regular expression"
        raise Refused(400, "BadRequest", f'Pod in version "v1" cannot be handled as a Pod: {text}')
    if name and not _NAME.fullmatch(name):
        raise invalid("Pod", name, f'metadata.name: Invalid value: "{name}"')
    if any(each.startswith("-") for each in quantities):
        raise invalid("Pod", name, "spec.containers[0].resources.requests: must be greater than or equal to 0")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        raise invalid("Pod", name, "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared")


def check_change(before: Body, after: Body, subresource: str) -> None:
    """Refuse a wrong change of a pod: gates only go, and only a resize changes requests."""
    name = before["metadata"]["name"]
    old, new = (_names(body["spec"].get("schedulingGates")) for body in (before, after))
    if added := sorted(new - old):
        text = f"Forbidden: only deletion is allowed, but found new scheduling gate '{added[0]}'"
        raise invalid("Pod", name, f"spec.schedulingGates[0].name: {text}")
    if subresource != "resize" and list(_quantities(before["spec"])) != list(_quantities(after["spec"])):
        raise invalid("Pod", name, "spec: Forbidden: pod updates may not change fields other than image")


def _names(parts: list[Body] | None) -> set[str]:
    return {each["name"] for each in parts or ()}


def _quantities(spec: Body) -> Iterator[str]:
    for container in spec.get("containers", ()):
        resources = container.get("resources", {})
        for kind in ("requests", "limits"):
            yield from (str(each) for each in resources.get(kind, {}).values())


# ---- what is filled in

KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "namespaces": "Namespace",
    "configmaps": "ConfigMap",
    "priorityclasses": "PriorityClass",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "podgroups": "PodGroup",
    "leases": "Lease",
    "events": "Event",
}
#: A controller takes these finalizers off, when nothing needs the object any more.
_PROTECTED = {"podgroups": "scheduling.k8s.io/podgroup-protection", "namespaces": "kubernetes"}


def fill_in(resource: str, body: Body, version: str, objects: dict[str, dict[tuple[str, str], Body]]) -> None:
    """Set what the server sets in a new object.

    Args:
        objects: all that is there, by resource and name.
    """
    meta = body["metadata"]
    body.setdefault("kind", KINDS.get(resource, "Object"))
    if resource in _PROTECTED:
        meta["finalizers"] = [_PROTECTED[resource]]
    if resource == "namespaces" and version != "1.20":
        meta["labels"] = {**meta.get("labels", {}), "kubernetes.io/metadata.name": meta["name"]}
    elif resource == "pods":
        _use_runtime(body["spec"], objects.get("runtimeclasses", {}))
        classes = objects.get("priorityclasses", {})
        _fill_in_pod(body, version, classes.get(("", body["spec"].get("priorityClassName", "")), {}))


def _use_runtime(spec: Body, classes: dict[tuple[str, str], Body]) -> None:
    """A RuntimeClass says what its pods need beside their containers, and where they may run."""
    found = classes.get(("", spec.get("runtimeClassName", "")))
    if found is not None:
        scheduling = found.get("scheduling", {})
        spec["overhead"] = found["overhead"]["podFixed"]
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **scheduling.get("nodeSelector", {})}
        spec["tolerations"] = [*spec.get("tolerations", ()), *_TOLERATIONS, *scheduling.get("tolerations", ())]


def _fill_in_pod(body: Body, version: str, priority_class: Body) -> None:
    spec = body["spec"]
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("schedulerName", "default-scheduler"),
        ("priority", priority_class.get("value", 0)),
        ("preemptionPolicy", priority_class.get("preemptionPolicy", "PreemptLowerPriority")),
    ):
        spec.setdefault(name, value)
    if spec["terminationGracePeriodSeconds"] < 0 and version != "1.20":
        spec["terminationGracePeriodSeconds"] = 1
    there = {each.get("key") for each in spec.get("tolerations", ())}
    spec["tolerations"] = [*spec.get("tolerations", ()), *(each for each in _TOLERATIONS if each["key"] not in there)]
    if version != "1.20":
        _merge_label_keys(body)
    for container in spec.get("containers", ()):
        resources = container.setdefault("resources", {})
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    body["status"] = {"phase": "Pending", **body.get("status", {})}
    if spec.get("schedulingGates"):
        text = "Scheduling is blocked due to non-empty scheduling gates"
        set_condition(body, {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text})


def _merge_label_keys(body: Body) -> None:
    """Terms about pods with the same labels as this one say so in their selectors, too."""
    affinity, labels = body["spec"].get("affinity", {}), body["metadata"].get("labels", {})
    terms = list(body["spec"].get("topologySpreadConstraints", ()))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms += affinity.get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    for term in terms:
        keys = [key for key in term.get("matchLabelKeys", ()) if key in labels]
        same = [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys]
        if same:
            selector = term["labelSelector"]
            selector["matchExpressions"] = [*selector.get("matchExpressions", ()), *same]


def set_condition(body: Body, condition: Body) -> None:
    conditions = body["status"].setdefault("conditions", [])
    body["status"]["conditions"] = [each for each in conditions if each["type"] != condition["type"]] + [condition]


# ---- patches

#: Lists that a strategic patch merges, by the name that its entries have.
_KEYS = {"conditions": "type", "schedulingGates": "name", "containers": "name"}


def merged(old: Any, patch: Any, *, strategic: bool) -> Any:
    """A merge patch, or a strategic one."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    for name, value in patch.items():
        if value is None:
            old.pop(name, None)
        elif name in _KEYS and strategic:
            old[name] = _merged_list(old.get(name, []), value, _KEYS[name])
        else:
            old[name] = merged(old.get(name), value, strategic=strategic)
    return old


def _merged_list(old: list[Body], patch: list[Body], key: str) -> list[Body]:
    """New entries come first."""
    there = {each[key]: each for each in old}
    by_key = {each[key]: {} for each in patch if each[key] not in there} | there
    for each in patch:
        if each.get("$patch") == "delete":
            by_key.pop(each[key], None)
        else:
            by_key[each[key]] = merged(by_key.get(each[key], {}), each, strategic=True)
    return list(by_key.values())
