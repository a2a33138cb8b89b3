"""The recipe ``config/standby/pair``: a daemon and its standby, and a lock of the site that says which machine leads (DU-23)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon import asks
from pairs import site_of
from test_client import free_port

from ykactor.surfaces.cli import exit_codes

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

    def settings(self, machine: str) -> dict[str, str]:
        return {"ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": self.url, "LOCK": f"etcdctl lock --ttl {TTL_S} ykactor"}

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


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    found = Etcd(tmp_path)
    found.start()
    yield found
    found.kill()


async def test_the_machine_of_the_leader_fails(tmp_path: Path, etcd: Etcd) -> None:
    """The other one takes over without anybody's doing, and lets clients in when the first one is back, as its standby."""
    async with site_of(tmp_path, etcd) as site:
        site.one.is_off = True
        site.one.signal(signal.SIGKILL)
        await site.two.says("begins term 1048576-")
        await site.two.says("waits_for_standbys")
        site.one.turn_on()
        await site.work(5)
        assert site.one.starts == 1
    site.told.check(10)


async def test_a_leader_that_was_paused(tmp_path: Path, etcd: Etcd) -> None:
    """Having lost the lock to another one, it tells nobody anything when it goes on, ends, and becomes the standby."""
    async with site_of(tmp_path, etcd) as site:
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


async def test_a_daemon_that_stands_still(tmp_path: Path, etcd: Etcd) -> None:
    """``LIVE`` ends it, though the lock is held."""
    live = tmp_path / "live"
    live.write_text(f"curl -fsm 1 -o /dev/null --unix-socket {tmp_path / 'one.http'} http://localhost/livez && echo it lives\n")
    async with site_of(tmp_path, etcd, LIVE=f"bash {live}") as site:
        await site.one.says("it lives")
        site.one.is_off = True
        holder, _, _ = (site.one.directory / "lock").read_text().partition("\n")
        os.kill(int(holder), signal.SIGSTOP)
        await site.one.says("pair: the lock is lost, or the daemon stands still")
        await site.two.says("begins term 1048576-")
        site.one.turn_on()
        await site.work(5)
    site.told.check(10)


async def test_the_lock_itself_fails(tmp_path: Path, etcd: Etcd) -> None:
    """While etcd is away for longer than the lock lives, none leads; one does when it is back, and nothing is lost."""
    async with site_of(tmp_path, etcd) as site:
        etcd.kill()
        await site.one.says("pair: the lock is lost")
        await site.one.until(lambda: site.one.ended)
        assert (site.one.starts, site.two.starts) == (1, 0)
        etcd.start()
        await site.work(5)
        assert site.one.starts + site.two.starts == 2
    site.told.check(10)


async def test_the_leader_fails_with_what_nobody_was_told(tmp_path: Path, etcd: Etcd) -> None:
    """The journal is no beginning of that of the next one, so it is kept beside, and an empty directory follows."""
    async with site_of(tmp_path, etcd) as site:
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


async def test_an_empty_directory_never_leads(tmp_path: Path, etcd: Etcd) -> None:
    """A machine with a new disk waits until it has followed, also if it is alone. Both are ended in good order before."""
    async with site_of(tmp_path, etcd) as site:
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
