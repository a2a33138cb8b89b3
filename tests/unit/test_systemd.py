"""Notify socket, watchdog and socket activation against real sockets; no systemd is needed."""

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio
from kept_rows import all_rows
from trio.testing import MockClock
from world import load, queue, tree

from ykactor.core.messages.planned import Budget
from ykactor.journal.transaction import Batch, change_text
from ykactor.sim.direct import DirectPartition
from ykactor.surfaces.files.daemon_rows import CONFIG
from ykactor.surfaces.files.state_dir import StateSettings, open_state_dir
from ykactor.surfaces.net.systemd import EXTENSION_S, Extension, Notifier, feed_watchdog, listen_fds, watchdog_interval_s
from ykactor.wire import queuefile


class NotifySocket:
    """systemd's end: a datagram socket in the file system or, with ``@``, in the abstract name space."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def take(self) -> list[str]:
        """Return the messages sent since the last call."""
        sent = []
        while True:
            try:
                sent.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return sent

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NotifySocket]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@ykactor-test-{os.getpid()}"
    notify = NotifySocket(address)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    yield notify
    notify.close()


def test_each_state_is_one_datagram(systemd: NotifySocket) -> None:
    """Ready, status, watchdog and stopping arrive as systemd's assignments, one datagram each."""
    notifier = Notifier.from_environment()
    notifier.ready("3 queues")
    notifier.status("12 nodes")
    notifier.watchdog()
    notifier.stopping()
    assert systemd.take() == ["READY=1\nSTATUS=3 queues", "STATUS=12 nodes", "WATCHDOG=1", "STOPPING=1"]


def test_reloading_carries_the_monotonic_time(systemd: NotifySocket) -> None:
    """RELOADING=1 comes with a monotonic time in microseconds that does not go back."""
    notifier = Notifier.from_environment()
    notifier.reloading()
    notifier.reloading()
    (state, first), (_, second) = (sent.split("\nMONOTONIC_USEC=") for sent in systemd.take())
    assert state == "RELOADING=1"
    assert 0 < int(first) <= int(second)


def test_a_start_that_makes_progress_gets_more_time(systemd: NotifySocket) -> None:
    """A long start asks again well before the time is over, however often it reports progress."""
    now_s = 1000.0
    extension = Extension(Notifier.from_environment(), lambda: now_s)
    for _ in range(100):
        extension.on_progress()
    wanted = f"EXTEND_TIMEOUT_USEC={round(EXTENSION_S * 1e6)}"
    assert systemd.take() == [wanted]
    now_s += EXTENSION_S / 2
    extension.on_progress()
    assert systemd.take() == [wanted]


def test_recovery_is_progress(systemd: NotifySocket, tmp_path: Path) -> None:
    """The start asks for more time before it opens the journal, and goes on while it reads rows and makes partitions."""
    now_s = itertools.count(0.0, EXTENSION_S)
    extension = Extension(Notifier.from_environment(), lambda: next(now_s))
    with open_state_dir(StateSettings(tmp_path, "full", 2**30, 10**18), extension.on_progress, reserves=True) as state:
        assert len(systemd.take()) == 1
        partition = DirectPartition(load(tree(queue("a"))), Budget(1, 1), lambda _: None)
        rows = all_rows(partition.core, partition.scheduler)
        config = msgspec.json.encode(queuefile.load(tree(queue("a"))))
        state.store.commit(Batch(1, 1, changes=[change_text(*row) for row in {**rows, CONFIG: config}.items()]))
    with open_state_dir(StateSettings(tmp_path, "full", 2**30, 10**18), extension.on_progress, reserves=True) as state:
        assert state.recovered is not None
        assert len(systemd.take()) > 2


def test_a_status_is_one_line(systemd: NotifySocket) -> None:
    """A line break in a status cannot smuggle in another assignment."""
    Notifier.from_environment().status("queue\nSTOPPING=1")
    assert systemd.take() == ["STATUS=queue STOPPING=1"]


def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """All methods do nothing without NOTIFY_SOCKET."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notifier = Notifier.from_environment()
    notifier.ready("")
    notifier.reloading()
    assert notifier.address is None


def test_a_lost_notice_is_logged_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A notify socket that is gone costs a warning, not the daemon."""
    Notifier(str(tmp_path / "gone")).watchdog()
    assert [record.message for record in caplog.records] == ["notify_failed"]


@pytest.mark.parametrize(
    ("usec", "pid", "interval_s"),
    [
        ("30000000", None, 15.0),
        ("30000000", os.getpid(), 15.0),
        ("30000000", os.getpid() + 1, None),
        (None, None, None),
    ],
    ids=["for anybody", "for us", "for another process", "none"],
)
def test_watchdog_interval(usec: str | None, pid: int | None, interval_s: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval is half of WATCHDOG_USEC, and none when the watchdog is meant for another process."""
    for name, value in (("WATCHDOG_USEC", usec), ("WATCHDOG_PID", pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, str(value))
    assert watchdog_interval_s() == interval_s


class FakePartition:
    """A partition with the attributes that the watchdog reads."""

    def __init__(self) -> None:
        self.cycles = 0
        self.idle = False


async def test_watchdog_is_fed_by_progress(systemd: NotifySocket, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock) -> None:
    """Fed while cycles end or nothing waits; a cycle that hangs while messages wait starves it though the loop turns."""
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    partition = FakePartition()

    async def fed_after_half_interval() -> bool:
        mock_clock.jump(15)
        await trio.testing.wait_all_tasks_blocked()
        return systemd.take() == ["WATCHDOG=1"]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed_watchdog, Notifier.from_environment(), lambda: partition.cycles, lambda: partition.idle)
        await trio.testing.wait_all_tasks_blocked()
        assert systemd.take() == []
        partition.cycles = 7
        assert await fed_after_half_interval()
        assert not await fed_after_half_interval()  # busy, and still at cycle 7
        partition.cycles = 8
        assert await fed_after_half_interval()
        partition.idle = True
        assert await fed_after_half_interval()
        assert await fed_after_half_interval()
        nursery.cancel_scope.cancel()


async def test_no_watchdog_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feeder ends at once without a watchdog."""
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    await feed_watchdog(Notifier(None), lambda: 0, lambda: False)


def test_no_activation_for_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets meant for another process (LISTEN_PID) are left alone, and none is the answer without activation."""
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))
    assert listen_fds() == []
    monkeypatch.delenv("LISTEN_PID")
    assert listen_fds() == []


ACTIVATED = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid())
from ykactor.surfaces.net.systemd import listen_fds
for name, inherited in listen_fds():
    print(name, inherited.getsockname()[1], inherited.get_inheritable())
    inherited.close()
"""


def start_with_socket_at_3(listener: socket.socket, names: dict[str, str]) -> str:
    """Run ``ACTIVATED`` with ``listener`` as descriptor 3, as systemd does; returns what it prints."""
    shell = f'exec {sys.executable} -c "$1" 3<&{listener.fileno()}'
    environment = os.environ | {"LISTEN_FDS": "1"} | names
    done = subprocess.run(
        ["/bin/bash", "-c", shell, "bash", ACTIVATED],
        pass_fds=[listener.fileno()],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(("names", "name"), [({"LISTEN_FDNAMES": "ws"}, "ws"), ({}, "unknown")])
def test_activation(names: dict[str, str], name: str) -> None:
    """An inherited listener is found with its name, and is not passed on to children."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert start_with_socket_at_3(listener, names) == f"{name} {port} False\n"
