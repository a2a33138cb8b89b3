"""``ykactor take-over``: another daemon goes on where the one before has been, and nobody is told two histories (DU-23)."""

from __future__ import annotations

import getpass
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
from daemon import RunningDaemon, asks, real_daemon, run_command
from daemonhere import serving
from pairs import Told
from test_standby import RunningStandby, newest, standby_of
from trio_websocket import ConnectionClosed, WebSocketRequest, serve_websocket

from ykactor.actors import standbys as standbys_module
from ykactor.actors.clock import Clock
from ykactor.actors.standbys import Standbys
from ykactor.client import Disconnected, connect, follow
from ykactor.client.addresses import Addresses
from ykactor.client.connection import SealedStream, open_connection
from ykactor.journal import schema
from ykactor.journal.stream import Following, HandOver, Join, encode, from_standby
from ykactor.journal.terms import Beginning, Term
from ykactor.surfaces.admission.slots import JOURNAL_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.standby.asking import NAME, Answer, TakeOver
from ykactor.wire import queuefile
from ykactor.wire.seals import Seal
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
    async def standby(
        self, which: int, *arguments: str | Path, of: str = "", http: str = "none", program: str = ""
    ) -> AsyncIterator[RunningStandby]:
        """The standby in a directory, usually of the daemon in the other one; with the same arguments it is the daemon later."""
        where = ("--ws", self.urls[which], *arguments)
        async with standby_of(of or self.urls[1 - which], self.directories[which], *where, http=http, program=program) as standby:
            yield standby

    async def take_over(self, *options: str, which: int = 1, expect: int = exit_codes.OK) -> tuple[str, str]:
        """Let one take over, by default the second one."""
        return await run_command("take-over", "--state-dir", self.directories[which], *options, expect=expect)


@pytest.mark.parametrize("hands_over", [False, True])
@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_clients_go_on_by_number(tmp_path: Path, hands_over: bool, is_in_memory: bool) -> None:
    """A resource manager and a follower lose and repeat nothing, and all that was decided by both can be replayed."""
    place = Place(tmp_path)
    told = Told(place.both)
    async with trio.open_nursery() as nursery, place.standby(1) as standby:
        async with place.daemon(0, "--standbys", "1") as daemon:
            rm = await nursery.start(told.manage)
            await nursery.start(told.follow)
            await told.is_registered()
            rm.send(asks(*(f"t{number}" for number in range(5)), of="app-1", vcore=10))
            await told.has(5)
            if is_in_memory:
                await standby.logged("partition_in_memory")
            if not hands_over:
                daemon.process.kill()
                await daemon.process.wait()
            said = (await place.take_over(*(["--hand-over"] if hands_over else [])))[1]
            assert not is_in_memory or "was not in memory" not in said
            assert await daemon.process.wait() == (exit_codes.OK if hands_over else -signal.SIGKILL)
        rm.send(asks(*(f"t{number}" for number in range(5, 10)), of="app-1", vcore=10))
        await told.has(10)
        assert any(line.startswith("resumed after message") for line in told.connections)
        nursery.cancel_scope.cancel()
    told.check(10)
    assert "as recorded" in (await run_command("replay", place.directories[1]))[0]


async def test_a_later_version_goes_on(tmp_path: Path) -> None:
    """An upgrade: nobody loses or repeats anything, although that version decides otherwise, and forgets what is in memory."""
    place = Place(tmp_path)
    told, program = Told(place.both), str(Path(__file__).with_name("laterversion.py"))
    async with trio.open_nursery() as nursery, place.standby(1, program=program) as standby:
        async with place.daemon(0, "--standbys", "1") as daemon:
            rm = await nursery.start(told.manage)
            await nursery.start(told.follow)
            await told.is_registered()
            await standby.logged("partition_in_memory")
            rm.send(asks("large", of="app-1", vcore=10**6))
            rm.send(asks(*(f"t{number}" for number in range(5)), of="app-1", vcore=10))
            await told.has(5)
            await standby.logged("partition_forgotten")
            await place.take_over("--hand-over")
            assert await daemon.process.wait() == exit_codes.OK
        rm.send(asks(*(f"t{number}" for number in range(5, 10)), of="app-1", vcore=10))
        await told.has(10)
        nursery.cancel_scope.cancel()
    told.check(10)


