"""Simulated kubelets: pods that are bound run, and those that are deleted end after their grace; drivers make volumes."""

from __future__ import annotations

import random

import trio
from evenness import asked_by, given_to, milli
from fakehttp import Body
from fakeserver import FakeServer
from fakestore import Store
from volumecontroller import VolumeController

#: Pods with this annotation end by themselves as soon as they run.
ENDS = "test/ends"


class Kubelets:
    """The kubelets of all nodes, and what controllers do when a node is lost.

    Attributes:
        started: the uid of each pod that has run, with its node, in order.
        makes_volumes: drivers look at claims that change.
        second_s: how long a second of grace takes.
        lost: nodes whose kubelets do nothing any more.
        version: of the last change that they have seen.
    """

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.started: list[tuple[str, str]] = []
        self.makes_volumes = True
        self._volumes = VolumeController(server.store, random.Random(0))
        self.second_s = 0.0
        self.version = 0
        self.lost: set[str] = set()

    async def run(self) -> None:
        """Follow the store until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await self._follow()

    async def _follow(self) -> None:
        while True:
            changes = [change for change in self._server.store.log if change.version > self.version]
            for change in changes:
                self.version = change.version
                if change.resource == "pods" and change.type != "DELETED":
                    self._look(change.object)
                elif change.resource == "persistentvolumeclaims" and self.makes_volumes:
                    self._volumes.look(faulty=False)
            if not changes:
                await self._server.store.grown.park()

    def _look(self, seen: Body) -> None:
        store, pod = self._server.store, self._found(seen)
        if pod is None or pod["spec"].get("nodeName", "") in {"", *self.lost}:
            return
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            self._nursery.start_soon(self._end, pod)
        elif pod["status"]["phase"] == "Pending":
            self.started.append((meta["uid"], pod["spec"]["nodeName"]))
            phase = "Succeeded" if ENDS in meta.get("annotations", {}) else "Running"
            store.patch("pods", pod, {"status": {"phase": phase, "containerStatuses": container_statuses(pod)}})
        elif pod["status"]["phase"] == "Running":
            resize(store, pod)

    def _found(self, seen: Body) -> Body | None:
        """The pod as it is now; None if it is gone."""
        meta = seen["metadata"]
        pod = self._server.store.objects["pods"].get((meta["namespace"], meta["name"]))
        return pod if pod is not None and pod["metadata"]["uid"] == meta["uid"] else None

    async def _end(self, seen: Body) -> None:
        """A pod runs on for its grace."""
        await trio.sleep(seen["metadata"]["deletionGracePeriodSeconds"] * self.second_s)
        pod = self._found(seen)
        if pod is not None:
            self._server.store.remove("pods", pod)

    def lose(self, node: str) -> None:
        """A node does not answer any more: it gets its taints, and its pods are deleted, but nobody ends them."""
        self.lost.add(node)
        store, key = self._server.store, "node.kubernetes.io/unreachable"
        taints = [{"key": key, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        conditions = [{"type": "Ready", "status": "Unknown"}]
        store.patch("nodes", store.get("nodes", "", node), {"spec": {"taints": taints}, "status": {"conditions": conditions}})
        for pod in pods_on(store, node):
            store.delete("pods", pod, {})

    def collect(self, node: str) -> None:
        """A lost node is deleted, and the garbage collector removes what was on it."""
        store = self._server.store
        store.remove("nodes", store.get("nodes", "", node))
        for pod in pods_on(store, node):
            store.remove("pods", pod)


def pods_on(store: Store, node: str) -> list[Body]:
    return [pod for pod in store.all("pods", "") if pod["spec"].get("nodeName") == node]


def resize(store: Store, pod: Body) -> None:
    """Give the containers of a pod what they ask for now, or say why that cannot be."""
    asked, was_given = asked_by(pod), given_to(pod)
    is_pending = any(each["type"] == "PodResizePending" for each in pod["status"].get("conditions", ()))
    if asked == asked_by(was_given) and not is_pending:
        return
    node = pod["spec"]["nodeName"]
    room = milli(store.get("nodes", "", node)["status"]["allocatable"]["cpu"])
    used = sum(asked_by(given_to(other)) for other in pods_on(store, node) if other is not pod)
    pending: Body = {"type": "PodResizePending", "$patch": "delete"}
    if asked > room - used:
        pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible" if asked > room else "Deferred"}
    statuses = container_statuses(was_given if "reason" in pending else pod)
    store.patch("pods", pod, {"status": {"conditions": [pending], "containerStatuses": statuses}})


def container_statuses(pod: Body) -> list[Body]:
    """The statuses that a kubelet writes for containers that have been given what they ask for."""
    given = [(each["name"], {"requests": each["resources"]["requests"]}) for each in pod["spec"]["containers"]]
    return [{"name": name, "allocatedResources": part["requests"], "resources": part} for name, part in given]
