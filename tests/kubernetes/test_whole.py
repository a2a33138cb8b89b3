"""The adapter with a real daemon, a fake API server and simulated kubelets."""

import trio
from cluster import running_cluster
from daemon import real_daemon


async def test_pods_run_where_the_daemon_says() -> None:
    """All that fit run, each once, and those that wait say why."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        cluster.node("n1")
        cluster.node("n2")
        for number in range(10):
            cluster.pod(f"p{number}")
        async with cluster.adapter():
            await cluster.until(lambda: len(cluster.bound()) == 8)
            waiting = set(cluster.pods()) - set(cluster.bound())

            def says_why(name: str) -> bool:
                conditions = cluster.pods()[name]["status"].get("conditions", [])
                return any(each["type"] == "PodScheduled" and each.get("message") for each in conditions)

            await cluster.until(lambda: all(says_why(name) for name in waiting))
            assert len({uid for uid, _ in cluster.kubelets.started}) == len(cluster.kubelets.started) == 8
            for name in list(cluster.bound())[:2]:
                pod = cluster.pods()[name]
                cluster.server.store.delete("pods", pod, {})
            await cluster.until(lambda: waiting <= set(cluster.bound()))


async def test_a_change_of_qps_holds_at_once() -> None:
    """With one request a second sixty pods would say why they wait in a minute or two."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        store = cluster.server.store

        def say(qps: str) -> None:
            found = store.get("configmaps", "ykactor", "yunikorn-configs")
            store.patch("configmaps", found, {"data": {"kubernetes.qps": qps}})

        def explained() -> int:
            return sum(bool(pod["status"].get("conditions")) for pod in cluster.pods().values())

        say("1")
        cluster.node("n1", cpu="1")
        for number in range(60):
            cluster.pod(f"p{number}", cpu="2")
        async with cluster.adapter():
            await cluster.until(lambda: explained() > 0)
            await trio.sleep(0.5)
            assert explained() < 30
            say("1000")
            await cluster.until(lambda: explained() == 60)


async def test_a_second_replica_takes_over() -> None:
    """Without a double bind, when the first one has released its Lease."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        cluster.node("n1")
        async with cluster.adapter("two", lease=True):
            await cluster.until(lambda: any("leads" in said for said in cluster.said))
            async with cluster.adapter("one", lease=True):
                cluster.pod("p1")
                await cluster.until(lambda: "p1" in cluster.bound())
        cluster.pod("p2")
        async with cluster.adapter("three", lease=True):
            await cluster.until(lambda: "p2" in cluster.bound())
        assert len(cluster.kubelets.started) == 2
