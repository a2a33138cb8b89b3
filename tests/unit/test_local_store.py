"""Jobs on the disk."""

import sqlite3
from contextlib import closing

import pytest
from localjobs import job_of
from msgspec import structs

from ykactor.local import answers
from ykactor.local import records as records_module
from ykactor.local import store as store_module
from ykactor.local.login import Login
from ykactor.local.model import State, Task
from ykactor.local.records import Query, Records, records
from ykactor.local.store import Store


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path)
    yield opened
    opened.close()


def keep(store, *names):
    store.commit([job_of("true", id=name, token=name) for name in names], [Task(name, 0) for name in names], [], 0)


def test_it_is_there_again(store, tmp_path):
    """All of a commit: the job, its tasks, who has ended."""
    keep(store, "job-1", "job-2")
    store.commit([], [Task("job-1", 0, State.FAILED, exit_code=3, gpus=[1])], ["job-1"], 5)
    again = Store(tmp_path)
    assert [job.id for job, _ in again.unfinished()] == ["job-2"]
    assert again.tasks("job-1") == [Task("job-1", 0, State.FAILED, exit_code=3, gpus=[1])]
    assert (again.find("job-2"), again.submitted_with("job-2")) == (store.find("job-2"),) * 2
    assert (again.find("job-3"), again.submitted_with("other")) == (None, None)
    with records(tmp_path) as kept:
        found = kept.results(["job-1", "job-3"])
    assert (found["job-1"].states, found["job-1"].is_completed, found["job-3"]) == ({0: State.FAILED}, False, None)
    again.close()


def test_a_job_may_change(store):
    """The number of the job stays."""
    keep(store, "job-1")
    store.commit([job_of("true", id="job-1", token="job-1", placed_in="root.a")], [], [], 0)
    assert (store.find("job-1").leaf, store.next_number()) == ("root.a", 2)


def test_the_environment_is_kept_until_the_job_has_ended(store):
    """The environment may have secrets, and ten thousand of them are large."""
    store.commit([job_of("true", id="job-1", environ=[b"SECRET=" + b"x" * 50])], [], [], 0)
    assert store.find("job-1").environ == [b"SECRET=" + b"x" * 50]
    store.commit([], [], ["job-1"], 5)
    ended = job_of("true", id="job-1", token=store.find("job-1").token, environ=[])
    assert (store.find("job-1"), list(store.unfinished())) == (ended, [])
    store.commit([ended], [], [], 6)  # it goes on
    assert [job for job, _ in store.unfinished()] == [ended]


def test_a_commit_that_fails_changes_nothing(store):
    """The second job has a token that is there already."""
    keep(store, "job-1")
    with pytest.raises(store_module.sqlite3.IntegrityError):
        store.commit([job_of("true", id="job-2"), job_of("true", id="job-3", token="job-1")], [Task("job-2", 0)], [], 0)
    assert (store.find("job-2"), store.tasks("job-2")) == (None, [])


def test_a_number_is_not_used_again(store, tmp_path):
    """Also when the newest job is forgotten: its name may be in the history of the daemon."""
    assert store.next_number() == 1
    keep(store, "job-1", "job-2")
    store.commit([], [], ["job-2"], 0)
    store.forget(["job-2"])
    assert (store.next_number(), store.find("job-2")) == (3, None)


def job_id(job, counts):
    return job.id


def outdated(directory, before_ns):
    with records(directory) as kept:
        return kept.outdated(before_ns)


def test_what_has_ended_long_ago_is_outdated(store, tmp_path, monkeypatch):
    """Or is too much; what has not ended never is."""
    keep(store, "job-1", "job-2", "job-3", "job-4")
    for ended_ns, name in ((10, "job-2"), (20, "job-1"), (30, "job-4")):
        store.commit([], [], [name], ended_ns)
    assert outdated(tmp_path, 10) == []
    assert outdated(tmp_path, 11) == ["job-2"]
    monkeypatch.setattr(records_module, "KEPT_MAX", 1)
    assert set(outdated(tmp_path, 0)) == {"job-1", "job-2"}


def test_ended_jobs_with_too_many_tasks_are_outdated(store, tmp_path, monkeypatch):
    """The attempts before the present ones count; the job that has ended first goes first."""
    monkeypatch.setattr(records_module, "KEPT_ROWS", 4)
    keep(store, "job-1", "job-2", "job-3")
    for ended_ns, name in ((10, "job-2"), (20, "job-1"), (30, "job-3")):
        store.commit([], [Task(name, 0, attempt=1)], [name], ended_ns, [Task(name, 0)])
    assert outdated(tmp_path, 0) == ["job-2"]
    store.forget(["job-2"])
    assert outdated(tmp_path, 0) == []


def test_ended_jobs_that_are_too_large_are_outdated(store, tmp_path, monkeypatch):
    """Each KiB of a job counts as a task: a command may be long."""
    monkeypatch.setattr(records_module, "KEPT_ROWS", 20)
    keep(store, "job-1", "job-2")
    store.commit([job_of("true", id="job-3", arguments=[b"x" * 20_000])], [], [], 0)
    for ended_ns, name in ((10, "job-3"), (20, "job-1"), (30, "job-2")):
        store.commit([], [], [name], ended_ns)
    assert outdated(tmp_path, 0) == ["job-3"]


