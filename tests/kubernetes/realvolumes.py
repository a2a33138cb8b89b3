"""Claims beside a real server whose volume controllers are the real ones; only the driver that makes volumes is simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio
from fakehttp import Body
from kubecampaign import Campaign, RealServing
from realserver import PollingDriver, RealServer
from storageobjects import using
from volumecontroller import limit_volumes, new_claim, on_node, place_of, selected

_NODES = 4


class Volumes:
    """A cluster with claims."""

    def __init__(self, campaign: Campaign, driver: PollingDriver) -> None:
        self.campaign = campaign
        self.driver = driver
        self.store: RealServer = campaign.server

    async def play(self) -> str:
        """Play all acts in turn; the daemon knows the same as the API server after each."""
        acts = (self.first, self.shared, self.by_hand, self.at_once, self.late, self.full, self.timeout, self.limits, self.going)
        for act in acts:
            await act()
            await self.campaign.check()
            await self._clear()
            await self.campaign.quiet()
        logs = self.campaign.logs()
        assert "403" not in logs, logs
        assert "csistoragecapacities" not in logs, logs  # old servers do not have them, which is no fault
        return ", ".join(act.__name__ for act in acts)

    async def first(self) -> None:
        """Volumes are made for the nodes that were chosen for their pods."""
        names = [f"first{number}" for number in range(8)]
        for name in names:
            new_claim(self.store, name)
            self._pod(name, name)
        await self._running(*names)
        assert all(selected(self._claim(name)) == self._place(name) for name in names)

    async def shared(self) -> None:
        """Pods that share a claim run on its node, also the one that comes later."""
        new_claim(self.store, "shared")
        self._pod("one", "shared")
        self._pod("two", "shared")
        await self._running("one", "two")
        self._pod("three", "shared")
        await self._running("three")

    async def by_hand(self) -> None:
        """A volume that somebody made is bound to a claim, and its pods run where it is."""
        spec = {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/disk"},
            "storageClassName": "hand",
            "nodeAffinity": on_node("n2"),
        }
        self.store.create("persistentvolumes", "", {"metadata": {"name": "disk"}, "spec": spec})
        new_claim(self.store, "hand", storage_class="hand")
        for number in range(3):
            self._pod(f"hand{number}", "hand")
        await self._running(*(f"hand{number}" for number in range(3)))
        assert self._place("hand") == "n2"

    async def at_once(self) -> None:
        """A volume that does not wait for a pod is made somewhere, and the pod runs there."""
        self.driver.rests = True
        new_claim(self.store, "now", storage_class="now")
        self._pod("now", "now")
        await self._until(lambda: self._why("now") == ("SchedulingSkipped", "claim now is not bound to a volume yet"))
        self.driver.rests = False
        await self._running("now")

    async def late(self) -> None:
        """A pod whose claim is not there says so, and runs when it is."""
        self._pod("late", "late")
        await self._until(lambda: self._why("late") == ("SchedulingSkipped", "claim late is not there"))
        new_claim(self.store, "late")
        await self._running("late")

    async def full(self) -> None:
        """The driver cannot make a volume on a node: its pod is placed again, and runs elsewhere or there later."""
        self.driver.is_full = True
        new_claim(self.store, "full")
        self._pod("full", "full")
        await self._until(lambda: self._has_event("full", "FailedScheduling", "its volumes could not be made there"))
        self.driver.is_full = False
        await self._running("full")

    async def timeout(self) -> None:
        """Volumes that are not made in time are not wanted on that node any more."""
        self.driver.rests = True
        config = ("configmaps", "ykactor", "yunikorn-configs")
        self.store.change(*config, {"data": {"service.volumeBindTimeout": "2s"}})
        new_claim(self.store, "slow")
        self._pod("slow", "slow")
        await self._until(lambda: self._nominated("slow") == selected(self._claim("slow")) != "")
        await self._until(lambda: self._has_event("slow", "FailedScheduling", "its volumes were not made in 2 s"))
        self.store.change(*config, {"data": {"service.volumeBindTimeout": None}})
        self.driver.rests = False
        await self._running("slow")
        assert selected(self._claim("slow")) == self._place("slow")

    async def limits(self) -> None:
        """A node takes as many volumes as its driver says; the next pod runs when another one has gone."""
        for number in range(_NODES):
            limit_volumes(self.store, f"n{number}", 2)
        names = [f"limited{number}" for number in range(2 * _NODES + 1)]
        for name in names:
            new_claim(self.store, name)
            self._pod(name, name, cpu="100m")
        await self._until(lambda: self._count(names) == 2 * _NODES)
        there = [body["spec"]["nodeName"] for body in self.store.all("pods", "team") if body["spec"].get("nodeName")]
        assert sorted(there) == sorted(2 * [f"n{number}" for number in range(_NODES)])
        left = next(name for name in names if not self._pod_named(name)["spec"].get("nodeName"))
        await self._until(lambda: "volumes.csi.example" in self._why(left)[1])
        self._delete("pods", next(name for name in names if name != left))
        await self._until(lambda: self._count(names) == 2 * _NODES)
        for number in range(_NODES):
            self.store.delete("csinodes", self.store.get("csinodes", "", f"n{number}"), {})

    async def going(self) -> None:
        """A claim that is deleted stays while a pod runs with it, and no other pod begins to use it."""
        new_claim(self.store, "going")
        self._pod("user", "going")
        await self._running("user")
        self._delete("persistentvolumeclaims", "going")
        self._pod("next", "going")
        await self._until(lambda: self._why("next") == ("SchedulingSkipped", "claim going is being deleted"))
        self._delete("pods", "user")
        await self._until(lambda: self._why("next") == ("SchedulingSkipped", "claim going is not there"))

    # ---- looking

    def _pod(self, name: str, claim: str, cpu: str = "1") -> None:
        self.campaign.cluster.pod(name, cpu, volumes=using(claim))

    def _pod_named(self, name: str) -> Body:
        return self.store.get("pods", "team", name)

    def _claim(self, name: str) -> Body:
        return self.store.get("persistentvolumeclaims", "team", name)

    def _place(self, claim: str) -> str:
        """The node of the volume of a claim."""
        return place_of(self.store.get("persistentvolumes", "", self._claim(claim)["spec"]["volumeName"]))

    def _why(self, name: str) -> tuple[str, str]:
        """The reason and the message for which a pod waits, as its condition has them."""
        conditions = self._pod_named(name)["status"].get("conditions", ())
        return next(
            ((each.get("reason", ""), each.get("message", "")) for each in conditions if each["type"] == "PodScheduled"), ("", "")
        )

    def _nominated(self, name: str) -> str:
        return str(self._pod_named(name)["status"].get("nominatedNodeName", ""))

    def _has_event(self, name: str, reason: str, part: str) -> bool:
        events = self.store.all("events", "team")
        return any(each["regarding"]["name"] == name and each["reason"] == reason and part in each["note"] for each in events)

    def _count(self, names: list[str]) -> int:
        """The number of these pods that run."""
        pods = self.store.all("pods", "team")
        return sum(body["metadata"]["name"] in names and body["status"]["phase"] == "Running" for body in pods)

    def _delete(self, resource: str, name: str) -> None:
        self.store.delete(resource, self.store.get(resource, "team", name), {})

    async def _clear(self) -> None:
        for body in self.store.all("pods", "team"):
            self.store.delete("pods", body, {})
        await self._until(lambda: not self.store.all("pods", "team"))

    async def _running(self, *names: str) -> None:
        await self._until(lambda: self._count(list(names)) == len(names))

    async def _until(self, holds: Callable[[], bool]) -> None:
        for _ in range(600):
            if holds():
                return
            await trio.sleep(0.1)
        told = [
            (body["metadata"]["name"], body["spec"].get("nodeName"), body["status"]) for body in self.store.all("pods", "team")
        ]
        claims = [(body["metadata"], body["spec"], body["status"]) for body in self.store.all("persistentvolumeclaims", "team")]
        raise AssertionError(f"it is not so after a minute: {told}\n{claims}\n{self.campaign.logs()}")


async def play(directory: Path) -> str:
    """Play all; returns what was played."""
    serving = RealServing(directory, has_controllers=True)
    campaign = Campaign(directory, serving, 0)
    async with campaign.running():
        store = campaign.server
        by_hand = {"metadata": {"name": "hand"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"}
        store.create("storageclasses", "", by_hand)
        for number in range(_NODES):
            campaign.cluster.node(f"n{number}")
        return await Volumes(campaign, serving.driver).play()
