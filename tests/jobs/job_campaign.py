"""Short jobs, while daemon and local resource manager are killed at random moments; then it is counted how often each has run.

Some are arrays, wait for the ends of others, are retried, or are requeued when they have ended. They are of one user or several.
"""

from __future__ import annotations

import os
import random
import socket
from collections import Counter
from pathlib import Path

import trio
from daemon import clean_environment
from forked import Forked
from localjobs import LocalManager, left_over, local_manager, noting
from msgspec import Struct
from otherusers import BIN, DAEMON, LOGIN

from ykactor.local import control
from ykactor.local.model import After, Condition, State

VCORE, GPU = "vcore", "nvidia.com/gpu"
#: What the tasks in a queue, and those of a user in it, may use at a time; cores in thousandths.
QUOTAS = {
    ("root.a", ""): {VCORE: 1000},
    ("root.b", ""): {VCORE: 500},
    ("root.c", ""): {VCORE: 3000},
    ("root.c", "daemon"): {VCORE: 750, GPU: 1},
    ("root.c", "bin"): {VCORE: 1500},
}
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 1}}}
          - {name: b, resources: {max: {vcore: 500m}}}
          - name: c
            resources: {max: {vcore: 3}}
            limits:
              - {limit: a, users: [daemon], maxresources: {vcore: 750m, nvidia.com/gpu: 1}}
              - {limit: b, users: [bin], maxresources: {vcore: 1500m}}
"""
ACCESS = f"""
identities:
  - {{name: local, roles: [rm], rmIDs: [local-{socket.gethostname()}], users: ["*"], groups: ["*"], proofs: [{{user: root}}]}}
