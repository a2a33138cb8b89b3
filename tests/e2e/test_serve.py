"""The daemon as a process: defaults, a whole conversation, signals, systemd's sockets, manual mode, idleness and a crash."""

import errno
import inspect
import json
import math
import signal
import socket
import sys
import textwrap
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from click.testing import CliRunner
from daemon import application, asks, next_allocated, next_event, node, real_daemon
from trio_websocket import ConnectionClosed

import ykactor.client
from ykactor.actors.clock import Clock
from ykactor.actors.feed import FeedActor
from ykactor.client import Disconnected, RequestRefused, connect, follow
from ykactor.client.connection import open_connection
from ykactor.surfaces.cli import exit_codes, state_options
from ykactor.surfaces.cli import serve as serve_module
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.daemon.reports import CHANGES_LOGGED_MAX
from ykactor.surfaces.log.logs import LINES_MAX
from ykactor.surfaces.net.doors import DoorSettings, TcpAddress, open_doors
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si

# ---- defaults, and a whole conversation

ANY_PORT = ("--http", "none", "--ws", "127.0.0.1:0")


def test_without_flags_it_listens_on_loopback_only():
    """``serve`` needs no flag: loopback, the built-in queues, scheduling by itself."""
    chosen = serve_module.command.make_context("serve", []).params
    assert chosen["addresses"] == (("127.0.0.1", 9081),)
    assert (chosen["config_file"], chosen["state_dir"], chosen["manual"]) == (None, None, False)


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_a_resource_manager_is_told_where_its_asks_run(encoding):
    """Nodes, applications and asks go in; answers come in order; a follower sees the same; what does not fit says why."""
    async with (
        real_daemon() as daemon,
        follow(daemon.url, encoding=encoding) as events,
        connect(daemon.url, rm_id="rm-1", encoding=encoding) as rm,
    ):
        await rm.request(node("n1", vcore=2000))
        await rm.request(application())
        await rm.request(asks("t1", "t2", "t3"))
        assert await next_allocated(rm, 2) == [("t1", "n1"), ("t2", "n1")]
        assert [(await next_event(events, "APP_ALLOC")).reference_id for _ in range(2)] == ["t1", "t2"]
        state = await daemon.state()
        assert state["nodes"]["n1"]["allocated"] == {"vcore": 2000}
        (waiting,) = state["applications"]["app-1"]["pending"]
        assert waiting["allocationKeys"] == ["t3"]
        assert waiting["reason"]
        await rm.request(node("n2", vcore=1000))
        assert await next_allocated(rm) == [("t3", "n2")]
        assert await daemon.stop() == 0
        assert daemon.noise == ""


async def test_the_examples_of_the_documentation_run_against_the_daemon():
    """The functions that the client's docstring shows work as they stand."""
    blocks = [block for block in inspect.getdoc(ykactor.client).split("\n\n") if block.startswith("    ")]
    names = {}
    exec(textwrap.dedent("\n\n".join(block for block in blocks if "trio.run" not in block)), names)
    follows = trio.Event()
    printed, lines = trio.open_memory_channel(math.inf)

    @asynccontextmanager
    async def followed(*arguments, **options):
        async with follow(*arguments, **options) as messages:
            follows.set()
            yield messages

    names |= {"follow": followed, "print": printed.send_nowait}
    async with real_daemon() as daemon:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(names["print_queue"], daemon.url)
            await follows.wait()  # a follower hears only what happens from then on
            assert await names["run_one_task"](daemon.url) == "n1"
            assert (await next_event(lines, "APP_ALLOC")).reference_id == "t1"
            nursery.cancel_scope.cancel()


# ---- SIGTERM


async def test_sigterm_ends_an_idle_daemon():
    """Exit code 0, and the log says that it was in good order."""
    async with real_daemon() as daemon:
        assert await daemon.stop() == 0
        await daemon.wait_logged("daemon_stopped")


