"""``serve --access`` as it is shipped: a process, the commands for tokens, signals and exit codes."""

import signal
from pathlib import Path

import pytest
import trio
from daemon import new_token, real_daemon, run_command
from trio_websocket import ConnectionClosed, WebSocketConnection

from ykactor.client import RequestRefused, connect
from ykactor.client.connection import open_connection
from ykactor.client.login import Login
from ykactor.surfaces.admission.access_control import PROOF_GONE

TEXT = "identities: [{name: dashboard, roles: [reader]}]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "access.yaml"
    path.write_text(TEXT)
    return path


async def test_a_token_from_its_making_to_its_end(file: Path) -> None:
    """SE-4, SE-67, SE-68: lets in as soon as the daemon has read it, and not any more when it is revoked."""
    async with real_daemon("--access", file) as daemon:
        secret = (await run_command("token", "create", "dashboard", "--access", file))[0].strip()
        await daemon.wait_logged("access_applied", 2)
        with pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
            async with open_connection(daemon.url, "/v1/feed"):
                pass
        async with open_connection(daemon.url, "/v1/feed", login=Login(secret)) as connection:
            await connection.send_message('{"type": "Subscribe", "from": "now"}')
            assert "Bookmark" in await connection.get_message()
            daemon.process.send_signal(signal.SIGHUP)
            await daemon.wait_logged("access_applied", 3)
            token_id = (await run_command("token", "list", "--access", file, "-o", "name"))[0].strip()
            await run_command("token", "revoke", token_id, "--access", file)
            with pytest.raises(ConnectionClosed) as ended, trio.fail_after(60):
                await _read_on(connection)
            assert (ended.value.reason.code, ended.value.reason.reason) == (4005, PROOF_GONE)
        assert await daemon.stop() == 0
    assert secret not in repr(daemon.lines)


@pytest.fixture
def file_of_three(file: Path) -> Path:
    lines = ["{name: ci, roles: [rm], rmIDs: [ci]}", "{name: ops, roles: [operator]}", "{name: dashboard, roles: [reader]}"]
    file.write_text("\n".join(["identities:", *(f"- {line}" for line in lines)]))
    return file


async def test_an_operator_deregisters(file_of_three: Path) -> None:
    """SE-71: without the role of a resource manager; who has neither role reads what it lacks for this."""
    file = file_of_three

    def token(identity: str) -> str:
        secret = new_token(identity, file)
        file.with_name(identity).write_text(secret)
        return secret

    shown = {identity: token(identity) for identity in ("ci", "ops", "dashboard")}
    async with real_daemon("--access", file) as daemon:

        async def deregister(identity: str, expect: int = 0) -> str:
            arguments = ("rm", "release", "ci", "--url", daemon.url, "--token-file", file.with_name(identity))
            return "".join(await run_command(*arguments, expect=expect))

        async with connect(daemon.url, rm_id="ci", token=shown["ci"]):
            assert "dashboard does not have the role rm, which /v1/rm needs" in await deregister("dashboard", expect=1)
            assert await deregister("ops") == "ci is deregistered; another resource manager may register\n"
        assert await deregister("ops", expect=1) == "Error: ci is not registered, found no resource manager\n"
        assert await daemon.stop() == 0


async def _read_on(connection: WebSocketConnection) -> None:
    """Read until the end: the audit of the change may come before it."""
    while True:
        await connection.get_message()


@pytest.fixture
def wrong_file(file: Path) -> Path:
    file.write_text(TEXT.replace("reader", "king") + "unknown: 1\n")
    return file


async def test_a_wrong_file(wrong_file: Path) -> None:
    """SE-66: the daemon does not start; all mistakes are told, in one go."""
    _, errors = await run_command("serve", "--http", "none", "--ws", "127.0.0.1:0", "--access", wrong_file, expect=2)
    assert "'king'" in errors
    assert "unknown" in errors
