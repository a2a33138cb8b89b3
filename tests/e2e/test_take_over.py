"""``ykactor take-over``: another daemon goes on where the one before has been, and nobody is told two histories (DU-23)."""

from __future__ import annotations

import getpass
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from daemon import RunningDaemon, application, asks, node, real_daemon, run_command
from daemonhere import serving
from test_standby import RunningStandby, newest, standby_of
from trio_websocket import WebSocketRequest, serve_websocket

from ykactor.actors import standbys as standbys_module
from ykactor.actors.clock import Clock
from ykactor.actors.standbys import Standbys
from ykactor.client import Disconnected, follow, keep_registered
from ykactor.client.addresses import Addresses
from ykactor.client.connection import SealedStream, open_connection
from ykactor.client.kept import KeptSession
from ykactor.journal import schema
from ykactor.journal.stream import HandOver, Join, encode
from ykactor.journal.terms import Beginning, Term
from ykactor.surfaces.admission.slots import JOURNAL_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import MSGPACK


class Place:
    """Two machines, each with a directory, which is that of a daemon or of a standby."""

    def __init__(self, place: Path) -> None:
        self.directories = [place / "a", place / "b"]
        self.urls = [f"unix:{place / name}.sock" for name in "ab"]
        #: The addresses that clients know.
        self.both = ",".join(self.urls)

    @asynccontextmanager
    async def daemon(self, which: int, *arguments: str, ready: str = "daemon_started") -> AsyncIterator[RunningDaemon]:
        options = ("--state-dir", self.directories[which], *arguments)
        async with real_daemon(*options, ws=["--ws", self.urls[which]], ready=ready) as daemon:
            yield daemon

    @asynccontextmanager
    async def standby(self, which: int) -> AsyncIterator[RunningStandby]:
        async with standby_of(self.urls[1 - which], self.directories[which]) as standby:
            yield standby

    async def take_over(self, *options: str, expect: int = exit_codes.OK) -> tuple[str, str]:
        """Let the second one take over."""
        return await run_command(
            "take-over", "--url", self.urls[0], "--state-dir", self.directories[1], *options, expect=expect
        )