@pytest.mark.parametrize("bound", ["KEPT_MAX", "KEPT_ROWS"])
def test_who_has_most_ended_jobs_loses_them_first(store, tmp_path, monkeypatch, bound):
    """The jobs of other users are kept, although they have ended before."""
    monkeypatch.setattr(records_module, bound, 3)
    names = [f"job-{number}" for number in range(1, 6)]
    jobs = [job_of("true", id=name, token=name, login=Login(2 if name == "job-1" else 1)) for name in names]
    store.commit(jobs, [Task(name, 0) for name in names], [], 0)
    for number, name in enumerate(names):
        store.commit([], [], [name], 10 + number)
    assert set(outdated(tmp_path, 0)) == {"job-2", "job-3"}


def test_a_forgotten_job_is_there_no_more(store, tmp_path):
    """An ended job is gone for everybody at once. Its tasks are deleted in steps, until nothing is left of it."""
    jobs = [job_of("true", id=name, token=name, login=Login(7)) for name in ("job-1", "job-2")]
    many = [Task("job-1", index, State.COMPLETED) for index in range(1200)]
    store.commit(jobs, many, ["job-1"], 5, many[:10])
    store.forget(["job-1", "job-2", "job-3"])
    assert (store.find("job-1"), store.submitted_with("job-1")) == (None, None)
    assert [job.id for job, _ in store.unfinished()] == ["job-2"]
    with records(tmp_path) as kept:
        assert (kept.jobs(Query(9), job_id).rows, kept.gone()) == (["job-2"], {7: ["job-1"]})
        assert kept.results(["job-1"]) == {"job-1": None}
        steps = [store.clear(["job-1"]) for _ in range(5)]
        assert steps == [False] * 4 + [True]
        assert (kept.gone(), kept.counts("job-1")) == ({}, {})


def test_all_of_a_job_is_kept_and_lists_show_the_beginning_of_its_command(store, tmp_path):
    """The arguments, environment and ranges are large, and lists do not read them."""
    words = [b"cat", b"", b"x" * 5000, b"y" * 100_000, b"z"]
    ranges = [(index, index) for index in range(1, 1000, 2)]
    job = job_of("", id="job-1", arguments=words, ranges=ranges, first=1, last=999)
    store.commit([job], [Task("job-1", 1)], [], 0)
    assert store.find("job-1") == job
    with records(tmp_path) as kept:
        (row,) = kept.jobs(Query(1), answers.job_row).rows
    assert row.arguments == ["cat", "", "x" * 4091 + "...", "..."]
    assert store._connection.execute("SELECT max(length(data)) < 20000 FROM job").fetchone() == (1,)


def test_a_long_list_comes_in_parts(store, tmp_path, monkeypatch):
    """Each has a bounded size, and says where to go on; together they are the list, also if a job was submitted between two."""
    monkeypatch.setattr(records_module, "PAGE_BYTES", 20)
    keep(store, *(f"job-{number}" for number in range(1, 8)))
    for attempt in range(3):
        store.commit([], [Task("job-2", 0, attempt=attempt + 1)], [], 0, [Task("job-2", 0, attempt=attempt)])

    def parts(query, ask, row):
        """The parts, the last one first, until nothing more is to come."""
        found = []
        for number in range(20):
            with records(tmp_path) as kept:
                page = ask(kept, query, row)
            found.append(page.rows)
            if page.more is None:
                return found
            query = structs.replace(query, limit=query.limit - len(page.rows), before=page.more)
            keep(store, f"job-{100 + number}")
        return None

    assert parts(Query(5), Records.jobs, job_id) == [["job-5", "job-6", "job-7"], ["job-3", "job-4"]]
    attempts = parts(Query(99, job="job-2"), Records.attempts, lambda job, task: task.key)
    assert attempts == [["job-2.0.r2", "job-2.0.r3"], ["job-2.0", "job-2.0.r1"], []]


@pytest.mark.parametrize("ended", [[], ["job-1"]])
def test_lists_leave_environments_and_scripts_out(store, tmp_path, ended):
    """They are large, and nobody is told them. The script of a job that has ended is kept: it may be run again."""
    store.commit([job_of("true", id="job-1", environ=[b"A=1"], script=b"#!/bin/sh")], [Task("job-1", 0)], ended, 0)
    with records(tmp_path) as kept:
        assert kept.jobs(Query(10), lambda job, counts: (job.id, job.environ, job.script)).rows == [("job-1", [], b"")]
    assert store.find("job-1").script == b"#!/bin/sh"


