"""The objects of the fake API server: their versions and changes, what is refused, and what is filled in."""

import re
from collections import defaultdict
from typing import NamedTuple

import trio
from fakehttp import Body, Refused
from mergepatch import merged

_QUANTITY = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")
_ZONE = "topology.kubernetes.io/zone"
_WHY_GATED = "Scheduling is blocked due to non-empty scheduling gates"
_GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": _WHY_GATED}
_SCHEDULED = {"type": "PodScheduled", "status": "True", "reason": None, "message": None}
#: A controller takes these finalizers off, when nothing needs the object any more.
_PROTECTED = {"podgroups": "scheduling.k8s.io/podgroup-protection", "namespaces": "kubernetes"}
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_NOW = "2000-01-01T00:00:00Z"


class Change(NamedTuple):
    """An entry of the log: ``type`` is that of the event of a watch, ``before`` the object that was replaced."""

    version: int
    resource: str
    key: tuple[str, str]
    type: str
    object: Body
    before: Body | None


class Store:
    """The objects of a server of 1.36 or 1.20, by resource, namespace and name; ``grown`` wakes who waits for another change."""

    def __init__(self, kubernetes: str = "1.36") -> None:
        self.is_old = kubernetes == "1.20"
        self.version = 1000
        self.objects = defaultdict[str, dict[tuple[str, str], Body]](dict)
        self.log: list[Change] = []
        self.grown = trio.lowlevel.ParkingLot()
        self._compacted = self._lists_since = 0

    def get(self, resource: str, namespace: str, name: str) -> Body:
        if (namespace, name) not in self.objects[resource]:
            raise Refused(404, "NotFound", f'{resource} "{name}" not found')
        return self.objects[resource][namespace, name]

    def all(self, resource: str, namespace: str, version: int = 2**63) -> list[Body]:
        """All objects, now or as they were at a version. Raises 410 for one that is gone."""
        if version < self._lists_since:
            raise Refused(410, "Expired", "The resourceVersion for the provided list is too old.")
        found: dict[tuple[str, str], Body | None] = {**self.objects[resource]}
        found |= {change.key: change.before for change in reversed(self.since(version)) if change.resource == resource}
        return [body for key, body in sorted(found.items()) if body is not None and namespace in ("", key[0])]

    def since(self, version: int) -> list[Change]:
        """The changes after a version. Raises 410 for one that is gone."""
        if version < self._compacted:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self._compacted})")
        return [change for change in self.log if change.version > version]

    def compact(self, *, is_cached: bool = False) -> None:
        """Forget the changes so far; those that are cached are known to watches, and to lists of 1.36, until the next start."""
        self._lists_since = self._lists_since if is_cached and not self.is_old else self.version
        if not is_cached:
            self._compacted = self.version
            self.log.clear()

    # ---- changes

    def create(self, resource: str, namespace: str, body: Body) -> Body:
        meta = body.setdefault("metadata", {})
        meta.setdefault("name", f"{meta.get('generateName')}{self.version}")
        meta |= {"namespace": namespace, "uid": f"{self.version:08x}-0000-4000-8000-000000000000", "creationTimestamp": _NOW}
        self._check(resource, body, body)
        if (namespace, meta["name"]) in self.objects[resource]:
            raise Refused(409, "AlreadyExists", f'{resource} "{meta["name"]}" already exists')
        if resource in _PROTECTED:
            meta["finalizers"] = [_PROTECTED[resource]]
        if resource == "namespaces" and not self.is_old:
            meta["labels"] = {**meta.get("labels", {}), "kubernetes.io/metadata.name": meta["name"]}
        if resource == "pods":
            self._complete(meta, body["spec"])
            conditions = {"conditions": [_GATED]} if body["spec"].get("schedulingGates") else {}
            body["status"] = {"phase": "Pending", **body.get("status", {}), **conditions}
        return self._note(resource, "ADDED", body, None)

    def patch(self, resource: str, found: Body, patch: Body, *, strategic: bool = True, subresource: str = "") -> Body:
        """Patch an object; a wrong uid is 422, an old version 409, and the status does not change the rest."""
        meta, wanted = found["metadata"], patch.get("metadata", {})
        if wanted.get("uid", meta["uid"]) != meta["uid"]:
            raise invalid(resource, f'metadata.uid: Invalid value: "{wanted["uid"]}": field is immutable')
        if wanted.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            raise _conflict(resource, found, _MODIFIED)
        ignored = patch.keys() - {"metadata", "status"} if subresource == "status" else set()
        after = merged(found, {name: patch[name] for name in patch.keys() - ignored}, strategic=strategic)
        self._check(resource, found, after, subresource)
        if after == found and not (ignored and self.is_old):  # 1.20 writes who has asked for it
            return found
        is_gone = meta.get("deletionGracePeriodSeconds") == 0 and not after["metadata"].get("finalizers")
        return self.remove(resource, found) if is_gone else self._note(resource, "MODIFIED", after, found)

    def bind(self, namespace: str, name: str, binding: Body, *, is_subresource: bool = True) -> None:
        """Bind a pod, with the three kinds of conflict that a real server has."""
        wanted, node = binding["metadata"], binding.get("target", {}).get("name")
        if not node:
            raise Refused(500, "", "target.name: Required value")
        if wanted["name"] != name:
            raise Refused(400, "BadRequest", "name in URL does not match name in Binding object")
        found = self.get("pods", namespace, name)
        meta, spec = found["metadata"], found["spec"]
        uid, wanted_uid = meta["uid"], meta["uid"] if self.is_old else wanted.get("uid", meta["uid"])
        precondition = f"Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {uid}"
        for is_so, kind, why in (
            (uid != wanted_uid, "pods", f"StorageError: invalid object, Code: 4, AdditionalErrorMsg: {precondition}"),
            ("deletionTimestamp" in meta, "pods/binding", f"pod {name} is being deleted, cannot be assigned to a host"),
            (spec.get("nodeName"), "pods/binding", f'pod {name} is already assigned to node "{spec.get("nodeName")}"'),
            (spec.get("schedulingGates"), "pods/binding", f"pod {name} has non-empty .spec.schedulingGates"),
        ):
            if is_so:
                raise _conflict(kind, found, why)
        labels = {} if self.is_old else {**wanted.get("labels", {}), **(self._zone_of(node) if is_subresource else {})}
        more = {"annotations": wanted.get("annotations", {}), "labels": labels}
        self.patch("pods", found, {"metadata": more, "spec": {"nodeName": node}, "status": {"conditions": [_SCHEDULED]}})

    def delete(self, resource: str, found: Body, options: Body) -> Body:
        """Delete an object: a pod that runs has its grace first, a waiting one is modified before it goes, finalizers keep it."""
        meta, spec, is_kept = found["metadata"], found.get("spec", {}), bool(found["metadata"].get("finalizers"))
        if (wanted := options.get("preconditions", {}).get("uid", meta["uid"])) != meta["uid"]:
            text = f"the UID in the precondition ({wanted}) does not match the UID in record ({meta['uid']})"
            raise _conflict("Pod", found, f"{text}. The object might have been deleted and then recreated")
        grace, before = 0, meta.get("deletionGracePeriodSeconds", 2**31)  # which never grows
        if spec.get("nodeName") and found["status"].get("phase") not in ("Succeeded", "Failed"):
            grace = min(int(options.get("gracePeriodSeconds", spec["terminationGracePeriodSeconds"])), before)
        if grace != before and (resource == "pods" or is_kept):
            times = {"deletionTimestamp": _NOW, "deletionGracePeriodSeconds": grace}
            found = self._note(resource, "MODIFIED", {**found, "metadata": {**meta, **times}}, found)
        return found if grace or is_kept else self.remove(resource, found)

    def remove(self, resource: str, found: Body) -> Body:
        """The object is gone."""
        return self._note(resource, "DELETED", found, found)

    def _note(self, resource: str, kind: str, body: Body, before: Body | None) -> Body:
        self.version += 1
        body, key = at_version(body, self.version), (body["metadata"]["namespace"], body["metadata"]["name"])
        self.objects[resource][key] = body
        if kind == "DELETED":
            del self.objects[resource][key]
        self.log.append(Change(self.version, resource, key, kind, body, before))
        self.grown.unpark_all()
        return body

    # ---- what is refused and filled in

    def _check(self, resource: str, before: Body, after: Body, subresource: str = "") -> None:
        """Refuse a wrong object or change, and drop what a server of 1.20 does not know."""
        meta, spec = after["metadata"], after.get("spec", {})
        if resource == "events" and after["regarding"].get("namespace", "" if self.is_old else "default") != meta["namespace"]:
            raise invalid("Event", "involvedObject.namespace: does not match event.namespace")
        if resource != "pods":
            return
        if self.is_old:
            _drop_unknown(after)
        (asked, gates), (was_asked, were_gates) = _asked(after), _asked(before)
        if not all(_QUANTITY.fullmatch(each) for each in asked):
            raise Refused(400, "BadRequest", "Pod cannot be handled as a Pod: quantities must match the regular expression")
        for is_wrong, why in (
            (meta["name"] != meta["name"].lower(), "metadata.name: Invalid value"),
            (gates and spec.get("nodeName"), "spec.nodeName: Forbidden: cannot be set until all schedulingGates are cleared"),
            (gates - were_gates, "spec.schedulingGates[0].name: Forbidden: only deletion is allowed"),
            (asked != was_asked and subresource != "resize", "spec: Forbidden: pod updates may not change fields but image"),
        ):
            if is_wrong:
                raise invalid("Pod", why)

    def _complete(self, meta: Body, spec: Body) -> None:
        """Set what the classes and the node of a pod say, and defaults."""
        priority = self.objects["priorityclasses"].get(("", spec.get("priorityClassName", "")), {})
        runtime = self.objects["runtimeclasses"].get(("", spec.get("runtimeClassName", "")), {"scheduling": {}})
        defaults = {"terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "tolerations": []}
        preempts = priority.get("preemptionPolicy", "PreemptLowerPriority")
        own = {**defaults, "priority": priority.get("value", 0), "preemptionPolicy": preempts, **spec}
        there = {each.get("key") for each in own["tolerations"]}
        missing = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _TOLERATED if key not in there]
        overhead = {"overhead": runtime["overhead"]["podFixed"]} if "overhead" in runtime else {}
        spec |= {**own, **overhead, **runtime["scheduling"]}
        spec["tolerations"] = [*own["tolerations"], *missing, *runtime["scheduling"].get("tolerations", ())]
        for container in spec["containers"]:
            if limits := container.get("resources", {}).get("limits"):
                container["resources"]["requests"] = limits | container["resources"].get("requests", {})
        if not self.is_old:
            meta["labels"] = {**meta.get("labels", {}), **self._zone_of(spec.get("nodeName", ""))}
            _merge_label_keys(spec, meta["labels"])

    def _zone_of(self, node: str) -> dict[str, str]:
        """The label of a node that its pods get too."""
        labels = self.objects["nodes"].get(("", node), {"metadata": {}})["metadata"].get("labels", {})
        return {name: labels[name] for name in (_ZONE,) if name in labels}


