"""A whole small cluster: a real daemon, a fake API server with kubelets, and an adapter."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import trio
from daemon import state_of
from directapi import open_api
from evenness import differences
from fakeserver import FakeServer
from fakestore import Store
from kubelets import Kubelets

from ykactor.actors.clock import system_ns
from ykactor.kubernetes.adapter import Adapter, Settings
from ykactor.kubernetes.leader import LeaseName
from ykactor.kubernetes.process import Process

TREE = """
partitions:
- name: default
  placementrules: [{name: tag, value: namespace, create: true}]
  queues: [{name: root, submitacl: "*"}]
"""


class Cluster:
    """Attributes:
    server: the API server.
    kubelets: the nodes.
    said: the sentences of the adapters.
    warned: those of them that are warnings.
    """

    kubelets: Kubelets

    def __init__(self, server: FakeServer, daemon_url: str) -> None:
        self.server = server
        self.daemon_url = daemon_url
        self.said: list[str] = []
        self.warned: list[str] = []

    def create(self, resource: str, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        return self.server.store.create(resource, namespace, body)

    def node(self, name: str, cpu: str = "4", **spec: Any) -> None:
        status = {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        self.create("nodes", {"metadata": meta, "spec": spec, "status": status})

    def pod(self, name: str, cpu: str = "1", namespace: str = "team", **more: Any) -> dict[str, Any]:
        meta = {"name": name, "annotations": more.pop("annotations", {}), "labels": more.pop("labels", {})}
        containers = [{"name": "c", "image": "example", "resources": {"requests": {"cpu": cpu}}}]
        body = {"metadata": meta, "spec": {"schedulerName": "ykactor", "containers": containers, **more}}
        return self.create("pods", body, namespace)

    def pods(self) -> dict[str, dict[str, Any]]:
        return {body["metadata"]["name"]: body for body in self.server.store.all("pods", "")}

    def bound(self) -> dict[str, str]:
        return {name: body["spec"]["nodeName"] for name, body in self.pods().items() if body["spec"].get("nodeName")}

    async def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until the cluster is like this."""
        with trio.move_on_after(seconds):
            while not holds():  # noqa: ASYNC110
                await trio.sleep(0.01)
            return
        raise AssertionError(f"it is not so after {seconds} s: {self.bound()}\n" + "\n".join(self.said[-20:]))

    async def quiet(self) -> None:
        """Wait until both sides know the same, and all that fits is bound."""
        store, found = self.server.store, list[str]()
        with trio.move_on_after(60):
            while found := differences(store.all("pods", "team"), store.all("nodes", ""), await state_of(self.daemon_url)):  # noqa: ASYNC110
                await trio.sleep(0.05)
            return
        raise AssertionError("\n".join([*found[:20], *self.said[-20:]]))

    @asynccontextmanager
    async def adapter(self, identity: str = "one", *, lease: bool = False, token: str = "yk") -> AsyncIterator[Adapter]:
        """An adapter in this process."""
        async with open_api(self.server.url, token) as api, trio.open_nursery() as nursery:

            def warn(sentence: str) -> None:
                self.warned.append(f"{identity}: {sentence}")
                self.said.append(f"{identity}: {sentence}")

            settings = Settings(
                url=self.daemon_url,
                login={},
                rm_id="kubernetes",
                scheduler_name="ykactor",
                namespace="ykactor",
                lease=LeaseName("ykactor", "ykactor", identity) if lease else None,
                qps=200,
            )
            process = Process(
                identity=identity,
                now=lambda: datetime.fromtimestamp(system_ns() / 1e9, UTC),
                say=lambda sentence: self.said.append(f"{identity}: {sentence}"),
                warn=warn,
                rng=random.Random(0),
            )
            adapter = Adapter(api, settings, process)
            nursery.start_soon(adapter.run)
            yield adapter
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def running_cluster(daemon_url: str, kubernetes: str = "1.36") -> AsyncIterator[Cluster]:
    async with FakeServer(Store(kubernetes)).running() as server, trio.open_nursery() as nursery:
        cluster = Cluster(server, daemon_url)
        cluster.kubelets = Kubelets(server)
        cluster.create("namespaces", {"metadata": {"name": "team"}})
        cluster.create("configmaps", {"metadata": {"name": "yunikorn-configs"}, "data": {"queues.yaml": TREE}}, "ykactor")
        nursery.start_soon(cluster.kubelets.run)
        yield cluster
        nursery.cancel_scope.cancel()
