"""Tasks of several users, which root starts: each has what its user has, and root believes nothing that a user writes."""
# ruff: noqa: ASYNC240  # a few bytes in a temporary directory

import json
import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from localjobs import job_of
from msgspec import structs
from otherusers import control_group_tree, directory_for_all

from ykactor.local.login import Login
from ykactor.local.model import Ended, Job, Task
from ykactor.local.shared import SharedProcesses
from ykactor.local.shared_groups import SharedCgroups

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks of other users")

TASK = Task("job-1", 0)
#: Two accounts that every machine has.
DAEMON, BIN = "daemon", "bin"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with control_group_tree(tmp_path_factory.mktemp("cgroup")) as mount:
        yield mount


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that all users can enter, and not only the one of pytest."""
    with directory_for_all() as directory:
        yield directory


@pytest.fixture
def processes(tree: Path, tmp_path: Path) -> SharedProcesses:
    groups = SharedCgroups(tree, f"test-{os.getpid()}-{tmp_path.name}", frozenset(), 100)
    return SharedProcesses(tmp_path, groups, 0.3)


def job(script: str, /, user: str = DAEMON, **fields: Any) -> Job:
    login = Login(pwd.getpwnam(user).pw_uid, [], 0o027, {"NOFILE": 77, "CORE": 0})
    return job_of(script, **{"id": "job-1", "login": login} | fields)


async def ended(processes: SharedProcesses, task: Task = TASK) -> Ended:
    """The end of a task, without its processor time, which is never the same."""
    with trio.fail_after(180):
        return structs.replace(await processes.wait(task), cpu_ns=None)


def written(processes: SharedProcesses, name: str = "out", task: Task = TASK) -> str:
    return (processes.job_directory(task.job) / f"{task.index}.{task.attempt}" / name).read_text()


_SEEN = """
import json, os, resource, sys
print(json.dumps({"uids": os.getresuid(), "gids": os.getresgid(), "groups": os.getgroups(), "cwd": os.getcwd(),
  "umask": os.umask(0), "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
  "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")),
  "ignored": open("/proc/self/status").read().split("SigIgn:")[1].split()[0], "mine": os.environ["MINE"],
  "root": sorted(set(os.environ) - {"MINE", "PATH", "PWD", "SHLVL", "_", "OLDPWD", "CUDA_VISIBLE_DEVICES", "LC_CTYPE"}),
  "group": open("/proc/self/cgroup").read()}))
"""


async def test_a_task_has_what_its_user_has_and_nothing_of_root(
    processes: SharedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User, groups, umask, limits, directory and environment are those of the submitter; no descriptor or signal is left over."""
    monkeypatch.setenv("SECRET_OF_ROOT", "1")
    environ = [b"PATH=/usr/bin:/bin", b"MINE=\xff"]
    arguments = [b"/usr/bin/python3", b"-c", _SEEN.encode().replace(b'os.environ["MINE"]', b'ascii(os.environb[b"MINE"])')]
    processes.start(job("", arguments=arguments, environ=environ, directory=b"/usr"), TASK)
    assert await ended(processes) == Ended(0), written(processes, "err")
    seen = json.loads(written(processes))
    user = pwd.getpwnam(DAEMON)
    assert seen["uids"] == [user.pw_uid] * 3
    assert seen["gids"] == [user.pw_gid] * 3
    assert set(seen["groups"]) <= set(os.getgrouplist(DAEMON, user.pw_gid))
    assert (seen["cwd"], seen["umask"], seen["files"], seen["mine"]) == ("/usr", 0o027, 77, "b'\\xff'")
    assert seen["descriptors"] == [0, 1, 2]
    ignored = {number for number in signal.valid_signals() if int(seen["ignored"], 16) >> (number - 1) & 1}
    assert ignored <= {signal.SIGPIPE, signal.SIGXFSZ}, "Python ignores these itself"
    assert all(name.startswith("YKACTOR_") for name in seen["root"])
    assert "job-1.0" in seen["group"]


