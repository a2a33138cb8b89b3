"""A world with two directories: in one is the daemon, in the other its standby, which takes over again and again (DU-23).

A replica runs beside, which is killed too.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from beside import Replica
from faulty import POWER
from kept import Kept
from life import HANDED_OVER, PHASES, RESTORED, World
from process import DaemonProcess, Fault

from ykactor.journal.files import is_following, write_superseded
from ykactor.journal.maintenance import verify
from ykactor.journal.reading import Reader

#: What happens to a pair, and how often compared with other moments.
PAIR_PHASES = {phase: weight for phase, weight in PHASES.items() if phase not in (POWER, RESTORED)} | {
    "standby killed": 3,
    "standby stopped": 1,
    HANDED_OVER: 4,
}
#: How often the standby takes over from a daemon that was killed, how often it was killed just before, and meanwhile.
TAKES_OVER, BOTH_KILLED, KILLED_MEANWHILE = 0.7, 0.3, 0.3
#: In how long after the request a standby is killed that takes over.
TAKING_OVER_S = 0.5
#: How long a standby that is killed or stopped is away.
AWAY_S = 0.3
#: How long partitions in memory are waited for before a hand-over.
MEMORY_S = 3.0
#: A standby ends with this code if it is refused.
_REFUSED = 1


class PairWorld(World):
    """A daemon that tells nobody anything that its standby does not have, and its standby, which is the next daemon."""

    def __init__(self, directory: Path, seed: int, durability: str, points: Counter[str]) -> None:
        super().__init__(directory, seed, durability, points, copied=0)
        self._random = random.Random(seed + 1)
        self._other = directory / "other"
        self._options = ()
        self._standby: DaemonProcess | None = None
        self._replica = Replica(directory, f"{_url(self._directory)},{_url(self._other)}", seed + 2)
        self._seen.append(self._replica.trail)
        #: The process that has taken over, which is the daemon of the next life.
        self._next: DaemonProcess | None = None
        self._log = directory / "commands.log"
        #: The newest transaction that clients have been told in the view of the ledger; a standby with fewer has not joined yet.
        self._told = 0
        #: Whether the other directory may have another history, as that of the daemon before a take-over.
        self._may_differ = False
        #: Whether the standby has taken over since the last check.
        self._has_taken_over = False

    def _arguments(self, directory: Path) -> list[str | Path]:
        where = ("--ws", _url(directory), "--standbys", "1", "--standbys-wait", "0.5s")
        return [*super()._arguments(directory), *where]

    async def _daemon(self, fault: Fault | None) -> DaemonProcess:
        """The process that has taken over, unless it is to have a fault: then it is killed, and another one begins there."""
        daemon, self._next = self._next, None
        if daemon is not None and fault is not None:
            daemon.signal(signal.SIGKILL)
            await daemon.wait()
        self.counts["goes on as the daemon"] += daemon is not None and fault is None
        return await super()._daemon(fault) if daemon is None or fault is not None else daemon

    # ---- the standby

    async def _life(self, play: Callable[[DaemonProcess], Awaitable[None]], fault: Fault | None = None) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_standby)
            nursery.start_soon(self._replica.run)
            code = await super()._life(play, fault)
            nursery.cancel_scope.cancel()
        return code

    async def _keep_standby(self) -> None:
        """Have a standby run, from an empty directory if it was refused."""
        while True:
            standby = self._standby = self._standby or await self._new_standby()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(standby.read_log)
                code = await standby.wait()
                nursery.cancel_scope.cancel()
            self._standby = None
            if code == _REFUSED:
                assert self._may_differ, standby.output.decode()[-2000:]
                self.counts["standby begins anew"] += 1
                shutil.rmtree(self._other)
                self._may_differ = False
            else:
                assert code == -signal.SIGKILL, standby.output.decode()[-2000:]
                await trio.sleep(self._random.uniform(0, AWAY_S))

    async def _new_standby(self) -> DaemonProcess:
        return await DaemonProcess.start(*self._arguments(self._other), "--standby-of", _url(self._directory))

    async def _take_over(self, *options: str) -> trio.Process:
        """Start the command."""
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "ykactor", "take-over", "--state-dir", str(self._other), *options]
            return await trio.lowlevel.open_process(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    async def _kill_standby(self) -> None:
        """Kill the standby; ``_keep_standby`` finds it out while a daemon lives."""
        process = self._standby
        if process is not None:
            process.signal(signal.SIGKILL)
            await process.wait()
            if self._standby is process:
                self._standby = None

    # ---- what happens in a life

    async def _all_told(self) -> None:
        await self._replica.has_told(len(self._trails[0].seen))

    async def _bring_about(self, daemon: DaemonProcess, url: str, phase: str) -> None:
        self._may_differ = False  # clients were let in, so the standby has everything
        match phase:
            case "standby killed":
                for _ in range(3):
                    await self._kill_standby()
                    await self._manager.counted("Ack", self._random.randint(1, 10))
            case "standby stopped":
                process = self._standby
                if process is not None:
                    process.signal(signal.SIGSTOP)
                    await trio.sleep(self._random.uniform(0, 3 * AWAY_S))
                    process.signal(signal.SIGCONT)
                    await self._manager.counted("Ack", 1)
            case _ if phase == HANDED_OVER:
                assert self._standby is not None
                with trio.move_on_after(MEMORY_S):
                    await self._standby.logged("partition_in_memory")
                    self.counts["in memory"] += 1
                with trio.CancelScope(shield=True):
                    command = await self._take_over("--hand-over")
                    assert await command.wait() == 0, self._log.read_text()[-2000:]
                await trio.sleep_forever()  # the daemon ends
            case _:
                await super()._bring_about(daemon, url, phase)

    async def _decide(self, phase: str) -> None:
        if phase == HANDED_OVER:
            self._next = self._standby
            self._swap()
        elif self._has_joined and self._random.random() < TAKES_OVER:
            if self._random.random() < BOTH_KILLED:
                await self._kill_standby()
                self.counts["both killed"] += 1
            await self._take_over_from_killed()
            self._may_differ = True
            write_superseded(self._directory, "a take-over")  # nobody could tell it
            self._swap()

    async def _take_over_from_killed(self) -> None:
        """Have the standby take over; if it is killed meanwhile and has begun no term, another one does."""
        while is_following(self._other):
            standby = self._standby = self._standby or await self._new_standby()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(standby.read_log)
                await standby.logged("standby_started")
                command = await self._take_over()
                if self._random.random() < KILLED_MEANWHILE:
                    self.counts["killed while it takes over"] += 1
                    await trio.sleep(self._random.uniform(0, TAKING_OVER_S))
                    await self._kill_standby()
                    await command.wait()
                else:
                    assert await command.wait() == 0, self._log.read_text()[-2000:]
                    self._next = standby
                nursery.cancel_scope.cancel()

    @property
    def _has_joined(self) -> bool:
        """True if the other directory has followed this daemon, and is no older than what has been checked."""
        return not self._may_differ and is_following(self._other) and _newest(self._other) >= self._told > 0

    def _swap(self) -> None:
        """The directory of the standby is that of the daemon from now on."""
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
        if self._next is not None:
            self._next.signal(signal.SIGSTOP)  # a daemon runs there
        self._check_history(has_taken_over)
        if self._next is not None:
            self._next.signal(signal.SIGCONT)

    def _check_history(self, has_taken_over: bool) -> None:
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
        for trail in self._seen:
            trail.check(kept.events)

    async def finish(self) -> None:
        """A last life, after which both journals are whole and the same."""
        await super().finish()
        await self._kill_standby()
        await self._replica.end()
        self.counts += {"replica killed": self._replica.kills, "told by a replica": self._replica.trail.told}
        assert _newest(self._other) == _newest(self._directory)
        assert not [problem for problem in verify(self._other) if not problem.startswith("transaction")]


def _newest(directory: Path) -> int:
    """The newest transaction of a journal; 0 if there is none."""
    if not (directory / "journal.db").exists():
        return 0
    with Reader.open(directory) as reader:
        return reader.numbers()[1]


def _url(directory: Path) -> str:
    """The address of the daemon in a directory."""
    return f"unix:{directory}.sock"
