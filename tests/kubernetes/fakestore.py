"""The objects of the fake API server: versions, a log of changes for watches, and what binding and deleting do."""

from __future__ import annotations

import copy
import itertools
from typing import Any, NamedTuple

Body = dict[str, Any]


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status = status
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


class Change(NamedTuple):
    """An entry of the log; ``before`` is the object that it replaces."""

    version: int
    resource: str
    type: str
    object: Body
    before: Body | None


class Store:
    """Objects by resource (``pods``), namespace and name.

    Attributes:
        version: the newest.
        compacted: older versions than this are gone.
        ignores_uid: binds as a server of 1.20 does.
    """

    def __init__(self, *, ignores_uid: bool = False) -> None:
        self.version = 1000
        self.compacted = 0
        self.ignores_uid = ignores_uid
        self.objects: dict[str, dict[tuple[str, str], Body]] = {}
        self.log: list[Change] = []
        self._uids = (f"{number:08x}-0000-4000-8000-000000000000" for number in itertools.count(1))

    # ---- reading

    def get(self, resource: str, namespace: str, name: str) -> Body:
        found = self.objects.get(resource, {}).get((namespace, name))
        if found is None:
            raise Refused(404, "NotFound", f'{resource} "{name}" not found', name=name, kind=resource)
        return found

    def all(self, resource: str, namespace: str) -> list[Body]:
        found = self.objects.get(resource, {})
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def since(self, version: int) -> list[Change]:
        """The changes after a version. Raises 410 for one that is gone."""
        if version < self.compacted:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self.compacted})")
        return [change for change in self.log if change.version > version]

    def compact(self) -> None:
        """Forget the changes so far."""
        self.compacted = self.version
        self.log.clear()

    # ---- writing

    def create(self, resource: str, namespace: str, body: Body) -> Body:
        meta = body.setdefault("metadata", {})
        name = meta.get("name") or f"{meta.get('generateName', 'x')}{self.version}"
        if (namespace, name) in self.objects.get(resource, {}):
            raise Refused(409, "AlreadyExists", f'{resource} "{name}" already exists', name=name, kind=resource)
        meta.update(name=name, uid=next(self._uids), creationTimestamp="2000-01-01T00:00:00Z")
        if namespace:
            meta["namespace"] = namespace
        if resource == "pods":
            _default_pod(body)
        return self._keep(resource, body, "ADDED", None)

    def replace(self, resource: str, found: Body, body: Body) -> Body:
        """Write an object over the one that was read; raises 409 if it has changed since."""
        version = body.get("metadata", {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            raise _conflict(resource, found, _MODIFIED)
        meta = {**found["metadata"], **{k: v for k, v in body.get("metadata", {}).items() if k in ("labels", "annotations")}}
        return self._keep(resource, {**found, **body, "metadata": meta}, "MODIFIED", found)

    def patch(self, resource: str, found: Body, patch: Body, *, strategic: bool) -> Body:
        """Patch an object; a wrong uid is 422, an old version 409."""
        meta = patch.get("metadata", {})
        if meta.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            name = found["metadata"]["name"]
            raise Refused(422, "Invalid", f'{resource} "{name}" is invalid: metadata.uid: Invalid value: field is immutable')
        if meta.get("resourceVersion", found["metadata"]["resourceVersion"]) != found["metadata"]["resourceVersion"]:
            raise _conflict(resource, found, _MODIFIED)
        merged = _merged(copy.deepcopy(found), patch, strategic=strategic)
        merged["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        return found if merged == found else self._keep(resource, merged, "MODIFIED", found)

    def bind(self, namespace: str, name: str, binding: Body) -> None:
        """Bind a pod, with the three kinds of conflict that a real server has."""
        target = binding.get("target", {}).get("name")
        if not target:
            raise Refused(500, "", "target.name: Required value")
        pod = self.get("pods", namespace, name)
        meta, uid = pod["metadata"], binding.get("metadata", {}).get("uid")
        if uid and uid != meta["uid"] and not self.ignores_uid:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
            raise _conflict("pods", pod, f"StorageError: invalid object, Code: 4, AdditionalErrorMsg: {text}")
        if meta.get("deletionTimestamp"):
            raise _conflict("pods/binding", pod, f"pod {name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise _conflict("pods/binding", pod, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if pod["spec"].get("schedulingGates"):
            raise _conflict("pods/binding", pod, f"pod {name} has non-empty .spec.schedulingGates")
        bound = copy.deepcopy(pod)
        bound["spec"]["nodeName"] = target
        _set_condition(bound, {"type": "PodScheduled", "status": "True"})
        zone = self.objects.get("nodes", {}).get(("", target), {}).get("metadata", {}).get("labels", {}).get(_ZONE)
        if zone and not self.ignores_uid:  # since 1.35
            bound["metadata"].setdefault("labels", {})[_ZONE] = zone
        self._keep("pods", bound, "MODIFIED", pod)

    def delete(self, resource: str, found: Body, options: Body) -> Body:
        """Delete an object: a pod that runs has its grace first, and a waiting one is modified before it goes."""
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and wanted != found["metadata"]["uid"]:
            raise _conflict(resource, found, f"Precondition failed: UID in precondition: {wanted}")
        if resource != "pods":
            return self.remove(resource, found)
        grace = options.get("gracePeriodSeconds", found["spec"].get("terminationGracePeriodSeconds", 30))
        is_running = bool(found["spec"].get("nodeName")) and found["status"].get("phase") not in ("Succeeded", "Failed")
        deleting = found
        if not found["metadata"].get("deletionTimestamp"):
            deleting = copy.deepcopy(found)
            deleting["metadata"].update(
                deletionTimestamp="2000-01-01T00:00:00Z", deletionGracePeriodSeconds=grace if is_running else 0
            )
            deleting = self._keep(resource, deleting, "MODIFIED", found)
        if (is_running and grace) or deleting["metadata"].get("finalizers"):
            return deleting
        return self.remove(resource, deleting)

    def remove(self, resource: str, found: Body) -> Body:
        """The object is gone."""
        meta = found["metadata"]
        del self.objects[resource][meta.get("namespace", ""), meta["name"]]
        self.version += 1
        gone = {**found, "metadata": {**meta, "resourceVersion": str(self.version)}}
        self.log.append(Change(self.version, resource, "DELETED", gone, found))
        return found

    def _keep(self, resource: str, body: Body, change: str, before: Body | None) -> Body:
        self.version += 1
        meta = {**body["metadata"], "resourceVersion": str(self.version)}
        kept = {**body, "metadata": meta}
        self.objects.setdefault(resource, {})[meta.get("namespace", ""), meta["name"]] = kept
        self.log.append(Change(self.version, resource, change, kept, before))
        had_finalizers = before is not None and before["metadata"].get("finalizers")
        if had_finalizers and meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.remove(resource, kept)
        return kept


_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_ZONE = "topology.kubernetes.io/zone"


def _default_pod(body: Body) -> None:
    spec = body.setdefault("spec", {})
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("schedulerName", "default-scheduler"),
        ("priority", 0),
        ("preemptionPolicy", "PreemptLowerPriority"),
    ):
        spec.setdefault(name, value)
    body["status"] = {"phase": "Pending", **body.get("status", {})}
    if spec.get("schedulingGates"):
        _set_condition(body, {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"})


def _set_condition(body: Body, condition: Body) -> None:
    conditions = body["status"].setdefault("conditions", [])
    body["status"]["conditions"] = [each for each in conditions if each["type"] != condition["type"]] + [condition]


def _merged(old: Any, patch: Any, *, strategic: bool) -> Any:
    """A merge patch; a strategic one merges conditions by their type."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    for name, value in patch.items():
        if value is None:
            old.pop(name, None)
        elif name == "conditions" and strategic:
            by_type = {each["type"]: each for each in old.get(name, [])}
            for each in value:
                by_type[each["type"]] = {**by_type.get(each["type"], {}), **each}
            old[name] = list(by_type.values())
        else:
            old[name] = _merged(old.get(name), value, strategic=strategic)
    return old


def _conflict(kind: str, found: Body, text: str) -> Refused:
    name = found["metadata"]["name"]
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}": {text}', name=name, kind=kind)
