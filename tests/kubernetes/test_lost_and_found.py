"""Disturbances around the adapter, beside kills: afterwards all that fits runs, once, and both sides know the same."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from cluster import TREE, Cluster, running_cluster
from daemon import RunningDaemon, real_daemon, state_of
from fakehttp import Body, Request

from ykactor.actors.clock import system_ns
from ykactor.client import operate
from ykactor.kubernetes import leader, reflector
from ykactor.kubernetes.adapter import Adapter
from ykactor.wire.si import messages as si


@asynccontextmanager
async def filled(directory: Path, nodes: int, pods: int, *, lease: bool = False) -> AsyncIterator[tuple[Cluster, Adapter]]:
    """A cluster in which half of the pods wait for room; it is quiet at the beginning, and at the end."""
    async with real_daemon("--state-dir", directory / "state") as daemon, running_cluster(daemon.url) as cluster:
        for number in range(nodes):
            cluster.node(f"n{number}", cpu=str(pods // nodes // 2))
        for number in range(pods):
            cluster.pod(f"p{number}")
        async with cluster.adapter(lease=lease) as adapter:
            await cluster.until(lambda: len(cluster.bound()) == pods // 2)
            await cluster.quiet()
            assert len(cluster.bound()) == pods // 2
            yield cluster, adapter
            await cluster.quiet()
        started = [uid for uid, _ in cluster.kubelets.started]
        assert len(started) == len(set(started))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter looks for losses after a moment."""
    monkeypatch.setattr(leader, "LOOK_S", 0.1)
    monkeypatch.setattr(reflector, "BACKOFF_FIRST_S", 0.05)


def delete(cluster: Cluster, pods: list[Body]) -> None:
    for pod in pods:
        cluster.server.store.delete("pods", pod, {})


async def test_98_of_200_pods_are_deleted(tmp_path: Path) -> None:
    """Some of them run, some wait; others get their room."""
    async with filled(tmp_path, 20, 200) as (cluster, adapter):
        delete(cluster, random.Random(1).sample(cluster.server.store.all("pods", "team"), 98))
        await cluster.until(lambda: len(cluster.pods()) == 102 and len(cluster.bound()) == 100)
        await cluster.quiet()
        assert adapter.counts.conflicts == 0


async def test_the_daemon_loses_its_state(tmp_path: Path) -> None:
    """The daemon is told everything again, and nothing is bound twice."""
    async with running_cluster("") as cluster:
        for number in range(8):
            cluster.node(f"n{number}")
        for number in range(48):
            cluster.pod(f"p{number}")
        async with real_daemon("--state-dir", tmp_path / "first") as first:
            address = first.url.removeprefix("ws://")
            cluster.daemon_url = first.url
            async with cluster.adapter() as adapter, trio.open_nursery() as nursery:
                await cluster.until(lambda: len(cluster.bound()) > 10)  # in the middle
                first.process.kill()
                await first.process.wait()
                delete(cluster, cluster.server.store.all("pods", "team")[:10])
                await nursery.start(hold_daemon, tmp_path / "second", address)
                await cluster.quiet()
                assert len(cluster.bound()) == 32
                assert adapter.counts.conflicts == 0
                nursery.cancel_scope.cancel()
        started = [uid for uid, _ in cluster.kubelets.started]
        assert len(started) == len(set(started))


async def hold_daemon(state: Path, address: str, task_status: trio.TaskStatus[RunningDaemon]) -> None:
    async with real_daemon("--state-dir", state, ws=("--ws", address)) as daemon:
        task_status.started(daemon)
        await trio.sleep_forever()


async def test_versions_are_compacted_while_watches_are_cut(tmp_path: Path) -> None:
    """Pods that came and went meanwhile are found by lists."""
    async with filled(tmp_path, 5, 40) as (cluster, adapter):
        lists = {each.kind: each.lists for each in adapter.reflectors}
        opened = trio.Event()
        cluster.server.faults = lambda _: opened.wait()
        cluster.server.cut_watches()
        delete(cluster, cluster.server.store.all("pods", "team")[10:])
        await cluster.until(lambda: len(cluster.pods()) == 10)
        cluster.pod("new", cpu="2")
        cluster.server.store.compact()
        opened.set()
        await cluster.until(lambda: "new" in cluster.bound())
        await cluster.quiet()
        assert any(each.lists > lists[each.kind] for each in adapter.reflectors)
        assert adapter.counts.conflicts == 0