async def test_a_script_is_the_file_of_its_user(processes: SharedProcesses) -> None:
    """The copy of the attempt is written as the user, who alone can read it."""
    arguments, script = [b"sim.sh", b"x"], b'#!/bin/sh\nstat -c "%U %a" "$0"; echo "$1"\n\xff'
    processes.start(job("", arguments=arguments, script=script), TASK)
    assert await ended(processes) == Ended(127), written(processes, "err")
    assert written(processes) == f"{DAEMON} 700\nx\n"


async def test_what_the_environment_of_a_user_loads_runs_as_this_user(processes: SharedProcesses, tmp_path: Path) -> None:
    """Root runs no program with it: a shell that reads the file of ENV or BASH_ENV does so as the user, inside its group."""
    source = tmp_path / "library.c"
    library = tmp_path / "library.so"
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void f(void)"
        '{ fprintf(stderr, "loaded by %d\\n", geteuid()); }\n'
    )
    if (await trio.run_process(["cc", "-shared", "-fPIC", "-o", library, source], check=False, capture_stderr=True)).returncode:
        pytest.skip("found no compiler of C")
    library.chmod(0o755)
    environ = [b"PATH=/usr/bin:/bin", b"LD_PRELOAD=" + os.fsencode(library)]
    processes.start(job("true", environ=environ), TASK)
    assert await ended(processes) == Ended(0)
    assert set(written(processes, "err").splitlines()) == {f"loaded by {pwd.getpwnam(DAEMON).pw_uid}"}


async def test_an_attempt_runs_once_however_often_it_is_started(processes: SharedProcesses, tree: Path, tmp_path: Path) -> None:
    """Also by a local resource manager that has taken over while the launcher of the one before was on its way."""
    others = [SharedProcesses(tmp_path, processes._groups, 0.3) for _ in range(3)]
    for each in (processes, *others):
        each.start(job("echo ran; sleep 0.3; exit 3"), TASK)
    assert [await ended(each) for each in (processes, *others)] == [Ended(3)] * 4
    assert written(processes) == "ran\n"


async def test_nothing_that_a_task_has_started_outlives_it(processes: SharedProcesses, tree: Path) -> None:
    """Neither what has left its session and environment, nor what ignores signals."""
    processes.start(job("(trap '' TERM HUP; setsid env -i sleep 1000) & setsid env -i sleep 1000 & sleep 0.1"), TASK)
    assert await ended(processes) == Ended(0)
    assert not list(tree.glob(f"test-{os.getpid()}-*job-1.0"))  # other processes have groups there too


