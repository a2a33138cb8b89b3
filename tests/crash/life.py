"""A world whose daemon is killed again and again: the resource manager and the followers go on where they were."""

from __future__ import annotations

import random
import shutil
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio
from configurations import Configurations
from faulty import POINTS, POWER
from followers import Trail, look
from kept import Kept, Placed, assert_same, placed_by, replay
from load import config
from manager import Manager
from poweroff import EARLIER_BOOT, fail
from process import DaemonProcess, Fault

from ykactor.client import operate
from ykactor.journal.files import Seen
from ykactor.journal.maintenance import backup, restore, verify
from ykactor.wire.si import messages as si

#: The daemon is killed under load, and then its state directory is put back to an earlier copy.
RESTORED = "restored"
#: How often a copy is kept, and how many are.
COPIED, COPIES_MAX = 0.3, 3
#: How many of them are backups.
BACKED_UP = 0.4
#: When the daemon is killed, and how often compared with other moments.
PHASES = {
    "start": 2,
    "recovery": 2,
    "registration": 2,
    "load": 4,
    "reload": 3,
    "file": 2,
    "operator": 2,
    "large": 3,
    "stop": 1,
    "fault": 5,
    POWER: 4,
    RESTORED: 2,
}
#: The phases in which the daemon may end before it is killed: on SIGTERM, and when it has handed over to a standby.
HANDED_OVER = "handed over"
ENDS = ("stop", HANDED_OVER)
#: The longest life, which only ends what hangs.
LIFE_S = 180.0
#: How long a fault is waited for that may never come; a commit always comes.
FAULT_S = 1.0
#: What a life achieves before it may end, however slow the machine is: ten to so many requests answered, and under load so many
#: allocations.
ACKS_MAX = 60
ALLOCATIONS = 10


