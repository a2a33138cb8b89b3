"""The control groups (cgroup v2) of the tasks of several users: a process belongs to the task in whose group it is.

They are not below the service of the local resource manager: its restart would fail while tasks run, because no process may enter
a group whose children have controllers. A second service, ``ykactor-jobs.service``, has them, as a scope of slurmstepd has those
of Slurm. Without it, as in a container, they are in the group of this program.
"""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ykactor.local.isolation import Cgroups, enable, own_group
from ykactor.local.model import Job, Task

#: The service whose group has those of the tasks, below the root of the tree.
SERVICE = Path("system.slice/ykactor-jobs.service")
#: The group of its own process.
_KEEPER = "keeper"
_WANTED = frozenset(("cpu", "memory", "pids"))
_MOUNT = re.compile(r"^\S+ \S+ \S+ / (\S+) .* - cgroup2 ", re.MULTILINE)


class SharedCgroups(Cgroups, frozen=True):
    """The groups of tasks, which their users cannot change.

    Attributes:
        tasks_max: the processes and threads of a task.
    """

    tasks_max: int

    @property
    def description(self) -> str:
        limited = ", ".join(what for controller, what in _LIMITED.items() if controller in self.controllers)
        missing = ", ".join(what for controller, what in _LIMITED.items() if controller not in self.controllers)
        return f"tasks are control groups, limited in {limited or 'nothing'}" + (f"; not limited: {missing}" if missing else "")

    def group(self, job: Job, task: Task) -> str:
        path = super().group(job, task)
        if "pids" in self.controllers:
            Path(path, "pids.max").write_text(str(self.tasks_max))
        with suppress(OSError):  # a machine without swap has no such file
            Path(path, "memory.swap.max").write_text("0")
        return path

    def signal(self, task: Task, number: signal.Signals) -> None:
        """Signal all processes of a task, also those in groups that they have made."""
        group = self.path(task)
        for directory, _, _ in os.walk(group):
            for pid in _members(Path(directory)):
                _send(pid, Path(directory), number)

    def kill(self, task: Task) -> None:
        """End all processes of a task at once."""
        with suppress(OSError):
            (self.path(task) / "cgroup.kill").write_text("1")


_LIMITED = {"cpu": "CPU by weight", "memory": "memory", "pids": "processes"}


def shared_cgroups(name: str, tasks_max: int, proc: Path = Path("/proc")) -> SharedCgroups | None:
    """The groups that root can make here; None without the tree of version 2, or before Linux 5.14.

    Args:
        name: begins their names.
    """
    base = _base(proc)
    if base is None:
        return None
    try:
        wanted = _WANTED & set((base / "cgroup.controllers").read_text().split())
        enable(base, wanted)
        trial = base / f"{name}-trial"
        trial.mkdir(exist_ok=True)
        try:
            has_kill = (trial / "cgroup.kill").exists()
        finally:
            trial.rmdir()
    except OSError:
        return None
    return SharedCgroups(base, name, frozenset(wanted), tasks_max) if has_kill else None


def _base(proc: Path) -> Path | None:
    """The group of the service, which its own process has left for one below; or that of this program."""
    mounted = _MOUNT.search((proc / "self/mountinfo").read_text())
    service = Path(mounted[1]) / SERVICE if mounted else None
    if service is None or not service.is_dir():
        return own_group(proc)
    (service / _KEEPER).mkdir(exist_ok=True)
    for pid in _members(service):
        with suppress(OSError):  # it has ended
            (service / _KEEPER / "cgroup.procs").write_text(str(pid))
    return service


def _members(group: Path) -> Iterator[int]:
    with suppress(OSError):
        yield from map(int, (group / "cgroup.procs").read_text().split())


def _send(pid: int, group: Path, number: signal.Signals) -> None:
    """Signal a process that is in the group: its number may be that of another one by now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if pid in _members(group):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
