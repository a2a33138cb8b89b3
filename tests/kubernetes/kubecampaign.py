"""Kills of everything while 200 pods come and go on 20 nodes: the adapter, the daemon, the leader, and the API server."""

from __future__ import annotations

import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import trio
import trustme
from cluster import TREE, Cluster
from daemon import RunningDaemon, clean_environment, real_daemon, state_of
from evenness import differences
from fakehttp import Body, Refused
from fakeserver import FakeServer
from forked import Forked
from kubelets import ENDS, Kubelets
from realprocesses import kubeconfig
from realserver import PollingDriver, PollingKubelets, RealServer
from storageobjects import using
from volumecontroller import install_classes, misplaced, new_claim

T = TypeVar("T")

NODES, PODS = 20, 200
#: The Lease by which one of two replicas leads.
_LEASE = ("leases", "ykactor", "ykactor")
#: The pause of kubelets that look at a real server again and again.
_LOOK_S = 0.2


class Held(Generic[T]):
    """A context manager that a task of its own holds open, so that several may be opened and closed in any order."""

    def __init__(self) -> None:
        self._closing = trio.Event()
        self._closed = trio.Event()

    async def open(self, nursery: trio.Nursery, manager: AbstractAsyncContextManager[T]) -> T:
        return await nursery.start(self._hold, manager)

    async def _hold(self, manager: AbstractAsyncContextManager[T], task_status: trio.TaskStatus[T]) -> None:
        async with manager as value:
            task_status.started(value)
            await self._closing.wait()
        self._closed.set()

    async def close(self) -> None:
        self._closing.set()
        await self._closed.wait()


class Serving(Protocol):
    """An API server that can be killed and started again with its objects.

    Attributes:
        server: what has its objects.
        kubelets: the nodes.
        claim_mode: the access mode of claims; "" where nobody makes volumes.
    """

    server: Any
    kubelets: Any
    claim_mode: str

    async def begin(self, nursery: trio.Nursery) -> str:
        """Start it for the first time; returns a kubeconfig."""

    async def restart(self, rng: random.Random) -> None:
        """Kill it and start it again."""

    async def catch_up(self) -> None:
        """Wait until the kubelets have seen what is there."""


class FakeServing:
    """The fake one, over TLS."""

    claim_mode = "ReadWriteOncePod"

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(directory / "ca.pem"))
        self._tls = server_context(authority)
        self.server = FakeServer()
        self.kubelets = Kubelets(self.server)
        self._port = 0

    async def begin(self, nursery: trio.Nursery) -> str:
        self._nursery = nursery
        self.server.store.create("namespaces", "", {"metadata": {"name": "ykactor"}})
        config = {"metadata": {"name": "yunikorn-configs"}, "data": {"queues.yaml": TREE}}
        self.server.store.create("configmaps", "ykactor", config)
        install_classes(self.server.store)
        await self._start()
        nursery.start_soon(self.kubelets.run)
        return kubeconfig(f"https://localhost:{self._port}", "ca.pem", "yk")

    async def _start(self) -> None:
        self._held = Held[FakeServer]()
        await self._held.open(self._nursery, self.server.running(self._port, self._tls))
        self._port = int(self.server.url.rpartition(":")[2])

    async def restart(self, rng: random.Random) -> None:
        """Restart the API server: it drops its connections, and may have forgotten versions."""
        await self._held.close()
        if rng.random() < 0.5:
            self.server.store.compact()
        await trio.sleep(0.1)
        await self._start()

    async def catch_up(self) -> None:
        """They hear of each change, in their turn."""
        while self.kubelets.version < self.server.store.version:  # noqa: ASYNC110
            await trio.sleep(0.01)


class RealServing:
    """A real API server, with the role of the manifests, and kubelets that poll.

    Args:
        has_controllers: the real controllers run too, and a driver makes volumes.
    """

    def __init__(self, directory: Path, *, has_controllers: bool = False) -> None:
        self._has_controllers = has_controllers
        self.server = RealServer(directory)
        self.kubelets = PollingKubelets(self.server)
        self.driver = PollingDriver(self.server, random.Random(0))
        self.claim_mode = "ReadWriteOnce" if has_controllers else ""

    async def begin(self, nursery: trio.Nursery) -> str:
        await nursery.start(self._hold)
        self.server.install()
        if self._has_controllers:
            self.server.start_controllers()
            install_classes(self.server)
        nursery.start_soon(self._look)
        return kubeconfig(self.server.url, "certs/apiserver.crt", "yk-token")

    async def _hold(self, task_status: trio.TaskStatus[None]) -> None:
        with self.server.running():
            task_status.started()
            await trio.sleep_forever()

    async def _look(self) -> None:
        while True:
            self.kubelets.look()
            if self._has_controllers:
                self.driver.look()
            await trio.sleep(_LOOK_S)

    async def catch_up(self) -> None:
        """They look now and then."""
        await trio.sleep(2.5 * _LOOK_S)

    async def restart(self, rng: random.Random) -> None:
        """Now and then its store too."""
        processes = self.server.processes
        processes.kill("apiserver")
        if rng.random() < 0.3:
            processes.kill("etcd")
            processes.start("etcd")
        processes.start("apiserver")
        self.server.wait_ready()