"""
#: Exit codes of the tasks: most complete, some fail, and fail again.
_CODES = (0, 0, 0, 0, 3)
_RETRIES = (0, 0, 2)
#: Tasks of a job, and jobs for which it waits.
_COUNTS = (1, 1, 1, 3)
_AFTER = (0, 0, 1, 2)
#: One job of so many is requeued when it has ended; no other one waits for it.
_REQUEUED = 8
#: GPUs of the machine, and of a task.
_MACHINE_GPUS, _GPUS = 2, (0, 0, 0, 1)
#: Bytes of memory of a task.
_MEMORY = 2**26
#: Exit codes of a task that does not run as its user, and of one whose GPU another one has.
_WRONG_USER, _WRONG_GPU = 99, 98
#: Seconds between two kills.
_PAUSES_S = (0.1, 2.0)
#: Seconds for a job and for a kill, at most: ten times what they take.
_LIMIT_S = 5


class Site(Struct, frozen=True):
    """The users of a machine.

    Attributes:
        uids: of those who submit, by name; None is the user of the local resource manager, who has no name here.
        options: of the local resource manager.
        has_access: whether the daemon has an access file.
    """

    uids: dict[str, int | None]
    options: tuple[str, ...]
    has_access: bool


ONE_USER = Site({"": None}, (), has_access=False)
TWO_USERS = Site({"daemon": DAEMON, "bin": BIN}, ("--system", "--min-uid", "1"), has_access=True)


class Expected(Struct):
    """A job, and its end as it should be.

    Attributes:
        after: what it waits for.
        codes: the exit codes of its tasks, as they were told.
        states: with which its tasks end.
        runs: the allocation keys with which each task runs, in order.
    """

    user: str
    queue: str
    resource: dict[str, int]
    after: list[After]
    codes: list[int]
    states: list[State]
    runs: list[list[str]]


class Campaign:
    """One daemon, one local resource manager, and jobs of which it is known what should become of them.

    Args:
        directory: one that the users of the site can enter.

    Attributes:
        kills: how often each of the two was killed.
    """

    def __init__(self, directory: Path, site: Site, jobs_count: int, seed: int) -> None:
        self._directory = directory
        self._site = site
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
        self._prepare()
        await self._start_daemon()
        amounts = ("--resource", "vcore=4", "--gpu-type", GPU, "--resource", f"{GPU}={_MACHINE_GPUS}")
        try:
            async with local_manager(self._directory / "l", self._address, *amounts, *self._site.options) as local:
                with trio.fail_after(_LIMIT_S * (self._jobs_count + kills)):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._submit_all, local, nursery)
                        nursery.start_soon(self._kill_some, local, kills)
                    await self._check(local)
                assert left_over(self._directory) == []
        finally:
            await self._kill_daemon()

    def _prepare(self) -> None:
        """Make the files, and what jobs of all users write to."""
        (self._directory / "queues.yaml").write_text(QUEUES)
        (self._directory / "access.yaml").write_text(ACCESS)
        (self._directory / "access.yaml").chmod(0o600)
        (self._directory / "runs").touch()
        (self._directory / "runs").chmod(0o666)
        (self._directory / "gpus").mkdir()
        (self._directory / "gpus").chmod(0o777)
        (self._directory / "l").mkdir()
        (self._directory / "l").chmod(0o755 if self._site.has_access else 0o700)
        for user, uid in self._site.uids.items():
            self._owned(user).touch()
            os.chown(self._owned(user), -1 if uid is None else uid, -1)

    def _owned(self, user: str) -> Path:
        """A file of a user."""
        return self._directory / f"of-{user}"

    @property
    def _address(self) -> str:
        return f"unix:{self._directory}/ws"

    async def _start_daemon(self) -> None:
        options = ["--state-dir", self._directory / "s", "--config", self._directory / "queues.yaml", "--http", "none"]
        if self._site.has_access:
            options += ["--access", self._directory / "access.yaml"]
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
            user = self._rng.choice(list(self._site.uids))
            codes = [self._rng.choice(_CODES) for _ in range(self._rng.choice(_COUNTS))]
            fields = {
                "queue": self._rng.choice(("root.a", "root.b", "root.c")),
                "resource": {VCORE: self._rng.choice((100, 250, 500)), GPU: self._rng.choice(_GPUS), "memory": _MEMORY},
                "retries": self._rng.choice(_RETRIES),
                "retry_delay_s": self._rng.choice((0, 0.1)),
                "last": len(codes) - 1,
                "at_most": self._rng.choice((0, 2)),
                "after": [] if is_requeued else self._chosen_after(),
                "login": LOGIN,
            }
            script = self._script(user, fields["resource"], codes)
            job = await local.submit(script, self._site.uids[user], token=str(number), time_limit_s=300, **fields)
            expected = Expected(user, fields["queue"], fields["resource"], fields["after"], codes, [], [])
            self._predict(job, expected, 1 + fields["retries"])
            self._expected[job] = expected
            if is_requeued:
                nursery.start_soon(self._requeue, local, job)
            else:
                self._awaitable.append(job)

    def _chosen_after(self) -> list[After]:
        """Ends of earlier jobs, or of one task of them."""
        jobs = self._rng.sample(self._awaitable, min(self._rng.choice(_AFTER), len(self._awaitable)))
        return [After(job, self._rng.choice((None, None, 0)), self._rng.choice(list(Condition))) for job in jobs]

    def _script(self, user: str, resource: dict[str, int], codes: list[int]) -> str:
        """The script of a job, which notes its begin and end, and fails as another user or with the GPU of another task."""
        gpu = f"{self._directory}/gpus/$CUDA_VISIBLE_DEVICES"
        took, gave = (f"mkdir {gpu} || exit {_WRONG_GPU}", f"rmdir {gpu}") if resource[GPU] else (":", ":")
        sleep = f"sleep 0.0{self._rng.randrange(10)}"
        end = f'echo "-$YKACTOR_ALLOCATION" >> {self._directory}/runs'
        code = f"set -- {' '.join(map(str, codes))}; shift $YKACTOR_TASK; exit $1"
        noted = noting(self._directory / "runs", "; ".join((took, sleep, gave, end, code)))
        return f"[ -O {self._owned(user)} ] || exit {_WRONG_USER}; {noted}"

    def _predict(self, job: str, expected: Expected, attempts: int) -> None:
        for index, code in enumerate(expected.codes):
            is_met = all(self._is_met(each, len(expected.codes), index) for each in expected.after)
            expected.states.append((State.FAILED if code else State.COMPLETED) if is_met else State.CANCELLED)
            expected.runs.append([_key(job, index, attempt) for attempt in range((attempts if code else 1) if is_met else 0)])

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
                answer = await local.ask(request, self._site.uids[self._expected[job].user])
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
        self._check_quotas(noted)

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

    def _check_quotas(self, noted: list[str]) -> None:
        """Never more has run in a queue, or of a user there, than may: a task notes begin and end while it has its place."""
        used = {owner: Counter[str]() for owner in QUOTAS}
        for key in noted:
            expected = self._expected[key.removeprefix("-").partition(".")[0]]
            for owner in {(expected.queue, ""), (expected.queue, expected.user)} & set(QUOTAS):
                for name, amount in expected.resource.items():
                    used[owner][name] += -amount if key.startswith("-") else amount
                assert all(used[owner][name] <= most for name, most in QUOTAS[owner].items()), f"{owner}: {used[owner]} at {key}"


def _key(job: str, index: int, attempt: int) -> str:
    return f"{job}.{index}" + (f".r{attempt}" if attempt else "")
