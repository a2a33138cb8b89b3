"""Old jobs of a local resource manager: when they are forgotten, and what becomes of what they have written."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trio
from localjobs import job_of
from trio.testing import wait_all_tasks_blocked

from ykactor.local.forgetting import Forgetting
from ykactor.local.login import Login
from ykactor.local.model import State, Task
from ykactor.local.records import Query, records
from ykactor.local.store import Store

ANN, BOB = 1001, 1002


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path)
    yield opened
    opened.close()


def keep(store: Store, jobs: dict[str, int]) -> None:
    """Jobs of users, which have ended."""
    made = [job_of("true", id=name, token=name, login=Login(uid)) for name, uid in jobs.items()]
    store.commit(made, [Task(name, 0, State.COMPLETED) for name in jobs], jobs, 1)


class Files:
    """The files that jobs have written.

    Args:
        stay: the jobs of which something is left, however often it is deleted.
        hangs: the user whose files are not deleted as long as the test lasts.
    """

    def __init__(self, stay: Sequence[str] = (), hangs: int | None = None) -> None:
        self.stay = stay
        self.hangs = hangs
        self.deleted: list[tuple[int | None, list[str]]] = []
        self.then: Callable[[], None] = lambda: None

    async def remove(self, jobs: Sequence[str], uid: int | None) -> list[str]:
        if uid == self.hangs:
            await trio.sleep_forever()
        self.deleted.append((uid, list(jobs)))
        self.then()
        return [job for job in jobs if job in self.stay]


class Log(list[str]):
    def __init__(self, store: Store, files: Files) -> None:
        self.forgetting = Forgetting(store, files, lambda: 2, self.append)


def left(directory: Path) -> tuple[list[str], dict[int | None, list[str]]]:
    """The jobs that are kept, and those of which something is left."""
    with records(directory) as kept:
        return kept.jobs(Query(99), lambda job, counts: job.id).rows, kept.gone()


async def test_the_jobs_of_a_user_are_deleted_together(store: Store, tmp_path: Path) -> None:
    """One program for each user is started, and not one for each job; then nothing is left, which nobody needs to know."""
    keep(store, {f"job-{number}": ANN if number % 2 else BOB for number in range(1, 201)})
    files = Files()
    said = Log(store, files)
    await said.forgetting.sweep()
    assert sorted((uid, len(jobs)) for uid, jobs in files.deleted) == [(ANN, 100), (BOB, 100)]
    assert (left(tmp_path), said) == (([], {}), [])


async def test_a_user_whose_files_cannot_be_deleted_delays_nobody(store: Store, tmp_path: Path) -> None:
    """The files of others are; the jobs of both are forgotten before."""
    keep(store, {"job-1": ANN, "job-2": BOB})
    files, deleted = Files(hangs=ANN), trio.Event()
    files.then = deleted.set
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Log(store, files).forgetting.sweep)
        await deleted.wait()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert left(tmp_path) == ([], {ANN: ["job-1"]})
    files = Files()
    await Log(store, files).forgetting.sweep()  # as after a restart
    assert (files.deleted, left(tmp_path)) == ([(ANN, ["job-1"])], ([], {}))


async def test_what_cannot_be_deleted_is_said_once(store: Store, tmp_path: Path) -> None:
    """An undeletable file is left, and so are the others of the user if there is no end of them; the next sweep skips them."""
    keep(store, {f"job-{number}": ANN for number in range(1, 31)})
    files = Files(stay=["job-3", "job-7"])
    said = Log(store, files)
    await said.forgetting.sweep()
    assert said == [f"what job-3, job-7 have written cannot be deleted, and is left in {tmp_path}/jobs"]
    assert [len(jobs) for _, jobs in files.deleted] == [30, 2, 1]
    await said.forgetting.sweep()
    assert (len(said), len(files.deleted), left(tmp_path)) == (1, 3, ([], {}))

    keep(store, {f"job-{number}": ANN for number in range(31, 61)})
    files = Files(stay=[f"job-{number}" for number in range(31, 61)])
    said = Log(store, files)
    await said.forgetting.sweep()
    assert (len(files.deleted), left(tmp_path)) == (10, ([], {}))
    names = ", ".join(f"job-{number}" for number in range(31, 41))
    assert said == [f"what {names} and 20 more have written cannot be deleted, and is left in {tmp_path}/jobs"]


async def test_a_program_that_cannot_be_started_deletes_nothing(store: Store, tmp_path: Path) -> None:
    """A program that cannot start, as when the machine has no more processes, is named with its reason."""
    keep(store, {"job-1": ANN})
    files = Files()

    def fail() -> None:
        raise BlockingIOError("no process is left")

    files.then = fail
    said = Log(store, files)
    await said.forgetting.sweep()
    assert said == [f"what job-1 has written cannot be deleted, and is left in {tmp_path}/jobs: no process is left"]
    assert left(tmp_path) == ([], {})


async def test_a_job_that_goes_on_meanwhile_is_not_forgotten(store: Store, tmp_path: Path) -> None:
    """The job was requeued after the sweep had found it, and before its turn came."""
    keep(store, {f"job-{number}": ANN for number in range(1, 102)})
    found: list[str] = []

    class Requeued(Store):
        def forget(self, jobs: Sequence[str]) -> None:
            found.extend(jobs)
            if len(found) == len(jobs):
                self.commit([job for job in [self.find("job-101")] if job], [], [], 1)
            super().forget(jobs)

    requeued = Requeued(tmp_path)
    await Log(requeued, Files()).forgetting.sweep()
    requeued.close()
    assert "job-101" in found
    assert left(tmp_path) == (["job-101"], {})
