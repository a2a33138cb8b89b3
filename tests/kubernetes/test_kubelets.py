"""Pods on their nodes: they are resized, they end after their grace, and nodes are lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from cluster import Cluster, running_cluster
from daemon import real_daemon, state_of
from kubelets import pods_on


@asynccontextmanager
async def running(nodes: int = 1, kubernetes: str = "1.36") -> AsyncIterator[Cluster]:
    """Nodes of four processors; it is quiet at the end."""
    async with real_daemon() as daemon, running_cluster(daemon.url, kubernetes) as cluster:
        for number in range(1, nodes + 1):
            cluster.node(f"n{number}")
        async with cluster.adapter() as adapter:
            yield cluster
            await cluster.quiet()
            assert adapter.counts.conflicts == 0


def resize(cluster: Cluster, name: str, cpu: str) -> None:
    """A user wants another size for a pod that runs."""
    store = cluster.server.store
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    store.patch("pods", store.get("pods", "team", name), {"spec": {"containers": containers}}, subresource="resize")


async def until_used(cluster: Cluster, cpu: int) -> None:
    """Wait until this is in use for the daemon."""
    with trio.fail_after(60):
        while (await used(cluster)) != cpu:  # noqa: ASYNC110
            await trio.sleep(0.02)


async def used(cluster: Cluster) -> int:
    root: dict[str, Any] = (await state_of(cluster.daemon_url))["queues"]["root"]
    return int(root["allocated"].get("vcore", 0))


def pending(cluster: Cluster, name: str) -> str:
    """The reason for which a pod does not get its new size; "" if it has it."""
    conditions = cluster.pods()[name]["status"].get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "PodResizePending"), "")


async def test_a_pod_that_shrinks_makes_room_and_one_that_grows_takes_it() -> None:
    """The daemon counts the new sizes, and places by them."""
    async with running() as cluster:
        cluster.pod("p1", cpu="3")
        cluster.pod("p2", cpu="2")
        await cluster.until(lambda: len(cluster.bound()) == 1)
        (first,) = cluster.bound()
        resize(cluster, first, "1")
        await cluster.until(lambda: len(cluster.bound()) == 2)
        resize(cluster, first, "2")
        await until_used(cluster, 4000)
        assert not pending(cluster, first)


async def test_a_resize_that_can_never_be_counts_for_nothing() -> None:
    """One that has to wait until others have gone counts already, so that nothing takes the room."""
    async with running() as cluster:
        for name in ("p1", "p2"):
            cluster.pod(name)
        await cluster.until(lambda: len(cluster.bound()) == 2)
        resize(cluster, "p1", "64")
        await cluster.until(lambda: pending(cluster, "p1") == "Infeasible")
        await until_used(cluster, 2000)
        resize(cluster, "p1", "3500m")
        await cluster.until(lambda: pending(cluster, "p1") == "Deferred")
        await until_used(cluster, 4500)
        resize(cluster, "p1", "1")
        await until_used(cluster, 2000)
        assert not pending(cluster, "p1")


async def test_a_pod_keeps_its_room_until_its_grace_is_over() -> None:
    """Nothing else is bound there before it is gone."""
    async with running() as cluster:
        cluster.kubelets.second_s = 0.02
        first = cluster.pod("p1", cpu="3")
        await cluster.until(lambda: "p1" in cluster.bound())
        cluster.pod("p2", cpu="3")
        store = cluster.server.store
        store.delete("pods", store.get("pods", "team", "p1"), {})
        await cluster.until(lambda: "p2" in cluster.bound())
        changes = [(each.type, each.object) for each in store.log if each.resource == "pods"]
        ended = next(
            at
            for at, (kind, pod) in enumerate(changes)
            if kind == "DELETED" and pod["metadata"]["uid"] == first["metadata"]["uid"]
        )
        bound = next(at for at, (_, pod) in enumerate(changes) if pod["metadata"]["name"] == "p2" and pod["spec"].get("nodeName"))
        deleting = next(at for at, (_, pod) in enumerate(changes) if pod["metadata"].get("deletionTimestamp"))
        assert deleting < ended < bound


async def test_the_pods_of_a_node_that_is_lost_run_elsewhere() -> None:
    """Nothing is placed on a node that does not answer; its pods count there until they are collected."""
    async with running(nodes=2) as cluster:
        for number in range(8):
            cluster.pod(f"p{number}")
        await cluster.until(lambda: len(cluster.bound()) == 8)
        store = cluster.server.store
        cluster.kubelets.lose("n1")
        for number in range(4):
            cluster.pod(f"again{number}")
        for pod in pods_on(store, "n2")[:2]:
            store.delete("pods", pod, {})
        await cluster.until(lambda: sum(name.startswith("again") for name in cluster.bound()) == 2)
        await until_used(cluster, 8000)
        cluster.kubelets.collect("n1")
        await until_used(cluster, 4000)
        cluster.node("n3")
        await cluster.until(lambda: len(cluster.bound()) == 6)
        assert {cluster.bound()[name] for name in cluster.bound() if name.startswith("again")} == {"n2", "n3"}
