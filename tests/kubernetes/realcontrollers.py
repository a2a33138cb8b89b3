"""Pods of the real controllers: Jobs (one is a gang), DaemonSets (one preempts), a Deployment, and garbage collection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio
from fakehttp import Body, Refused
from kubecampaign import Campaign, RealServing
from kubelets import ENDS

_NODES = 4
#: Gangs during whose start something is killed.
_KILLED = 9


class Controllers:
    """A cluster whose controllers are the real ones."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.store = campaign.server.store

    async def play(self) -> str:
        """Play all acts in turn; the daemon knows the same as the API server after each."""
        told = []
        for act in (self.job, self.gang_job, self.killed_gangs, self.daemon_set, self.preemption, self.deployment, self.garbage):
            told.append(await act())
            await self.campaign.quiet()
            await self.campaign.check()
        assert "403" not in self.campaign.logs()
        return "; ".join(told)

    async def job(self) -> str:
        """A Job of twenty pods, five at a time, is complete when each has run."""
        spec = {"completions": 20, "parallelism": 5, "template": _template(annotations={ENDS: "yes"}, restartPolicy="Never")}
        self.store.create("jobs", "team", {"metadata": {"name": "job"}, "spec": spec})
        await self._until(lambda: "Complete" in _conditions(self.store.get("jobs", "team", "job")))
        assert self.store.get("jobs", "team", "job")["status"]["succeeded"] == len(self._owned("Job")) == 20
        return "a Job of 20 pods is complete"

    async def gang_job(self) -> str:
        """Run a Job whose pods wait for the room of all, and take the places of placeholders."""
        await self._gang_job("gang")
        return "a Job that is a gang of 6 is complete, without a placeholder left"

    async def killed_gangs(self) -> str:
        """They are complete too, whoever is killed while they begin."""
        for number in range(_KILLED):
            delay_s, victim = self.campaign.rng.uniform(0, 1.5), self.campaign.victims[number % len(self.campaign.victims)]
            await self._gang_job(f"killed{number}", partial(self._kill_after, delay_s, victim))
        return f"{_KILLED} more are complete, although {', '.join(self.campaign.victims)} were killed meanwhile"

    async def _kill_after(self, delay_s: float, victim: str) -> None:
        await trio.sleep(delay_s)
        await self.campaign.kill(victim)

    async def _gang_job(self, name: str, meanwhile: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint) -> None:
        template = _template(annotations={ENDS: "yes", **_gang(name, 6)}, restartPolicy="Never")
        spec = {"completions": 6, "parallelism": 6, "template": template}
        self.store.create("jobs", "team", {"metadata": {"name": name}, "spec": spec})
        await meanwhile()
        await self._until(lambda: "Complete" in _conditions(self.store.get("jobs", "team", name)))
        await self._until(lambda: not self._owned("Pod"))

    async def daemon_set(self) -> str:
        """A pod runs on each node, also on one that comes later; it goes with its node."""
        self.store.create("daemonsets", "team", _workload("daemon"))
        await self._until(lambda: self._nodes_of("DaemonSet") == [f"n{number}" for number in range(_NODES)])
        self.campaign.cluster.node("late")
        await self._until(lambda: "late" in self._nodes_of("DaemonSet"))
        self.store.delete("nodes", self.store.get("nodes", "", "late"), {})
        await self._until(lambda: self._nodes_of("DaemonSet") == [f"n{number}" for number in range(_NODES)])
        await self._delete("daemonsets", "daemon", "DaemonSet")
        return f"a DaemonSet ran on {_NODES} nodes, and on one more while it was there"

    async def preemption(self) -> str:
        """Preempt a pod: on full nodes, one of a DaemonSet takes its place."""
        names = [f"filler{number}" for number in range(4 * _NODES)]
        for name in names:
            self.campaign.cluster.pod(name, labels={"yunikorn.apache.org/app-id": "filler"})  # another application (PE-60)
        await self._until(lambda: self._running(names) == len(names))
        self.store.create("daemonsets", "team", _workload("urgent"))
        await self._until(lambda: self._nodes_of("DaemonSet") == [f"n{number}" for number in range(_NODES)])
        left = self._running(names)
        assert left == len(names) - _NODES, left
        await self._delete("daemonsets", "urgent", "DaemonSet")
        for body in self.store.all("pods", "team"):
            if body["metadata"]["name"] in names:
                self.store.delete("pods", body, {})
        return f"a DaemonSet preempted {len(names) - left} pods"

    async def deployment(self) -> str:
        """Run a Deployment: a new template replaces its pods, and they go with it."""
        self.store.create("deployments", "team", _workload("web", replicas=6))
        await self._until(lambda: len(self._nodes_of("ReplicaSet")) == 6)
        before = {body["metadata"]["name"] for body in self._owned("ReplicaSet")}
        self.store.change("deployments", "team", "web", {"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}})
        await self._until(lambda: len(self._nodes_of("ReplicaSet")) == 6 and not before & self._names("ReplicaSet"))
        await self._delete("deployments", "web", "ReplicaSet")
        return "a Deployment of 6 pods was rolled out twice"

    async def garbage(self) -> str:
        """While no adapter runs, the garbage collector alone takes the placeholders away."""
        self.campaign.cluster.pod("first", annotations=_gang("garbage", 40))
        await self._until(lambda: len(self._owned("Pod")) == 40)
        await self._until(lambda: len(self._nodes_of("Pod")) == 4 * _NODES)
        for adapter in self.campaign.adapters.values():
            adapter.kill()
            await adapter.wait()
        self.store.delete("pods", self.store.get("pods", "team", "first"), {})
        await self._until(lambda: not self._owned("Pod"))
        for identity in self.campaign.adapters:
            await self.campaign.start_adapter(identity)
        return "40 placeholders went with their first pod"

    # ---- looking

    def _owned(self, kind: str) -> list[Body]:
        """The pods that an object of a kind owns."""
        return [
            body
            for body in self.store.all("pods", "team")
            if any(owner["kind"] == kind for owner in body["metadata"].get("ownerReferences", ()))
        ]

    def _running(self, names: list[str]) -> int:
        pods = [body for body in self.store.all("pods", "team") if body["metadata"]["name"] in names]
        return sum(body["status"]["phase"] == "Running" and "deletionTimestamp" not in body["metadata"] for body in pods)

    async def _delete(self, resource: str, name: str, owner: str) -> None:
        """Delete an object; its pods go too."""
        self.store.delete(resource, self.store.get(resource, "team", name), {"propagationPolicy": "Background"})
        await self._until(lambda: not self._owned(owner))

    def _names(self, kind: str) -> set[str]:
        return {body["metadata"]["name"] for body in self._owned(kind)}

    def _nodes_of(self, kind: str) -> list[str]:
        """The nodes of the running pods, in order."""
        return sorted(body["spec"]["nodeName"] for body in self._owned(kind) if body["status"]["phase"] == "Running")

    async def _until(self, holds: Callable[[], bool]) -> None:
        for _ in range(1200):  # the garbage collector of pods looks every 20 s, and asks twice
            try:
                if holds():
                    return
            except Refused as refused:
                if refused.status < 500:
                    raise
            await trio.sleep(0.1)
        pods = self.store.all("pods", "team")
        told = [(each["metadata"]["name"], each["spec"].get("nodeName"), each["status"]) for each in pods]
        raise AssertionError(f"it is not so after two minutes: {told}")


def _gang(name: str, members: int) -> Body:
    prefix, group = "yunikorn.apache.org", f'[{{"name": "g", "minMember": {members}, "minResource": {{"cpu": "1"}}}}]'
    return {f"{prefix}/app-id": name, f"{prefix}/task-group-name": "g", f"{prefix}/task-groups": group}


def _template(annotations: Body | None = None, **spec: Any) -> Body:
    containers = [{"name": "c", "image": "example", "resources": {"requests": {"cpu": "500m"}}}]
    meta = {"labels": {"app": "x"}, "annotations": annotations or {}}
    return {"metadata": meta, "spec": {"schedulerName": "ykactor", "containers": containers, **spec}}


def _workload(name: str, **spec: Any) -> Body:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": _template(), **spec}}


def _conditions(found: Body) -> set[str]:
    return {each["type"] for each in found["status"].get("conditions", ()) if each["status"] == "True"}


async def play(directory: Path) -> str:
    """Play all; returns what was done."""
    async with Campaign(directory, RealServing(directory, has_controllers=True), 0).running() as campaign:
        for number in range(_NODES):
            campaign.cluster.node(f"n{number}")
        return await Controllers(campaign).play()
