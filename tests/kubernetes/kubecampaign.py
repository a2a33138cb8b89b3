"""Kills of everything while pods come and go: the adapter, the daemon, the leader of two replicas, and the API server."""

from __future__ import annotations

import random
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import trio
import trustme
from cluster import TREE, Cluster
from daemon import RunningDaemon, clean_environment, real_daemon, state_of
from evenness import differences
from fakeserver import FakeServer
from kubelets import ENDS, Kubelets
from realserver import PollingKubelets, RealServer

T = TypeVar("T")

COMMAND = [sys.executable, "-m", "ykactor"]
#: What can be killed.
VICTIMS = ("adapter", "daemon", "server")


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
    """

    server: Any
    kubelets: Any

    async def begin(self, nursery: trio.Nursery) -> str:
        """Start it for the first time; returns a kubeconfig."""

    async def restart(self, rng: random.Random) -> None:
        """Kill it and start it again."""


class FakeServing:
    """The fake one, over TLS."""

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
        await self._start()
        nursery.start_soon(self.kubelets.run)
        return kubeconfig(f"https://localhost:{self._port}", "ca.pem", "yk")

    async def _start(self) -> None:
        self._held = Held[FakeServer]()
        await self._held.open(self._nursery, self.server.running(self._port, self._tls))
        self._port = int(self.server.url.rpartition(":")[2])

    async def restart(self, rng: random.Random) -> None:
        """It drops its connections, and may have forgotten versions."""
        await self._held.close()
        if rng.random() < 0.5:
            self.server.store.compact()
        await trio.sleep(0.1)
        await self._start()


class RealServing:
    """A real API server, with the role of the manifests, and kubelets that poll."""

    def __init__(self, directory: Path) -> None:
        self.server = RealServer(directory)
        self.kubelets = PollingKubelets(self.server)

    async def begin(self, nursery: trio.Nursery) -> str:
        await nursery.start(self._hold)
        self.server.install()
        nursery.start_soon(self._look)
        return kubeconfig(self.server.url, "certs/apiserver.crt", "yk-token")

    async def _hold(self, task_status: trio.TaskStatus[None]) -> None:
        with self.server.running():
            task_status.started()
            await trio.sleep_forever()

    async def _look(self) -> None:
        while True:
            self.kubelets.look()
            await trio.sleep(0.2)

    async def restart(self, rng: random.Random) -> None:
        """Now and then its store too."""
        self.server.kill("apiserver")
        if rng.random() < 0.3:
            self.server.kill("etcd")
            self.server.start("etcd")
        self.server.start("apiserver")
        self.server.wait_ready()


def kubeconfig(url: str, authority: str, token: str) -> str:
    return f"""
current-context: c
clusters: [{{name: k, cluster: {{server: "{url}", certificate-authority: {authority}}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: c, context: {{cluster: k, user: u, namespace: ykactor}}}}]
"""


class Campaign:
    """A cluster of real processes.

    Args:
        directory: for certificates and the state of the daemon.
        serving: the API server.
        has_lease: there are two replicas.
    """

    def __init__(self, directory: Path, serving: Serving, seed: int, *, has_lease: bool = False) -> None:
        self.rng = random.Random(seed)
        self._directory = directory
        self._identities = ["one", "two"] if has_lease else ["one"]
        self._has_lease = has_lease
        self._serving = serving
        self.server = serving.server
        self.cluster = Cluster(self.server, "")
        self.adapters: dict[str, trio.Process] = {}
        self.kills = 0
        self._number = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Campaign]:
        """Everything runs within the block."""
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
        state = self._directory / "state"
        self._daemon = Held[RunningDaemon]()
        self.daemon = await self._daemon.open(self._nursery, real_daemon("--state-dir", state, ws=("--ws", ws), limit_s=600))

    async def start_adapter(self, identity: str) -> None:
        lease = [] if self._has_lease else ["--no-lease"]
        arguments = ["kubernetes", "--kubeconfig", str(self._directory / "kubeconfig"), "--url", self.daemon.url]
        with (self._directory / f"{identity}.log").open("ab") as log:
            self.adapters[identity] = await trio.lowlevel.open_process(
                [*COMMAND, *arguments, "--identity", identity, *lease],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
            )

    # ---- what happens

    async def kill(self, victim: str) -> None:
        """Kill it with SIGKILL and start it again."""
        self.kills += 1
        if victim == "adapter":
            identity = self.rng.choice(self._identities)
            self.adapters[identity].kill()
            await self.adapters[identity].wait()
            await self.start_adapter(identity)
        elif victim == "daemon":
            await self._daemon.close()
            await self.start_daemon(self.daemon.url.removeprefix("ws://"))
        else:
            await self._serving.restart(self.rng)

    def act(self) -> None:
        """Users do something."""
        store, rng = self.server.store, self.rng
        pods = store.all("pods", "team")
        if rng.random() < 0.6 or len(pods) < 10:
            self._number += 1
            annotations = {ENDS: "yes"} if rng.random() < 0.3 else {}
            self.cluster.pod(f"p{self._number}", annotations=annotations)  # of one size: none reserves a node that others fit on
        else:
            store.delete("pods", rng.choice(pods), {})

    async def quiet(self) -> None:
        """Wait until all that fits is bound, and the daemon knows the same as the API server."""
        for _ in range(600):
            if not self._differences(await state_of(self.daemon.url)):
                return
            await trio.sleep(0.1)
        logs = "\n".join(f"{each}: {(self._directory / f'{each}.log').read_text()[-3000:]}" for each in self._identities)
        raise AssertionError(f"{self._differences(await state_of(self.daemon.url))}\n{logs}")

    def _differences(self, state: dict[str, Any]) -> list[str]:
        return differences(self.server.store.all("pods", "team"), self.server.store.all("nodes", ""), state)

    async def check(self) -> None:
        """Pods have started, and none twice."""
        await trio.sleep(0.5)  # kubelets that poll
        started = [uid for uid, _ in self._serving.kubelets.started]
        assert len(started) == len(set(started)) > 0


def server_context(authority: trustme.CA) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


async def run(
    serving: Serving, directory: Path, seed: int, kills: int, *, has_lease: bool, say: Callable[[str], object] = lambda _: None
) -> str:
    """Play a campaign; returns figures."""
    async with Campaign(directory, serving, seed, has_lease=has_lease).running() as campaign:
        for number in range(6):
            campaign.cluster.node(f"n{number}")
        for turn in range(kills):
            for _ in range(campaign.rng.randint(3, 10)):
                campaign.act()
                await trio.sleep(campaign.rng.uniform(0, 0.05))
            victim = VICTIMS[turn % len(VICTIMS)]
            await campaign.kill(victim)
            if turn % 3 == 2:
                await campaign.quiet()
                await campaign.check()
            say(f"{turn + 1}: {victim}")
        await campaign.quiet()
        await campaign.check()
        return f"{campaign.kills} kills, {len(serving.kubelets.started)} pods have run, each once"
