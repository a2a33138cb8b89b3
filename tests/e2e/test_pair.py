"""The recipe ``config/standby/pair``: a daemon and its standby, and a lock of the site that says which machine leads (DU-23)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from daemon import asks, clean_environment
from test_client import free_port
from test_take_over import Told

from ykactor.client.kept import KeptSession
from ykactor.surfaces.cli import exit_codes

PAIR = Path(__file__).parents[2] / "config" / "standby" / "pair"
LIMIT_S = 120
#: The time to live of the lock in the tests, in seconds.
TTL_S = 2

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None or shutil.which("etcdctl") is None or shutil.which("curl") is None,
    reason="needs etcd, etcdctl and curl, which Debian has in etcd-server, etcd-client and curl",
)


class Etcd:
    """An etcd that can be killed and started again, with its data."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.url, self._peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        urls = ("--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", self._peers)
        peer = ("--initial-advertise-peer-urls", self._peers, "--initial-cluster", f"default={self._peers}")
        with (self._place / "etcd.log").open("ab") as log:
            command = ["etcd", "--data-dir", self._place / "data", *urls, *peer]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._place)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Machine:
    """A machine on which a supervisor runs the script, again and again.

    Attributes:
        ended: the exit codes of the script so far; that of a signal is negative.
        lines: the lines that it, the standby and the daemon have written.
    """

    def __init__(self, name: str, place: Path, urls: list[str], etcd: Etcd) -> None:
        self.directory = place / name
        own, other = sorted(urls, key=lambda url: name not in Path(url).stem)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        lock = f"etcdctl lock --ttl {TTL_S} ykactor"
        settings = {"PATH": path, "ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": etcd.url, "LOCK": lock}
        self._environment = clean_environment() | settings
        options = ("--ws", own, "--http", f"unix:{place / name}.http", "--standbys", "1")
        self._command = ["bash", PAIR, self.directory, other, *options]
        self.environment: dict[str, str] = {}
        self.ended: list[int] = []
        self.lines: list[str] = []
        self._changed = trio.Event()
        self._process: trio.Process | None = None
        #: Set while no supervisor starts it again.
        self.is_off = False

    async def run(self) -> None:
        """Start the script whenever it has ended, as a supervisor does."""
        while True:
            while self.is_off:
                await self._changed.wait()
            environment = self._environment | self.environment
            open_process = trio.lowlevel.open_process
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            self._process = await open_process(self._command, env=environment, start_new_session=True, **pipes)
            try:
                await self._read(self._process)
                code = await self._process.wait()
            finally:
                self.signal(signal.SIGKILL)
                with trio.CancelScope(shield=True):
                    await self._process.wait()
            self.ended.append(code)
            self._wake()
            if code in (exit_codes.FAILED, exit_codes.USAGE):
                return

    async def _read(self, process: trio.Process) -> None:
        rest = b""
        assert process.stdout is not None
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            self.lines += [line.decode(errors="replace") for line in lines]
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, is_so: Callable[[], object]) -> None:
        while not is_so():
            await self._changed.wait()

    async def says(self, text: str, after: int = 0) -> None:
        """Wait for a line with a text, after so many."""
        await self.until(lambda: any(text in line for line in self.lines[after:]))

    @property
    def starts(self) -> int:
        """The number of times that a daemon has let clients in there."""
        return sum("daemon_started" in line for line in self.lines)

    def signal(self, number: int) -> None:
        """Send a signal to everything that runs there."""
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    async def stop(self) -> None:
        """End it in good order."""
        assert self._process is not None
        self._process.terminate()
        await self.until(lambda: self.ended)
        assert self.ended == [exit_codes.OK]

    def turn_on(self) -> None:
        self.is_off = False
        self._wake()


class Site:
    """Two machines with a lock, and clients that know both."""

    def __init__(self, place: Path) -> None:
        self.etcd = Etcd(place)
        urls = [f"unix:{place / name}.sock" for name in ("one", "two")]
        self.one, self.two = (Machine(name, place, urls, self.etcd) for name in ("one", "two"))
        self.told = Told(",".join(urls))
        self.rm: KeptSession

    async def work(self, first: int) -> None:
        """Five tasks more are placed, after so many."""
        self.rm.send(asks(*(f"t{number}" for number in range(first, first + 5)), of="app-1", vcore=10))
        await self.told.has(first + 5)