def test_so_many_attempts_of_a_task_are_kept(store, tmp_path, monkeypatch):
    """The newest ones; those of other tasks do not count."""
    monkeypatch.setattr(store_module, "KEPT_ATTEMPTS", 2)
    keep(store, "job-1")
    store.commit([], [], [], 0, [Task("job-1", 1)])
    for attempt in range(4):
        store.commit([], [Task("job-1", 0, attempt=attempt + 1)], [], 0, [Task("job-1", 0, State.FAILED, attempt)])
    with records(tmp_path) as kept:
        found = kept.attempts(Query(10), lambda job, task: (task.index, task.attempt)).rows
    assert found == [(0, 2), (0, 3), (0, 4), (1, 0)]


def test_records_of_jobs_and_of_attempts(store, tmp_path):
    """The newest ones, the newest last; by state, user, queue, job, and what has not ended before a time."""
    jobs = [("job-1", "ann", "root.a"), ("job-2", "bob", "root.a.b"), ("job-3", "ann", "root.ab")]
    made = [job_of("true", id=name, token=name, user=user, queue=queue, last=1) for name, user, queue in jobs]
    tasks = [Task(job.id, index, State.PENDING, attempt=1) for job in made for index in (0, 1)]
    store.commit(made, tasks, [], 0, [Task("job-1", 0, State.FAILED, ended_ns=3)])
    done = [Task("job-1", index, State.COMPLETED, attempt=1, ended_ns=9) for index in (0, 1)]
    store.commit([], done, ["job-1"], 9)

    def found(**query):
        with records(tmp_path) as kept:
            return kept.jobs(Query(**{"limit": 9} | query), job_id).rows

    assert found() == ["job-1", "job-2", "job-3"]
    assert found(limit=2) == ["job-2", "job-3"]
    assert found(user="ann", limit=1) == ["job-3"]
    assert found(queue="A") == found(queue="root.a") == ["job-1", "job-2"]
    assert found(queue="root") == found(since_ns=9) == ["job-1", "job-2", "job-3"]
    assert found(since_ns=10) == found(states=[State.PENDING]) == ["job-2", "job-3"]

    def attempts(**query):
        with records(tmp_path) as kept:
            return kept.attempts(Query(**{"limit": 99} | query), lambda job, task: task.key).rows

    assert attempts(job="job-1") == ["job-1.0", "job-1.0.r1", "job-1.1.r1"]
    assert attempts(job="job-1", only_present=True) == ["job-1.0.r1", "job-1.1.r1"]
    assert attempts(job="job-1", index=0, states=[State.FAILED]) == ["job-1.0"]
    assert attempts(since_ns=4, limit=5) == ["job-1.1.r1", "job-2.0.r1", "job-2.1.r1", "job-3.0.r1", "job-3.1.r1"]
    with records(tmp_path) as kept:
        found = kept.jobs(Query(1, job="job-1"), lambda job, counts: (job, counts)).rows
    assert found == [(structs.replace(store.find("job-1"), environ=[]), {State.COMPLETED: 2})]


#: As version 0.2 has made it, with a job whose second task runs.
OLD = """
CREATE TABLE job(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, token TEXT UNIQUE, data BLOB, ended_ns INTEGER);
CREATE TABLE task(job TEXT, task_index INTEGER, data BLOB, PRIMARY KEY(job, task_index)) WITHOUT ROWID;
CREATE INDEX job_ended ON job(ended_ns);
INSERT INTO job(id, token, data) VALUES('job-1', 't', CAST('{"id":"job-1","token":"t","name":"","user":"ann","queue":"root.a",
"arguments":["dHJ1ZQ=="],"environ":[],"directory":"Lw==","resource":{"vcore":100},"submitted_ns":5,"priority":0,"first":0,"last":1,
"is_gang":false,"time_limit_s":0.0,"retries":0,"placed_in":""}' AS BLOB));
INSERT INTO task VALUES('job-1', 0, CAST('{"job":"job-1","index":0,"state":"Failed","attempt":2,"verdict":null,"reason":"code 3",
"exit_code":3,"started_ns":7,"ended_ns":9,"peak_memory":null,"priority":null,"gpus":[],"boot":"b"}' AS BLOB));
INSERT INTO task VALUES('job-1', 1, CAST('{"job":"job-1","index":1,"state":"Running","attempt":0,"verdict":null,"reason":"",
"exit_code":null,"started_ns":7,"ended_ns":0,"peak_memory":null,"priority":null,"gpus":[0],"boot":"b"}' AS BLOB));
"""


def test_the_file_of_an_older_version_is_read(tmp_path):
    """Running tasks go on, and ended ones have their record; opening the file twice changes nothing more."""
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as old:
        old.executescript(OLD)
    for _ in range(2):
        with closing(Store(tmp_path)) as store, records(tmp_path) as kept:
            ((job, tasks),) = store.unfinished()
            assert (job.user, list(job.indexes), [task.state for task in tasks]) == ("ann", [0, 1], [State.FAILED, State.RUNNING])
            assert kept.counts("job-1") == {State.FAILED: 1, State.RUNNING: 1}
            assert kept.attempts(Query(9), lambda job, task: task.attempt).rows == [2, 0]
            assert kept.jobs(Query(9), lambda job, counts: job.arguments).rows == [[b"true"]]