async def test_a_rival_binds_the_same_pods(tmp_path: Path) -> None:
    """A pod that the rival has bound a moment before stays where it is, and the daemon knows that."""
    rng, taken = random.Random(3), dict[str, str]()
    async with filled(tmp_path, 5, 40) as (cluster, adapter):
        store = cluster.server.store

        async def be_first(target: Request) -> None:
            if target.subresource == "binding" and len(taken) < 5:
                taken[target.name] = rng.choice(store.all("nodes", ""))["metadata"]["name"]
                body = {"metadata": {"name": target.name}, "target": {"name": taken[target.name]}}
                store.bind(target.namespace, target.name, body)

        cluster.server.faults = be_first
        delete(cluster, [pod for pod in store.all("pods", "team") if pod["spec"].get("nodeName")][:15])
        await cluster.until(lambda: len(taken) == 5)
        await cluster.quiet()
        assert {name: node for name, node in cluster.bound().items() if name in taken} == taken
        assert adapter.counts.conflicts == 5


@pytest.mark.parametrize("kubernetes", ["1.36", "1.20"])
async def test_a_pod_is_made_again_while_it_is_bound(kubernetes: str) -> None:
    """A server of 1.20 ignores the uid and binds its successor, a newer one refuses; the daemon knows it in the end."""
    async with real_daemon() as daemon, running_cluster(daemon.url, kubernetes) as cluster:
        store = cluster.server.store

        async def make_again(target: Request) -> None:
            if target.subresource == "binding" and store.get("pods", "team", "p1")["metadata"]["uid"] == first:
                delete(cluster, [store.get("pods", "team", "p1")])
                cluster.pod("p1", cpu="2")

        cluster.server.faults = make_again
        cluster.node("n1")
        cluster.node("n2")
        first = cluster.pod("p1")["metadata"]["uid"]
        async with cluster.adapter() as adapter:
            await cluster.until(lambda: "p1" in cluster.bound())
            await cluster.quiet()
            assert adapter.counts.conflicts == (1 if kubernetes == "1.36" else 0)
        assert [uid for uid, _ in cluster.kubelets.started] == [cluster.pods()["p1"]["metadata"]["uid"]] != [first]


async def test_a_node_is_deleted_and_made_again(tmp_path: Path) -> None:
    """Pods of the node are adopted when it returns; meanwhile the others go on."""
    async with filled(tmp_path, 5, 40) as (cluster, adapter):
        store = cluster.server.store
        there = {name for name, node in cluster.bound().items() if node == "n1"}
        store.remove("nodes", store.get("nodes", "", "n1"))
        await cluster.until(lambda: "n1" not in adapter.state.book.nodes)
        gone = [pod for pod in store.all("pods", "team") if pod["spec"].get("nodeName") == "n2"]
        delete(cluster, gone)
        names = {pod["metadata"]["name"] for pod in gone}
        await cluster.until(lambda: not names & set(cluster.pods()) and list(cluster.bound().values()).count("n2") == 4)
        cluster.node("n1")
        await cluster.quiet()
        assert {name for name, node in cluster.bound().items() if node == "n1"} == there
        assert adapter.counts.conflicts == 0


async def test_a_wrong_configuration_is_followed_by_a_right_one(tmp_path: Path) -> None:
    """The wrong one is told of in an Event, and the one before stays in force until the right one."""
    async with filled(tmp_path, 5, 40) as (cluster, _):
        configure(cluster, "partitions:\n- name: default\n  queues: [{name: root, resources: {max: {vcore: many}}}]\n")
        await cluster.until(lambda: any("config:3:" in note for note in notes_about(cluster, "yunikorn-configs")))
        delete(cluster, [pod for pod in cluster.server.store.all("pods", "team") if pod["spec"].get("nodeName")][:5])
        await cluster.quiet()
        configure(cluster, TREE.replace('submitacl: "*"', 'submitacl: "*", queues: [{name: other}]'))
        with trio.fail_after(60):
            while "root.other" not in (await state_of(cluster.daemon_url))["queues"]:  # noqa: ASYNC110
                await trio.sleep(0.05)


