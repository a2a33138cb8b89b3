"""One daemon process, or a replica, from its start to its end, whatever ends it."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trio
from forked import Forked

from ykactor.client import Disconnected

FAULTY = str(Path(__file__).with_name("faulty.py"))


class Fault(NamedTuple):
    """A daemon kills itself at a point, and makes the file ``mark`` (``faulty.py``)."""

    point: str
    number: int
    mark: Path


class DaemonProcess:
    """A daemon, or a replica, and its log."""

    def __init__(self, process: Forked) -> None:
        self._process = process
        self._logged: defaultdict[str, trio.Event] = defaultdict(trio.Event)
        self._lines: dict[str, dict[str, Any]] = {}
        self._rest = self.output = b""

    @classmethod
    async def start(cls, *arguments: str | Path, command: str = "serve", fault: Fault | None = None) -> DaemonProcess:
        """Start ``ykactor serve``, or another command."""
        where = [] if fault is None else [fault.point, str(fault.number), str(fault.mark)]
        program = "" if fault is None else FAULTY
        return cls(await Forked.start([*where, command, *map(str, arguments)], os.environ, program=program))

    async def read_log(self) -> None:
        """Take in its log until it ends; after a cancellation another call goes on."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        async for chunk in self._process.stderr:
            self.output += chunk
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    logged = msgspec.json.decode(line)
                    self._lines[logged["event"]] = logged
                    self._logged[logged["event"]].set()
        await self._process.stdout.aclose()
        await self._process.stderr.aclose()

    async def logged(self, event: str) -> dict[str, Any]:
        """Wait for the first line with this event."""
        await self._logged[event].wait()
        return self._lines[event]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        return await self._process.wait()


@contextmanager
def until_disconnected() -> Iterator[None]:
    """The block ends when its connection does."""
    try:
        yield
    except* Disconnected:
        pass
