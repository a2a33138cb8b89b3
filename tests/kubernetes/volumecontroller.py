"""Plays what Kubernetes and drivers do with claims: volumes are made for nodes, and claims in use are not deleted."""

from __future__ import annotations

import random
from typing import Any

from fakehttp import Body
from fakestore import Store
from storageobjects import COMPLETED, DRIVER

from ykactor.kubernetes.volumes import SELECTED_NODE

HOST = "kubernetes.io/hostname"


def install_classes(store: Store) -> None:
    """Storage classes whose volumes are made for the first pod, or at once."""
    for name, mode in (("wait", "WaitForFirstConsumer"), ("now", "Immediate")):
        store.create("storageclasses", "", {"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode})


def limit_volumes(store: Store, node: str, count: int) -> None:
    """So many volumes may be on a node."""
    drivers = [{"name": DRIVER, "nodeID": node, "allocatable": {"count": count}}]
    store.create("csinodes", "", {"metadata": {"name": node}, "spec": {"drivers": drivers}})


def new_claim(store: Store, name: str, *, storage_class: str = "wait", mode: str = "ReadWriteOnce", owner: str = "") -> None:
    spec = {"storageClassName": storage_class, "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    meta: Body = {"name": name, "finalizers": ["kubernetes.io/pvc-protection"]}
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "name": "", "uid": owner}]
    store.create("persistentvolumeclaims", "team", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def selected(claim: Body) -> str:
    """The node for which the volume of a claim is to be made."""
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


def volume_for(claim: Body, node: str) -> Body:
    """A volume for a claim that only this node can use."""
    meta, name = claim["metadata"], f"pv-{claim['metadata']['uid']}"
    spec = {
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "team", "name": meta["name"], "uid": meta["uid"]},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "nodeAffinity": on_node(node),
        "storageClassName": claim["spec"]["storageClassName"],
        "accessModes": claim["spec"]["accessModes"],
        "capacity": claim["spec"]["resources"]["requests"],
    }
    return {"metadata": {"name": name}, "spec": spec}


def on_node(node: str) -> Body:
    """Only this node can use a volume."""
    here = {"key": HOST, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}


def bind(store: Store, claim: Body, node: str) -> None:
    """Make a volume that only this node can use, and bind a claim to it."""
    name = store.create("persistentvolumes", "", volume_for(claim, node))["metadata"]["name"]
    _patch(
        store,
        claim,
        {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": name}, "status": {"phase": "Bound"}},
    )


def _patch(store: Store, claim: Body, patch: Body) -> None:
    store.patch("persistentvolumeclaims", claim, patch, strategic=False)


class VolumeController:
    """Looks at the claims of the store."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self._store = store
        self._rng = rng

    def look(self, *, faulty: bool) -> None:
        """Bind claims; one that is faulty does so now and then, elsewhere, or gives up."""
        self._make_ephemeral()
        nodes = [body["metadata"]["name"] for body in self._store.all("nodes", "")]
        for claim in self._store.all("persistentvolumeclaims", "team"):
            self._protect(claim)
            if claim["spec"].get("volumeName") or claim["metadata"].get("deletionTimestamp") or not nodes:
                continue
            if claim["spec"]["storageClassName"] == "now":
                if not faulty or self._rng.random() < 0.3:
                    bind(self._store, claim, self._rng.choice(nodes))
            elif selected(claim):
                self._make(claim, nodes, self._rng.random() if faulty else 1.0)

    def _make(self, claim: Body, nodes: list[str], chance: float) -> None:
        if chance < 0.4:
            return
        if chance < 0.5 or selected(claim) not in nodes:
            _patch(self._store, claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
        else:
            bind(self._store, claim, self._rng.choice(nodes) if chance < 0.6 else selected(claim))

    def _make_ephemeral(self) -> None:
        """Claims of pods that have none yet; those of pods that are gone go too."""
        there = {body["metadata"]["name"]: body["metadata"]["uid"] for body in self._store.all("pods", "team")}
        known = self._store.objects.get("persistentvolumeclaims", {})
        for pod in self._store.all("pods", "team"):
            for volume in pod["spec"].get("volumes", ()):
                name = f"{pod['metadata']['name']}-{volume['name']}"
                if "ephemeral" in volume and ("team", name) not in known and not pod["spec"].get("nodeName"):
                    new_claim(self._store, name, owner=pod["metadata"]["uid"])
        for claim in self._store.all("persistentvolumeclaims", "team"):
            owners = claim["metadata"].get("ownerReferences", ())
            if owners and owners[0]["uid"] not in there.values():
                self.delete(claim)

    def delete(self, claim: Body) -> None:
        """A claim is to go; a pod that runs may keep it."""
        self._store.delete("persistentvolumeclaims", claim, {})

    def _protect(self, claim: Body) -> None:
        if claim["metadata"].get("deletionTimestamp") and not any(
            pod["spec"].get("nodeName") and claim["metadata"]["name"] in claim_names(pod) for pod in self._alive()
        ):
            found = self._store.get("persistentvolumeclaims", "team", claim["metadata"]["name"])
            self._store.remove("persistentvolumeclaims", found)

    def _alive(self) -> list[Body]:
        return [pod for pod in self._store.all("pods", "team") if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def claim_names(pod: Body) -> set[str]:
    """The claims of a pod."""
    found = set()
    for volume in pod["spec"].get("volumes", ()):
        if "ephemeral" in volume:
            found.add(f"{pod['metadata']['name']}-{volume['name']}")
        elif "persistentVolumeClaim" in volume:
            found.add(volume["persistentVolumeClaim"]["claimName"])
    return found


def reason_against(store: Store, pod: Body, node: Body, limit: int) -> str:
    """The reason for which the claims of a pod keep it from a node with these neighbours; "" if they do not."""
    alive = [each for each in store.all("pods", "team") if each["status"].get("phase") not in ("Succeeded", "Failed")]
    there = [each for each in alive if each["spec"].get("nodeName")]
    for name in claim_names(pod):
        claim = store.objects.get("persistentvolumeclaims", {}).get(("team", name))
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return f"no claim {name}"
        if "ReadWriteOncePod" in claim["spec"]["accessModes"] and any(name in claim_names(each) for each in there):
            return f"claim {name} is used"
        if not claim["spec"].get("volumeName"):
            continue
        place = place_of(store.get("persistentvolumes", "", claim["spec"]["volumeName"]))
        if place != node["metadata"]["name"]:
            return f"claim {name} is on {place}"
    counted = sum(len(claim_names(each)) for each in there if each["spec"]["nodeName"] == node["metadata"]["name"])
    return "" if counted + len(claim_names(pod)) <= limit else "too many volumes"


def place_of(volume: Any) -> str:
    """The only node that can use a volume."""
    return str(volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0])


def misplaced(store: Store) -> list[str]:
    """Pods that were bound although a volume of theirs is elsewhere, or is not there."""
    claims = {body["metadata"]["name"]: body for body in store.all("persistentvolumeclaims", "team")}
    places = {body["metadata"]["name"]: place_of(body) for body in store.all("persistentvolumes", "")}
    return [
        f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}, and its claim {name} is not"
        for pod in store.all("pods", "team")
        if pod["spec"].get("nodeName")
        for name in claim_names(pod)
        if places.get(claims[name]["spec"].get("volumeName", "")) != pod["spec"]["nodeName"]
    ]


def volumes_on(store: Store, node: str) -> int:
    """The number of claims of the pods on a node, summed over the pods, without claims that are gone."""
    there = {name for _, name in store.objects.get("persistentvolumeclaims", {})}
    return sum(
        len(claim_names(pod) & there)
        for pod in store.all("pods", "team")
        if pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in ("Succeeded", "Failed")
    )