async def test_who_ignores_the_signal_is_killed_after_the_grace(processes: SharedProcesses, tmp_path: Path) -> None:
    """The exit code says that it was killed, or is unknown."""
    processes.start(job("trap '' TERM; echo up; while :; do sleep 1; done"), TASK)
    with trio.fail_after(180):
        while not (processes.has_begun(TASK) and written(processes) == "up\n"):  # noqa: ASYNC110
            await trio.sleep(0.01)
    later = SharedProcesses(tmp_path, processes._groups, 0.3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(later.terminate, TASK)
        assert (await ended(processes)).exit_code is None


async def test_a_task_cannot_say_that_another_process_is_its_own(processes: SharedProcesses, tmp_path: Path) -> None:
    """A task writes neither the number of the process nor the exit code: root has them where no user can enter."""
    script = f"echo 1 > $YKACTOR_ATTEMPT_DIR/pid; echo 0 > $YKACTOR_ATTEMPT_DIR/exit; ls {tmp_path}/state; echo 0 >&3; exit 5"
    processes.start(job(script), TASK)
    assert await ended(processes) == Ended(5)
    assert "Permission denied" in written(processes, "err")
    assert "Bad file descriptor" in written(processes, "err")


@pytest.mark.parametrize("script", ["ln -sfn /etc/passwd out", "rm out; mkdir out", "cd ..; mv 0.0 1.0"])
async def test_what_a_task_does_to_its_files_harms_nobody(processes: SharedProcesses, script: str) -> None:
    """The next attempt is a matter of its user; root opens nothing there, and deletes as the user."""
    before = Path("/etc/passwd").stat()
    processes.start(job(f"cd $YKACTOR_ATTEMPT_DIR; {script}"), TASK)
    assert (await ended(processes)).exit_code in (0, 1)
    after = Path("/etc/passwd").stat()
    assert (before.st_mode, before.st_uid, before.st_size) == (after.st_mode, after.st_uid, after.st_size)


async def test_the_files_of_jobs_are_deleted_as_their_user(processes: SharedProcesses, tmp_path: Path) -> None:
    """A link to what belongs to root, or to somebody else, leads to nothing that is deleted; what has no rights is."""
    kept, other = tmp_path / "kept", Task("job-2", 0)
    kept.mkdir()
    (kept / "file").write_text("root's")
    processes.start(job(f"cd $YKACTOR_ATTEMPT_DIR; ln -s {kept} link; mkdir -p a/b; touch a/b/c; chmod 0 a ."), TASK)
    processes.start(job("true", id="job-2"), other)
    assert [await ended(processes, task) for task in (TASK, other)] == [Ended(0), Ended(0)]
    uid = pwd.getpwnam(DAEMON).pw_uid
    assert await processes.remove(["job-1", "job-2", "job-3"], uid) == []
    assert (kept / "file").read_text() == "root's"
    assert not [*(tmp_path / "state").iterdir(), *(tmp_path / "jobs").iterdir()]


async def test_what_another_user_has_put_there_is_left(processes: SharedProcesses, tmp_path: Path) -> None:
    """Root does not delete it; what root knows of the job is deleted."""
    processes.start(job("true"), TASK)
    assert await ended(processes) == Ended(0)
    (processes.job_directory(TASK.job) / "0.0/mounted").mkdir(mode=0o700)
    (processes.job_directory(TASK.job) / "0.0/mounted/file").touch()
    assert await processes.remove(["job-1"], pwd.getpwnam(DAEMON).pw_uid) == ["job-1"]
    assert not list((tmp_path / "state").iterdir())


async def test_the_files_of_older_versions_are_found(processes: SharedProcesses, tmp_path: Path) -> None:
    """The files of all jobs were in one directory."""
    processes.start(job("exit 3"), TASK)
    assert await ended(processes) == Ended(3)
    for name in ("begun", "exit"):
        (tmp_path / f"state/job-1/0.0.{name}").rename(tmp_path / f"state/job-1.0.0.{name}")
    later = SharedProcesses(tmp_path, processes._groups, 0.3)
    assert (later.has_begun(TASK), later.ended(TASK)) == (True, Ended(3))


async def test_users_cannot_read_what_others_have_written(processes: SharedProcesses) -> None:
    """Neither by its path, nor by a list of the jobs."""
    processes.start(job("echo secret"), TASK)
    assert await ended(processes) == Ended(0)
    attempt = processes.job_directory(TASK.job) / "0.0"
    other = Task("job-2", 0)
    processes.start(job(f"cat {attempt}/out; ls {attempt.parent.parent}", BIN, id="job-2"), other)
    assert (await ended(processes, other)).exit_code != 0
    assert written(processes, "out", other) == ""


async def test_a_forbidden_attempt_never_begins(processes: SharedProcesses, tmp_path: Path) -> None:
    """Also if its launcher is started afterwards."""
    processes.forbid(TASK)
    processes.start(job("echo ran"), TASK)
    assert (await ended(processes)).exit_code is None
    assert not (processes.job_directory(TASK.job) / "0.0" / "out").exists()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"directory": b"/root/nowhere"}, "the command cannot be started: [Errno 13] Permission denied: b'/root/nowhere'"),
        ({"directory": b"/nowhere"}, "the command cannot be started: [Errno 2] No such file or directory: b'/nowhere'"),
        ({"login": Login(0)}, "the command cannot be started: found the user root, expected another one"),
        ({"login": Login(54321)}, "the command cannot be started: found the user 54321, expected one that getent passwd knows"),
    ],
)
async def test_what_cannot_be_started_says_why(processes: SharedProcesses, fields: dict[str, Any], reason: str) -> None:
    """The user of the task is asked for, and the directory is entered as this user."""
    processes.start(job("true", **fields), TASK)
    assert await ended(processes) == Ended(125, reason)