async def test_the_older_daemon_ends_and_does_not_begin_again(tmp_path: Path) -> None:
    """A daemon that is told of the take-over ends with exit code 75; its next start is refused, and says what to do."""
    place = Place(tmp_path)
    async with place.daemon(0) as daemon, place.standby(1) as standby:
        await standby.has(1)
        said = (await place.take_over())[1]
        assert "this daemon ends, as another one has taken over in term 1048576-" in said
        assert (await daemon.wait_logged("superseded"))["reason"].startswith("another daemon has taken over in term 1048576-")
        assert await daemon.process.wait() == exit_codes.TEMPORARY
    arguments = ("serve", "--state-dir", place.directories[0], "--ws", place.urls[0], "--http", "none")
    refused = (await run_command(*arguments, expect=exit_codes.USAGE))[1]
    assert "superseded: found that this history goes on elsewhere, in term 1048576-" in refused
    assert "make the directory a standby of the daemon there with 'ykactor serve --standby-of URL'" in refused


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


async def test_a_daemon_that_waits_for_its_standbys_ends(tmp_path: Path) -> None:
    """The daemon that was killed has been started again, and has let nobody in yet, when a standby takes over."""
    place = Place(tmp_path)
    async with place.standby(1) as standby:
        async with place.daemon(0) as daemon:
            await standby.has(1)
            daemon.process.kill()
            await daemon.process.wait()
        async with place.daemon(0, "--standbys", "2", ready="") as daemon:
            await standby.logged("standby_follows", 2)
            await place.take_over()
            assert await daemon.process.wait() == exit_codes.TEMPORARY
            assert not daemon.logged("daemon_started")


async def test_a_daemon_that_has_handed_over_becomes_the_standby(tmp_path: Path) -> None:
    """The journal is the beginning of that of the next one: it follows with the same directory, and is handed back the work."""
    place = Place(tmp_path)
    async with place.standby(1) as second:
        async with place.daemon(0) as daemon:
            await second.has(1)
            await place.take_over("--hand-over")
            assert await daemon.process.wait() == exit_codes.OK
        async with place.standby(0) as first:
            await first.has(newest(place.directories[1]))
            await first.logged("partition_in_memory")
            await place.take_over("--hand-over", which=0)
            assert await second.process.wait() == exit_codes.OK
            assert await first.stop_daemon() == exit_codes.OK


async def test_the_same_command_goes_on_after_a_take_over(tmp_path: Path) -> None:
    """Killed as the daemon, a supervisor starts it with the arguments of a standby, and it is the daemon at once."""
    place = Place(tmp_path)
    async with place.daemon(0) as daemon, place.standby(1) as standby:
        await standby.has(1)
        await place.take_over("--hand-over")
        await standby.logged("daemon_started")
        await standby.kill()
        assert await daemon.process.wait() == exit_codes.OK
    async with place.daemon(1, "--standby-of", place.urls[0]) as again:
        assert again.logged("standby_not_begun")
        async with place.standby(0) as standby:  # and the other one, which has handed over, is the standby
            await standby.logged("standby_follows")


async def test_a_daemon_that_was_not_told_becomes_the_standby(tmp_path: Path) -> None:
    """A daemon that was killed, and is started again when another one has taken over, asks that one first, and follows it."""
    place = Place(tmp_path)
    async with place.standby(1) as standby:
        async with place.daemon(0) as daemon:
            await standby.logged("partition_in_memory")  # by the last transaction
            daemon.process.kill()
            await daemon.process.wait()
        await place.take_over()
        async with place.standby(0) as before:
            await before.logged("standby_follows")


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
    async with place.standby(1, of=f"ws://127.0.0.1:{server.port}") as standby:
        await standby.logged("standby_not_connected")
        refused = (await place.take_over("--hand-over", expect=exit_codes.FAILED))[1]
        assert "the standby is not connected to a daemon; nothing was taken over" in refused
        said = (await place.take_over())[1]
        assert "the daemon before was not told, keep it from being started: found a message that cannot be read" in said
    nursery.cancel_scope.cancel()


