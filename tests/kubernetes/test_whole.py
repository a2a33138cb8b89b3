"""The adapter with a real daemon, a fake API server and simulated kubelets."""

from collections import Counter

import trio
from cluster import Cluster, running_cluster
from daemon import real_daemon
from fakehttp import Request
from storageobjects import using
from volumecontroller import install_classes, limit_volumes, new_claim, place_of, selected

from ykactor.client import connect


def says_why(cluster: Cluster, name: str) -> bool:
    """True if a pod says why it waits."""
    conditions = cluster.pods()[name]["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each.get("message") for each in conditions)


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
            await cluster.until(lambda: all(says_why(cluster, name) for name in waiting))
            assert len({uid for uid, _ in cluster.kubelets.started}) == len(cluster.kubelets.started) == 8
            for name in list(cluster.bound())[:2]:
                pod = cluster.pods()[name]
                cluster.server.store.delete("pods", pod, {})
            await cluster.until(lambda: waiting <= set(cluster.bound()))


async def test_a_change_of_qps_holds_at_once() -> None:
    """A hundred pods have their reasons soon; with one request a second that would take minutes."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        store = cluster.server.store

        def say(qps: str) -> None:
            found = store.get("configmaps", "ykactor", "yunikorn-configs")
            store.patch("configmaps", found, {"data": {"kubernetes.qps": qps}})

        def explained() -> int:
            return sum(bool(pod["status"].get("conditions")) for pod in cluster.pods().values())

        say("1")
        cluster.node("n1", cpu="1")
        for number in range(100):
            cluster.pod(f"p{number}", cpu="2")
        async with cluster.adapter():
            await cluster.until(lambda: explained() > 0)
            await trio.sleep(0.2)
            assert explained() < 50
            say("1000")
            await cluster.until(lambda: explained() == 100)


async def test_a_second_replica_takes_over() -> None:
    """The second one takes over when the Lease is released, without a double bind. Before, it sees all and changes nothing."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        cluster.node("n1")
        cluster.server.users |= {"one": None, "two": None}
        written = Counter[tuple[str, str]]()

        async def look(request: Request) -> None:
            if request.method != "GET" and request.resource != "leases":
                written[request.user, request.subresource or request.resource] += 1

        cluster.server.faults = look
        cluster.pod("wrong", labels={"queue": "a", "yunikorn.apache.org/queue": "b"})
        async with cluster.adapter("one", lease=True, token="one"):
            await cluster.until(lambda: any("leads" in said for said in cluster.said))
            async with cluster.adapter("two", lease=True, token="two") as second:
                cluster.pod("p1")
                await cluster.until(lambda: {"p1", "wrong"} <= set(cluster.bound()))
                await cluster.until(lambda: {record.place for record in second.state.book.pods.values()} == {"n1"})
                await cluster.until(lambda: {user for user, _ in written} == {"one"} and written["one", "events"] >= 3)
                assert not list(second.problems())
        cluster.pod("p2")
        async with cluster.adapter("two", lease=True, token="two"):
            await cluster.until(lambda: "p2" in cluster.bound())
        assert len(cluster.kubelets.started) == 3


async def test_a_leader_gives_way_to_another_process_at_the_daemon() -> None:
    """The Lease of the leader is free at once; it is not ready meanwhile, and does not come back soon."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster, cluster.adapter(lease=True) as adapter:
        store = cluster.server.store
        await cluster.until(lambda: adapter.effects is not None)
        async with connect(daemon.url, rm_id="kubernetes", epoch=10**12):
            await cluster.until(lambda: store.get("leases", "ykactor", "ykactor")["spec"]["holderIdentity"] == "")
            assert "the daemon does not let this process lead" in list(adapter.problems())
            await trio.sleep(0.2)
            assert sum("leads" in said for said in cluster.said) == 1


async def test_pods_with_claims_run_where_their_volumes_are_made() -> None:
    """Each once, as many on a node as it takes volumes, and one for a claim that is for one pod; also with an old server."""
    for kubernetes in ("1.36", "1.20"):
        async with real_daemon() as daemon, running_cluster(daemon.url, kubernetes) as cluster:
            store = cluster.server.store
            install_classes(store)
            for name in ("n1", "n2"):
                cluster.node(name)
                limit_volumes(store, name, 2)
            for number in range(6):
                new_claim(store, f"data{number}", mode="ReadWriteOncePod")
                cluster.pod(f"p{number}", cpu="100m", volumes=using(f"data{number}"))
            cluster.pod("late", cpu="100m", volumes=using("data0"))
            async with cluster.adapter():
                await cluster.until(lambda: len(cluster.bound()) == 4)
                await cluster.until(lambda: all(says_why(cluster, name) for name in set(cluster.pods()) - set(cluster.bound())))
                assert set(Counter(cluster.bound().values()).values()) == {2}
                for name, node in cluster.bound().items():
                    claim = store.get(
                        "persistentvolumeclaims",
                        "team",
                        cluster.pods()[name]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
                    )
                    assert place_of(store.get("persistentvolumes", "", claim["spec"]["volumeName"])) == node
                assert not {"p0", "late"} <= set(cluster.bound())
                assert len(cluster.kubelets.started) == 4


async def test_another_process_binds_what_the_first_has_begun() -> None:
    """The first process was killed between the annotation of the claim and the bind."""
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        store = cluster.server.store
        install_classes(store)
        cluster.node("n1")
        cluster.node("n2")
        new_claim(store, "data")
        cluster.kubelets.makes_volumes = False
        cluster.pod("p1", volumes=using("data"))
        async with cluster.adapter():
            await cluster.until(lambda: bool(selected(store.get("persistentvolumeclaims", "team", "data"))))
        node = selected(store.get("persistentvolumeclaims", "team", "data"))
        async with cluster.adapter():
            await trio.sleep(0.2)
            assert cluster.bound() == {}
            cluster.kubelets.makes_volumes = True
            store.patch(
                "persistentvolumeclaims",
                store.get("persistentvolumeclaims", "team", "data"),
                {"metadata": {"labels": {"a": "b"}}},
            )
            await cluster.until(lambda: cluster.bound() == {"p1": node})
