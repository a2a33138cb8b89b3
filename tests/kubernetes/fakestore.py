"""The objects of the fake API server: versions, a log of changes for watches, and what binding and deleting do."""

from __future__ import annotations

import copy
from typing import NamedTuple

import trio
from fakeadmission import Objects, check, fill_in, invalid, label_as_node, merged, set_condition
from fakehttp import Body, Refused


class Change(NamedTuple):
    """An entry of the log: ``type`` is that of the event of a watch, ``before`` the object that was replaced."""

    version: int
    resource: str
    type: str
    object: Body
    before: Body | None

    @property
    def key(self) -> tuple[str, str]:
        return self.object["metadata"].get("namespace", ""), self.object["metadata"]["name"]


class Store:
    """The objects of a server of 1.36 or 1.20, by resource (``pods``), and by namespace and name.

    Attributes:
        version: the newest.
        log: all changes that are not compacted.
        grown: set when there is another change.
    """

    def __init__(self, kubernetes: str = "1.36") -> None:
        self.is_old = kubernetes == "1.20"
        self.version = 1000
        self.objects: Objects = {}
        self.log: list[Change] = []
        self.grown = trio.Event()
        self._compacted = self._lists_since = 0

    def get(self, resource: str, namespace: str, name: str) -> Body:
        found = self.objects.get(resource, {}).get((namespace, name))
        if found is None:
            raise Refused(404, "NotFound", f'{resource} "{name}" not found')
        return found

    def all(self, resource: str, namespace: str, version: int | None = None) -> list[Body]:
        """All objects, now or as they were at a version. Raises 410 for one that is gone."""
        if version is not None and version < self._lists_since:
            raise Refused(410, "Expired", "The resourceVersion for the provided list is too old.")
        found: dict[tuple[str, str], Body | None] = {**self.objects.get(resource, {})}
        for change in reversed(self.since(version or self.version)):
            found |= {change.key: change.before} if change.resource == resource else {}
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

    def create(self, resource: str, namespace: str, body: Body) -> Body:
        meta = body.setdefault("metadata", {})
        meta |= {"name": meta.get("name") or f"{meta['generateName']}{self.version}", "creationTimestamp": _NOW}
        meta |= {"uid": f"{self.version:08x}-0000-4000-8000-000000000000", **({"namespace": namespace} if namespace else {})}
        check(resource, None, body, "", is_old=self.is_old)
        if (namespace, meta["name"]) in self.objects.get(resource, {}):
            raise Refused(409, "AlreadyExists", f'{resource} "{meta["name"]}" already exists')
        fill_in(resource, body, self.objects, is_old=self.is_old)
        return self._note(resource, "ADDED", body, None)

    def patch(self, resource: str, found: Body, patch: Body, *, strategic: bool = True, subresource: str = "") -> Body:
        """Patch an object; a wrong uid is 422, an old version 409, and the status does not change the rest."""
        meta, wanted = found["metadata"], patch.get("metadata", {})
        if wanted.get("uid", meta["uid"]) != meta["uid"]:
            raise invalid(resource, f'metadata.uid: Invalid value: "{wanted["uid"]}": field is immutable')
        if wanted.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            raise _conflict(resource, found, _MODIFIED)
        ignored = patch.keys() - {"metadata", "status"} if subresource == "status" else set()
        after = merged(copy.deepcopy(found), {name: patch[name] for name in patch.keys() - ignored}, strategic=strategic)
        check(resource, found, after, subresource, is_old=self.is_old)
        if after == found and not (ignored and self.is_old):  # 1.20 writes who has asked for it
            return found
        is_last = meta.get("finalizers") and not after["metadata"].get("finalizers")
        is_gone = is_last and meta.get("deletionGracePeriodSeconds") == 0
        return self.remove(resource, found) if is_gone else self._note(resource, "MODIFIED", after, found)

    def bind(self, namespace: str, name: str, binding: Body, *, is_subresource: bool = True) -> None:
        """Bind a pod, with the three kinds of conflict that a real server has."""
        wanted, node = binding["metadata"], binding.get("target", {}).get("name")
        if not node:
            raise Refused(500, "", "target.name: Required value")
        if wanted["name"] != name:
            raise Refused(400, "BadRequest", "name in URL does not match name in Binding object")
        found = self.get("pods", namespace, name)
        meta, spec = (pod := copy.deepcopy(found))["metadata"], pod["spec"]
        uid, wanted_uid = meta["uid"], meta["uid"] if self.is_old else wanted.get("uid", meta["uid"])
        precondition = f"Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {uid}"
        for is_so, kind, why in (
            (uid != wanted_uid, "pods", f"StorageError: invalid object, Code: 4, AdditionalErrorMsg: {precondition}"),
            ("deletionTimestamp" in meta, "pods/binding", f"pod {name} is being deleted, cannot be assigned to a host"),
            (spec.get("nodeName"), "pods/binding", f'pod {name} is already assigned to node "{spec.get("nodeName")}"'),
            (spec.get("schedulingGates"), "pods/binding", f"pod {name} has non-empty .spec.schedulingGates"),
        ):
            if is_so:
                raise _conflict(kind, pod, why)
        spec["nodeName"] = node
        set_condition(pod, type="PodScheduled", status="True")
        for part in ("annotations",) if self.is_old else ("annotations", "labels"):
            meta[part] = meta.get(part, {}) | wanted.get(part, {})
        if is_subresource and not self.is_old:
            label_as_node(pod, self.objects)
        self._note("pods", "MODIFIED", pod, found)

    def delete(self, resource: str, found: Body, options: Body) -> Body:
        """Delete an object: a pod that runs has its grace first, a waiting one is modified before it goes, finalizers keep it."""
        meta, spec = found["metadata"], found.get("spec", {})
        wanted = options.get("preconditions", {}).get("uid", meta["uid"])
        if wanted != meta["uid"]:
            text = f"the UID in the precondition ({wanted}) does not match the UID in record ({meta['uid']})"
            raise _conflict("Pod", found, f"{text}. The object might have been deleted and then recreated")
        if resource != "pods" and not meta.get("finalizers"):
            return self.remove(resource, found)
        grace, before = 0, meta.get("deletionGracePeriodSeconds")  # of what does not run; and it never grows
        if spec.get("nodeName") and found["status"].get("phase") not in ("Succeeded", "Failed"):
            grace = int(options.get("gracePeriodSeconds", spec["terminationGracePeriodSeconds"]))
            grace = grace if before is None else min(grace, before)
        if grace != before:
            times = {"deletionTimestamp": _NOW, "deletionGracePeriodSeconds": grace}
            found = self._note(resource, "MODIFIED", {**found, "metadata": {**meta, **times}}, found)
        return found if grace or meta.get("finalizers") else self.remove(resource, found)

    def remove(self, resource: str, found: Body) -> Body:
        """The object is gone."""
        return self._note(resource, "DELETED", found, found)

    def _note(self, resource: str, kind: str, body: Body, before: Body | None) -> Body:
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        change = Change(self.version, resource, kind, body, before)
        self.objects.setdefault(resource, {})[change.key] = body
        if kind == "DELETED":
            del self.objects[resource][change.key]
        self.log.append(change)
        self.grown.set()
        self.grown = trio.Event()
        return body


_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_NOW = "2000-01-01T00:00:00Z"


def _conflict(kind: str, found: Body, why: str) -> Refused:
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{found["metadata"]["name"]}": {why}')