@asynccontextmanager
async def site_of(place: Path, **environment: str) -> AsyncIterator[Site]:
    """A site of which the first machine leads, with further settings there, and a resource manager and a follower of it."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            site = Site(place)
            try:
                site.etcd.start()
                site.one.environment |= environment
                site.one.directory.mkdir(mode=0o700)
                (site.one.directory / "led").touch()
                nursery.start_soon(site.one.run)
                nursery.start_soon(site.two.run)
                await site.one.says("daemon_started")
                site.rm = await nursery.start(site.told.manage)
                await nursery.start(site.told.follow)
                await site.told.is_registered()
                await site.work(0)
                yield site
                nursery.cancel_scope.cancel()
            finally:
                site.etcd.kill()


async def test_the_machine_of_the_leader_fails(tmp_path: Path) -> None:
    """The other one takes over without anybody's doing, and lets clients in when the first one is back, as its standby."""
    async with site_of(tmp_path) as site:
        site.one.is_off = True
        site.one.signal(signal.SIGKILL)
        await site.two.says("begins term 1048576-")
        await site.two.says("waits_for_standbys")
        site.one.turn_on()
        await site.work(5)
        assert site.one.starts == 1
    site.told.check(10)


async def test_a_leader_that_was_paused(tmp_path: Path) -> None:
    """Having lost the lock to another one, it tells nobody anything when it goes on, ends, and becomes the standby."""
    async with site_of(tmp_path) as site:
        site.one.is_off = True
        site.one.signal(signal.SIGSTOP)
        await site.two.says("begins term 1048576-")
        await site.two.says("waits_for_standbys")
        site.rm.send(asks(*(f"t{number}" for number in range(5, 10)), of="app-1", vcore=10))
        site.one.signal(signal.SIGCONT)
        await site.one.until(lambda: site.one.ended)
        assert site.one.ended == [exit_codes.TEMPORARY]
        assert len(site.told.allocated) == 5
        site.one.turn_on()
        await site.told.has(10)
        assert (site.one.starts, site.two.starts) == (1, 1)
    site.told.check(10)


async def test_a_daemon_that_stands_still(tmp_path: Path) -> None:
    """``LIVE`` ends it, though the lock is held."""
    live = tmp_path / "live"
    live.write_text(f"curl -fsm 1 -o /dev/null --unix-socket {tmp_path / 'one.http'} http://localhost/livez && echo it lives\n")
    async with site_of(tmp_path, LIVE=f"bash {live}") as site:
        await site.one.says("it lives")
        site.one.is_off = True
        holder, _, _ = (site.one.directory / "lock").read_text().partition("\n")
        os.kill(int(holder), signal.SIGSTOP)
        await site.one.says("pair: the lock is lost, or the daemon stands still")
        await site.two.says("begins term 1048576-")
        site.one.turn_on()
        await site.work(5)
    site.told.check(10)


async def test_the_lock_itself_fails(tmp_path: Path) -> None:
    """While etcd is away for longer than the lock lives, none leads; one does when it is back, and nothing is lost."""
    async with site_of(tmp_path) as site:
        site.etcd.kill()
        await site.one.says("pair: the lock is lost")
        await site.one.until(lambda: site.one.ended)
        assert (site.one.starts, site.two.starts) == (1, 0)
        site.etcd.start()
        await site.work(5)
        assert site.one.starts + site.two.starts == 2
    site.told.check(10)


async def test_the_leader_fails_with_what_nobody_was_told(tmp_path: Path) -> None:
    """The journal is no beginning of that of the next one, so it is kept beside, and an empty directory follows."""
    async with site_of(tmp_path) as site:
        site.two.is_off = True
        await site.two.stop()
        site.rm.send(asks(*(f"t{number}" for number in range(5, 10)), of="app-1", vcore=10))
        await site.one.says("journal_stalled")
        site.one.is_off = True
        site.one.signal(signal.SIGKILL)
        await site.one.until(lambda: site.one.ended)
        site.two.turn_on()
        await site.two.says("begins term 1048576-")
        await site.two.says("waits_for_standbys")
        site.one.turn_on()
        await site.told.has(10)
        assert site.one.ended[1] == exit_codes.TEMPORARY
        assert (site.one.directory.with_name("one.refused") / "journal.db").exists()
    site.told.check(10)


async def test_an_empty_directory_never_leads(tmp_path: Path) -> None:
    """A machine with a new disk waits until it has followed, also if it is alone. Both are ended in good order before."""
    async with site_of(tmp_path) as site:
        for machine in (site.one, site.two):
            machine.is_off = True
            await machine.stop()
        shutil.rmtree(site.two.directory)
        said = len(site.two.lines)
        site.two.turn_on()
        await site.two.says("standby_not_connected", said)
        site.one.turn_on()
        await site.work(5)
        assert (site.one.starts, site.two.starts) == (2, 0)
    site.told.check(10)
