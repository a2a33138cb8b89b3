"""A control group (cgroup v2) for each task, where the group of this program is its own, as in a container or if it is delegated.

A group with controllers for its children may have no process of its own, so this program moves into a group beside those of its
tasks. It moves no other process: where there is one, the group is not its own.
"""

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

import trio

from ykactor.local.isolation import Isolation, Measured, weight
from ykactor.local.model import Job, Task

#: The group of this program, if it had to leave its own.
_MANAGER = "ykactor-local"
#: The controllers that limit or measure.
_WANTED = frozenset(("cpu", "memory"))
#: Seconds until all of a group has to be killed.
_KILLED_S = 10.0
_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class Cgroups(Isolation, frozen=True):
    """The groups of tasks.

    Attributes:
        base: the directory of the group in which they are.
        name: begins their names; another one for each local resource manager.
        controllers: those that they have.
    """

    base: Path
    name: str
    controllers: frozenset[str]

    @property
    def description(self) -> str:
        limits = "a weight of the CPU and a limit of the memory" if "cpu" in self.controllers else "a limit of the memory"
        return f"tasks are control groups, with {limits}"

    def path(self, task: Task) -> Path:
        """The directory of the group of a task."""
        return self.base / f"{self.name}-{task.key}"

    def group(self, job: Job, task: Task) -> str:
        """Make the group of a task, with its limits. It may be there: who starts a task may have been killed."""
        group = self.path(task)
        group.mkdir(exist_ok=True)
        if "cpu" in self.controllers:
            (group / "cpu.weight").write_text(str(weight(job)))
        if "memory" in self.controllers and (memory := job.resource.get("memory", 0)):
            (group / "memory.max").write_text(str(memory))
        return str(group)

    async def clean(self, task: Task) -> Measured:
        """Kill what is left in the group of a task, and remove it; what was measured."""
        group = self.path(task)
        if not group.is_dir():
            return Measured()
        with suppress(OSError):
            (group / "cgroup.kill").write_text("1")
        with trio.move_on_after(_KILLED_S):
            while _is_populated(group):  # noqa: ASYNC110 (a kill is over within a few ms)
                await trio.sleep(0.005)
        measured = _measured(group)
        for directory, _, _ in os.walk(group, topdown=False):  # a task may have made groups of its own
            with suppress(OSError):
                os.rmdir(directory)
        return measured


def own_cgroups(name: str, proc: Path = Path("/proc")) -> Cgroups | None:
    """The groups that this program may make, if they can limit the memory."""
    base = _own_group(proc)
    if base is None:
        return None
    try:
        wanted = _WANTED & set((base / "cgroup.controllers").read_text().split())
        if "memory" not in wanted:
            return None
        _enable(base, wanted)
        trial = base / f"{name}-trial"
        trial.mkdir(exist_ok=True)
        try:
            (trial / "memory.max").write_text("max")
        finally:
            trial.rmdir()
    except OSError:  # it is not ours
        return None
    return Cgroups(base, name, frozenset(wanted))


def _own_group(proc: Path) -> Path | None:
    """The directory of the group of this program, or of the one that it was in before it moved."""
    match = re.search(r"^0::(/.*)$", (proc / "self/cgroup").read_text(), re.MULTILINE)
    mounted = re.search(r"^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup2 ", (proc / "self/mountinfo").read_text(), re.MULTILINE)
    if match is None or mounted is None:
        return None
    root, at = mounted[1], Path(mounted[2])
    path = match[1].removeprefix(root.rstrip("/"))
    group = at / path.lstrip("/")
    return group.parent if group.name == _MANAGER and group != at else group


def _enable(base: Path, controllers: set[str] | frozenset[str]) -> None:
    """Let the children of a group have controllers.

    Raises:  OSError: other processes are in it, or it belongs to others.
    """
    if controllers <= set((base / "cgroup.subtree_control").read_text().split()):
        return
    wanted = " ".join(f"+{name}" for name in sorted(controllers))
    try:
        (base / "cgroup.subtree_control").write_text(wanted)
        return
    except OSError as error:
        if error.errno != errno.EBUSY or (base / "cgroup.procs").read_text().split() != [str(os.getpid())]:
            raise
    (base / _MANAGER).mkdir(exist_ok=True)
    (base / _MANAGER / "cgroup.procs").write_text(str(os.getpid()))
    try:
        (base / "cgroup.subtree_control").write_text(wanted)
    except OSError:
        (base / "cgroup.procs").write_text(str(os.getpid()))
        (base / _MANAGER).rmdir()
        raise


def _is_populated(group: Path) -> bool:
    try:
        return "populated 1" in (group / "cgroup.events").read_text()
    except OSError:
        return False


def _measured(group: Path) -> Measured:
    try:
        peak = int((group / "memory.peak").read_text())
    except (OSError, ValueError):  # without the controller, and before Linux 5.19
        peak = None
    try:
        found = _OOM_KILLS.search((group / "memory.events").read_text())
    except OSError:
        found = None
    return Measured(peak, found is not None and found[1] != "0")