async def test_sigterm_finishes_what_is_under_way():
    """While 20,000 asks are being placed: exit code 0, the session is closed with a reason."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=20_000))
        await rm.request(application())
        await rm.send(asks(*map(str, range(20_000)), vcore=1))
        await next_allocated(rm)
        daemon.process.terminate()
        with pytest.raises(Disconnected, match="1001 the daemon stops"):
            await next_allocated(rm, 20_000 * 2)
        assert await daemon.process.wait() == 0
        assert daemon.noise == ""


async def test_sigterm_says_goodbye_to_followers():
    """A follower gets what was still to come, then a close frame 1001."""
    async with real_daemon() as daemon, open_connection(daemon.url, "/v1/feed") as follower:
        await follower.send_message('{"type": "Subscribe"}')
        await follower.get_message()
        daemon.process.terminate()
        with pytest.raises(ConnectionClosed) as closed:
            await for_ever(follower.get_message)
        assert closed.value.reason.code == 1001
        assert await daemon.process.wait() == 0


# ---- a log that nobody reads


async def test_a_log_that_nobody_reads_stops_nothing():
    """The daemon answers; what neither the pipe nor the queue holds is lost, and the log says how much when it is read again."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        daemon.reading = trio.Event()
        await write_log_lines(rm, 2 * LINES_MAX)
        await rm.request(node())
        daemon.reading.set()
        assert (await daemon.wait_logged("log_lines_lost"))["lines"] > 0
        assert await daemon.stop() == 0
        await daemon.wait_logged("daemon_stopped")


async def test_sigterm_does_not_wait_for_a_reader_of_the_log():
    """The thread that writes the log is stuck, and nobody will read: exit code 0."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        daemon.reading = trio.Event()
        await write_log_lines(rm, 2 * LINES_MAX)
        assert await daemon.stop() == 0


async def test_sigterm_does_not_wait_for_a_stuck_thread(tmp_path):
    """A file system that does not answer holds up the thread that reads the queue file for ever: exit code 0."""
    path = tmp_path / "queues.yaml"
    path.write_text("")
    stuck = "import runpy, sys, threading; from ykactor.surfaces.files import watcher\n"
    stuck += 'watcher.read_regular = lambda path: (print(\'{"event": "stuck"}\', file=sys.stderr), threading.Event().wait())\n'
    stuck += "sys.argv = sys.argv[3:]; runpy.run_module('ykactor', run_name='__main__')"
    async with real_daemon("--config", path, wrapper=[sys.executable, "-c", stuck]) as daemon:
        await daemon.wait_logged("stuck")
        assert await daemon.stop() == 0


async def write_log_lines(rm, count):
    """Have the daemon log at least so many lines: one for each queue that a configuration adds or removes."""
    queues = "".join(f"{{name: q{number}}}, " for number in range(CHANGES_LOGGED_MAX))
    full = f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{queues}]}}]}}]"
    bare = "partitions: [{name: default, queues: [{name: root, submitacl: '*'}]}]"
    for number in range(count // CHANGES_LOGGED_MAX + 1):
        await rm.request(si.UpdateConfigurationRequest(config=bare if number % 2 else full))


async def for_ever(function):
    while True:
        await function()


@asynccontextmanager
async def deaf_follower(url):
    """A follower that subscribes from the first event on and never reads: TCP is full before it has got all."""
    stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    async with stream:
        await stream.send_all(
            b"GET /v1/feed HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some(1024)
        text = b'{"type": "Subscribe", "from": 0}'
        await stream.send_all(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
        yield


async def test_sigterm_takes_no_more_requests_and_waits_for_no_deaf_client():
    """SIGTERM ends admission and acknowledgements, also while a client that never reads holds up the end."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=20_000))
        await rm.request(application())
        await rm.request(asks(*map(str, range(20_000)), vcore=1))
        await next_allocated(rm, 20_000)
        async with deaf_follower(daemon.url), trio.open_nursery() as nursery:
            daemon.process.terminate()
            with pytest.raises((Disconnected, RequestRefused), match=r"1001 the daemon stops|UNAVAILABLE"):
                await for_ever(partial(rm.request, si.NodeRequest()))
            assert daemon.process.poll() is None, "the deaf client should hold it up"
            nursery.start_soon(be_refused, daemon.url)
            assert await daemon.process.wait() == 0
            nursery.cancel_scope.cancel()  # a handshake that the end cut off may still wait for its answer


async def be_refused(url):
    with pytest.raises((Disconnected, RequestRefused)):
        async with connect(url, rm_id="rm-1"):
            pass


async def test_sigint_is_sigterm():
    """Ctrl-C ends the daemon in the same good order, with its own exit code."""
    async with real_daemon() as daemon:
        daemon.process.send_signal(signal.SIGINT)
        assert await daemon.process.wait() == 130
        await daemon.wait_logged("daemon_stopped")


async def test_sigterm_during_a_reload(tmp_path):
    """A reload that comes too late is dropped: the daemon still ends in good order."""
    path = tmp_path / "queues.yaml"
    path.write_text("")
    async with real_daemon("--config", path) as daemon:
        path.write_text("partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}]")
        daemon.process.send_signal(signal.SIGHUP)
        assert await daemon.stop() == 0
        assert daemon.noise == ""


