"""``ykactor kubernetes`` as a process: its log, its exit codes, systemd, its probes, and ``check``."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from daemon import RunningDaemon, real_daemon, run_command, running_command
from directapi import open_api
from fakehttp import Refused, Request
from fakeserver import FakeServer
from faults import starting
from kubecampaign import FakeServing
from manifests import documents, permissions
from test_probes import get

from ykactor.client import RequestRefused, connect
from ykactor.kubernetes import permissions as api_permissions
from ykactor.kubernetes.api import ApiError
from ykactor.surfaces.cli.kubernetes import command


@asynccontextmanager
async def api_server(directory: Path) -> AsyncIterator[tuple[FakeServing, Path]]:
    """An API server over TLS, and a kubeconfig for it."""
    async with trio.open_nursery() as nursery:
        serving, config = FakeServing(directory), directory / "kubeconfig"
        config.write_text(await serving.begin(nursery))
        yield serving, config
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def adapter(
    config: Path, daemon_url: str, *more: str, environment: dict[str, str] | None = None
) -> AsyncIterator[RunningDaemon]:
    """The command, with its log read."""
    options = ["--kubeconfig", str(config), "--url", daemon_url, "--identity", "one", "--listen", "127.0.0.1:0", *more]
    async with running_command("kubernetes", *options, environment=environment) as process, trio.open_nursery() as nursery:
        running = RunningDaemon(process)
        nursery.start_soon(running.read_log)
        yield running
        nursery.cancel_scope.cancel()


class Systemd:
    """A socket that receives the notifications to systemd."""

    def __init__(self, path: Path) -> None:
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "400000"}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))

    async def hears(self, state: str) -> str:
        with trio.fail_after(60):
            while True:
                await trio.lowlevel.wait_readable(self._socket)
                text = self._socket.recv(4096).decode()
                if text.startswith(state):
                    return text

    def close(self) -> None:
        self._socket.close()


async def test_a_supervisor_sees_how_it_lives(tmp_path: Path) -> None:
    """READY, the watchdog, probes, a log of JSON lines; SIGTERM gives the Lease back, and is a success."""
    with closing(Systemd(tmp_path / "notify")) as systemd:
        await lives(tmp_path, systemd)


async def lives(tmp_path: Path, systemd: Systemd) -> None:
    async with api_server(tmp_path) as (serving, config), real_daemon() as daemon:
        async with adapter(config, daemon.url, environment=systemd.environment) as running:
            assert "adapter of kubernetes" in await systemd.hears("READY=1")
            await systemd.hears("WATCHDOG=1")
            port = int((await running.wait_logged("adapter_listened"))["address"].rpartition(":")[2])
            await leads(port)
            lease = serving.server.store.get("leases", "ykactor", "ykactor")
            assert lease["spec"]["holderIdentity"].startswith("one_")
            running.process.terminate()
            await systemd.hears("STOPPING=1")
            assert await running.process.wait() == 0
            assert running.noise == ""
            assert {"time", "level", "logger"} <= (await running.wait_logged("adapter_stopped")).keys()
            assert any("leads with epoch" in line["message"] for line in running.logged("adapter_said"))
            assert not serving.server.store.get("leases", "ykactor", "ykactor")["spec"]["holderIdentity"]


async def test_the_log_begins_with_where_it_connects_to(tmp_path: Path) -> None:
    """Also when neither the API server nor the daemon is there, so that a wrong address is seen at once."""
    config = tmp_path / "kubeconfig"
    config.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], users: [{name: u, user: {token: t}}],"
        " clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]}"
    )
    async with adapter(config, "ws://127.0.0.1:1") as running:
        started = await running.wait_logged("adapter_started")
        assert [started[key] for key in ("api_server", "daemon", "lease")] == [
            "https://127.0.0.1:1",
            "ws://127.0.0.1:1",
            "ykactor/ykactor",
        ]


async def test_what_an_operator_has_to_act_on_is_a_warning(tmp_path: Path) -> None:
    """Problems are warnings; the usual course is told at info."""

    async def be_a_proxy(request: Request) -> None:
        if request.resource == "nodes":
            raise Refused(200, "", "", "<html>please log in</html>")

    async with api_server(tmp_path) as (serving, config), real_daemon() as daemon:
        serving.server.faults = be_a_proxy
        async with adapter(config, daemon.url) as running:
            assert "cannot be read" in (await running.wait_logged("adapter_warned"))["message"]
            await running.wait_logged("adapter_said")
            assert {line["level"] for line in running.logged("adapter_warned")} == {"warning"}
            assert {line["level"] for line in running.logged("adapter_said")} == {"info"}


async def leads(port: int) -> None:
    """Wait until it is ready and leads."""
    with trio.fail_after(60):
        while True:
            ready, metrics = await get(port, "/readyz"), await get(port, "/metrics")
            if ready[0] == 200 and "ykactor_kubernetes_leader 1" in metrics[1]:
                return
            await trio.sleep(0.05)


async def test_an_interrupted_one_has_the_exit_code_of_ctrl_c(tmp_path: Path) -> None:
    async with api_server(tmp_path) as (_, config), adapter(config, "ws://127.0.0.1:1", "--no-lease") as running:
        await running.wait_logged("adapter_listened")
        running.process.send_signal(signal.SIGINT)
        assert await running.process.wait() == 130


async def test_a_daemon_that_serves_another_process_ends_one_without_a_lease(tmp_path: Path) -> None:
    """The process ends with one line that says so."""
    async with api_server(tmp_path) as (_, config), real_daemon() as daemon:
        options = ["--kubeconfig", str(config), "--url", daemon.url, "--no-lease", "--log-level", "error"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replace, daemon.url)
            _, errors = await run_command("kubernetes", *options, expect=1)
            nursery.cancel_scope.cancel()
        assert errors.count("\n") == 1
        assert "4001" in errors


async def replace(url: str) -> None:
    """Take the place of the resource manager as soon as it is there."""
    while True:
        try:
            async with connect(url, rm_id="kubernetes", resume_from="now"):
                await trio.sleep_forever()
        except RequestRefused:
            await trio.sleep(0.05)


async def test_an_address_that_is_in_use_may_be_free_later(tmp_path: Path) -> None:
    """The exit code is 75 and the error says what to change, the same as for ``serve``."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with api_server(tmp_path) as (_, config):
            _, errors = await run_command("kubernetes", "--kubeconfig", config, "--listen", address, "--no-lease", expect=75)
    assert errors == f"Error: {address}: Address already in use: choose another address with --listen HOST:PORT\n"


