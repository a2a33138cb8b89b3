"""Commands for the ends of jobs, without processes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from localjobs import job_of

from ykactor.local.hooking import LIMIT_S, TOGETHER_MAX, Hooking
from ykactor.local.hooks import hook_of
from ykactor.local.model import Job, State, Task
from ykactor.local.processes import NotStarted
from ykactor.local.store import KeptHook, Store


class Fake:
    """A store of hooks, and processes that run until they are told to end."""

    def __init__(self, hooks: list[KeptHook]) -> None:
        self.kept = hooks
        self.begun: dict[int, trio.Event] = {}
        self.terminated: list[tuple[int, float]] = []
        self.broken = False

    def hooks(self, after: int) -> list[KeptHook]:
        return [kept for kept in self.kept if kept.number > after]

    def hook(self, number: int) -> Job:
        return job_of("", id=f"job-{number}")

    def forget_hook(self, number: int) -> None:
        self.kept = [kept for kept in self.kept if kept.number != number]

    def has_begun(self, task: Task) -> bool:
        return task.attempt in self.begun

    def start(self, _job: Job, task: Task) -> None:
        if self.broken:
            raise NotStarted("no such directory")
        assert not self.has_begun(task)
        self.begun[task.attempt] = trio.Event()

    async def wait(self, task: Task) -> None:
        await self.begun[task.attempt].wait()

    async def terminate(self, task: Task) -> None:
        self.terminated.append((task.attempt, trio.current_time()))
        self.begun[task.attempt].set()


def hooking(fake: Any, ended: list[str]) -> Hooking:
    return Hooking(fake, fake, ended.append, ended.append)


async def test_a_hook_has_a_time_limit(autojump_clock: trio.testing.MockClock) -> None:
    """The hook is ended then, and forgotten. One that another run of the program has begun is not started again."""
    fake, ended = Fake([KeptHook(1, "job-1", None), KeptHook(2, "job-2", None)]), list[str]()
    fake.begun[2] = trio.Event()
    async with trio.open_nursery() as nursery:
        hooking(fake, ended).start(nursery)
    assert sorted(fake.terminated) == [(1, LIMIT_S), (2, LIMIT_S)]
    assert (fake.kept, sorted(ended)) == ([], ["job-1", "job-2"])


async def test_hooks_of_a_user_wait_for_each_other(autojump_clock: trio.testing.MockClock) -> None:
    """Hooks of others do not; what is stopped begins no further one, and keeps it."""
    fake = Fake([KeptHook(number, "job-1", 1 + number // 10) for number in range(1, 11)])
    async with trio.open_nursery() as nursery:
        found = hooking(fake, [])
        found.start(nursery)
        found.start(nursery)
        await trio.testing.wait_all_tasks_blocked()
        assert len(fake.begun) == TOGETHER_MAX + 1 == found.running
        assert 10 in fake.begun
        found.stop()
    assert (len(fake.kept), found.running) == (10 - TOGETHER_MAX - 1, 0)


async def test_a_hook_that_cannot_be_started_is_forgotten() -> None:
    """The reason is said."""
    fake, said = Fake([KeptHook(1, "job-1", None)]), list[str]()
    fake.broken = True
    async with trio.open_nursery() as nursery:
        hooking(fake, said).start(nursery)
    assert (fake.kept, said) == ([], ["the hook of job-1: no such directory", "job-1"])


@pytest.mark.parametrize(
    ("ends", "state", "code"),
    [
        ([(State.COMPLETED, 0)], "Completed", "0"),
        ([(State.COMPLETED, 0), (State.FAILED, 3), (State.FAILED, 4)], "Failed", "3"),
        ([(State.CANCELLED, None), (State.TIMED_OUT, None)], "TimedOut", ""),
        ([(State.CANCELLED, 143), (State.COMPLETED, 0)], "Cancelled", "143"),
    ],
)
def test_what_a_hook_is_told(ends: list[tuple[State, int | None]], state: str, code: str) -> None:
    """The state is that of the task that decides how the job has ended."""
    tasks = [Task("job-1", index, end, exit_code=exit_code) for index, (end, exit_code) in enumerate(ends)]
    job = job_of("", id="job-1", on_end=b"mail", script=b"#!/bin/sh", environ=[b"A=1"], has_slurm_names=True)
    hook = hook_of(job, tasks)
    assert hook is not None
    assert hook.arguments == [b"/bin/sh", b"-c", b"mail"]
    assert {b"A=1", f"YKACTOR_STATE={state}".encode(), f"YKACTOR_EXIT_CODE={code}".encode()} <= set(hook.environ)
    assert (hook.script, hook.has_slurm_names) == (b"", False)


def test_a_hook_takes_little_and_has_no_terminal() -> None:
    """Hooks run outside of the queues, whatever their jobs want; the terminal of a job may be another window by then."""
    job = job_of("", on_end=b"mail", resource={"vcore": 64_000, "memory": 2**38, "gpu": 8}, terminal=b"/dev/pts/7")
    hook = hook_of(job, [Task("job-1", 0, State.COMPLETED)])
    assert hook is not None
    assert (hook.resource, hook.terminal) == ({"vcore": 100, "memory": 64 * 2**20}, b"")


@pytest.mark.parametrize("other", [State.REJECTED, State.CANCELLED])
def test_a_job_that_was_rejected_has_no_hook(other: State) -> None:
    """Such a job was taken by no queue. What has begun before a rejection has one."""
    job = job_of("", on_end=b"mail")
    rejected, task = Task("job-1", 0, State.REJECTED), Task("job-1", 1, other)
    assert hook_of(job, [rejected, task]) is None
    task.started_ns = 1
    assert hook_of(job, [rejected, task]) is not None


def test_a_job_is_not_forgotten_before_its_hook_has_ended(tmp_path: Path) -> None:
    """The hook uses files of the job."""
    with closing(Store(tmp_path)) as store:
        store.commit([job_of("", id="job-1", on_end=b"mail")], [Task("job-1", 0, State.FAILED)], ["job-1"], 0)
        store.forget(["job-1"])
        assert (store.find("job-1") is not None, store.has_hook("job-1")) == (True, True)
        store.forget_hook(1)
        store.forget(["job-1"])
        assert (store.find("job-1"), store.has_hook("job-1")) == (None, False)


def test_each_end_of_a_job_has_a_hook(tmp_path: Path) -> None:
    """A hook is kept in one commit with the end, with the environment of the job; without a command there is none."""
    store = Store(tmp_path)
    jobs = [job_of("", id=f"job-{number}", on_end=on_end, environ=[b"A=1"]) for number, on_end in ((1, b"mail"), (2, b""))]
    store.commit(jobs, [Task(job.id, 0, State.FAILED, exit_code=1) for job in jobs], ["job-1", "job-2"], 0)
    assert store.hooks() == [KeptHook(1, "job-1", None)]
    assert b"A=1" in store.hook(1).environ
    assert store.find("job-1").environ == []  # type: ignore[union-attr]
    store.forget_hook(1)
    store.commit(jobs[:1], [], ["job-1"], 0)
    assert store.hooks() == store.hooks(1) == [KeptHook(2, "job-1", None)]
    store.close()
