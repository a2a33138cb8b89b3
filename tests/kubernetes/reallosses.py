"""Losses and disturbances beside a real server: pods, state, versions, a race, a node, the configuration, the Lease."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from cluster import TREE
from daemon import state_of
from fakehttp import Refused
from kubecampaign import NODES, PODS, Campaign, RealServing

_CONFIG = ("configmaps", "ykactor", "yunikorn-configs")
_WRONG = TREE.replace("submitacl", "nonsense")
_RIGHT = TREE.replace('submitacl: "*"', 'submitacl: "*", queues: [{name: added}]')


class Losses:
    """A cluster whose server is a real one, with 200 pods on 20 nodes."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.server = campaign.server

    async def play(self) -> str:
        """Play all acts in turn; the daemon knows the same as the API server after each, and no pod has run twice."""
        await self.campaign.quiet()
        acts = (self.pods_deleted, self.state, self.versions, self.rival, self.node, self.configuration, self.lease)
        for act in acts:
            await act()
            await self.campaign.quiet()
            await self.campaign.check()
        return ", ".join(act.__name__ for act in acts)

    async def pods_deleted(self) -> None:
        """98 of them; some run, some wait."""
        for pod in self.campaign.rng.sample(self.server.all("pods", "team"), 98):
            self.server.delete("pods", pod, {})
        for _ in range(98):
            self.campaign.create()

    async def state(self) -> None:
        """The daemon begins anew."""
        await self.campaign.kill("daemon", meanwhile=lambda: shutil.rmtree(self.campaign.state))

    async def versions(self) -> None:
        """They are compacted, and the server has none of them in its cache any more."""
        self.server.compact()
        await self.campaign.kill("server")

    async def rival(self) -> None:
        """Let another scheduler bind pods at the moment when they are made."""
        nodes = [body["metadata"]["name"] for body in self.server.all("nodes", "")]
        for _ in range(10):
            name = self.campaign.create()["metadata"]["name"]
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": self.campaign.rng.choice(nodes)}}
            try:
                self.server.send("POST", f"/api/v1/namespaces/team/pods/{name}/binding", binding)
            except Refused as refused:
                if refused.status != 409:
                    raise

    async def node(self) -> None:
        """The node is deleted with its pods on it, and made again."""
        self.server.delete("nodes", self.server.get("nodes", "", "n0"), {})
        await trio.sleep(1)
        self.campaign.cluster.node("n0")

    async def configuration(self) -> None:
        """A wrong one is told of in an Event on the ConfigMap; the next one is right."""
        self.server.change(*_CONFIG, {"data": {"queues.yaml": _WRONG}})
        await self._until(self._has_complained)
        self.server.change(*_CONFIG, {"data": {"queues.yaml": _RIGHT}})
        await self._until(self._has_added)

    async def lease(self) -> None:
        """The Lease is deleted; somebody leads on."""
        self.server.delete("leases", self.server.get("leases", "ykactor", "ykactor"), {})
        await self.campaign.leader()

    async def _has_complained(self) -> bool:
        return any(each["regarding"]["name"] == _CONFIG[2] for each in self.server.all("events", "ykactor"))

    async def _has_added(self) -> bool:
        return "root.added" in (await state_of(self.campaign.daemon.url))["queues"]

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(300):
            if await holds():
                return
            await trio.sleep(0.1)
        raise AssertionError(self.campaign.logs())


async def play(directory: Path) -> str:
    """Play all; returns what was lost."""
    async with Campaign(directory, RealServing(directory), 0, has_lease=True).running() as campaign:
        for number in range(NODES):
            campaign.cluster.node(f"n{number}")
        for _ in range(PODS):
            campaign.create()
        return await Losses(campaign).play()
