"""A control group for each task: of the kernel where it may be made, and in a plain directory for what is written there."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from daemon import LIMIT_S
from localjobs import job_of, left_over

from ykactor.local import isolation
from ykactor.local.isolation import Cgroups, Measured, own_cgroups
from ykactor.local.model import Ended, Task
from ykactor.local.processes import Processes

TASK = Task("job-1", 0, attempt=2)


@pytest.fixture
def groups() -> Iterator[Cgroups]:
    """Groups of the kernel, also without controllers: then they only hold a task together."""
    prefix = f"ykactor-test-{secrets.token_hex(4)}"
    found, base = own_cgroups(prefix), isolation.own_group(Path("/proc"))
    if found is None:
        if base is None:
            pytest.skip("there is no cgroup v2")
        found = Cgroups(base, prefix, frozenset())
        try:
            (base / f"{prefix}-trial").mkdir()
        except OSError as error:
            pytest.skip(f"the control group {base} is not ours: {error.strerror}")
        (base / f"{prefix}-trial").rmdir()
    yield found
    assert list(found.base.glob(f"{prefix}*")) == []


async def ended(processes: Processes) -> Ended:
    with trio.fail_after(LIMIT_S):
        return await processes.wait(TASK)


@pytest.mark.parametrize("is_adopted", [False, True])
async def test_what_has_left_the_process_group_ends_with_its_task(groups: Cgroups, tmp_path: Path, is_adopted: bool) -> None:
    """Also with an environment of its own, and in a group that the task has made."""
    processes = Processes(tmp_path / "jobs", groups, 0.3)
    away = f"setsid env -i sleep 100 & echo $! > {tmp_path}/away; mkdir {groups.path(TASK)}/own; sleep 0.2; exit 5"
    processes.start(job_of(away), TASK)
    with trio.fail_after(LIMIT_S):
        while not processes.has_begun(TASK):  # noqa: ASYNC110 (a shell tells nobody that it begins)
            await trio.sleep(0.01)
    found = await ended(Processes(tmp_path / "jobs", groups, 0.3) if is_adopted else processes)
    if is_adopted:
        await ended(processes)
    assert found.exit_code == 5
    assert left_over(tmp_path) == []
    assert not _is_alive(int((tmp_path / "away").read_text()))


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def test_too_much_memory_ends_the_task_alone(groups: Cgroups, tmp_path: Path) -> None:
    """The end names the memory as its cause, and how much the task has used."""
    if "memory" not in groups.controllers:
        pytest.skip(f"the control group {groups.base} has no controller of the memory")
    processes = Processes(tmp_path / "jobs", groups, 0.3)
    processes.start(job_of("head -c 500m /dev/zero | tail", resource={"vcore": 100, "memory": 2**26}), TASK)
    found = await ended(processes)
    assert found.is_short
    assert 0 < (found.peak_memory or 0) <= 2**26


def test_a_group_has_the_limits_of_its_task(tmp_path: Path) -> None:
    """The memory that it has asked for, and a weight of 100 for each core; made again it is the same group."""
    made = Cgroups(tmp_path, "ykactor-12ab", frozenset(("cpu", "memory")))
    for _ in range(2):
        group = Path(made.group(job_of("true", resource={"vcore": 2500, "memory": 2**30}), TASK))
    assert group == tmp_path / "ykactor-12ab-job-1.0.r2"
    assert {file.name: file.read_text() for file in group.iterdir()} == {"cpu.weight": "250", "memory.max": str(2**30)}
    unlimited = Path(made.group(job_of("true", resource={"gpu": 1}), Task("job-2", 0)))
    assert {file.name: file.read_text() for file in unlimited.iterdir()} == {"cpu.weight": "1"}
    bare = Path(Cgroups(tmp_path, "ykactor-12ab", frozenset()).group(job_of("true"), Task("job-3", 0)))
    assert list(bare.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, Measured()),
        ({"memory.peak": "4096\n", "memory.events": "low 0\nmax 3\noom 0\noom_kill 0\noom_group_kill 0\n"}, Measured(4096)),
        ({"memory.peak": "8192\n", "memory.events": "oom 1\noom_kill 2\n"}, Measured(8192, is_short=True)),
        ({"cpu.stat": "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n"}, Measured(cpu_ns=1_500_000)),
    ],
)
async def test_what_the_kernel_has_measured(tmp_path: Path, files: dict[str, str], expected: Measured) -> None:
    """Nothing where it measures nothing."""
    made = Cgroups(tmp_path, "ykactor-12ab", frozenset())
    assert await made.clean(TASK) == Measured()
    made.path(TASK).mkdir()
    for name, text in files.items():
        (made.path(TASK) / name).write_text(text)
    assert await made.clean(TASK) == expected


@pytest.mark.parametrize(
    ("group", "root", "expected"),
    [
        ("0::/", "/", ""),
        ("9:name=systemd:/x\n0::/user/bob", "/", "user/bob"),
        ("0::/pod/container", "/pod/container", ""),
        ("0::/user/bob/ykactor-local", "/", "user/bob"),
        ("9:memory:/only/version/1", "/", None),
    ],
)
def test_the_own_group(tmp_path: Path, group: str, root: str, expected: str | None) -> None:
    """The group is this program's, or the one that it was in before it moved into one below."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text(f"{group}\n")
    mounts = f"31 1 0:30 / / rw - ext4 /dev/x rw\n41 31 0:38 {root} /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
    (tmp_path / "self/mountinfo").write_text(mounts)
    assert isolation.own_group(tmp_path) == (None if expected is None else Path("/sys/fs/cgroup") / expected)


