"""A daemon and its standby on two machines with ``config/standby/pair``, and clients that know both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import trio
from daemon import application, asks, clean_environment, node

from ykactor.client import follow, keep_registered
from ykactor.client.kept import KeptSession
from ykactor.surfaces.cli import exit_codes
from ykactor.wire.si import messages as si

PAIR = Path(__file__).parents[1] / "config" / "standby" / "pair"
LIMIT_S = 120


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
        options = {"on_connection": self.connections.append, "wants_scheduling_states": True}
        async with keep_registered(self._url, rm_id="rm-1", **options) as rm:
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


class Lock(Protocol):
    """A lock of a site."""

    def settings(self, machine: str) -> dict[str, str]:
        """The environment of the script on a machine."""


class Machine:
    """A machine on which a supervisor runs the script, again and again.

    Attributes:
        ended: the exit codes of the script so far; that of a signal is negative.
        lines: the lines that it, the standby and the daemon have written.
    """

    def __init__(self, name: str, place: Path, urls: list[str], lock: Lock) -> None:
        self.directory = place / name
        own, other = sorted(urls, key=lambda url: name not in Path(url).stem)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = clean_environment() | lock.settings(name) | {"PATH": path}
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

    def __init__(self, place: Path, lock: Lock) -> None:
        urls = [f"unix:{place / name}.sock" for name in ("one", "two")]
        self.one, self.two = (Machine(name, place, urls, lock) for name in ("one", "two"))
        self.told = Told(",".join(urls))
        self.rm: KeptSession

    async def work(self, first: int) -> None:
        """Five tasks more are placed, after so many."""
        self.rm.send(asks(*(f"t{number}" for number in range(first, first + 5)), of="app-1", vcore=10))
        await self.told.has(first + 5)


@asynccontextmanager
async def site_of(place: Path, lock: Lock, **environment: str) -> AsyncIterator[Site]:
    """A site of which the first machine leads, with further settings there, and a resource manager and a follower of it."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            site = Site(place, lock)
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