async def test_a_hand_over_that_is_cut_off(tmp_path: Path, nursery: trio.Nursery) -> None:
    """The daemon is gone before it has said that it has ended: nothing is taken over, and the standby follows again."""
    beginnings = [Beginning(Term(1, "a"), 1, 1, 1)]

    async def follow_until_hand_over(request: WebSocketRequest) -> None:
        connection = await request.accept(subprotocol=MSGPACK.name)
        with suppress(ConnectionClosed):
            ours, theirs = Seal(), Seal()
            await connection.send_message(ours.close(encode(Following(beginnings, 0))))
            while type(from_standby(theirs.open(await connection.get_message()))) is not HandOver:
                pass

    server = await nursery.start(partial(serve_websocket, follow_until_hand_over, "127.0.0.1", 0, ssl_context=None))
    place = Place(tmp_path)
    async with place.standby(1, of=f"ws://127.0.0.1:{server.port}") as standby:
        await standby.logged("standby_follows")
        refused = (await place.take_over("--hand-over", expect=exit_codes.FAILED))[1]
        assert "nothing was taken over. If the daemon has ended, begin it again, or take over without --hand-over" in refused
        await standby.logged("standby_follows", 2)
    nursery.cancel_scope.cancel()


async def test_clients_refuse_the_older_daemon(tmp_path: Path) -> None:
    """A client that has heard of the take-over waits for the newer daemon, also if only the older one is there."""
    place = Place(tmp_path)
    connections, restored = list[str](), trio.Event()

    def on_connection(sentence: str) -> None:
        connections.append(sentence)
        if sentence.startswith("connection restored"):
            restored.set()

    async with place.standby(1) as standby:
        async with place.daemon(0) as daemon:
            await standby.has(1)
            daemon.process.kill()
            await daemon.process.wait()
            await place.take_over()
        assert await standby.stop_daemon() == exit_codes.OK
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
    place, other = Place(tmp_path), tmp_path / "c"
    url = f"unix:{other}.sock"
    async with place.standby(1) as one, standby_of(place.urls[0], other, "--ws", url) as two:
        async with place.daemon(0) as daemon:
            await one.has(1)
            await two.has(1)
            daemon.process.kill()
            await daemon.process.wait()
        for directory in (place.directories[1], other):
            said = (await run_command("take-over", "--state-dir", directory))[0]
            assert "begins term 1048576-" in said
        refusals, refused, check = list[str](), trio.Event(), Addresses.check

        def checked(addresses: Addresses, term: str) -> None:
            try:
                check(addresses, term)
            except Disconnected as refusal:
                refusals.append(str(refusal))
                refused.set()
                raise

        monkeypatch.setattr(Addresses, "check", checked)
        async with follow(f"{place.urls[1]},{url}") as messages, trio.open_nursery() as nursery:
            nursery.start_soon(anext, messages)
            one.process.kill()
            await refused.wait()
            nursery.cancel_scope.cancel()
        beside = f"which has begun beside the one of term {messages.term} before it; only one of them can go on"
    assert f"{url}: found a daemon of term 1048576-" in refusals[0]
    assert beside in refusals[0]


async def test_a_standby_that_comes_too_late_to_take_over(tmp_path: Path) -> None:
    """The daemon that has taken over before refuses it, and nobody begins there."""
    place, late = Place(tmp_path), tmp_path / "c"
    async with place.standby(1) as one, standby_of(place.both, late, "--ws", f"unix:{late}.sock") as two:
        async with place.daemon(0) as daemon:
            await one.has(1)
            await two.has(1)
            two.process.send_signal(signal.SIGSTOP)
            daemon.process.kill()
            await daemon.process.wait()
        await place.take_over()
        async with await trio.open_unix_socket(late / NAME) as asking:
            await asking.send_all(msgspec.json.encode(TakeOver(hands_over=False)))
            two.process.send_signal(signal.SIGCONT)
            answered = msgspec.json.decode(await asking.receive_some(), type=Answer)
        assert "it has taken over in term 1048576-" in answered.failure
        assert "only one of them can go on" in answered.failure
        assert await two.process.wait() == exit_codes.TEMPORARY
        assert one.process.poll() is None
    refused = (await run_command("serve", "--state-dir", late, "--http", "none", expect=exit_codes.USAGE))[1]
    assert "found that this history goes on elsewhere, in term 1048576-" in refused


async def test_a_standby_says_where_it_follows_and_that_it_ends(tmp_path: Path) -> None:
    """The one of its addresses that has answered is named."""
    place = Place(tmp_path)
    async with place.daemon(0), standby_of(f"unix:{tmp_path / 'c.sock'},{place.urls[0]}", place.directories[1]) as standby:
        assert (await standby.logged("standby_follows"))["daemon"] == place.urls[0]
        await standby.stop()
        assert await standby.logged("standby_stopped")