class World:
    """A state directory, its queue file, and everybody outside who remembers something.

    Args:
        points: how often a daemon has killed itself at each point, in all worlds of a campaign.
        copied: how often a copy of the directory is kept.

    Attributes:
        counts: of kills by phase, requests, messages and events.
    """

    def __init__(self, directory: Path, seed: int, durability: str, points: Counter[str], *, copied: float = COPIED) -> None:
        self.counts: Counter[str] = Counter()
        self._points = points
        self._rng = random.Random(seed)
        self._directory = directory / "state"
        #: More options of the daemon.
        self._options: tuple[str | Path, ...] = ("--ws", "127.0.0.1:0")
        self._file = directory / "queues.yaml"
        self._configurations = Configurations(self._file, config(0))
        self._durability = durability
        self._manager = Manager(self._rng)
        self._trails = [Trail("json"), Trail("msgpack")]
        #: What followers have seen, of the daemon and of others.
        self._seen = list(self._trails)
        self._snapshots: list[tuple[int, Placed]] = []
        self._copies: list[Path] = []
        self._copied = copied

    async def kill(self, phase: str) -> None:
        """One life of the daemon, which ends with SIGKILL, and what it left behind."""
        fault = self._draw_fault(phase) if phase in ("fault", POWER) else None
        code = await self._life(lambda daemon: self._until_killed(daemon, phase), fault)
        if fault is not None:
            phase = fault.point if fault.mark.exists() else "load"
            self._points[phase] += 1
        self.counts[f"killed: {phase}"] += 1
        assert code == -signal.SIGKILL or (phase in ENDS and code == 0), f"the daemon ended with {code}"
        if phase == POWER:
            fail(self._directory, self._file.parent, self._rng, is_full=self._durability == "full")
            if self._durability == "normal":
                (loss,) = verify(self._directory)
                assert loss.startswith("transaction"), loss
                self._lose()
                return  # what is said of older messages does not count any more
        await self._decide(phase)
        self._check()
        if phase == RESTORED and self._copies:
            self._go_back()
        elif (self._directory / "journal.db").exists() and self._rng.random() < self._copied:
            self._copy()

    async def _decide(self, phase: str) -> None:
        """Decide which directory the next daemon goes on in."""

    def _draw_fault(self, phase: str) -> Fault:
        """A fault at one of the points that came least often: some are rare, and it may end before it comes to one."""
        least = min(self._points[point] for point in POINTS)
        mark = self._file.with_name("mark")
        mark.unlink(missing_ok=True)
        point = POWER if phase == POWER else self._rng.choice([each for each in POINTS if self._points[each] == least])
        return Fault(point, self._rng.choice((1, 2, 3, 5, 20, 60)), mark)

    async def finish(self) -> None:
        """A last life, which ends as it should: every request is answered. All lives together can be replayed."""
        assert await self._life(self._until_answered) == 0
        self._check()
        replay(self._directory)
        self.counts += self._manager.total()
        for trail in self._trails:
            self.counts += trail.counts

    async def _life(self, play: Callable[[DaemonProcess], Awaitable[None]], fault: Fault | None = None) -> int:
        """Returns the exit code."""
        daemon = await self._daemon(fault)
        try:
            with trio.fail_after(LIFE_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(daemon.read_log)
                    nursery.start_soon(play, daemon)
                    code = await daemon.wait()
                    nursery.cancel_scope.cancel()
        except BaseException:
            print(daemon.output.decode(errors="replace")[-4000:])
            raise
        finally:
            daemon.signal(signal.SIGKILL)
        return code

    async def _daemon(self, fault: Fault | None) -> DaemonProcess:
        """The daemon of a life."""
        return await DaemonProcess.start(*self._arguments(self._directory), *self._options, fault=fault)

    def _arguments(self, directory: Path) -> list[str | Path]:
        """The arguments of a daemon in a directory."""
        kept = ["--state-dir", directory, "--durability", self._durability]
        return ["--config", self._file, *kept, "--http", "none"]

    # ---- what happens in a life

    async def _until_killed(self, daemon: DaemonProcess, phase: str) -> None:
        if phase not in ("start", "recovery"):
            await self._until_phase(daemon, phase)
            return
        if phase == "recovery":
            await daemon.logged("config_loaded")
        await trio.sleep(self._rng.uniform(0, 0.15 if phase == "recovery" else 0.05))
        daemon.signal(signal.SIGKILL)

    async def _until_phase(self, daemon: DaemonProcess, phase: str) -> None:
        """Kill it while clients are connected; their tasks end with the life."""
        url = (await daemon.logged("daemon_started"))["addresses"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, url, self._snapshots)
            for trail in self._trails:
                nursery.start_soon(trail.follow, url, self._rng)
            if phase == "registration":
                nursery.start_soon(self._manager.serve, url)
                await trio.sleep(self._rng.uniform(0, 0.03))
            else:
                await nursery.start(self._manager.serve, url)
                await self._manager.counted("Ack", self._rng.randint(10, ACKS_MAX))
                await self._bring_about(daemon, url, "load" if phase == RESTORED else phase)
            daemon.signal(signal.SIGKILL)

    async def _bring_about(self, daemon: DaemonProcess, url: str, phase: str) -> None:
        """Begin what the daemon is killed in."""
        match phase:
            case "load":
                await self._manager.counted("allocations", ALLOCATIONS)
            case "reload":
                await self._manager.send_configuration()
            case "file":
                self._configurations.write(config(self._rng.randrange(6)))
                daemon.signal(signal.SIGHUP)
            case "operator":
                self._configurations.write(config(self._rng.randrange(6)))
                async with operate(url) as operator:
                    await operator.request(si.ReloadConfiguration())
                await self._manager.send_configuration()
            case "large":
                await self._manager.send_large()
                if self._rng.random() < 0.7:  # in the middle of it, as soon as something comes of it
                    with trio.move_on_after(FAULT_S):
                        await self._manager.counted("allocations", 1)
                    return
            case "stop":
                daemon.signal(signal.SIGTERM)
            case "fault":
                await trio.sleep(FAULT_S)
            case "power":
                await trio.sleep_forever()
        await trio.sleep(self._rng.uniform(0, 0.04))

    async def _until_answered(self, daemon: DaemonProcess) -> None:
        url = (await daemon.logged("daemon_started"))["addresses"]
        async with trio.open_nursery() as nursery:
            for trail in self._trails:
                nursery.start_soon(trail.follow, url, self._rng)
            await nursery.start(partial(self._manager.serve, url, plays=False))
            await self._manager.all_answered()
            await self._all_told()
            daemon.signal(signal.SIGTERM)

    async def _all_told(self) -> None:
        """Wait until others than the daemon have told what it has told."""

    # ---- what is left behind

    def _check(self) -> None:
        """Check that the journal agrees with everything that anybody was told."""
        assert not (self._directory / "post-mortem.json").exists()
        if not (self._directory / "journal.db").exists():
            return
        kept = Kept.read(self._directory)
        if kept is None:
            return
        problems = list(verify(self._directory))
        if Seen.of(self._directory).boot == EARLIER_BOOT:  # no daemon has noted a commit since the loss, of which is still told
            problems = [problem for problem in problems if not problem.startswith("transaction")]
        assert not problems, problems
        kept.check(self._manager.ledger)
        self._configurations.check(kept.recovered, self._manager.ledger)
        for trail in self._seen:
            trail.check(kept.events)
        for sequence, placed in self._snapshots:
            assert_same(placed, placed_by(kept.events[:sequence]), f"in the snapshot at event {sequence}")
        self._snapshots.clear()
        self.counts["events"] = len(kept.events)

    def _copy(self) -> None:
        """Keep a copy of the state directory of a daemon that does not run: of all files, or a backup that is restored."""
        target = self._directory.with_name(f"copy-{self.counts['copied']}")
        self.counts["copied"] += 1
        if self._rng.random() < BACKED_UP:
            file = target.with_suffix(".db")
            backup(self._directory, file)
            restore(file, target)
        else:
            shutil.copytree(self._directory, target)
        self._copies = [*self._copies, target][-COPIES_MAX:]

    def _go_back(self) -> None:
        """The state directory is an earlier copy from now on. Nothing in it says so (DU-18)."""
        shutil.rmtree(self._directory)
        shutil.copytree(self._rng.choice(self._copies), self._directory)
        self._lose()

    def _lose(self) -> None:
        """Forget what the journal has lost: it holds an earlier state (DU-3, DU-18)."""
        kept = Kept.read(self._directory)
        if kept is not None:
            kept.check(None)
            self._configurations.take(kept.recovered)
        for trail in self._trails:
            self.counts["lost"] += trail.lose([] if kept is None else kept.events)
        self._snapshots.clear()
        last, messages = (0, []) if kept is None else (kept.recovered.last_message, kept.messages)
        self._manager.lose(last, messages)
