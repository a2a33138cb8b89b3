"""``ykactor replica`` beside a daemon: it decides the same, through kills of the daemon and of itself (DU-19)."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
import trio
from daemon import application, asks, new_token, node, real_daemon, run_command, running_command
from forked import Forked
from trio_websocket import ConnectionClosed, WebSocketRequest, serve_websocket

from ykactor.client import RequestRefused, connect
from ykactor.client.connection import SealedStream, open_connection
from ykactor.client.login import Login
from ykactor.client.resource_manager import ResourceManager
from ykactor.surfaces.admission.slots import TURNS_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.replica import _ending
from ykactor.surfaces.replica.following import MismatchesError
from ykactor.surfaces.replica.replica import OtherHistoryError
from ykactor.wire.seals import Seal
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.turns import (
    Base,
    Configuration,
    Hello,
    OtherBuildError,
    Past,
    Process,
    Turn,
    UnreadableTurnsError,
    Wanted,
    encode,
    unpacked,
)

ACCESS = """
identities:
  - {name: rm, roles: [rm], rmIDs: [rm-1], users: [alice]}
  - {name: copy, roles: [replica]}
  - {name: reader, roles: [reader]}
"""


class Lines:
    """The lines that a replica prints, each a status."""

    def __init__(self, process: Forked) -> None:
        self._process = process
        self._rest = b""
        self._lines: list[bytes] = []

    async def status(self, turns: int, partitions: int = 1) -> dict[str, Any]:
        """The first status from now on with so many turns and partitions."""
        while True:
            while self._lines:
                found: dict[str, Any] = json.loads(self._lines.pop(0))
                if found["turns"] >= turns and len(found["partitions"]) >= partitions:
                    return found
            chunk = await self._process.stdout.receive_some()
            assert chunk, "the replica has ended"
            *self._lines, self._rest = (self._rest + chunk).split(b"\n")


@asynccontextmanager
async def replica_of(url: str) -> AsyncIterator[tuple[Forked, Lines]]:
    async with running_command("replica", "--url", url, "--every", "0.1", "-o", "json") as process:
        yield process, Lines(process)


async def churn(rm: ResourceManager, number: int) -> None:
    """An application that comes with twenty tasks, and goes."""
    await rm.request(application(f"app-{number}", "root.default"))
    await rm.request(asks(*(f"t{number}-{task}" for task in range(20)), of=f"app-{number}", vcore=100))


async def test_each_turn_is_decided_the_same(tmp_path: Path) -> None:
    """A replica joins a daemon that has a state, and goes on when the daemon was killed and has started again."""
    arguments = ("--state-dir", tmp_path / "state")
    async with real_daemon(*arguments) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=4000))
        await churn(rm, 0)
        address = daemon.url.removeprefix("ws://")
        async with replica_of(daemon.url) as (_, lines):
            before = await lines.status(1)
            for number in range(1, 6):
                await churn(rm, number)
            found = await lines.status(before["turns"] + 10)
            assert found["facts"] > before["facts"] + 50
            assert found["lagSeconds"] is not None
            daemon.process.kill()
            await daemon.process.wait()
            async with real_daemon(*arguments, ws=["--ws", address]) as again:
                async with connect(again.url, rm_id="rm-1") as rm_again:
                    await rm_again.request(node("n2", vcore=4000))
                    last = await lines.status(found["turns"] + 1)
                    assert (last["partitions"], last["mismatches"]) == (["default"], 0)


async def test_a_replica_that_was_stopped(tmp_path: Path) -> None:
    """SIGSTOP: the daemon goes on without it, and it runs all of it afterwards."""
    async with real_daemon("--state-dir", tmp_path / "state") as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=4000))
        async with replica_of(daemon.url) as (process, lines):
            before = await lines.status(1)
            process.send_signal(signal.SIGSTOP)
            for number in range(20):
                await churn(rm, number)
            process.send_signal(signal.SIGCONT)
            assert (await lines.status(before["turns"] + 40))["mismatches"] == 0


async def test_only_replicas_get_turns(tmp_path: Path) -> None:
    """SE-100: the role is needed, and nobody gets turns of a daemon that records none."""
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)
    access.chmod(0o600)
    copy, reader = new_token("copy", access), new_token("reader", access)
    async with real_daemon("--state-dir", tmp_path / "state", "--access", access) as daemon:
        with pytest.raises(RequestRefused, match="does not have the role replica"):
            async with open_connection(daemon.url, TURNS_PATH, login=Login(reader)):
                pass
        async with open_connection(daemon.url, TURNS_PATH, login=Login(copy)) as connection:
            stream = SealedStream(connection)
            received = unpacked(await stream.receive())
            assert [type(message) for message in received] == [Hello]
            await stream.send(encode(Wanted(0)))
            while not any(isinstance(message, Turn) for message in received):
                received += unpacked(await stream.receive())
            known = [Configuration, Process]
            assert [kind for kind in map(type, received) if kind not in known] == [Hello, Past, Base, Turn]


@pytest.mark.parametrize(("message", "reason"), [(Seal().close(b"Turns!"), "expected Wanted"), (b"Turns!", "was damaged")])
async def test_a_replica_says_what_it_wants(tmp_path: Path, message: bytes, reason: str) -> None:
    """Another message than ``Wanted``, or one that is not as it was sent, ends the session."""
    async with real_daemon("--state-dir", tmp_path / "state") as daemon:
        async with open_connection(daemon.url, TURNS_PATH) as connection:
            await connection.get_message()
            await connection.send_message(message)
            with pytest.raises(ConnectionClosed) as closed:
                await connection.get_message()
    assert closed.value.reason is not None
    assert closed.value.reason.code == 1007
    assert reason in str(closed.value.reason.reason)


async def test_signals_end_it(tmp_path: Path) -> None:
    """SIGTERM is the end, with exit code 0; Ctrl-C too, as of any command."""
    async with real_daemon("--state-dir", tmp_path / "state") as daemon:
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, exit_codes.INTERRUPTED)):
            async with replica_of(daemon.url) as (process, lines):
                await lines.status(0)
                process.send_signal(number)
                assert await process.wait() == code


async def test_a_signal_ends_it_before_the_daemon_has_said_anything(nursery: trio.Nursery) -> None:
    """One that serves readers begins to when the daemon has told what it is; a daemon that stands still never does."""
    is_connected = trio.Event()

    async def say_nothing(request: WebSocketRequest) -> None:
        await request.accept(subprotocol=MSGPACK.name)
        is_connected.set()
        await trio.sleep_forever()

    server = await nursery.start(partial(serve_websocket, say_nothing, "127.0.0.1", 0, ssl_context=None))
    arguments = ("--url", f"ws://127.0.0.1:{server.port}", "--http", "127.0.0.1:0")
    async with running_command("replica", *arguments) as process:
        await is_connected.wait()
        process.terminate()
        assert await process.wait() == exit_codes.OK
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--http", "0.0.0.0:0"), "use replica with --serve-tls-cert and --serve-tls-key and --access, or listen on"),
        (("--serve-tls-cert", __file__), "found one of --serve-tls-cert and --serve-tls-key, expected both"),
    ],
)
async def test_wrong_options(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """SE-54: a replica that others can reach needs TLS and an access file too; its errors name its own options."""
    async with real_daemon("--state-dir", tmp_path / "state") as daemon:
        errors = (await run_command("replica", "--url", daemon.url, *options, expect=exit_codes.USAGE))[1]
    assert said in errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MismatchesError("again and again"), exit_codes.SOFTWARE),
        (OtherHistoryError("an older copy"), exit_codes.TEMPORARY),
        (OtherBuildError("another build"), exit_codes.FAILED),
        (UnreadableTurnsError("damaged"), exit_codes.FAILED),
    ],
)
def test_what_ends_a_replica_has_an_exit_code(error: Exception, code: int) -> None:
    """DU-19, DU-22: 70 for decisions that differ, 75 where another start helps."""
    with pytest.raises((SystemExit, click.ClickException)) as ended, _ending():
        raise ExceptionGroup("", [error])
    found = ended.value.code if isinstance(ended.value, SystemExit) else ended.value.exit_code
    assert found == code
