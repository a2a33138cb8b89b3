"""The records of jobs and of each attempt of their tasks, as they are asked for. Reads the file of ``Store``, in any thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
import trio
from msgspec import Meta, Struct

from ykactor.local.model import Job, State, Task
from ykactor.local.store import FILE, UID, decode_job, decode_task, tasks_of, whole
from ykactor.local.waiting import Result, result

T = TypeVar("T")
R = TypeVar("R")

#: Jobs, or attempts, of one question, and bytes of one answer, which is one step of the event loop.
LIMIT_MAX = 10_000
PAGE_BYTES = 2**20
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: A row of an answer: the number of the job; the index of the task and the number of the attempt, 0 for jobs.
Place = tuple[_Number, _Number, _Number]
#: Of ended jobs so many are kept, with so many tasks and attempts together; so many bytes of a job count as another one.
KEPT_MAX = 10_000
KEPT_ROWS = 1_000_000
ROW_BYTES = 1024


class Query(Struct, frozen=True, omit_defaults=True):
    """The jobs, or attempts, that are meant: the newest ones to which all of this applies.

    Attributes:
        limit: how many.
        states: those that a task of the job has, or the attempt; none means any.
        user, queue: of the job; "" means any, and a queue means also those below it.
        since_ns: only what has not ended before this Unix time.
        job, index: the job and the task of it that are meant; "" and None mean any.
        only_present: whether of each task only the present attempt is meant.
        before: the ``more`` of the answer before this one.
    """

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)]
    states: list[State] = []
    user: str = ""
    queue: str = ""
    since_ns: _Number = 0
    job: str = ""
    index: _Number | None = None
    only_present: bool = False
    before: Place | None = None

    def fits(self, job: Job) -> bool:
        """True if a job has the user and the queue."""
        wanted = self.queue.lower().removeprefix("root.")
        leaf = job.leaf.lower().removeprefix("root.")
        is_below = wanted in ("", "root") or f"{leaf}.".startswith(f"{wanted}.")
        return is_below and self.user in ("", job.user)


class Page(Struct, Generic[R], frozen=True):
    """The rows of one answer, the newest last; ``more`` is where to go on, or None if these are all."""

    rows: list[R]
    more: Place | None


Counts = dict[State, int]
#: Of each user those that have ended last are kept longest, so that nobody has them forgotten by submitting many.
_OUTDATED = f"""
WITH sized AS (
    SELECT id, number, ended_ns, {UID} AS uid, coalesce(tasks, 0) + (length(data) + length(bulk)) / {ROW_BYTES} AS rows
    FROM job LEFT JOIN (
        SELECT job, count(*) AS tasks FROM (SELECT job FROM task UNION ALL SELECT job FROM attempt) GROUP BY job
    ) ON job = id WHERE ended_ns IS NOT NULL),
own AS (
    SELECT id, number, ended_ns, rows, row_number() OVER latest AS place, sum(rows) OVER latest AS size FROM sized
    WINDOW latest AS (PARTITION BY uid ORDER BY ended_ns DESC, number DESC ROWS UNBOUNDED PRECEDING))
SELECT id FROM job WHERE ended_ns < ? UNION ALL
SELECT id FROM (SELECT id FROM own ORDER BY place, ended_ns DESC LIMIT -1 OFFSET ?) UNION ALL
SELECT id FROM (SELECT id, sum(rows) OVER (ORDER BY size, ended_ns DESC, number DESC) AS total FROM own) WHERE total > ?
"""
#: A number larger than those of the attempts before the present one.
_PRESENT = 2**31
#: A number larger than those of all jobs and indexes.
_END = 2**63 - 1
_encode = msgspec.json.Encoder().encode


class Records:
    """A connection for one question.

    Raises:  sqlite3.Error: the disk fails.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def jobs(self, query: Query, row: Callable[[Job, Counts], R]) -> Page[R]:
        """The rows of jobs, each of which has how many of its tasks are in each state."""
        pages = _Filling[R](query)
        for number, job in self._newest(query):
            counts = self.counts(job.id)
            if (not query.states or counts.keys() & set(query.states)) and not pages.add((number, 0, 0), row(job, counts)):
                break
        return pages.page()

    def attempts(self, query: Query, row: Callable[[Job, Task], R]) -> Page[R]:
        """The rows of attempts, the present ones too; of a job by index and number."""
        pages = _Filling[R](query)
        for number, job in self._newest(query):
            for task in self._attempts(number, job.id, query):
                if _fits(task, query) and not pages.add((number, task.index, task.attempt), row(job, task)):
                    return pages.page()
        return pages.page()

    def tasks(self, job: str, index: int | None) -> list[Task]:
        """The present attempts of the tasks of a job, in order, or of the one with the index."""
        return tasks_of(self._connection, job, index)

    def counts(self, job: str) -> Counts:
        """The number of tasks of a job in each state."""
        rows = self._connection.execute("SELECT state, count(*) FROM task WHERE job = ? GROUP BY state", (job,))
        return {State(state): count for state, count in rows}

    def results(self, names: Iterable[str]) -> dict[str, Result | None]:
        """The ends of jobs that have ended; None for one that is not there."""
        return {name: self._result(name) for name in names}

    def _result(self, name: str) -> Result | None:
        row = self._connection.execute("SELECT data, bulk FROM job WHERE id = ?", (name,)).fetchone()
        if row is None:
            return None
        rows = self._connection.execute("SELECT task_index, state FROM task WHERE job = ?", (name,))
        return result(whole(*row), {index: State(state) for index, state in rows})

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

    def _newest(self, query: Query) -> Iterator[tuple[int, Job]]:
        """The jobs by their numbers, without what is large of them."""
        statement = """SELECT number, data FROM job WHERE (ended_ns IS NULL OR ended_ns >= :since_ns)
        AND :job IN ('', id) AND number < :end ORDER BY number DESC"""
        end = _END if query.before is None else query.before[0] + (query.before[1:] != (0, 0))
        for number, data in self._connection.execute(statement, {"since_ns": query.since_ns, "job": query.job, "end": end}):
            job = decode_job(data)
            if query.fits(job):
                yield number, job

    def _attempts(self, number: int, job: str, query: Query) -> Iterator[Task]:
        """The attempts of the tasks of a job, the last ones first."""
        before = "" if query.only_present else "UNION ALL SELECT data, task_index, attempt FROM attempt WHERE job = :job"
        statement = f"""SELECT data FROM (
            SELECT data, task_index, {_PRESENT} AS number FROM task WHERE job = :job {before}
        ) WHERE task_index = coalesce(:index, task_index) AND (task_index, number) < (:last, :attempt)
        ORDER BY task_index DESC, number DESC"""
        last, attempt = (_END, 0) if query.before is None or query.before[0] != number else query.before[1:]
        parameters = {"job": job, "index": query.index, "last": last, "attempt": attempt}
        for (data,) in self._connection.execute(statement, parameters):
            yield decode_task(data)


class _Filling(Generic[R]):
    """Rows, the newest first, until there are as many as are wanted, or as many bytes as one answer may have."""

    def __init__(self, query: Query) -> None:
        self._limit = query.limit
        self._rows: list[R] = []
        self._size = 0
        self._last: Place | None = None

    def add(self, place: Place, row: R) -> bool:
        """Add a row; True if another one may follow."""
        self._rows.append(row)
        self._size += len(_encode(row))
        if self._size >= PAGE_BYTES and len(self._rows) < self._limit:
            self._last = place
        return self._size < PAGE_BYTES and len(self._rows) < self._limit

    def page(self) -> Page[R]:
        return Page(self._rows[::-1], self._last)


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
