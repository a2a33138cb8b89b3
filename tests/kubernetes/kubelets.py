"""Simulated kubelets: pods that are bound run, and those that are deleted end after their grace; drivers make volumes."""

from __future__ import annotations

import random

from fakehttp import Body
from fakeserver import FakeServer
from volumecontroller import VolumeController

#: Pods with this annotation end by themselves as soon as they run.
ENDS = "test/ends"


class Kubelets:
    """The kubelets of all nodes.

    Attributes:
        started: the uid of each pod that has run, with its node, in order.
        makes_volumes: drivers look at claims that change.
    """

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.started: list[tuple[str, str]] = []
        self.makes_volumes = True
        self._volumes = VolumeController(server.store, random.Random(0))

    async def run(self) -> None:
        """Follow the store until cancelled."""
        version = 0
        while True:
            grown = self._server.store.grown
            changes = [change for change in self._server.store.log if change.version > version]
            for change in changes:
                version = change.version
                if change.resource == "pods" and change.type != "DELETED":
                    self._look(change.object)
                elif change.resource == "persistentvolumeclaims" and self.makes_volumes:
                    self._volumes.look(faulty=False)
            if not changes:
                await grown.wait()

    def _look(self, seen: Body) -> None:
        store, meta = self._server.store, seen["metadata"]
        pod = store.objects["pods"].get((meta["namespace"], meta["name"]))
        if pod is None or not pod["spec"].get("nodeName") or pod["metadata"]["uid"] != meta["uid"]:
            return
        if pod["metadata"].get("deletionTimestamp"):
            store.remove("pods", pod)
        elif pod["status"]["phase"] == "Pending":
            self.started.append((meta["uid"], pod["spec"]["nodeName"]))
            phase = "Succeeded" if ENDS in meta.get("annotations", {}) else "Running"
            store.patch("pods", pod, {"status": {"phase": phase}})