@pytest.mark.parametrize("comes_later", [False, True])
async def test_a_queue_file_while_a_configuration_awaits_confirmation(comes_later: bool, tmp_path: Path) -> None:
    """CF-91: a ConfigMap that is there, or changes, in a window is in force when it has ended; new pods run meanwhile."""
    (queues := tmp_path / "queues.yaml").write_text(TREE)
    async with running_cluster("") as cluster, real_daemon("--config", queues, "--state-dir", tmp_path / "state") as daemon:
        cluster.daemon_url = daemon.url
        cluster.node("n1")
        later = TREE.replace('submitacl: "*"', 'submitacl: "*", queues: [{name: later}]')
        configure(cluster, TREE if comes_later else later)
        async with operate(daemon.url) as operator:
            request = si.UpdateConfigurationRequest(config=f"# other\n{TREE}", confirm_within_seconds=3600)
            if not comes_later:
                await operator.request(request)
            async with cluster.adapter():
                if comes_later:
                    with trio.fail_after(60):
                        while not (await state_of(daemon.url))["nodes"]:  # noqa: ASYNC110
                            await trio.sleep(0.05)
                    await operator.request(request)
                    configure(cluster, later)
                await cluster.until(
                    lambda: any("awaits confirmation" in note for note in notes_about(cluster, "yunikorn-configs"))
                )
                cluster.pod("p1")
                await cluster.until(lambda: len(cluster.bound()) == 1)
                await operator.request(si.ConfirmConfiguration())
                with trio.fail_after(60):
                    while "root.later" not in (await state_of(daemon.url))["queues"]:  # noqa: ASYNC110
                        await trio.sleep(0.05)


def configure(cluster: Cluster, text: str) -> None:
    store = cluster.server.store
    found = store.get("configmaps", "ykactor", "yunikorn-configs")
    store.patch("configmaps", found, {"data": {"queues.yaml": text}}, strategic=False)


def notes_about(cluster: Cluster, name: str) -> list[str]:
    events = cluster.server.store.all("events", "")
    return [each["note"] for each in events if each["regarding"]["name"] == name]


async def test_a_replica_takes_over_whose_watch_is_behind() -> None:
    """The pod that the leader before has bound last is listed, so that nothing else is placed in its room."""

    async def hold(request: Request) -> None:
        if "watch" in request.query and request.resource == "pods":
            await trio.sleep_forever()

    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        cluster.node("n1", cpu="1")
        cluster.pod("p1")
        cluster.pod("p2")
        until = datetime.fromtimestamp(system_ns() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "two", "leaseDurationSeconds": 600, "renewTime": until}
        lease = cluster.create("leases", {"metadata": {"name": "ykactor"}, "spec": spec}, "ykactor")
        async with cluster.adapter(lease=True) as adapter:
            await cluster.until(lambda: len(adapter.state.book.pods) == 2)
            cluster.server.faults = hold
            cluster.server.cut_watches()
            cluster.server.store.bind("team", "p1", {"metadata": {"name": "p1"}, "target": {"name": "n1"}})
            cluster.server.store.remove("leases", lease)
            await cluster.quiet()
        assert cluster.bound() == {"p1": "n1"}
        assert adapter.counts.conflicts == 0


async def test_a_leader_that_is_stopped_while_it_binds() -> None:
    """The next one leads when the pod is bound, so that nothing else is placed in its room, however urgent it is."""
    sent = trio.Event()

    async def take_time(request: Request) -> None:
        if request.subresource == "binding":
            sent.set()
            await trio.sleep(0.8)

    async with real_daemon() as daemon, running_cluster(daemon.url) as cluster:
        cluster.server.faults = take_time
        cluster.node("n1", cpu="1")
        cluster.pod("p1")
        async with cluster.adapter("one", lease=True):
            await sent.wait()
            cluster.pod("p2", priority=1000)
        async with cluster.adapter("two", lease=True) as adapter:
            await cluster.until(lambda: adapter.state.is_registered and bool(cluster.bound()))
            await cluster.quiet()
        assert cluster.bound() == {"p1": "n1"}


async def test_the_lease_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader makes it again with the same epoch, and leads on."""
    monkeypatch.setattr(leader, "RENEW_S", 0.5)
    async with filled(tmp_path, 5, 40, lease=True) as (cluster, adapter):
        store = cluster.server.store
        lease = store.get("leases", "ykactor", "ykactor")
        store.remove("leases", lease)
        await cluster.until(lambda: bool(store.objects["leases"]))
        again = store.get("leases", "ykactor", "ykactor")
        assert again["metadata"]["annotations"] == lease["metadata"]["annotations"]
        delete(cluster, [pod for pod in store.all("pods", "team") if pod["spec"].get("nodeName")][:5])
        await cluster.quiet()
        assert adapter.counts.conflicts == 0
        assert sum("leads" in said for said in cluster.said) == 1
