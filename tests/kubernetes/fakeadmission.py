"""What the fake API server refuses of an object, what it fills in, and how it merges a patch."""

from __future__ import annotations

import re
from typing import Any

from fakehttp import Body, Refused

Objects = dict[str, dict[tuple[str, str], Body]]
_QUANTITY = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")
_ZONE = "topology.kubernetes.io/zone"
_GATED = "Scheduling is blocked due to non-empty scheduling gates"
#: A controller takes these finalizers off, when nothing needs the object any more.
_PROTECTED = {"podgroups": "scheduling.k8s.io/podgroup-protection", "namespaces": "kubernetes"}
_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for taint in ("not-ready", "unreachable")
]
#: Lists that a strategic patch merges, by the name that their entries have.
_KEYS = {"conditions": "type", "schedulingGates": "name", "containers": "name"}


def invalid(kind: str, why: str) -> Refused:
    return Refused(422, "Invalid", f"{kind} is invalid: {why}")


def check(resource: str, before: Body | None, after: Body, subresource: str, *, is_old: bool) -> None:
    """Refuse a wrong object or change, and drop what a server of 1.20 does not know."""
    meta, spec = after["metadata"], after.get("spec", {})
    if resource == "events" and after["regarding"].get("namespace", "" if is_old else "default") != meta["namespace"]:
        raise invalid("Event", "involvedObject.namespace: does not match event.namespace")
    if resource != "pods":
        return
    if is_old:
        _drop_unknown(after)
    asked, gates, was_asked, were_gates = *_asked(after), *_asked(before or after)
    if not all(_QUANTITY.fullmatch(each) for each in asked):
        raise Refused(400, "BadRequest", "Pod cannot be handled as a Pod: quantities must match the regular expression")
    for is_wrong, why in (
        (meta["name"] != meta["name"].lower(), "metadata.name: Invalid value"),
        (gates and spec.get("nodeName"), "spec.nodeName: Forbidden: cannot be set until all schedulingGates are cleared"),
        (gates - were_gates, "spec.schedulingGates[0].name: Forbidden: only deletion is allowed"),
        (asked != was_asked and subresource != "resize", "spec: Forbidden: pod updates may not change fields other than image"),
    ):
        if is_wrong:
            raise invalid("Pod", why)


def _asked(pod: Body) -> tuple[list[str], set[str]]:
    """The quantities of a pod, and its gates."""
    amounts = [part for each in pod["spec"]["containers"] for part in each.get("resources", {}).values()]
    return [each for part in amounts for each in part.values()], {each["name"] for each in pod["spec"].get("schedulingGates", ())}


def _drop_unknown(pod: Body) -> None:
    late = [(pod["spec"], ("schedulingGates", "schedulingGroup", "resources"))]
    late += [(each, ("restartPolicy",)) for each in pod["spec"].get("initContainers", ())]
    late += [(each, ("allocatedResources", "resources")) for each in pod.get("status", {}).get("containerStatuses", ())]
    for part, names in late:
        for name in names:
            part.pop(name, None)


def fill_in(resource: str, body: Body, objects: Objects, *, is_old: bool) -> None:
    """Set what the server sets in a new object."""
    meta = body["metadata"]
    if resource in _PROTECTED:
        meta["finalizers"] = [_PROTECTED[resource]]
    if resource == "namespaces" and not is_old:
        meta["labels"] = {**meta.get("labels", {}), "kubernetes.io/metadata.name": meta["name"]}
    if resource == "pods":
        body["spec"] = _filled(body["spec"], objects)
        body["status"] = {"phase": "Pending", **body.get("status", {})}
        if body["spec"].get("schedulingGates"):
            set_condition(body, type="PodScheduled", status="False", reason="SchedulingGated", message=_GATED)
        if not is_old:
            label_as_node(body, objects)
            _merge_label_keys(body["spec"], meta.get("labels", {}))


def _filled(spec: Body, objects: Objects) -> Body:
    """The spec of a pod with what its classes say, and with defaults."""
    runtime = objects.get("runtimeclasses", {}).get(("", spec.get("runtimeClassName", "")))
    if runtime is not None:
        spec |= {"overhead": runtime["overhead"]["podFixed"], **runtime["scheduling"]}
        spec["tolerations"] = [*_TOLERATIONS, *spec["tolerations"]]
    named = objects.get("priorityclasses", {}).get(("", spec.get("priorityClassName", "")), {})
    priority = {"priority": named.get("value", 0), "preemptionPolicy": named.get("preemptionPolicy", "PreemptLowerPriority")}
    spec = {"terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "tolerations": [], **priority, **spec}
    there = [each.get("key") for each in spec["tolerations"]]
    spec["tolerations"] = [*spec["tolerations"], *(each for each in _TOLERATIONS if each["key"] not in there)]
    for container in spec["containers"]:
        resources = container.get("resources", {})
        resources |= {"requests": resources["limits"] | resources.get("requests", {})} if "limits" in resources else {}
    return spec


def _merge_label_keys(spec: Body, labels: Body) -> None:
    """Terms about pods with the same labels as this one say so in their selectors, too."""
    terms = list(spec.get("topologySpreadConstraints", ()))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms += spec.get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    for term in terms:
        for key in term.get("matchLabelKeys", ()):
            same = {"key": key, "operator": "In", "values": [labels[key]]}
            term["labelSelector"].setdefault("matchExpressions", []).append(same)


def label_as_node(pod: Body, objects: Objects) -> None:
    """A pod has the zone of its node as a label."""
    node = objects.get("nodes", {}).get(("", pod["spec"].get("nodeName", "")), {"metadata": {}})
    if zone := node["metadata"].get("labels", {}).get(_ZONE):
        pod["metadata"].setdefault("labels", {})[_ZONE] = zone


def set_condition(pod: Body, **condition: str) -> None:
    others = [each for each in pod["status"].get("conditions", ()) if each["type"] != condition["type"]]
    pod["status"]["conditions"] = [*others, condition]


def merged(old: Any, patch: Any, *, strategic: bool) -> Any:
    """The result of a merge patch, or of a strategic one; ``old`` may be changed."""
    if not isinstance(patch, dict):
        return patch
    old = old if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            old.pop(name, None)
        elif name in _KEYS and strategic:
            there, wanted = ({each[_KEYS[name]]: each for each in part} for part in (old.get(name, ()), value))
            names = [*(each for each in wanted if each not in there), *there]  # new entries come first
            pairs = [(there.get(each, {}), wanted.get(each, {})) for each in names]
            old[name] = [merged(*pair, strategic=True) for pair in pairs if "$patch" not in pair[1]]
        else:
            old[name] = merged(old.get(name), value, strategic=strategic)
    return old
