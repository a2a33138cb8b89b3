# a few bytes in a temporary directory
"""Short jobs, while daemon and local resource manager are killed at random moments; then it is counted how often each has run."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import trio
from daemon import clean_environment
from forked import Forked
from localjobs import LocalManager, left_over, local_manager, noting

from ykactor.local.model import State

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 1}}}
          - {name: b, resources: {max: {vcore: 500m}}}
          - {name: c}
"""
#: Exit codes of the jobs: most complete, some fail, and fail again.
_CODES = (0, 0, 0, 0, 3)
_RETRIES = (0, 0, 2)
#: Seconds between two kills.
_PAUSES_S = (0.1, 2.0)
#: Seconds for a job and for a kill, at most: ten times what they take.
_LIMIT_S = 5


class Campaign:
    """One daemon, one local resource manager, and jobs of which it is known what should become of them.

    Attributes:
        kills: how often each of the two was killed.
    """

    def __init__(self, directory: Path, jobs_count: int, seed: int) -> None:
        self._directory = directory
        self._jobs_count = jobs_count
        self._rng = random.Random(seed)
        #: Of its own, so that who is killed does not depend on how fast jobs are submitted.
        self._kill_rng = random.Random(seed)
        self._daemon: trio.Process
        self.kills: Counter[str] = Counter()
        #: By the id of the job: the allocation keys that should run, in order.
        self._expected: dict[str, list[str]] = {}
        self._codes: dict[str, int] = {}

    async def run(self, kills: int) -> None:
        """Submit, kill, wait until all have ended, and compare.

        Raises:  AssertionError.
        """
        (self._directory / "queues.yaml").write_text(QUEUES)
        await self._start_daemon()
        try:
            async with local_manager(self._directory / "l", self._address, "--resource", "vcore=4") as local:
                with trio.fail_after(_LIMIT_S * (self._jobs_count + kills)):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._submit_all, local)
                        nursery.start_soon(self._kill_some, local, kills)
                    await self._check(local)
                assert left_over(self._directory) == []
        finally:
            await self._kill_daemon()

    @property
    def _address(self) -> str:
        return f"unix:{self._directory}/ws"

    async def _start_daemon(self) -> None:
        options = ("--state-dir", self._directory / "s", "--config", self._directory / "queues.yaml", "--http", "none")
        arguments = ["serve", "--ws", self._address, *map(str, options)]
        with (self._directory / "daemon.log").open("ab") as log:
            self._daemon = await Forked.start(arguments, clean_environment(), log=log.fileno())

    async def _kill_daemon(self) -> None:
        self._daemon.kill()
        with trio.CancelScope(shield=True):
            await self._daemon.wait()

    async def _kill_some(self, local: LocalManager, kills: int) -> None:
        for _ in range(kills):
            await trio.sleep(self._kill_rng.uniform(*_PAUSES_S))
            await self._kill_one(local)

    async def _kill_one(self, local: LocalManager) -> None:
        victim = self._kill_rng.choice(("daemon", "local"))
        self.kills[victim] += 1
        if victim == "daemon":
            await self._kill_daemon()
            await self._start_daemon()
        else:
            await local.kill()
            await local.start()

    async def _submit_all(self, local: LocalManager) -> None:
        for number in range(self._jobs_count):
            code, retries = self._rng.choice(_CODES), self._rng.choice(_RETRIES)
            script = noting(self._directory / "runs", f"sleep 0.0{self._rng.randrange(10)}; exit {code}")
            queue = self._rng.choice(("root.a", "root.b", "root.c"))
            amount = self._rng.choice((100, 250, 500))
            job = await local.submit(
                script, token=str(number), queue=queue, resource={"vcore": amount}, retries=retries, time_limit_s=300
            )
            attempts = 1 + retries if code else 1
            self._expected[job] = [f"{job}.0" + (f".r{attempt}" if attempt else "") for attempt in range(attempts)]
            self._codes[job] = code

    async def _check(self, local: LocalManager) -> None:
        """Every job has run exactly as often as told, and ended as its command did."""
        for job, code in self._codes.items():
            (task,) = (await local.show(job, waits=True)).tasks
            assert (task.state, task.exit_code) == (State.FAILED if code else State.COMPLETED, code), f"{job}: {task}"
        found: dict[str, list[str]] = {}
        for key in (self._directory / "runs").read_text().split():
            found.setdefault(key.partition(".")[0], []).append(key)
        assert found == self._expected