def _asked(pod: Body) -> tuple[list[str], set[str]]:
    """The quantities of a pod, and its gates."""
    amounts = [part for each in pod["spec"]["containers"] for part in each.get("resources", {}).values()]
    return [each for part in amounts for each in part.values()], {each["name"] for each in pod["spec"].get("schedulingGates", ())}


def _drop_unknown(pod: Body) -> None:
    late = [(pod["spec"], {"schedulingGates", "schedulingGroup", "resources"})]
    late += [(each, {"restartPolicy"}) for each in pod["spec"].get("initContainers", ())]
    late += [(each, {"allocatedResources", "resources"}) for each in pod.get("status", {}).get("containerStatuses", ())]
    for part, names in late:
        for name in names & part.keys():
            del part[name]


def _merge_label_keys(spec: Body, labels: Body) -> None:
    """Terms about pods with the same labels as this one say so in their selectors, too."""
    terms = list(spec.get("topologySpreadConstraints", ()))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms += spec.get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    for term in terms:
        same = [{"key": key, "operator": "In", "values": [labels[key]]} for key in term.get("matchLabelKeys", ())]
        term["labelSelector"].setdefault("matchExpressions", []).extend(same)


def at_version(body: Body, version: int) -> Body:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def invalid(kind: str, why: str) -> Refused:
    return Refused(422, "Invalid", f"{kind} is invalid: {why}")


def _conflict(kind: str, found: Body, why: str) -> Refused:
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{found["metadata"]["name"]}": {why}')