# ---- systemd


class NotifySocket:
    """systemd's end of NOTIFY_SOCKET."""

    def __init__(self, path):
        self.path = path
        self.heard = []
        self._socket = trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    async def wait_for(self, state):
        """The next datagram that begins with ``state``, as a dictionary; all are kept in ``heard``."""
        while True:
            text = (await self._socket.recv(4096)).decode()
            self.heard.append(text)
            if text.startswith(state):
                return dict(line.split("=", 1) for line in text.splitlines())


@pytest.fixture
async def notify_socket(tmp_path):
    notify = NotifySocket(str(tmp_path / "notify"))
    with notify._socket:
        await notify._socket.bind(notify.path)
        yield notify


async def test_systemd_is_told_of_every_stage(notify_socket, tmp_path):
    """READY with STATUS, RELOADING with its time and READY again (refused or not), STOPPING, in this order."""
    path = tmp_path / "queues.yaml"
    path.write_text("partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}]")
    before_us = time.monotonic_ns() // 1000
    async with real_daemon("--config", path, environment={"NOTIFY_SOCKET": notify_socket.path}) as daemon:
        ready = await notify_socket.wait_for("READY=1")
        assert "1 partitions, 2 queues, 0 nodes" in ready["STATUS"]
        daemon.process.send_signal(signal.SIGHUP)
        reloading = await notify_socket.wait_for("RELOADING=1")
        assert before_us < int(reloading["MONOTONIC_USEC"]) < time.monotonic_ns() // 1000
        assert "2 queues" in (await notify_socket.wait_for("READY=1"))["STATUS"]
        path.write_text("partitions: broken")
        await notify_socket.wait_for("RELOADING=1")
        assert "2 queues" in (await notify_socket.wait_for("READY=1"))["STATUS"]
        path.write_text("partitions: [{name: default, queues: [{name: root, queues: [{name: a}, {name: b}]}]}]")
        assert "3 queues" in (await notify_socket.wait_for("READY=1"))["STATUS"]
        daemon.process.terminate()
        await notify_socket.wait_for("STOPPING=1")
        assert await daemon.process.wait() == 0


async def test_an_idle_daemon_feeds_the_watchdog(notify_socket):
    """WATCHDOG=1 comes again and again while nothing happens; how often, and while work is done, is proved on a virtual clock."""
    environment = {"NOTIFY_SOCKET": notify_socket.path, "WATCHDOG_USEC": "400000"}
    async with real_daemon(environment=environment):
        for _ in range(2):
            await notify_socket.wait_for("WATCHDOG=1")


ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "ws"}
os.execv(sys.argv[2], sys.argv[2:])
"""


async def test_systemd_hands_over_the_socket():
    """A listening socket named ws is used instead of ``--ws``: clients may connect before the daemon is there."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            early = []

            async def be_early():
                async with connect(url, rm_id="rm-1") as rm:
                    early.append(await rm.request(node()))

            nursery.start_soon(be_early)
            wrapper = [sys.executable, "-c", ACTIVATE, str(listening.fileno())]
            async with real_daemon(wrapper=wrapper, pass_fds=[listening.fileno(), 3]) as daemon:
                assert daemon.url == url
                while not early:
                    await trio.lowlevel.checkpoint()
                assert "n1" in (await daemon.state())["nodes"]
                assert await daemon.stop() == 0


# ---- manual mode


async def test_manual_mode_places_one_ask_for_each_step():
    """SC-1: nothing is placed until ``ScheduleRequest``, then exactly one decision a step, in the order of the asks."""
    async with real_daemon("--manual") as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await rm.request(node(vcore=4000))
        await rm.request(application())
        await rm.request(asks("t1", "t2", "t3", "t4", "t5"))
        state = await daemon.state()
        assert state["queues"]["root.default"]["pending"] == {"vcore": 5000}
        assert state["nodes"]["n1"]["allocated"] == {}
        for placed, steps in [(1, 1), (2, 1), (4, 2), (4, 1)]:
            await rm.request(si.ScheduleRequest(steps=steps))
            assert (await daemon.state())["nodes"]["n1"]["allocated"] == {"vcore": 1000 * placed}
        assert [key for key, _ in await next_allocated(rm, 4)] == ["t1", "t2", "t3", "t4"]
        with pytest.raises(RequestRefused, match="OUT_OF_RANGE"):
            await rm.request(si.ScheduleRequest(steps=0))


