"""The objects of the fake API server: versions, a log of changes for watches, and what binding and deleting do."""

from __future__ import annotations

import copy
import itertools
from typing import NamedTuple

from fakeadmission import Body, Refused, check_change, check_new, drop_unknown, fill_in, invalid, merged, set_condition


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
        kubernetes: how the server behaves, 1.36 or 1.20.
    """

    def __init__(self, kubernetes: str = "1.36") -> None:
        self.version = 1000
        self.compacted = 0
        self._lists_since = 0
        self.kubernetes = kubernetes
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

    def at(self, resource: str, namespace: str, version: int) -> list[Body]:
        """All objects as they were at a version. Raises 410 for one that is gone."""
        if version < self._lists_since:
            raise Refused(410, "Expired", "The resourceVersion for the provided list is too old.")
        found = dict(self.objects.get(resource, {}))
        for change in reversed(self.log):
            if change.version > version and change.resource == resource:
                meta = change.object["metadata"]
                key = meta.get("namespace", ""), meta["name"]
                if change.before is None:
                    found.pop(key, None)
                else:
                    found[key] = change.before
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def since(self, version: int) -> list[Change]:
        """The changes after a version. Raises 410 for one that is gone."""
        if version < self.compacted:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self.compacted})")
        return [change for change in self.log if change.version > version]

    def compact(self, *, is_cached: bool = False) -> None:
        """Forget the changes so far.

        Args:
            is_cached: until its next start, the server has them in its cache, where lists of 1.20 do not look.
        """
        if not is_cached or self.kubernetes == "1.20":
            self._lists_since = self.version
        if not is_cached:
            self.compacted = self.version
            self.log.clear()

    # ---- writing

    def create(self, resource: str, namespace: str, body: Body) -> Body:
        meta = body.setdefault("metadata", {})
        drop_unknown(resource, body, self.kubernetes)
        check_new(resource, namespace, body, self.kubernetes)
        name = meta.get("name") or f"{meta.get('generateName', 'x')}{self.version}"
        if (namespace, name) in self.objects.get(resource, {}):
            raise Refused(409, "AlreadyExists", f'{resource} "{name}" already exists', name=name, kind=resource)
        meta.update(name=name, uid=next(self._uids), creationTimestamp="2000-01-01T00:00:00Z")
        if namespace:
            meta["namespace"] = namespace
        fill_in(resource, body, self.kubernetes, self.objects)
        if resource == "pods" and body["spec"].get("nodeName"):
            self._label(body, body["spec"]["nodeName"])
        return self._keep(resource, body, "ADDED", None)

    def replace(self, resource: str, found: Body, body: Body) -> Body:
        """Write an object over the one that was read; raises 409 if it has changed since."""
        version = body.get("metadata", {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            raise _conflict(resource, found, _MODIFIED)
        meta = {**found["metadata"], **{k: v for k, v in body.get("metadata", {}).items() if k in ("labels", "annotations")}}
        return self._keep(resource, {**found, **body, "metadata": meta}, "MODIFIED", found)

    def patch(self, resource: str, found: Body, patch: Body, *, strategic: bool, subresource: str = "") -> Body:
        """Patch an object; a wrong uid is 422, an old version 409, and the status does not change the rest."""
        meta = patch.get("metadata", {})
        if meta.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            text = f'metadata.uid: Invalid value: "{meta["uid"]}": field is immutable'
            raise invalid(found.get("kind", "Pod"), found["metadata"]["name"], text)
        if meta.get("resourceVersion", found["metadata"]["resourceVersion"]) != found["metadata"]["resourceVersion"]:
            raise _conflict(resource, found, _MODIFIED)
        ignored = patch.keys() - {"metadata", "status"} if subresource == "status" else set()
        patch = {name: value for name, value in patch.items() if name not in ignored}
        after = merged(copy.deepcopy(found), patch, strategic=strategic)
        after["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        drop_unknown(resource, after, self.kubernetes)
        if resource == "pods":
            check_change(found, after, subresource)
        writes_anyway = self.kubernetes == "1.20" and subresource == "status" and "spec" in ignored  # who wrote is new there
        return found if after == found and not writes_anyway else self._keep(resource, after, "MODIFIED", found)

    def bind(self, namespace: str, name: str, binding: Body, *, labels: bool = True) -> None:
        """Bind a pod, with the three kinds of conflict that a real server has.

        Args:
            labels: the pod gets the zone of its node as a label.
        """
        target = binding.get("target", {}).get("name")
        if not target:
            raise Refused(500, "", "target.name: Required value")
        if binding["metadata"].get("name") != name:
            raise Refused(400, "BadRequest", "name in URL does not match name in Binding object")
        pod = self.get("pods", namespace, name)
        meta, uid = pod["metadata"], binding.get("metadata", {}).get("uid")
        if uid and uid != meta["uid"] and self.kubernetes != "1.20":
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
        set_condition(bound, {"type": "PodScheduled", "status": "True"})
        for part in ("annotations", "labels") if self.kubernetes != "1.20" else ("annotations",):
            if binding["metadata"].get(part):
                bound["metadata"][part] = {**bound["metadata"].get(part, {}), **binding["metadata"][part]}
        if labels:
            self._label(bound, target)
        self._keep("pods", bound, "MODIFIED", pod)

    def _label(self, pod: Body, node: str) -> None:
        """A pod has the zone of its node as a label, in newer versions."""
        zone = self.objects.get("nodes", {}).get(("", node), {}).get("metadata", {}).get("labels", {}).get(_ZONE)
        if zone and self.kubernetes != "1.20":
            pod["metadata"].setdefault("labels", {})[_ZONE] = zone

    def delete(self, resource: str, found: Body, options: Body) -> Body:
        """Delete an object: a pod that runs has its grace first, a waiting one is modified before it goes, finalizers keep it."""
        meta = found["metadata"]
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and wanted != meta["uid"]:
            text = f"the UID in the precondition ({wanted}) does not match the UID in record ({meta['uid']})"
            raise _conflict("Pod", found, f"{text}. The object might have been deleted and then recreated")
        if resource != "pods" and not meta.get("finalizers"):
            return self.remove(resource, found)
        grace = _grace(found, options) if resource == "pods" else 0
        deleting = found
        goes_at_once = not (grace or meta.get("finalizers"))
        if grace != meta.get("deletionGracePeriodSeconds"):
            deleting = copy.deepcopy(found)
            deleting["metadata"].update(deletionTimestamp="2000-01-01T00:00:00Z", deletionGracePeriodSeconds=grace)
            deleting = self._keep(resource, deleting, "MODIFIED", found)
        return self.remove(resource, deleting) if goes_at_once else deleting

    def remove(self, resource: str, found: Body) -> Body:
        """The object is gone."""
        meta = found["metadata"]
        del self.objects[resource][meta.get("namespace", ""), meta["name"]]
        self.version += 1
        gone = {**found, "metadata": {**meta, "resourceVersion": str(self.version)}}
        self.log.append(Change(self.version, resource, "DELETED", gone, found))
        return found

    def _keep(self, resource: str, body: Body, change: str, before: Body | None) -> Body:
        meta = body["metadata"]
        had_finalizers = before is not None and before["metadata"].get("finalizers")
        if before and had_finalizers and not meta.get("finalizers") and meta.get("deletionGracePeriodSeconds") == 0:
            return self.remove(resource, before)
        self.version += 1
        kept = {**body, "metadata": {**meta, "resourceVersion": str(self.version)}}
        self.objects.setdefault(resource, {})[meta.get("namespace", ""), meta["name"]] = kept
        self.log.append(Change(self.version, resource, change, kept, before))
        return kept


_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_ZONE = "topology.kubernetes.io/zone"


def _grace(pod: Body, options: Body) -> int:
    """The seconds that a pod gets to end: never more than it was given before, and none if it does not run."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds = int(options.get("gracePeriodSeconds", pod["spec"].get("terminationGracePeriodSeconds", 30)))
    return min(seconds, pod["metadata"].get("deletionGracePeriodSeconds", seconds))


def _conflict(kind: str, found: Body, text: str) -> Refused:
    name = found["metadata"]["name"]
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}": {text}', name=name, kind=kind)