@pytest.mark.parametrize("address", ["nowhere", "unix:/run/probes"])
def test_probes_are_served_on_tcp_only(address: str) -> None:
    """The error for another address names no Unix socket, which is refused too."""
    done = CliRunner().invoke(command, ["--listen", address])
    assert done.exit_code == 2
    assert f"found {address!r}, expected HOST:PORT such as 127.0.0.1:9081\n" in done.output


# ---- check


async def test_check_names_what_is_missing(tmp_path: Path) -> None:
    """Missing permissions have their group, and the namespace if needed in one only; the role of the manifests lacks none."""
    role = permissions(documents("rbac.yaml"), "ykactor")
    lacking = {("create", "pods/binding"), ("watch", "poddisruptionbudgets"), ("get", "leases")}
    async with api_server(tmp_path) as (serving, config):
        serving.server.users["yk"] = role
        assert await run_command("kubernetes", "check", "--kubeconfig", config) == ("no permission is missing\n", "")
        serving.server.users["yk"] = {each for each in role if (each[0], each[2]) not in lacking}
        output, _ = await run_command("kubernetes", "check", "--kubeconfig", config, expect=1)
        assert output.splitlines() == [
            "missing: create pods/binding",
            "missing: watch poddisruptionbudgets of policy",
            "missing: get leases of coordination.k8s.io in namespace ykactor",
        ]


async def test_check_asks_again_while_a_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A starting server has not loaded its roles yet, and refuses known users; one that refuses for long has another reason."""
    monkeypatch.setattr(api_permissions, "PAUSE_S", 0.1)
    asked = list[Request]()

    async def start(request: Request) -> None:
        asked.append(request)
        if len(asked) == 1:
            await starting(request)

    async with FakeServer().running() as server:
        async with open_api(server.url) as api:
            server.faults = start
            assert await api_permissions.missing(api, "ykactor") == []
            server.faults = starting
            with pytest.raises(ApiError, match="403 Forbidden"):
                await api_permissions.missing(api, "ykactor")
