"""Jobs and tasks on the disk: what is committed survives ``kill -9`` and, as ``synchronous=FULL`` says, a loss of power."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from ykactor.local.hooks import hook_of
from ykactor.local.model import Job, Task

FILE = "jobs.sqlite"
#: Attempts of a task that are kept, and rows that one commit deletes.
KEPT_ATTEMPTS = 20
#: Bytes of the arguments of a job that lists show.
WORDS_MAX = 4096
_CLEARED_MAX = 500

_SCHEMA = """
CREATE TABLE IF NOT EXISTS job(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, token TEXT UNIQUE, data BLOB, ended_ns INTEGER, bulk BLOB);
CREATE TABLE IF NOT EXISTS task(
    job TEXT, task_index INTEGER, data BLOB, state TEXT, PRIMARY KEY(job, task_index)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attempt(
    job TEXT, task_index INTEGER, attempt INTEGER, data BLOB, PRIMARY KEY(job, task_index, attempt)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS gone(job TEXT PRIMARY KEY, uid INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS hook(number INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT, uid INTEGER, data BLOB);
CREATE INDEX IF NOT EXISTS job_ended ON job(ended_ns);
"""
#: The file of version 0.2 has the state of a task only in its data.
_ADD_STATES = """
ALTER TABLE task ADD COLUMN state TEXT;
UPDATE task SET state = json_extract(CAST(data AS TEXT), '$.state');
"""
_INDEX_STATES = "CREATE INDEX IF NOT EXISTS task_state ON task(job, state)"
#: The user of a job on a shared machine.
UID = "json_extract(CAST(data AS TEXT), '$.login.uid')"
#: A hook that has not ended uses the files of its job.
_ENDED = "ended_ns IS NOT NULL AND id IN (SELECT value FROM json_each(?)) AND id NOT IN (SELECT job FROM hook)"
_encode = msgspec.json.Encoder().encode
decode_job = msgspec.json.Decoder(Job).decode
decode_task = msgspec.json.Decoder(Task).decode


class _Bulk(Struct, frozen=True):
    """The large parts of a job, which lists do not read: a column of their own."""

    arguments: list[bytes]
    environ: list[bytes]
    ranges: list[tuple[int, int]]
    script: bytes = b""


_decode_bulk = msgspec.json.Decoder(_Bulk).decode


def _bulk_of(job: Job) -> bytes:
    return _encode(_Bulk(job.arguments, job.environ, job.ranges, job.script))


def _brief(job: Job) -> bytes:
    """A job without what is large: of its arguments as many as a list shows, and the beginning of another one."""
    size, arguments = 0, list[bytes]()
    for word in job.arguments:
        arguments.append(word[: WORDS_MAX + 1])
        if size > WORDS_MAX:
            break
        size += len(word) + 1
    return _encode(structs.replace(job, arguments=arguments, environ=[], ranges=[], script=b""))


def whole(data: bytes, bulk: bytes) -> Job:
    """A job as it was submitted, of both columns."""
    found = _decode_bulk(bulk)
    return structs.replace(
        decode_job(data), arguments=found.arguments, environ=found.environ, ranges=found.ranges, script=found.script
    )


def tasks_of(connection: sqlite3.Connection, job: str, index: int | None = None) -> list[Task]:
    """All tasks of a job, in order, or the one with the index."""
    statement = "SELECT data FROM task WHERE job = ? AND task_index = coalesce(?, task_index) ORDER BY task_index"
    return [decode_task(data) for (data,) in connection.execute(statement, (job, index))]


class KeptHook(NamedTuple):
    """A hook: its number, which no other one ever has, its job, and the user on a shared machine."""

    number: int
    job: str
    uid: int | None


class Store:
    """The one writer of the file ``jobs.sqlite`` in a directory; ``Records`` reads it too. All methods block.

    Raises:  sqlite3.Error: the disk is full or fails.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        path = directory / FILE
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))  # others may enter; the files beside it are alike
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(_SCHEMA)
        if "state" not in {row[1] for row in self._connection.execute("PRAGMA table_info(task)")}:
            self._connection.executescript(f"BEGIN; {_ADD_STATES} COMMIT;")
        self._connection.execute(_INDEX_STATES)
        if "bulk" not in {row[1] for row in self._connection.execute("PRAGMA table_info(job)")}:
            self._add_bulk()

    def _add_bulk(self) -> None:
        """The file of an older version has all of a job in one column."""
        numbers = [number for (number,) in self._connection.execute("SELECT number FROM job")]
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("ALTER TABLE job ADD COLUMN bulk BLOB")
            for number in numbers:
                ((data,),) = self._connection.execute("SELECT data FROM job WHERE number = ?", (number,))
                job = decode_job(data)
                row = _brief(job), _bulk_of(job), number
                self._connection.execute("UPDATE job SET data = ?, bulk = ? WHERE number = ?", row)

    def close(self) -> None:
        self._connection.close()

    def next_number(self) -> int:
        """The number of the next job; a number is never used again."""
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'job'").fetchone()
        return (row[0] if row else 0) + 1

    def commit(
        self,
        jobs: Sequence[Job],
        tasks: Iterable[Task],
        ended: Iterable[str],
        now_ns: int,
        attempts: Sequence[Task] = (),
    ) -> None:
        """New or changed jobs, changed tasks, and the jobs that have ended: durable when it returns, all of it or nothing.

        A job that changes has not ended, or goes on; ``attempts`` are those that others have followed. The environment of a job
        that has ended is forgotten, or kept only for its hook: it is large, and may have secrets.
        """
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                row = _brief(job), _bulk_of(job), job.id
                changed = self._connection.execute("UPDATE job SET data = ?, bulk = ?, ended_ns = NULL WHERE id = ?", row)
                if not changed.rowcount:
                    self._connection.execute("INSERT INTO job(data, bulk, id, token) VALUES(?, ?, ?, ?)", (*row, job.token))
            self._connection.executemany(
                "INSERT OR REPLACE INTO task(job, task_index, data, state) VALUES(?, ?, ?, ?)",
                [(task.job, task.index, _encode(task), task.state.value) for task in tasks],
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO attempt VALUES(?, ?, ?, ?)",
                [(task.job, task.index, task.attempt, _encode(task)) for task in attempts],
            )
            self._connection.executemany(
                "DELETE FROM attempt WHERE job = ? AND task_index = ? AND attempt <= ?",
                [(task.job, task.index, task.attempt - KEPT_ATTEMPTS) for task in attempts if task.attempt >= KEPT_ATTEMPTS],
            )
            over = list(filter(None, map(self.find, ended)))
            hooks = list(filter(None, (hook_of(job, self.tasks(job.id)) for job in over if job.on_end)))
            self._connection.executemany(
                "INSERT INTO hook(job, uid, data) VALUES(?, ?, ?)",
                [(hook.id, hook.login.uid if hook.login else None, _encode(hook)) for hook in hooks],
            )
            self._connection.executemany(
                "UPDATE job SET ended_ns = ?, bulk = ? WHERE id = ?",
                [(now_ns, _bulk_of(structs.replace(job, environ=[])), job.id) for job in over],
            )

    def hooks(self, after: int = 0) -> list[KeptHook]:
        """The hooks that have not ended, those behind a number."""
        rows = self._connection.execute("SELECT number, job, uid FROM hook WHERE number > ? ORDER BY number", (after,))
        return [KeptHook(*row) for row in rows]

    def has_hook(self, job: str) -> bool:
        """True if the hook of a job has not ended."""
        return self._connection.execute("SELECT 1 FROM hook WHERE job = ?", (job,)).fetchone() is not None

    def hook(self, number: int) -> Job:
        """A hook that has not ended."""
        ((data,),) = self._connection.execute("SELECT data FROM hook WHERE number = ?", (number,))
        return decode_job(data)

    def forget_hook(self, number: int) -> None:
        """Forget a hook that has ended."""
        with self._connection:
            self._connection.execute("DELETE FROM hook WHERE number = ?", (number,))

    def unfinished(self) -> Iterator[tuple[Job, list[Task]]]:
        """The jobs that have not ended, the oldest first."""
        numbers = self._connection.execute("SELECT id FROM job WHERE ended_ns IS NULL ORDER BY number").fetchall()
        for job in filter(None, (self.find(name) for (name,) in numbers)):
            yield job, self.tasks(job.id)

    def tasks(self, job: str, index: int | None = None) -> list[Task]:
        """All tasks of a job, in order, or the one with the index."""
        return tasks_of(self._connection, job, index)

    def find(self, job: str) -> Job | None:
        return self._one("SELECT data, bulk FROM job WHERE id = ?", job)

    def submitted_with(self, token: str) -> Job | None:
        """The job that was submitted with the token."""
        return self._one("SELECT data, bulk FROM job WHERE token = ?", token)

    def _one(self, statement: str, value: str) -> Job | None:
        row = self._connection.execute(statement, (value,)).fetchone()
        return None if row is None else whole(*row)

    def forget(self, jobs: Sequence[str]) -> None:
        """Jobs are there no more, unless they, or their hooks, have not ended: one of them may go on again.

        Their tasks are left to ``clear``.
        """
        named = (_encode(jobs),)
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(f"INSERT INTO gone SELECT id, {UID} FROM job WHERE {_ENDED}", named)
            self._connection.execute(f"DELETE FROM job WHERE {_ENDED}", named)

    def clear(self, jobs: Sequence[str]) -> bool:
        """Delete some of the tasks of jobs that are forgotten; True if nothing of them is left."""
        named = {"jobs": _encode(jobs), "most": _CLEARED_MAX}
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for table, key in (("attempt", "job, task_index, attempt"), ("task", "job, task_index")):
                found = f"SELECT {key} FROM {table} WHERE job IN (SELECT value FROM json_each(:jobs)) LIMIT :most"
                if self._connection.execute(f"DELETE FROM {table} WHERE ({key}) IN ({found})", named).rowcount:
                    return False
            self._connection.execute("DELETE FROM gone WHERE job IN (SELECT value FROM json_each(?))", (named["jobs"],))
        return True