class Campaign:
    """A cluster of real processes.

    Args:
        directory: for certificates and the state of the daemon.
        serving: the API server.
        has_lease: there are two replicas.
        has_takeovers: a leader that was killed stays away until the other one leads.

    Attributes:
        state: the directory of the daemon.
    """

    def __init__(
        self, directory: Path, serving: Serving, seed: int, *, has_lease: bool = False, has_takeovers: bool = False
    ) -> None:
        self.rng = random.Random(seed)
        self._directory = directory
        self.state = directory / "state"
        self._identities = ["one", "two"] if has_lease else ["one"]
        self._has_lease = has_lease
        self._has_takeovers = has_takeovers
        #: What can be killed.
        self.victims = ("adapter", "daemon", "server", *(["leader"] if has_lease else ()))
        self._serving = serving
        self.server = serving.server
        self.cluster = Cluster(self.server, "")
        self.adapters: dict[str, Forked] = {}
        self.kills = 0
        self._number = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Campaign]:
        """Run the API server, the daemon and the adapter within the block."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            (self._directory / "kubeconfig").write_text(await self._serving.begin(nursery))
            self.cluster.create("namespaces", {"metadata": {"name": "team"}})
            await self.start_daemon()
            for identity in self._identities:
                await self.start_adapter(identity)
            try:
                yield self
            finally:
                with trio.CancelScope(shield=True):
                    for process in self.adapters.values():
                        process.kill()
                        await process.wait()
                nursery.cancel_scope.cancel()

    # ---- the parts

    async def start_daemon(self, ws: str = "127.0.0.1:0") -> None:
        self._daemon = Held[RunningDaemon]()
        self.daemon = await self._daemon.open(self._nursery, real_daemon("--state-dir", self.state, ws=("--ws", ws), limit_s=600))

    async def start_adapter(self, identity: str) -> None:
        lease = [] if self._has_lease else ["--no-lease"]
        arguments = ["kubernetes", "--kubeconfig", str(self._directory / "kubeconfig"), "--url", self.daemon.url]
        with (self._directory / f"{identity}.log").open("ab") as log:
            self.adapters[identity] = await Forked.start(
                [*arguments, "--identity", identity, *lease], clean_environment(), log=log.fileno()
            )

    # ---- what happens

    async def kill(self, victim: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Kill it and start it again."""
        self.kills += 1
        if victim in ("adapter", "leader"):
            identity = self.rng.choice(self._identities) if victim == "adapter" else await self.leader()
            self.adapters[identity].kill()
            await self.adapters[identity].wait()
            if victim == "leader" and self._has_takeovers:
                await self.leader(other_than=identity)
            await self.start_adapter(identity)
        elif victim == "daemon":
            await self._daemon.close()
            meanwhile()
            await self.start_daemon(self.daemon.url.removeprefix("ws://"))
        else:
            await self._serving.restart(self.rng)

    async def leader(self, other_than: str = "") -> str:
        """The leader's identity; waits until there is a leader."""
        for _ in range(600):
            try:
                found: str = self.server.store.get(*_LEASE)["spec"]["holderIdentity"].partition("_")[0]
            except Refused:  # none yet, or the server has only just started
                found = ""
            if found not in ("", other_than):
                return found
            await trio.sleep(0.1)
        raise AssertionError(f"nobody leads after a minute, {self.logs()}")

    def act(self) -> None:
        """Users do something."""
        store, rng = self.server.store, self.rng
        if rng.random() < 0.6:
            self.create()
        else:
            store.delete("pods", rng.choice(store.all("pods", "team")), {})

    def create(self) -> Body:
        """A pod; all are of one size, so that none reserves a node that others fit on."""
        self._number += 1
        name, claims = f"p{self._number}", list[str]()
        if self._serving.claim_mode and self.rng.random() < 0.3:
            claims.append(name)
            new_claim(self.server.store, name, mode=self._serving.claim_mode)
        return self.cluster.pod(name, annotations={ENDS: "yes"} if self.rng.random() < 0.3 else {}, volumes=using(*claims))

    async def quiet(self) -> None:
        """Wait until all that fits is bound, and the daemon knows the same as the API server."""
        for _ in range(600):
            if not self._differences(await state_of(self.daemon.url)):
                return
            await trio.sleep(0.1)
        raise AssertionError(f"{self._differences(await state_of(self.daemon.url))}\n{self.logs()}")

    def logs(self) -> str:
        """The end of what the adapters have logged."""
        return "\n".join(f"{each}: {(self._directory / f'{each}.log').read_text()[-3000:]}" for each in self._identities)

    def _differences(self, state: dict[str, Any]) -> list[str]:
        return differences(self.server.store.all("pods", "team"), self.server.store.all("nodes", ""), state)

    @property
    def started(self) -> int:
        """The number of pods that have run."""
        return len(self._serving.kubelets.started)

    async def check(self) -> None:
        """Pods have started, none twice, and each where its volumes are."""
        await self._serving.catch_up()
        started = [uid for uid, _ in self._serving.kubelets.started]
        assert started
        assert len(started) == len(set(started)), [uid for uid, count in Counter(started).items() if count > 1]
        assert not misplaced(self.server.store), misplaced(self.server.store)


def server_context(authority: trustme.CA) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


async def run(campaign: Campaign, kills: int, say: Callable[[str], object] = lambda _: None) -> str:
    """Kill each victim so often; returns figures."""
    async with campaign.running():
        for number in range(NODES):
            campaign.cluster.node(f"n{number}")
        for _ in range(PODS):
            campaign.create()
        for turn in range(kills):
            for victim in campaign.victims:
                for _ in range(campaign.rng.randint(3, 10)):
                    campaign.act()
                    await trio.sleep(campaign.rng.uniform(0, 0.05))
                await campaign.kill(victim)
            await campaign.quiet()
            await campaign.check()
            say(f"{turn + 1} kills of each: {', '.join(campaign.victims)}")
        return f"{campaign.kills} kills, {campaign.started} pods have run, each once"
