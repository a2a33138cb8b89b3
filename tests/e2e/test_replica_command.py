"""``ykactor replica`` beside a daemon: it decides the same, through kills of the daemon and of itself (DU-19)."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import trio
from daemon import application, asks, new_token, node, real_daemon, run_command, running_command
from forked import Forked
from trio.testing import MockClock, assert_checkpoints

import ykactor
from ykactor.client import Disconnected, RequestRefused, connect
from ykactor.client.connection import open_connection
from ykactor.client.login import Login
from ykactor.client.resource_manager import ResourceManager
from ykactor.surfaces.admission.slots import TURNS_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.replica import _Command
from ykactor.surfaces.cli.urls import Destination
from ykactor.wire.turns import Base, Hello, Turn, unpacked

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
            received: list[object] = []
            while not any(isinstance(message, Turn) for message in received):
                received += unpacked(await connection.get_message())
            assert [type(message) for message in received[:3]] == [Hello, Base, Turn]
    async with real_daemon() as daemon:
        with pytest.raises(Disconnected, match="503 this daemon records no turns: serve --state-dir does"):
            async with open_connection(daemon.url, TURNS_PATH):
                pass
        errors = (await run_command("replica", "--url", daemon.url, expect=exit_codes.FAILED))[1]
        assert "this daemon records no turns" in errors


async def test_a_daemon_of_another_version_is_refused() -> None:
    """Another version may decide otherwise, so nothing would follow from what it decides."""
    command = _Command(Destination("ws://daemon"), 1.0, is_json=False)
    with pytest.raises(click.ClickException, match=f"version 0.0.0, expected {ykactor.__version__}: another version may decide"):
        await command._handle(Hello("0.0.0", "1-0"))


async def test_others_run_between_the_messages_of_one_frame() -> None:
    """A frame may have thousands of turns: without an answer to its pings meanwhile, the daemon would end the connection."""
    command = _Command(Destination("ws://daemon"), 1.0, is_json=False)
    with assert_checkpoints():
        await command._handle(Hello(ykactor.__version__, "1-0"))


def test_the_third_mismatch_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Two in an hour are told, and it begins again; the third ends it with exit code 70."""

    async def main() -> None:
        command = _Command(Destination("ws://daemon"), 1.0, is_json=False)
        for wait_s in (0, 3601, 1, 1):
            await trio.sleep(wait_s)
            command._on_mismatch("partition default: found turn 7, expected turn 6")

    with pytest.raises(SystemExit) as ended:
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert ended.value.code == exit_codes.SOFTWARE
    assert capsys.readouterr().err.count("found turn 7, expected turn 6") == 4
