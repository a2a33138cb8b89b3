"""The records of jobs and of each attempt of their tasks, as they are asked for. Reads the file of ``Store``, in any thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import trio
from msgspec import Meta, Struct

from ykactor.local.model import Job, State, Task
from ykactor.local.store import FILE, UID, decode_job, decode_task
from ykactor.local.waiting import Result, result

T = TypeVar("T")

#: Jobs, or attempts, of one answer.
LIMIT_MAX = 10_000
#: Of ended jobs so many are kept, with so many tasks and attempts together.
KEPT_MAX = 10_000
KEPT_ROWS = 1_000_000


class Query(Struct, frozen=True, omit_defaults=True):
    """The jobs, or attempts, that are meant: the newest ones to which all of this applies.

    Attributes:
        limit: how many.
        states: those that a task of the job has, or the attempt; none means any.
        user, queue: of the job; "" means any, and a queue means also those below it.
        since_ns: only what has not ended before this Unix time.
        job, index: the job and the task of it that are meant; "" and None mean any.
        only_present: whether of each task only the present attempt is meant.
    """

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)]
    states: list[State] = []
    user: str = ""
    queue: str = ""
    since_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    job: str = ""
    index: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    only_present: bool = False

    def fits(self, job: Job) -> bool:
        """True if a job has the user and the queue."""
        wanted = self.queue.lower().removeprefix("root.")
        leaf = job.leaf.lower().removeprefix("root.")
        is_below = wanted in ("", "root") or f"{leaf}.".startswith(f"{wanted}.")
        return is_below and self.user in ("", job.user)


Counts = dict[State, int]
#: The data of a job; without an environment, which may have 1 MiB, and which only a job has that has not ended.
_WITHOUT_ENVIRON = """CASE WHEN ended_ns IS NULL
    THEN json_set(CAST(data AS TEXT), '$.environ', json('[]')) ELSE data END"""
#: Of each user those that have ended last are kept longest, so that nobody has them forgotten by submitting many.
_OUTDATED = f"""
WITH own AS (
    SELECT id, number, ended_ns, coalesce(rows, 0) AS rows, row_number() OVER latest AS place, sum(rows) OVER latest AS size
    FROM job LEFT JOIN (
        SELECT job, count(*) AS rows FROM (SELECT job FROM task UNION ALL SELECT job FROM attempt) GROUP BY job
    ) ON job = id WHERE ended_ns IS NOT NULL
    WINDOW latest AS (
        PARTITION BY {UID}
        ORDER BY ended_ns DESC, number DESC ROWS UNBOUNDED PRECEDING))
SELECT id FROM job WHERE ended_ns < ? UNION ALL
SELECT id FROM (SELECT id FROM own ORDER BY place, ended_ns DESC LIMIT -1 OFFSET ?) UNION ALL
SELECT id FROM (SELECT id, sum(rows) OVER (ORDER BY size, ended_ns DESC, number DESC) AS total FROM own) WHERE total > ?
"""
#: A number larger than those of the attempts before the present one.
_PRESENT = 2**31


class Records:
    """A connection for one question.

    Raises:  sqlite3.Error: the disk fails.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def jobs(self, query: Query) -> list[tuple[Job, Counts]]:
        """The jobs, the newest last, and how many of their tasks are in each state."""
        found: list[tuple[Job, Counts]] = []
        for job in self._newest(query):
            counts = self.counts(job.id)
            if not query.states or counts.keys() & set(query.states):
                found.append((job, counts))
                if len(found) == query.limit:
                    break
        return found[::-1]

    def attempts(self, query: Query) -> list[tuple[Job, Task]]:
        """The attempts of jobs, the present ones too; those of the newest job last, and of a job by index and number."""
        found: list[tuple[Job, Task]] = []
        for job in self._newest(query):
            if len(found) == query.limit:
                break
            fitting = (task for task in self._attempts(job.id, query) if _fits(task, query))
            found += [(job, task) for _, task in zip(range(query.limit - len(found)), fitting, strict=False)]
        return found[::-1]

    def counts(self, job: str) -> Counts:
        """The number of tasks of a job in each state."""
        rows = self._connection.execute("SELECT state, count(*) FROM task WHERE job = ? GROUP BY state", (job,))
        return {State(state): count for state, count in rows}

    def results(self, names: Iterable[str]) -> dict[str, Result | None]:
        """The ends of jobs that have ended; None for one that is not there."""
        return {name: self._result(name) for name in names}

    def _result(self, name: str) -> Result | None:
        row = self._connection.execute("SELECT data FROM job WHERE id = ?", (name,)).fetchone()
        if row is None:
            return None
        rows = self._connection.execute("SELECT task_index, state FROM task WHERE job = ?", (name,))
        return result(decode_job(row[0]), {index: State(state) for index, state in rows})

    def outdated(self, before_ns: int) -> list[str]:
        """The jobs that have ended before a time, or are too many, or have too many tasks: then those of the user with most."""
        rows = self._connection.execute(_OUTDATED, (before_ns, KEPT_MAX, KEPT_ROWS))
        return list(dict.fromkeys(job for (job,) in rows))

    def gone(self) -> dict[int | None, list[str]]:
        """The jobs that are forgotten, and have left something behind, by their users."""
        found: dict[int | None, list[str]] = {}
        for job, uid in self._connection.execute("SELECT job, uid FROM gone ORDER BY length(job), job"):
            found.setdefault(uid, []).append(job)
        return found

    def _newest(self, query: Query) -> Iterator[Job]:
        statement = f"""SELECT {_WITHOUT_ENVIRON} FROM job WHERE (ended_ns IS NULL OR ended_ns >= ?) AND (? = '' OR id = ?)
        ORDER BY number DESC"""
        for (data,) in self._connection.execute(statement, (query.since_ns, query.job, query.job)):
            job = decode_job(data)
            if query.fits(job):
                yield job

    def _attempts(self, job: str, query: Query) -> Iterator[Task]:
        """The attempts of the tasks of a job, the last ones first."""
        before = "" if query.only_present else "UNION ALL SELECT data, task_index, attempt FROM attempt WHERE job = :job"
        statement = f"""SELECT data, task_index FROM (
            SELECT data, task_index, {_PRESENT} AS number FROM task WHERE job = :job {before}
        ) WHERE task_index = coalesce(:index, task_index) ORDER BY task_index DESC, number DESC"""
        for data, _ in self._connection.execute(statement, {"job": job, "index": query.index}):
            yield decode_task(data)


async def read(directory: Path, query: Callable[[Records], T]) -> T:
    """The answer to a query about a state directory. It is read beside the event loop: there may be very many records."""

    def in_thread() -> T:
        with records(directory) as kept:
            return query(kept)

    return await trio.to_thread.run_sync(in_thread)


@contextmanager
def records(directory: Path) -> Iterator[Records]:
    """The records in a state directory, of which the store is open."""
    with closing(sqlite3.connect(f"{(directory / FILE).absolute().as_uri()}?mode=ro", uri=True)) as connection:
        yield Records(connection)


def _fits(task: Task, query: Query) -> bool:
    is_late = not task.ended_ns or task.ended_ns >= query.since_ns
    return is_late and (not query.states or task.state in query.states)
