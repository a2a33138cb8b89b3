"""The role in ``config/kubernetes`` is enough for all that the adapter does, and every rule of it is needed."""

from cluster import Cluster, running_cluster
from daemon import real_daemon
from manifests import documents, permissions
from storageobjects import using
from volumecontroller import install_classes, new_claim

GANG = {
    "yunikorn.apache.org/app-id": "gang",
    "yunikorn.apache.org/task-group-name": "g",
    "yunikorn.apache.org/task-groups": '[{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}}]',
}


async def play(cluster: Cluster) -> None:
    """Something of everything."""
    cluster.node("n1")
    cluster.pod("p1")
    await cluster.until(lambda: "p1" in cluster.bound())
    install_classes(cluster.server.store)
    new_claim(cluster.server.store, "data")
    cluster.pod("v1", volumes=using("data"))
    await cluster.until(lambda: "v1" in cluster.bound())
    for name in ("g1", "g2"):
        cluster.pod(name, annotations=GANG)
    await cluster.until(lambda: {"g1", "g2"} <= set(cluster.bound()))  # in the places of placeholders, which are deleted
    policy = {"gang": {"minCount": 2}}
    cluster.create("podgroups", {"metadata": {"name": "pg"}, "spec": {"schedulingPolicy": policy}}, "team")
    for name in ("m1", "m2"):
        cluster.pod(name, schedulingGroup={"podGroupName": "pg"})
    cluster.pod("large", cpu="64")
    group = ("team", "pg")
    await cluster.until(lambda: bool(cluster.server.store.objects["podgroups"][group].get("status", {}).get("conditions")))
    await cluster.until(lambda: bool(cluster.pods()["large"]["status"].get("conditions")))


async def complain_twice(cluster: Cluster) -> None:
    """An Event that says the same again is counted."""
    store = cluster.server.store
    for quota, count in (("no JSON", 1), ('{"cpu": "9"}', 1), ("no JSON", 2)):
        annotations = {"yunikorn.apache.org/namespace.quota": quota}
        store.patch("namespaces", store.get("namespaces", "", "team"), {"metadata": {"annotations": annotations}})
        await cluster.until(lambda wanted=count: said_of(cluster, "team") == wanted)


def said_of(cluster: Cluster, name: str) -> int:
    """The number of times that Events were written about an object."""
    events = [each for each in cluster.server.store.all("events", "") if each["regarding"]["name"] == name]
    return sum(each.get("series", {"count": 1})["count"] for each in events)


async def test_everything_works_with_this_role_and_needs_all_of_it() -> None:
    """All requests are allowed, and each permission is used."""
    role = permissions(documents("rbac.yaml"), "ykactor")
    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        cluster.server.users["yk"] = role
        async with cluster.adapter(lease=True):
            await play(cluster)
            await complain_twice(cluster)
        assert cluster.server.denied == []
        assert role - cluster.server.used == set()
