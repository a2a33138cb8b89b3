"""Jobs on the disk."""

import pytest
from localjobs import job_of

from ykactor.local import store as store_module
from ykactor.local.model import State, Task
from ykactor.local.store import KEPT_NS, Store


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
    assert again.state_counts("job-1") == {State.FAILED: 1}
    again.close()


def test_a_job_may_change(store):
    """Its number stays."""
    keep(store, "job-1")
    store.commit([job_of("true", id="job-1", token="job-1", placed_in="root.a")], [], [], 0)
    assert (store.find("job-1").leaf, store.next_number()) == ("root.a", 2)


def test_the_environment_is_kept_until_the_job_has_ended(store):
    """It may have secrets, and ten thousand of them are large."""
    store.commit([job_of("true", id="job-1", environ=[b"SECRET=" + b"x" * 50])], [], [], 0)
    assert store.find("job-1").environ == [b"SECRET=" + b"x" * 50]
    store.commit([], [], ["job-1"], 5)
    assert store.find("job-1") == job_of("true", id="job-1", token=store.find("job-1").token, environ=[])


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
    store.forget("job-2")
    assert store.next_number() == 3
    assert store.tasks("job-2") == []


def test_what_has_ended_long_ago_is_outdated(store, monkeypatch):
    """Or is too much; what has not ended never is."""
    keep(store, "job-1", "job-2", "job-3", "job-4")
    for ended_ns, name in ((10, "job-2"), (20, "job-1"), (30, "job-4")):
        store.commit([], [], [name], ended_ns)
    assert store.outdated(KEPT_NS + 10) == []
    assert store.outdated(KEPT_NS + 11) == ["job-2"]
    monkeypatch.setattr(store_module, "KEPT_MAX", 1)
    assert set(store.outdated(0)) == {"job-1", "job-2"}
    assert [job.id for job in store.newest(2)] == ["job-3", "job-4"]