@pytest.mark.parametrize("controllers", ["", "hugetlb", "cpu pids"])
def test_a_group_that_cannot_limit_memory_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, controllers: str) -> None:
    """Then tasks are process groups, as ``ykactor local`` says."""
    monkeypatch.setattr(isolation, "own_group", lambda proc: tmp_path)
    assert own_cgroups("ykactor-12ab") is None
    (tmp_path / "cgroup.controllers").write_text(controllers)
    assert own_cgroups("ykactor-12ab") is None


@pytest.mark.parametrize(("controllers", "limits"), [("cpu io memory", "a weight of the CPU and "), ("memory pids", "")])
def test_what_tasks_are_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, controllers: str, limits: str) -> None:
    """The controllers are enabled for the groups of tasks."""
    monkeypatch.setattr(isolation, "own_group", lambda proc: tmp_path)
    monkeypatch.setattr(Path, "rmdir", lambda path: None)
    (tmp_path / "cgroup.controllers").write_text(f"{controllers}\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    made = own_cgroups("ykactor-12ab")
    assert made.description == f"tasks are control groups, with {limits}a limit of the memory"
    enabled = (tmp_path / "cgroup.subtree_control").read_text().split()
    assert enabled == [f"+{name}" for name in ("cpu", "memory") if name in controllers]


def test_a_group_with_other_processes_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this program moves, and only if it is alone: then into a group below."""
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / "ykactor-local").mkdir()
    write, refusals = Path.write_text, [0]

    def busy(path: Path, text: str) -> int:
        if path.name == "cgroup.subtree_control" and refusals:
            refusals.pop()
            raise OSError(16, "Device or resource busy")
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", busy)
    write(tmp_path / "cgroup.procs", f"{os.getpid()}\n1\n")
    with pytest.raises(OSError, match="busy"):
        isolation.enable(tmp_path, {"memory"})
    refusals.append(0)
    write(tmp_path / "cgroup.procs", f"{os.getpid()}\n")
    isolation.enable(tmp_path, {"memory"})
    assert (tmp_path / "ykactor-local" / "cgroup.procs").read_text() == str(os.getpid())
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