class Told:
    """A resource manager and a follower, which know both addresses, and all that they are told."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.connections: list[str] = []
        self.events: list[int] = []
        self.registrations = 0
        self.allocated: list[str] = []
        self._grown = trio.Event()

    async def follow(self, *, task_status: trio.TaskStatus[None]) -> None:
        async with follow(self._url, from_=0) as messages:
            task_status.started()
            async for message in messages:
                if isinstance(message, si.JournalStatus):
                    continue
                assert isinstance(message, si.EventRecord), message
                self.events.append(message.sequence)
                self._wake()

    async def manage(self, *, task_status: trio.TaskStatus[KeptSession]) -> None:
        async with keep_registered(self._url, rm_id="rm-1", on_connection=self.connections.append) as rm:
            task_status.started(rm)
            async for message in rm:
                if isinstance(message, si.RegisterResourceManagerResponse):
                    self.registrations += 1
                    rm.send(node(vcore=10_000))
                    rm.send(application("app-1", "root.default"))
                elif isinstance(message, si.AllocationResponse):
                    self.allocated += [allocation.allocation_key for allocation in message.new]
                self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = trio.Event()

    async def is_registered(self) -> None:
        """Wait until it has reported what there is."""
        while not self.registrations:
            await self._grown.wait()

    async def has(self, count: int) -> None:
        """Wait until so many tasks have been placed."""
        while len(self.allocated) < count:
            await self._grown.wait()

    def check(self, tasks: int) -> None:
        """Check that everything came once, and that nothing was begun anew."""
        assert sorted(self.allocated) == sorted(f"t{number}" for number in range(tasks))
        assert self.events == [*range(1, len(self.events) + 1)]
        assert self.registrations == 1


@pytest.mark.parametrize("hands_over", [False, True])
async def test_clients_go_on_by_number(tmp_path: Path, hands_over: bool) -> None:
    """A resource manager and a follower lose and repeat nothing, whether the daemon was killed or has handed over."""
    place = Place(tmp_path)
    told = Told(place.both)
    async with trio.open_nursery() as nursery:
        async with place.standby(1) as standby, place.daemon(0, "--standbys", "1") as daemon:
            rm = await nursery.start(told.manage)
            await nursery.start(told.follow)
            await told.is_registered()
            rm.send(asks(*(f"t{number}" for number in range(5)), of="app-1", vcore=10))
            await told.has(5)
            if not hands_over:
                daemon.process.kill()
            await place.take_over(*(["--hand-over"] if hands_over else []))
            assert await daemon.process.wait() == (exit_codes.OK if hands_over else -signal.SIGKILL)
            assert await standby.process.wait() == exit_codes.OK
        async with place.daemon(1):
            rm.send(asks(*(f"t{number}" for number in range(5, 10)), of="app-1", vcore=10))
            await told.has(10)
            assert any(line.startswith("resumed after message") for line in told.connections)
            nursery.cancel_scope.cancel()
    told.check(10)


async def test_the_older_daemon_ends_and_does_not_begin_again(tmp_path: Path) -> None:
    """A daemon that is told of the take-over ends with exit code 75; its next start is refused, and says what to do."""
    place = Place(tmp_path)
    async with place.daemon(0) as daemon:
        async with place.standby(1) as standby:
            await standby.has(1)
            said = (await place.take_over())[1]
            assert "this daemon ends, as another one has taken over in term 1048576-" in said
        assert (await daemon.wait_logged("superseded"))["reason"].startswith("another daemon has taken over in term 1048576-")
        assert await daemon.process.wait() == exit_codes.TEMPORARY
    arguments = ("serve", "--state-dir", place.directories[0], "--ws", place.urls[0], "--http", "none")
    refused = (await run_command(*arguments, expect=exit_codes.USAGE))[1]
    assert "superseded: found that this history goes on elsewhere, in term 1048576-" in refused
    assert "make the directory a standby of the daemon there with 'ykactor replica --standby'" in refused
    async with place.daemon(1) as daemon:
        await daemon.stop()


async def test_a_daemon_ends_even_if_it_cannot_note_why(tmp_path: Path) -> None:
    """A disk that takes no note, as a full one, is no reason to go on with a second history."""
    standbys = Standbys(tmp_path / "missing", 0, [Beginning(Term(1, "a"), 1, 1, 1)], standbys_module.Settings())
    daemon = Daemon(queuefile.load(""), Settings(), Clock(0), standbys=standbys)
    async with serving(daemon):
        daemon.hand_over()
        daemon.handed_over()
        assert daemon.unplanned_end == ""
        daemon.supersede("1048576-b")
        await daemon.stopped.wait()
    assert daemon.unplanned_end == "another daemon has taken over in term 1048576-b"


async def test_a_daemon_that_waits_for_its_standby_ends(tmp_path: Path) -> None:
    """The daemon that was killed has been started again, and has let nobody in yet, when the standby takes over."""
    place = Place(tmp_path)
    async with place.daemon(0) as daemon, place.standby(1) as standby:
        await standby.has(1)
        daemon.process.kill()
        await daemon.process.wait()
        await standby.stop()
    async with place.daemon(0, "--standbys", "1", ready="") as daemon:
        await daemon.wait_logged("waits_for_standbys")
        await place.take_over()
        assert await daemon.process.wait() == exit_codes.TEMPORARY
        assert not daemon.logged("daemon_started")


async def test_a_daemon_that_has_handed_over_becomes_the_standby(tmp_path: Path) -> None:
    """The journal is the beginning of that of the next one: it follows without a copy, and the work can be handed back."""
    place = Place(tmp_path)
    async with place.daemon(0, "--standbys", "1", ready="") as daemon, place.standby(1):
        await daemon.wait_logged("daemon_started")
        await place.take_over("--hand-over")
        assert await daemon.process.wait() == exit_codes.OK
    number = newest(place.directories[0])
    assert newest(place.directories[1]) == number
    async with place.daemon(1, "--standbys", "1", ready="") as daemon, place.standby(0) as standby:
        await daemon.wait_logged("daemon_started")
        await standby.has(number + 1)
        assert "gets a copy" not in standby.said
        await run_command("take-over", "--url", place.urls[1], "--state-dir", place.directories[0], "--hand-over")
        assert await daemon.process.wait() == exit_codes.OK
    async with place.daemon(0) as daemon:
        await daemon.stop()


async def test_a_hand_over_to_a_standby_that_goes(tmp_path: Path) -> None:
    """The daemon ends as one that is to be started again, and not as one whose work goes on elsewhere."""
    place = Place(tmp_path)
    async with place.daemon(0) as daemon:
        async with open_connection(place.urls[0], JOURNAL_PATH) as connection:
            stream = SealedStream(connection)
            for message in (Join(schema.VERSION, 0, []), HandOver()):
                await stream.send(encode(message))
        assert await daemon.process.wait() == exit_codes.TEMPORARY
        await daemon.wait_read()
        assert "the standby that was to take over has gone: start the daemon again" in daemon.noise
    async with place.daemon(0) as daemon:
        await daemon.stop()


async def test_another_service_at_the_address_of_the_daemon(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Nothing is taken over with --hand-over; without, the term has begun, and the daemon before was not told of it."""

    async def say_something_else(request: WebSocketRequest) -> None:
        connection = await request.accept(subprotocol=MSGPACK.name)
        await connection.get_message()
        await connection.send_message(b"Hello!")
        await trio.sleep_forever()

    place = Place(tmp_path)
    async with place.daemon(0), place.standby(1) as standby:
        await standby.has(1)
        await standby.stop()
    server = await nursery.start(partial(serve_websocket, say_something_else, "127.0.0.1", 0, ssl_context=None))
    arguments = ("take-over", "--url", f"ws://127.0.0.1:{server.port}", "--state-dir", place.directories[1])
    refused = (await run_command(*arguments, "--hand-over", expect=exit_codes.FAILED))[1]
    assert "found a message that cannot be read" in refused
    assert "nothing was taken over" in refused
    said = (await run_command(*arguments))[1]
    assert "the daemon before was not told, keep it from being started: found a message that cannot be read" in said
    nursery.cancel_scope.cancel()


