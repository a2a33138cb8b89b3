"""A replica of a daemon and its standby, which is killed again and again, and a follower of it (DU-19, DU-22)."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import trio
from followers import ReplicaTrail
from process import DaemonProcess

#: How long it lives, at most, before it is killed.
LIFE_S = 3.0
#: It ends with this code if no daemon is there when it begins.
_NO_DAEMON = 1
#: Between two starts without a daemon.
_PAUSE_S = 0.1


class Replica:
    """Args:
        urls: of the daemon and its standby, in any order.

    Attributes:
        trail: what its follower has seen.
        kills: how often it was killed.
    """

    def __init__(self, directory: Path, urls: str, seed: int) -> None:
        self._url = f"unix:{directory}/replica.sock"
        self._arguments = ("--url", urls, "--ws", self._url)
        self._rng = random.Random(seed)
        self._process: DaemonProcess | None = None
        self.trail = ReplicaTrail("json")
        self.kills = 0

    async def run(self) -> None:
        """Have it run, and kill it; after a cancellation another call goes on."""
        while True:
            process = self._process = self._process or await DaemonProcess.start(*self._arguments, command="replica")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.read_log)
                nursery.start_soon(self._follow, process)
                nursery.start_soon(self._kill, process)
                code = await process.wait()
                nursery.cancel_scope.cancel()
            self._process = None
            is_early = code == _NO_DAEMON and b"replica_started" not in process.output
            assert is_early or code == -signal.SIGKILL, process.output.decode()[-2000:]
            assert b"turn_differed" not in process.output, process.output.decode()[-2000:]
            if is_early:
                await trio.sleep(_PAUSE_S)

    async def _follow(self, process: DaemonProcess) -> None:
        await process.logged("replica_started")
        await self.trail.follow(self._url, self._rng)

    async def _kill(self, process: DaemonProcess) -> None:
        await trio.sleep(self._rng.uniform(0, LIFE_S))
        process.signal(signal.SIGKILL)
        self.kills += 1

    async def has_told(self, number: int) -> None:
        """Wait until its follower has come to an event."""
        while len(self.trail.seen) < number:  # noqa: ASYNC110 (nothing tells it)
            await trio.sleep(0.05)

    async def end(self) -> None:
        """Kill it for good."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            await self._process.wait()
            self._process = None
