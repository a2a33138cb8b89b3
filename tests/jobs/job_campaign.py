"""Short jobs, while daemon and local resource manager are killed at random moments; then it is counted how often each has run.

Some are arrays, wait for the ends of others, are retried, or are requeued when they have ended.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import trio
from daemon import clean_environment
from forked import Forked
from localjobs import LocalManager, left_over, local_manager, noting
from msgspec import Struct

from ykactor.local import control
from ykactor.local.model import After, Condition, State

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
#: Exit codes of the tasks: most complete, some fail, and fail again.
_CODES = (0, 0, 0, 0, 3)
_RETRIES = (0, 0, 2)
#: Tasks of a job, and jobs for which it waits.
_COUNTS = (1, 1, 1, 3)
_AFTER = (0, 0, 1, 2)
#: One job of so many is requeued when it has ended; no other one waits for it.
_REQUEUED = 8
#: Seconds between two kills.
_PAUSES_S = (0.1, 2.0)
#: Seconds for a job and for a kill, at most: ten times what they take.
_LIMIT_S = 5


class Expected(Struct):
    """The end of a job as it should be.

    Attributes:
        after: what it waits for.
        codes: the exit codes of its tasks, as they were told.
        states: with which its tasks end.
        runs: the allocation keys with which each task runs, in order.
    """

    after: list[After]
    codes: list[int]
    states: list[State]
    runs: list[list[str]]


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
        self._expected: dict[str, Expected] = {}
        #: The jobs for which others may wait.
        self._awaitable: list[str] = []

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
                        nursery.start_soon(self._submit_all, local, nursery)
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

    # ---- jobs

    async def _submit_all(self, local: LocalManager, nursery: trio.Nursery) -> None:
        for number in range(self._jobs_count):
            is_requeued = self._rng.randrange(_REQUEUED) == 0
            after = [] if is_requeued else self._chosen_after()
            codes = [self._rng.choice(_CODES) for _ in range(self._rng.choice(_COUNTS))]
            fields = {
                "queue": self._rng.choice(("root.a", "root.b", "root.c")),
                "resource": {"vcore": self._rng.choice((100, 250, 500))},
                "retries": self._rng.choice(_RETRIES),
                "retry_delay_s": self._rng.choice((0, 0.1)),
                "last": len(codes) - 1,
                "at_most": self._rng.choice((0, 2)),
                "after": after,
            }
            job = await local.submit(self._script(codes), token=str(number), time_limit_s=300, **fields)
            self._expected[job] = self._predicted(job, codes, 1 + fields["retries"], after)
            if is_requeued:
                nursery.start_soon(self._requeue, local, job)
            else:
                self._awaitable.append(job)

    def _chosen_after(self) -> list[After]:
        """Ends of earlier jobs, or of one task of them."""
        jobs = self._rng.sample(self._awaitable, min(self._rng.choice(_AFTER), len(self._awaitable)))
        return [After(job, self._rng.choice((None, None, 0)), self._rng.choice(list(Condition))) for job in jobs]

    def _script(self, codes: list[int]) -> str:
        """The script of a job, which notes its begin and its end."""
        took = f"sleep 0.0{self._rng.randrange(10)}"
        code = f"set -- {' '.join(map(str, codes))}; shift $YKACTOR_TASK; exit $1"
        return noting(self._directory / "runs", f'{took}; echo "-$YKACTOR_ALLOCATION" >> {self._directory}/runs; {code}')

    def _predicted(self, job: str, codes: list[int], attempts: int, after: list[After]) -> Expected:
        found = Expected(after, codes, [], [])
        for index, code in enumerate(codes):
            is_met = all(self._is_met(each, len(codes), index) for each in after)
            found.states.append((State.FAILED if code else State.COMPLETED) if is_met else State.CANCELLED)
            found.runs.append([_key(job, index, attempt) for attempt in range((attempts if code else 1) if is_met else 0)])
        return found

    def _is_met(self, after: After, count: int, index: int) -> bool:
        states = self._expected[after.job].states
        is_completed = all(states[each] is State.COMPLETED for each in self._awaited(after, count, index))
        return after.condition is Condition.ANY or is_completed is (after.condition is Condition.OK)

    def _awaited(self, after: After, count: int, index: int) -> list[int]:
        """The tasks of the other job for which a task waits: of two arrays with the same indexes, that with its own."""
        if after.index is not None:
            return [after.index]
        others = len(self._expected[after.job].codes)
        return [index] if 1 < count == others else list(range(others))

    async def _requeue(self, local: LocalManager, job: str) -> None:
        """Run all tasks of a job once more. If no answer comes, its attempts say whether it was done."""
        before = [task.attempt for task in (await local.show(job, waits=True)).tasks]
        request = control.Requeue(job, None, only_failed=False, environ=[b"PATH=" + os.environb[b"PATH"]])
        while [task.attempt for task in (await local.show(job)).tasks] == before:
            try:
                answer = await control.ask(local.directory, request)
                assert isinstance(answer, control.Done), answer
            except control.NoManager:
                await trio.sleep(0.05)
        for index, attempt in enumerate(before):
            self._expected[job].runs[index].append(_key(job, index, attempt + 1))

    # ---- what has become of them

    async def _check(self, local: LocalManager) -> None:
        """Every task has run exactly as often as told, after all that it waits for, and ended as its command did."""
        for job, expected in self._expected.items():
            tasks = (await local.show(job, waits=True)).tasks
            codes = [
                None if state is State.CANCELLED else code for state, code in zip(expected.states, expected.codes, strict=True)
            ]
            found = [(task.state, task.exit_code) for task in tasks]
            assert found == list(zip(expected.states, codes, strict=True)), f"{job}: {tasks}"
        noted = (self._directory / "runs").read_text().split()
        for sign in ("", "-"):
            runs = Counter(key.removeprefix("-") for key in noted if key.startswith("-") is bool(sign))
            assert runs == Counter(key for each in self._expected.values() for keys in each.runs for key in keys)
        self._check_order({key: place for place, key in enumerate(noted)})

    def _check_order(self, places: dict[str, int]) -> None:
        """Each attempt has begun after the end of the one before it, and each task after those for which it waits."""
        for expected in self._expected.values():
            for index, keys in enumerate(expected.runs):
                earlier = [f"-{key}" for key in keys[:-1]]
                assert all(places[end] < places[begin] for end, begin in zip(earlier, keys[1:], strict=True))
                for after in expected.after if keys else []:
                    for each in self._awaited(after, len(expected.codes), index):
                        ends = [places[f"-{key}"] for key in self._expected[after.job].runs[each]]
                        assert max(ends, default=-1) < places[keys[0]], f"{keys[0]} has begun before the end of {after}"


def _key(job: str, index: int, attempt: int) -> str:
    return f"{job}.{index}" + (f".r{attempt}" if attempt else "")