async def test_clients_refuse_the_older_daemon(tmp_path: Path) -> None:
    """A client that has heard of the take-over waits for the newer daemon, also if only the older one is there."""
    place = Place(tmp_path)
    connections, restored = list[str](), trio.Event()

    def on_connection(sentence: str) -> None:
        connections.append(sentence)
        if sentence.startswith("connection restored"):
            restored.set()

    async with place.daemon(0) as daemon, place.standby(1) as standby:
        await standby.has(1)
        daemon.process.kill()
        await daemon.process.wait()
        await place.take_over()
    async with place.daemon(0) as older:
        await older.stop()
    async with place.daemon(1) as newer:
        async with follow(place.both, on_connection=on_connection) as messages, place.daemon(0):
            assert connections == [f"connected to {place.urls[1]}: all events from now on"]
            newer.process.kill()
            await newer.process.wait()
            async with place.daemon(1), trio.open_nursery() as nursery:
                nursery.start_soon(anext, messages)
                await restored.wait()
                nursery.cancel_scope.cancel()
            assert messages.term.startswith("10485")


async def test_the_older_daemon_is_refused(tmp_path: Path) -> None:
    """A client knows it by its term, which is lower than one that was confirmed; with one address nothing is refused."""
    addresses = Addresses(Place(tmp_path).both)
    addresses.confirmed("1048577-b")
    with pytest.raises(Disconnected, match="found a daemon of term 5-a, another one has taken over for it"):
        addresses.check("5-a")
    assert addresses.failed()
    assert addresses.current == Place(tmp_path).urls[1]
    addresses.check("1048577-b")
    assert not addresses.failed()
    assert addresses.current == Place(tmp_path).urls[0]
    alone = Addresses("ws://a:1")
    alone.confirmed("7-a")
    alone.check("1-b")
    assert not alone.failed()


