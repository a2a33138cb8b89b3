"""``ykactor serve --standby-of``: its journal is the beginning of the daemon's, whatever happens to both (DU-20)."""

from __future__ import annotations

import math
import random
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from daemon import RunningDaemon, application, asks, new_token, node, real_daemon, run_command

from ykactor.client import Disconnected, RequestRefused, connect
from ykactor.client.connection import SealedStream, open_connection
from ykactor.client.login import Login
from ykactor.client.resource_manager import ResourceManager
from ykactor.journal import schema
from ykactor.journal.errors import NotWrittenError
from ykactor.journal.maintenance import backup, restore, verify
from ykactor.journal.store import Store
from ykactor.journal.stream import Following, Join, Refused, encode, from_daemon
from ykactor.journal.transaction import Batch
from ykactor.surfaces.admission.slots import JOURNAL_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.state_options import Keeping
from ykactor.surfaces.files.state_dir import open_standby_dir
from ykactor.surfaces.standby.following import FollowingJournal

ACCESS = """
identities:
  - {name: rm, roles: [rm], rmIDs: [rm-1], users: [alice]}
  - {name: copy, roles: [replica]}
  - {name: reader, roles: [reader]}
"""
TABLES = ("record", "log", "base", "mention", "term")


def content(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables of a journal."""
    with closing(schema.connect(directory / schema.NAME, "ro")) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


def newest(directory: Path) -> int:
    """The newest transaction of a journal."""
    with closing(sqlite3.connect(directory / schema.NAME)) as connection:
        ((number,),) = connection.execute("SELECT ifnull(max(number), 0) FROM log")
        return int(number)


class RunningStandby:
    """A standby process, and its directory."""

    def __init__(self, daemon: RunningDaemon, directory: Path) -> None:
        self.daemon = daemon
        self.process = daemon.process
        self.url = daemon.url
        self._directory = directory

    async def stop(self) -> None:
        """End it as a supervisor does; it ends as it should."""
        assert await self.daemon.stop() == exit_codes.OK

    async def stop_daemon(self) -> int:
        """End it when it is the daemon; returns the exit code."""
        await self.logged("daemon_started")
        return await self.daemon.stop()

    async def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        await self.process.wait()

    async def has(self, number: int) -> None:
        """Wait until it follows and has a transaction on its disk."""
        await self.logged("standby_follows")
        while newest(self._directory) < number:  # noqa: ASYNC110 - nothing tells it
            await trio.sleep(0.01)

    async def logged(self, event: str, count: int = 1) -> dict[str, Any]:
        """Wait until it has logged something so many times."""
        return await self.daemon.wait_logged(event, count)


@asynccontextmanager
async def standby_of(
    url: str, directory: Path, *more: str | Path, http: str = "none", program: str = ""
) -> AsyncIterator[RunningStandby]:
    """Run a standby of a daemon in a directory; ``program`` as of ``real_daemon``."""
    arguments = ("--state-dir", directory, "--standby-of", url, *more)
    where = () if "--ws" in more else ("--ws", "127.0.0.1:0")
    async with real_daemon(*arguments, ws=where, http=http, program=program, ready="standby_started") as daemon:
        yield RunningStandby(daemon, directory)


async def churn(rm: ResourceManager, number: int) -> None:
    """An application with some tasks."""
    await rm.request(application(f"app-{number}", "root.default"))
    await rm.request(asks(*(f"t{number}-{task}" for task in range(5)), of=f"app-{number}", vcore=10))


def assert_same(standby: Path, daemon: Path) -> None:
    """Check that two journals whose processes have ended are the same, and whole."""
    assert content(standby) == content(daemon)
    assert list(verify(standby)) == []


async def test_the_journal_of_a_standby_is_that_of_the_daemon(tmp_path: Path) -> None:
    """A standby begins with a copy, and gets each transaction after it; also after a kill of either of the two."""
    ours, theirs = tmp_path / "standby", tmp_path / "daemon"
    async with real_daemon("--state-dir", theirs) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node(vcore=4000))
            await churn(rm, 0)
            async with standby_of(daemon.url, ours) as standby:
                await standby.has(newest(theirs))
                await churn(rm, 1)
                await standby.has(newest(theirs))
                assert len(standby.daemon.logged("standby_gets_copy")) == 1
            await churn(rm, 2)
            async with standby_of(daemon.url, ours) as standby:  # it was killed, and lacks what came meanwhile
                await standby.has(newest(theirs))
                daemon.process.kill()
                await daemon.process.wait()
                address = daemon.url.removeprefix("ws://")
                async with real_daemon("--state-dir", theirs, ws=["--ws", address]) as again:
                    async with connect(again.url, rm_id="rm-1") as rm_again:
                        await rm_again.request(node("n2", vcore=4000))
                        await churn(rm_again, 3)
                        await standby.has(newest(theirs))
                    await again.stop()
                await standby.stop()
    assert_same(ours, theirs)


REFUSALS = {
    "foreign": "it has no term in common with this history",
    "written by a daemon": "which this history does not have: a daemon has written to it",
    "ahead": "which has ended with",
}


@pytest.mark.parametrize("history", REFUSALS)
async def test_a_journal_with_another_history_is_refused(tmp_path: Path, history: str) -> None:
    """The standby says what is wrong and what to do, ends with exit code 1, and its directory stays as it is."""
    ours, theirs, before = tmp_path / "standby", tmp_path / "daemon", tmp_path / "before"
    async with real_daemon("--state-dir", theirs) as daemon:
        if history != "foreign":
            async with standby_of(daemon.url, ours) as standby:
                await standby.has(newest(theirs))
                backup(theirs, tmp_path / "backup.db")
                async with connect(daemon.url, rm_id="rm-1"):
                    await standby.has(newest(theirs))
        if history == "ahead":
            restore(tmp_path / "backup.db", before)
            async with real_daemon("--state-dir", before) as put_back:
                await assert_refused(put_back, ours, REFUSALS[history])
            return
        async with real_daemon("--state-dir", ours) as other:
            await other.stop()
        await assert_refused(daemon, ours, REFUSALS[history])


async def assert_refused(daemon: RunningDaemon, directory: Path, reason: str) -> None:
    """Check that a standby in a directory is refused by the daemon."""
    kept = content(directory)
    arguments = ("--standby-of", daemon.url, "--state-dir", directory, "--ws", "127.0.0.1:0", "--http", "none")
    errors = (await run_command("serve", *arguments, expect=exit_codes.FAILED))[1]
    assert "found a journal that is no beginning of the daemon's: " in errors
    assert reason in errors
    assert "; begin with an empty directory" in errors
    assert content(directory) == kept


async def test_a_directory_has_one_standby(tmp_path: Path) -> None:
    """DU-13: the second one is refused, as is a daemon."""
    ours = tmp_path / "standby"
    async with real_daemon("--state-dir", tmp_path / "daemon") as daemon, standby_of(daemon.url, ours) as standby:
        await standby.has(1)
        for more in ([], ["--standby-of", daemon.url]):
            command = ("serve", "--ws", "127.0.0.1:0", "--http", "none", "--state-dir", ours, *more)
            errors = (await run_command(*command, expect=exit_codes.TEMPORARY))[1]
            assert f"found it in use by a standby, process {standby.process.pid}" in errors


async def test_only_replicas_get_the_journal(tmp_path: Path) -> None:
    """SE-100: the role is needed, and nobody gets the journal of a daemon that has none."""
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)
    access.chmod(0o600)
    copy, reader = new_token("copy", access), new_token("reader", access)
    async with real_daemon("--state-dir", tmp_path / "state", "--access", access) as daemon:
        with pytest.raises(RequestRefused, match="does not have the role replica"):
            async with open_connection(daemon.url, JOURNAL_PATH, login=Login(reader)):
                pass
        assert type(await answer(daemon, Join(schema.VERSION, 0, []), copy)) is Following
        other = await answer(daemon, Join(schema.VERSION + 1, 0, []), copy)
        found = f"found version {schema.VERSION + 1} of the journal, expected {schema.VERSION}: both need the same"
        assert other == Refused(found)
    async with real_daemon() as daemon:
        with pytest.raises(Disconnected, match="503 this daemon has no journal: serve --state-dir has"):
            await answer(daemon, Join(schema.VERSION, 0, []), "")


async def answer(daemon: RunningDaemon, join: Join, token: str) -> object:
    """The answer of a daemon to the first message of a standby."""
    async with open_connection(daemon.url, JOURNAL_PATH, login=Login(token)) as connection:
        stream = SealedStream(connection)
        await stream.send(encode(join))
        return from_daemon(await stream.receive())


async def test_a_standby_that_stands_still(tmp_path: Path) -> None:
    """Stopped for a while, as by SIGSTOP, it has everything again afterwards."""
    ours, theirs = tmp_path / "standby", tmp_path / "daemon"
    async with (
        real_daemon("--state-dir", theirs) as daemon,
        connect(daemon.url, rm_id="rm-1") as rm,
        standby_of(daemon.url, ours) as standby,
    ):
        await rm.request(node(vcore=4000))
        await standby.has(1)
        standby.process.send_signal(signal.SIGSTOP)
        for number in range(10):
            await churn(rm, number)
        standby.process.send_signal(signal.SIGCONT)
        await standby.has(newest(theirs))


async def test_killed_while_joining_and_cut_in_a_frame(tmp_path: Path) -> None:
    """A standby is killed while it joins, and its connections are cut anywhere: in the end it has the whole journal."""
    ours, theirs, rng = tmp_path / "standby", tmp_path / "daemon", random.Random(7)
    with closing(Store.open(theirs, "off", now_ns=0)) as store:
        for number in range(1, 9):
            store.commit(Batch(1, 1, number, turns=[b'{"partition":"x","facts":["%b"]}' % rng.randbytes(300_000).hex().encode()]))
    async with real_daemon("--state-dir", theirs) as daemon, trio.open_nursery() as nursery:
        host, port = daemon.url.removeprefix("ws://").split(":")
        most = [3 * 10**5]  # bytes that a connection lasts

        async def cut(stream: trio.SocketStream) -> None:
            async with stream:
                with suppress(OSError):  # the daemon has ended
                    await carry(stream, await trio.open_tcp_stream(host, int(port)))

        async def carry(stream: trio.SocketStream, onwards: trio.SocketStream) -> None:
            async with onwards, trio.open_nursery() as both:

                async def forward(source: trio.SocketStream, target: trio.SocketStream, left: float) -> None:
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                        while left >= 1 and (data := await source.receive_some(int(min(left, 65536)))):
                            await target.send_all(data)
                            left -= len(data)
                    both.cancel_scope.cancel()

                both.start_soon(forward, stream, onwards, math.inf)
                both.start_soon(forward, onwards, stream, rng.uniform(0.5, 1.5) * most[0])

        listeners = await nursery.start(partial(trio.serve_tcp, cut, 0, host="127.0.0.1"))
        url = f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        for _ in range(2):
            async with standby_of(url, ours) as standby:
                await standby.logged("standby_gets_copy")
                await standby.kill()
        async with standby_of(url, ours) as standby:
            await standby.logged("standby_not_connected")
            assert newest(ours) == 0
            most[0] = 10**8
            await standby.has(newest(theirs))
            await daemon.stop()
            await standby.stop()
        nursery.cancel_scope.cancel()
    assert content(ours) == content(theirs)


async def test_a_full_disk_of_a_standby(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The standby writes when there is room what it could not write before, and says so once."""
    with open_standby_dir(Keeping("off").settings(tmp_path)) as directory:
        following = FollowingJournal("ws://daemon", Login(), tmp_path, directory.writer)
        attempts = list[int]()

        def write() -> None:
            attempts.append(1)
            if len(attempts) < 4:
                raise NotWrittenError("found no room on the disk")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ykactor.surfaces.standby.following.RETRY_S", 0.0)
            await following._write(write)
    assert len(attempts) == 4
    assert [record.message for record in caplog.records] == ["standby_stalled"]
