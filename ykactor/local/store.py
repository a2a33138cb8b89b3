"""Jobs and tasks on the disk: what is committed survives ``kill -9`` and, as ``synchronous=FULL`` says, a loss of power."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from ykactor.local.model import Job, State, Task

#: Ended jobs are kept so long, and so many of them.
KEPT_NS = 7 * 86_400 * 10**9
KEPT_MAX = 10_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS job(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, token TEXT UNIQUE, data BLOB, ended_ns INTEGER);
CREATE TABLE IF NOT EXISTS task(job TEXT, task_index INTEGER, data BLOB, PRIMARY KEY(job, task_index)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_ended ON job(ended_ns);
"""
_encode = msgspec.json.Encoder().encode
_decode_job = msgspec.json.Decoder(Job).decode
_decode_task = msgspec.json.Decoder(Task).decode


class Store:
    """The one writer of the file ``jobs.sqlite`` in a directory. All methods block.

    Raises:  sqlite3.Error: the disk is full or fails.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "jobs.sqlite"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))  # others may enter; the files beside it are alike
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def next_number(self) -> int:
        """The number of the next job; a number is never used again."""
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'job'").fetchone()
        return (row[0] if row else 0) + 1

    def commit(self, jobs: Sequence[Job], tasks: Iterable[Task], ended: Iterable[str], now_ns: int) -> None:
        """New or changed jobs, changed tasks, and the jobs that have ended: durable when it returns, all of it or nothing.

        The environment of a job that has ended is forgotten: it is large, and may have secrets.
        """
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("UPDATE job SET data = ? WHERE id = ?", [(_encode(job), job.id) for job in jobs])
            self._connection.executemany(
                "INSERT INTO job(id, token, data) VALUES(?, ?, ?)",
                [(job.id, job.token, _encode(job)) for job in jobs if self.find(job.id) is None],
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO task VALUES(?, ?, ?)", [(task.job, task.index, _encode(task)) for task in tasks]
            )
            self._connection.executemany(
                "UPDATE job SET ended_ns = ?, data = ? WHERE id = ?",
                [(now_ns, _encode(structs.replace(job, environ=[])), job.id) for job in filter(None, map(self.find, ended))],
            )

    def unfinished(self) -> Iterator[tuple[Job, list[Task]]]:
        """The jobs that have not ended, the oldest first."""
        for (data,) in self._connection.execute("SELECT data FROM job WHERE ended_ns IS NULL ORDER BY number").fetchall():
            job = _decode_job(data)
            yield job, self.tasks(job.id)

    def tasks(self, job: str, index: int | None = None) -> list[Task]:
        """All tasks of a job, in order, or the one with the index."""
        statement = "SELECT data FROM task WHERE job = ? AND task_index = coalesce(?, task_index) ORDER BY task_index"
        rows = self._connection.execute(statement, (job, index))
        return [_decode_task(data) for (data,) in rows]

    def find(self, job: str) -> Job | None:
        return self._one("SELECT data FROM job WHERE id = ?", job)

    def submitted_with(self, token: str) -> Job | None:
        """The job that was submitted with the token."""
        return self._one("SELECT data FROM job WHERE token = ?", token)

    def _one(self, statement: str, value: str) -> Job | None:
        row = self._connection.execute(statement, (value,)).fetchone()
        return None if row is None else _decode_job(row[0])

    def newest(self, limit: int) -> list[Job]:
        """The newest jobs, the newest last."""
        rows = self._connection.execute("SELECT data FROM job ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
        return [_decode_job(data) for (data,) in reversed(rows)]

    def state_counts(self, job: str) -> dict[State, int]:
        """The number of tasks of a job in each state."""
        statement = "SELECT json_extract(CAST(data AS TEXT), '$.state'), count(*) FROM task WHERE job = ? GROUP BY 1"
        return {State(state): count for state, count in self._connection.execute(statement, (job,))}

    def outdated(self, now_ns: int) -> list[str]:
        """The jobs that have ended long ago, or are too many; the first to end first."""
        statement = """SELECT id FROM job WHERE ended_ns < ? UNION ALL
        SELECT id FROM (SELECT id FROM job WHERE ended_ns IS NOT NULL ORDER BY ended_ns DESC LIMIT -1 OFFSET ?)"""
        return list(dict.fromkeys(job for (job,) in self._connection.execute(statement, (now_ns - KEPT_NS, KEPT_MAX))))

    def forget(self, job: str) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM task WHERE job = ?", (job,))
            self._connection.execute("DELETE FROM job WHERE id = ?", (job,))