async def test_two_standbys_that_take_over_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has been told something by one of them never goes on at the other one, which is told by its term."""
    place = Place(tmp_path)
    others = [tmp_path / "b", tmp_path / "c"]
    urls = [f"unix:{directory}.sock" for directory in others]
    async with place.daemon(0) as daemon, place.standby(1) as one, standby_of(place.urls[0], others[1]) as two:
        await one.has(1)
        await two.has(1)
        daemon.process.kill()
        await daemon.process.wait()
        said = list[str]()

        async def take_over(directory: Path) -> None:
            said.append((await run_command("take-over", "--url", place.urls[0], "--state-dir", directory))[0])

        async with trio.open_nursery() as nursery:
            for directory in others:
                nursery.start_soon(take_over, directory)
        assert all("begins term 1048576-" in line for line in said)
    refusals, refused, check = list[str](), trio.Event(), Addresses.check

    def checked(addresses: Addresses, term: str) -> None:
        try:
            check(addresses, term)
        except Disconnected as refusal:
            refusals.append(str(refusal))
            refused.set()
            raise

    monkeypatch.setattr(Addresses, "check", checked)
    async with real_daemon("--state-dir", others[0], ws=["--ws", urls[0]]) as first:
        async with follow(",".join(urls)) as messages:
            async with real_daemon("--state-dir", others[1], ws=["--ws", urls[1]]), trio.open_nursery() as nursery:
                nursery.start_soon(anext, messages)
                first.process.kill()
                await refused.wait()
                nursery.cancel_scope.cancel()
            beside = f"which has begun beside the one of term {messages.term} before it; only one of them can go on"
    assert f"{urls[1]}: found a daemon of term 1048577-" in refusals[0]
    assert beside in refusals[0]


async def test_a_standby_that_comes_too_late_to_take_over(tmp_path: Path) -> None:
    """The daemon that has taken over before refuses it, and nobody begins there."""
    place, late = Place(tmp_path), tmp_path / "c"
    async with place.daemon(0) as daemon, place.standby(1) as one, standby_of(place.urls[0], late) as two:
        await one.has(1)
        await two.has(1)
        daemon.process.kill()
        await daemon.process.wait()
        await place.take_over()
    async with place.daemon(1) as newer:
        errors = (await run_command("take-over", "--url", place.urls[1], "--state-dir", late, expect=exit_codes.FAILED))[1]
        assert "it has taken over in term 1048576-" in errors
        assert "only one of them can go on" in errors
        assert newer.process.poll() is None
        refused = (await run_command("serve", "--state-dir", late, "--http", "none", expect=exit_codes.USAGE))[1]
        assert "found that this history goes on elsewhere, in term 1048577-" in refused


async def test_a_standby_says_where_it_follows_and_that_it_ends(tmp_path: Path) -> None:
    """The one of its addresses that has answered is named, and a take-over that ends it leaves a line."""
    place = Place(tmp_path)
    async with place.daemon(0), standby_of(",".join(reversed(place.urls)), place.directories[1]) as standby:
        await standby.says(f"follows {place.urls[0]} in term 1-")
        await standby.has(1)
        await place.take_over()
        await standby.says("ends with transaction ")


async def test_a_standby_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    """The directory that it has made is gone again; one that was there stays."""
    place, access = Place(tmp_path), tmp_path / "access.yaml"
    identity = {"name": "ops", "roles": ["operator"], "proofs": [{"user": getpass.getuser()}]}
    access.write_text(json.dumps({"identities": [identity]}))
    arguments = ("replica", "--standby", "--state-dir", place.directories[1], "--url", place.urls[0])
    async with place.daemon(0, "--access", str(access)):
        for is_there in (False, True):
            if is_there:
                place.directories[1].mkdir(mode=0o700)
            assert "NOT_PERMITTED" in (await run_command(*arguments, expect=exit_codes.FAILED))[1]
            assert place.directories[1].exists() == is_there


async def test_a_hand_over_without_a_daemon_takes_nothing_over(tmp_path: Path) -> None:
    """The command says so, and what to do; the directory stays one of a standby."""
    place = Place(tmp_path)
    async with place.daemon(0) as daemon, place.standby(1) as standby:
        await standby.has(1)
        await daemon.stop()
        errors = (await place.take_over("--hand-over", expect=exit_codes.FAILED))[1]
        assert "start a daemon" not in errors
        assert "nothing was taken over. If the daemon has ended, begin it again, or take over without --hand-over" in errors
    async with place.daemon(0), place.standby(1) as standby:
        await standby.has(1)


async def test_a_directory_of_a_daemon_is_not_taken_over(tmp_path: Path) -> None:
    """A daemon that runs there is not ended; a directory that has no journal, or has followed nobody, is refused."""
    place = Place(tmp_path)
    async with place.daemon(1) as daemon:
        errors = (await place.take_over(expect=exit_codes.TEMPORARY))[1]
        assert f"found it in use by process {daemon.process.pid}" in errors
        assert daemon.process.poll() is None
    place.directories[1] = tmp_path / "new"
    assert "does not exist" in (await place.take_over(expect=exit_codes.USAGE))[1]
    assert not place.directories[1].exists()
    async with place.standby(1) as standby:
        await standby.says("is not connected, and tries again")
    assert "follows no daemon" in (await place.take_over(expect=exit_codes.USAGE))[1]


async def test_only_a_standby_takes_over_and_once(tmp_path: Path) -> None:
    """The directory of a daemon that was killed has a history of its own, and so has one that has taken over."""
    place = Place(tmp_path)
    async with place.daemon(0) as daemon, place.standby(1) as standby:
        await standby.has(1)
        daemon.process.kill()
        await daemon.process.wait()
    place.directories.reverse()
    assert "follows no daemon" in (await place.take_over(expect=exit_codes.USAGE))[1]
    place.directories.reverse()
    await place.take_over()
    errors = (await place.take_over(expect=exit_codes.USAGE))[1]
    assert "if it has taken over already, 'ykactor serve" in errors