async def test_only_the_manual_mode_takes_steps():
    """SC-1: a daemon that schedules by itself refuses a ScheduleRequest."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        with pytest.raises(RequestRefused) as refused:
            await rm.request(si.ScheduleRequest(steps=1))
        assert refused.value.code == "NOT_MANUAL"


# ---- idleness


async def test_an_idle_daemon_uses_no_cpu(tmp_path):
    """A daemon with 500 nodes, a waiting ask, a watched file, a follower and a session soon uses below 2 % of a core over 2 s."""
    path = tmp_path / "queues.yaml"
    path.write_text("")
    async with (
        real_daemon("--config", path) as daemon,
        follow(daemon.url),
        connect(daemon.url, rm_id="rm-1") as rm,
    ):
        capacity = {"vcore": 1000}
        nodes = [si.NodeInfo(node_id=f"n{i}", action="CREATE", schedulable_resource=capacity) for i in range(500)]
        await rm.request(si.NodeRequest(nodes=nodes))
        await rm.request(application())
        await rm.request(asks("small", "huge", vcore=2000))
        used_s = math.inf
        while used_s >= 0.04:  # the rest of the work may still be in the first of these intervals
            before_s = daemon.cpu_s()
            await trio.sleep(2)  # what is measured is a time, not waited for
            used_s = daemon.cpu_s() - before_s


# ---- a crash


async def test_a_broken_partition_ends_the_daemon():
    """An error of a partition comes out of ``Daemon.run`` while clients are connected."""
    daemon = Daemon(queuefile.load(""), Settings(), Clock.of_the_system())

    async def break_it():
        async with open_doors(DoorSettings((TcpAddress("127.0.0.1", 0),))) as doors, trio.open_nursery() as nursery:
            await nursery.start(daemon.run, doors, Notifier(None))
            async with connect(doors[0].url, rm_id="rm-1") as rm:
                daemon._partitions.actors["default"].core.ingest = broken
                await rm.send(node())
                await trio.sleep_forever()

    with trio.fail_after(180), pytest.raises(BaseExceptionGroup) as failure:
        await break_it()
    assert failure.group_contains(ZeroDivisionError)


def broken(*_):
    raise ZeroDivisionError("nodes cannot be counted")


@pytest.mark.usefixtures("logging_restored")
def test_a_crash_leaves_a_post_mortem_and_exit_code_70(tmp_path, monkeypatch, capfd):
    """An error outside of the partitions: exit code 70, the exception in the log and in the state directory."""
    monkeypatch.setattr(FeedActor, "run", broken)
    done = CliRunner().invoke(serve_module.command, [*ANY_PORT, "--state-dir", str(tmp_path / "state")])
    assert done.exit_code == 70
    assert {file.name for file in (tmp_path / "state").iterdir()} >= {"journal.db", "post-mortem.json"}
    assert {path.stat().st_mode & 0o77 for path in (tmp_path / "state", *(tmp_path / "state").iterdir())} == {0}
    story = json.loads((tmp_path / "state" / "post-mortem.json").read_text())["failure"]
    assert "nodes cannot be counted" in story
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    (crash,) = (line for line in lines if line["event"] == "daemon_crashed")
    assert "nodes cannot be counted" in crash["exception"]
    assert lines[-1]["event"] == "post_mortem_written"


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied"),
            exit_codes.USAGE,
            "cannot be written (Permission denied), expected a directory that this user may write to",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            exit_codes.TEMPORARY,
            "found no room on the disk (No space left on device); free some, the state is as it was",
        ),
        (
            OSError(errno.ENFILE, "Too many open files in system"),
            exit_codes.TEMPORARY,
            "cannot be written at the moment (Too many open files in system)",
        ),
    ],
)
def test_a_state_directory_that_cannot_be_written_is_refused(tmp_path, monkeypatch, error, code, reason):
    """A report that nobody could write is found out at the start, not at the crash."""

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(state_options.tempfile, "TemporaryFile", refuse)  # root may write everywhere
    done = CliRunner().invoke(serve_module.command, [*ANY_PORT, "--state-dir", str(tmp_path)])
    assert done.exit_code == code
    assert done.output == f"Error: {tmp_path}: {reason}\n"


@pytest.mark.parametrize("name", ["serve", "demo"])
def test_a_state_directory_without_a_name_is_refused(name):
    """``--state-dir "$UNSET"`` must not fill the current directory."""
    done = CliRunner().invoke(main, [name, "--http", "none", "--ws", "127.0.0.1:0", "--state-dir", ""])
    assert done.exit_code == 2
    assert "Invalid value for '--state-dir': found an empty name, expected a directory" in done.output
