"""A world with two directories: in one is the daemon, in the other its standby, which takes over again and again (DU-23)."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from faulty import POWER
from kept import Kept
from life import HANDED_OVER, PHASES, RESTORED, World
from process import DaemonProcess, Fault

from ykactor.journal.files import is_following
from ykactor.journal.maintenance import verify
from ykactor.journal.reading import Reader

#: What happens to a pair, and how often compared with other moments.
PAIR_PHASES = {phase: weight for phase, weight in PHASES.items() if phase not in (POWER, RESTORED)} | {
    "standby killed": 3,
    "standby stopped": 1,
    HANDED_OVER: 4,
}
#: How often the standby takes over from a daemon that was killed, and how often it was killed just before.
TAKES_OVER, BOTH_KILLED = 0.7, 0.3
#: How long a standby that is killed or stopped is away.
AWAY_S = 0.3
#: A standby ends with this code if it is refused.
_REFUSED = 1


class PairWorld(World):
    """A daemon that tells nobody anything that its standby does not have, and its standby."""

    def __init__(self, directory: Path, seed: int, durability: str) -> None:
        super().__init__(directory, seed, durability, copied=0)
        self._random = random.Random(seed + 1)
        self._other = directory / "other"
        self._url = f"unix:{directory / 'ws'}"
        self._options = ("--ws", self._url, "--standbys", "1", "--standbys-wait", "0.5s")
        self._standby: trio.Process | None = None
        self._log = directory / "standby.log"
        #: The newest transaction that clients have been told in the view of the ledger; a standby with fewer has not joined yet.
        self._told = 0
        #: Whether the other directory may have another history, as that of the daemon before a take-over.
        self._may_differ = False
        #: Whether the standby ends in this life, and whether it has taken over since the last check.
        self._hands_over = self._has_taken_over = False

    # ---- the standby

    async def _life(self, play: Callable[[DaemonProcess], Awaitable[None]], fault: Fault | None = None) -> int:
        self._hands_over = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_standby)
            code = await super()._life(play, fault)
            nursery.cancel_scope.cancel()
        return code

    async def _keep_standby(self) -> None:
        """Have a standby run, from an empty directory if it was refused."""
        while True:
            if self._standby is None:
                self._standby = await self._start("replica", "--standby", "--every", "1000", "--url", self._url)
            code = await self._standby.wait()
            self._standby = None
            if self._hands_over:
                return
            if code == _REFUSED:
                assert self._may_differ, self._log.read_text()[-2000:]
                self.counts["standby begins anew"] += 1
                shutil.rmtree(self._other)
                self._may_differ = False
            else:
                assert code == -signal.SIGKILL, self._log.read_text()[-2000:]
                await trio.sleep(self._random.uniform(0, AWAY_S))

    async def _start(self, *arguments: str) -> trio.Process:
        """Start a command about the directory of the standby."""
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "ykactor", *arguments, "--state-dir", str(self._other)]
            return await trio.lowlevel.open_process(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    async def _kill_standby(self) -> None:
        """Kill the standby; ``_keep_standby`` finds it out while a daemon lives."""
        process = self._standby
        if process is not None:
            process.kill()
            await process.wait()
            if self._standby is process:
                self._standby = None

    # ---- what happens in a life

    async def _bring_about(self, daemon: DaemonProcess, url: str, phase: str) -> None:
        self._may_differ = False  # clients were let in, so the standby has everything
        match phase:
            case "standby killed":
                for _ in range(3):
                    await self._kill_standby()
                    await self._manager.counted("Ack", self._random.randint(1, 10))
            case "standby stopped":
                process = self._standby
                if process is not None and process.returncode is None:
                    process.send_signal(signal.SIGSTOP)
                    await trio.sleep(self._random.uniform(0, 3 * AWAY_S))
                    process.send_signal(signal.SIGCONT)
                    await self._manager.counted("Ack", 1)
            case _ if phase == HANDED_OVER:
                self._hands_over = True
                with trio.CancelScope(shield=True):
                    command = await self._start("take-over", "--hand-over", "--url", self._url)
                    assert await command.wait() == 0, self._log.read_text()[-2000:]
                await trio.sleep_forever()  # the daemon ends
            case _:
                await super()._bring_about(daemon, url, phase)

    async def _decide(self, phase: str) -> None:
        if phase == HANDED_OVER:
            assert _newest(self._other) == _newest(self._directory)
            await self._swap()
        elif self._has_joined and self._random.random() < TAKES_OVER:
            if self._random.random() < BOTH_KILLED:
                await self._kill_standby()
                self.counts["both killed"] += 1
            command = await self._start("take-over", "--url", self._url)
            assert await command.wait() == 0, self._log.read_text()[-2000:]
            await self._swap()
            self._may_differ = True

    @property
    def _has_joined(self) -> bool:
        """True if the other directory has followed this daemon, and is no older than what has been checked."""
        return not self._may_differ and is_following(self._other) and _newest(self._other) >= self._told > 0

    async def _swap(self) -> None:
        """The directory of the standby is that of the daemon from now on. A process that had just begun was not ended yet."""
        if self._standby is not None:
            self._standby.terminate()
            await self._standby.wait()
        self.counts["took over"] += 1
        self._directory, self._other = self._other, self._directory
        self._standby = None
        self._has_taken_over = True

    # ---- what is left behind

    def _check(self) -> None:
        """Check the journal with all that anybody was told; but one that may have more than the standby only by itself.

        What it has more nobody was told, and nobody will be if the standby takes over.
        """
        has_taken_over, self._has_taken_over = self._has_taken_over, False
        number = _newest(self._directory)
        if not number:
            return
        if has_taken_over or (not self._may_differ and _newest(self._other) == number):
            super()._check()
            self._told = number
            return
        kept = Kept.read(self._directory)
        assert kept is not None
        kept.check(None)
        for trail in self._trails:
            trail.check(kept.events)

    async def finish(self) -> None:
        """A last life, after which both journals are whole and the same."""
        await super().finish()
        await self._kill_standby()
        assert _newest(self._other) == _newest(self._directory)
        assert not [problem for problem in verify(self._other) if not problem.startswith("transaction")]


def _newest(directory: Path) -> int:
    """The newest transaction of a journal; 0 if there is none."""
    if not (directory / "journal.db").exists():
        return 0
    with Reader.open(directory) as reader:
        return reader.numbers()[1]