async def test_a_standby_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    """The directory that it has made is gone again; one that was there stays."""
    place, access = Place(tmp_path), tmp_path / "access.yaml"
    identity = {"name": "ops", "roles": ["operator"], "proofs": [{"user": getpass.getuser()}]}
    access.write_text(json.dumps({"identities": [identity]}))
    arguments = (
        "serve",
        "--state-dir",
        place.directories[1],
        "--standby-of",
        place.urls[0],
        "--ws",
        place.urls[1],
        "--http",
        "none",
    )
    async with place.daemon(0, "--access", str(access)):
        for is_there in (False, True):
            if is_there:
                place.directories[1].mkdir(mode=0o700)
            assert "NOT_PERMITTED" in (await run_command(*arguments, expect=exit_codes.FAILED))[1]
            assert place.directories[1].exists() == is_there


async def test_a_hand_over_without_a_daemon_takes_nothing_over(tmp_path: Path) -> None:
    """The command says so, and what to do; the standby goes on as one."""
    place = Place(tmp_path)
    async with place.standby(1) as standby:
        async with place.daemon(0) as daemon:
            await standby.has(1)
            await daemon.stop()
        await standby.logged("standby_not_connected", 2)
        errors = (await place.take_over("--hand-over", expect=exit_codes.FAILED))[1]
        assert "nothing was taken over. If the daemon has ended, begin it again, or take over without --hand-over" in errors
        async with place.daemon(0):
            await standby.logged("standby_follows", 2)


async def test_a_directory_of_a_daemon_is_not_taken_over(tmp_path: Path) -> None:
    """A daemon that runs there is not ended; a directory that has no journal, or has followed nobody, is refused."""
    place = Place(tmp_path)
    async with place.daemon(1) as daemon:
        errors = (await place.take_over(expect=exit_codes.TEMPORARY))[1]
        assert f"found it in use by process {daemon.process.pid}" in errors
        assert daemon.process.poll() is None
    assert "found no standby that runs" in (await place.take_over(expect=exit_codes.FAILED))[1]
    place.directories[1] = tmp_path / "new"
    assert "does not exist" in (await place.take_over(expect=exit_codes.USAGE))[1]
    assert not place.directories[1].exists()
    async with place.standby(1) as standby:
        await standby.logged("standby_not_connected")
        assert "follows no daemon" in (await place.take_over(expect=exit_codes.FAILED))[1]


async def test_a_standby_takes_over_once(tmp_path: Path) -> None:
    """The daemon says that it is one."""
    place = Place(tmp_path)
    async with place.daemon(0), place.standby(1) as standby:
        await standby.has(1)
        await place.take_over("--hand-over")
        assert "it has taken over already" in (await place.take_over(expect=exit_codes.FAILED))[1]


async def test_nobody_is_let_in_by_a_standby(tmp_path: Path) -> None:
    """Clients are told at once what it is, so that they go on at another address; the process shows that it lives."""
    place = Place(tmp_path)
    async with place.daemon(0), place.standby(1, http=f"unix:{tmp_path / 'http'}") as standby:
        await standby.has(1)
        with pytest.raises(Disconnected, match="503 this is a standby of unix:"):
            async with connect(place.urls[1], rm_id="rm-1"):
                pass
        async with connect(f"{place.urls[1]},{place.urls[0]}", rm_id="rm-1"):
            pass
        assert await answer(tmp_path / "http", "/livez") == 200
        assert await answer(tmp_path / "http", "/ws/v1/partitions") == 503
        await place.take_over("--hand-over")
        assert await answer(tmp_path / "http", "/ws/v1/partitions") == 200


async def answer(path: Path, what: str) -> int:
    """The status of a GET at a Unix socket."""
    async with await trio.open_unix_socket(path) as stream:
        await stream.send_all(f"GET {what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        data = b""
        async for part in stream:
            data += part
    return int(data.split()[1])


async def test_files_are_read_at_the_take_over(tmp_path: Path) -> None:
    """A queue file with mistakes is a reason to take nothing over; what it says then is in force."""
    place, file = Place(tmp_path), tmp_path / "queues.yaml"
    first = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: NAME}]}]}]"
    file.write_text(first.replace("NAME", "one"))
    async with place.daemon(0), place.standby(1, "--config", file) as standby:
        await standby.has(1)
        standby.process.send_signal(signal.SIGHUP)
        await standby.logged("reload_ignored")
        file.write_text("partitions: []")
        assert "nothing was taken over" in (await place.take_over("--hand-over", expect=exit_codes.FAILED))[1]
        file.write_text(first.replace("NAME", "two"))
        await place.take_over("--hand-over")
        assert "root.two" in (await run_command("queues", "--url", place.urls[1]))[0]
