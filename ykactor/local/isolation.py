"""The isolation of tasks: how the command of each is started and limited, and what is cleaned when it has ended.

``Isolation`` itself gives each task a process group. Every other way is a class of its own, found by ``best_isolation``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import trio
from msgspec import Struct, structs

from ykactor.local.model import Ended, Job, Task

#: The default weight, which is that of one core here, and the most.
_WEIGHT_OF_A_CORE, _WEIGHT_MAX = 100, 10_000


class Measured(Struct, frozen=True):
    """The resources of a task that the kernel has counted.

    Attributes:
        peak_memory: the most bytes that it has used at a time; None if it was not measured.
        is_short: whether a process of it was killed because it wanted more memory than it may use.
        cpu_ns: the processor time that it has used; None if it was not measured.
    """

    peak_memory: int | None = None
    is_short: bool = False
    cpu_ns: int | None = None

    def added_to(self, ended: Ended) -> Ended:
        """An end with what was measured; what was not stays."""
        cpu_ns = ended.cpu_ns if self.cpu_ns is None else self.cpu_ns
        return structs.replace(ended, peak_memory=self.peak_memory, is_short=self.is_short, cpu_ns=cpu_ns)


class Isolation(Struct, frozen=True):
    """A way to start tasks; this one keeps nothing from using more than it has asked for."""

    @property
    def description(self) -> str:
        """One line for who starts the program."""
        return "tasks are process groups: nothing keeps them from using more than they have asked for"

    @property
    def needs(self) -> dict[str, str]:
        """The environment that the words before a command need."""
        return {}

    def prefix(self, job: Job, task: Task) -> list[str]:
        """The words before the command."""
        return []

    def group(self, job: Job, task: Task) -> str:
        """The control group that a task has to enter itself; "" if there is none.

        Raises:  OSError.
        """
        return ""

    async def clean(self, task: Task) -> Measured:
        """Kill what has left the process group, but not the scope or control group; what was measured of the task."""
        return Measured()


def weight(job: Job) -> int:
    """The share of the CPU when it is short, by what the job has asked for."""
    return max(1, min(_WEIGHT_MAX, job.resource.get("vcore", 0) * _WEIGHT_OF_A_CORE // 1000))


# ---- a control group (cgroup v2) for each task, where the group of this program is its own, as in a container
#
# A group with controllers for its children may have no process of its own, so this program moves into a group beside those of its
# tasks. It moves no other process: where there is one, the group is not its own.

#: The group of this program, if it had to leave its own.
_MANAGER = "ykactor-local"
#: The controllers that limit or measure.
_WANTED = frozenset(("cpu", "memory"))
#: Seconds until all of a group has to be killed.
_KILLED_S = 10.0
_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_CPU_US = re.compile(r"^usage_usec (\d+)$", re.MULTILINE)
_WHOLE = re.compile(r"^(\d+)$")


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
            while is_populated(group):  # noqa: ASYNC110 (a kill is over within a few ms)
                await trio.sleep(0.005)
        measured = _measured(group)
        for directory, _, _ in os.walk(group, topdown=False):  # a task may have made groups of its own
            with suppress(OSError):
                os.rmdir(directory)
        return measured


def own_cgroups(name: str, proc: Path = Path("/proc")) -> Cgroups | None:
    """The groups that this program may make, if they can limit the memory."""
    base = own_group(proc)
    if base is None:
        return None
    try:
        wanted = _WANTED & set((base / "cgroup.controllers").read_text().split())
        if "memory" not in wanted:
            return None
        enable(base, wanted)
        trial = base / f"{name}-trial"
        trial.mkdir(exist_ok=True)
        try:
            (trial / "memory.max").write_text("max")
        finally:
            trial.rmdir()
    except OSError:  # it is not ours
        return None
    return Cgroups(base, name, frozenset(wanted))


def own_group(proc: Path) -> Path | None:
    """The directory of the group of this program, or of the one that it was in before it moved."""
    match = re.search(r"^0::(/.*)$", (proc / "self/cgroup").read_text(), re.MULTILINE)
    mounted = re.search(r"^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup2 ", (proc / "self/mountinfo").read_text(), re.MULTILINE)
    if match is None or mounted is None:
        return None
    root, at = mounted[1], Path(mounted[2])
    path = match[1].removeprefix(root.rstrip("/"))
    group = at / path.lstrip("/")
    return group.parent if group.name == _MANAGER and group != at else group


def enable(base: Path, controllers: set[str] | frozenset[str]) -> None:
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


def is_populated(group: Path) -> bool:
    try:
        return "populated 1" in (group / "cgroup.events").read_text()
    except OSError:
        return False


def _measured(group: Path) -> Measured:
    kills = _number(group / "memory.events", _OOM_KILLS)
    cpu_us = _number(group / "cpu.stat", _CPU_US)
    return Measured(
        _number(group / "memory.peak", _WHOLE),  # since Linux 5.19
        is_short=bool(kills),
        cpu_ns=None if cpu_us is None else cpu_us * 1000,
    )


def _number(path: Path, pattern: re.Pattern[str]) -> int | None:
    """A number in a file of a group; None without the controller that has it."""
    try:
        found = pattern.search(path.read_text())
    except OSError:
        return None
    return None if found is None else int(found[1])


# ---- a scope of systemd for each task, where it runs and makes some for this user

#: There if systemd runs.
_SYSTEMD = Path("/run/systemd/system")
_ANSWER_S = 10.0
#: The variables with the address of the manager of a user.
_BUS = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class Systemd(Isolation, frozen=True):
    """The manager that has the scopes: that of the machine for root, else that of the user.

    Attributes:
        run, control: the paths of ``systemd-run`` and ``systemctl``: a job may have another search path.
        options: ``--user``, or none.
        environ: where they find the manager: a job may have another environment.
        name: begins the names of the scopes; another one for each local resource manager, because each has a ``job-1``.
    """

    run: str
    control: str
    options: list[str]
    environ: dict[str, str]
    name: str

    @property
    def description(self) -> str:
        return "tasks are scopes of systemd, with a weight of the CPU and a limit of the memory"

    @property
    def needs(self) -> dict[str, str]:
        return self.environ

    def prefix(self, job: Job, task: Task) -> list[str]:
        properties = {"CPUWeight": weight(job)}
        if memory := job.resource.get("memory", 0):
            properties["MemoryMax"] = memory
        return self.scope(task.key, properties)

    async def clean(self, task: Task) -> Measured:
        command = [self.control, *self.options, "kill", "--signal=KILL", f"{self.name}-{task.key}-*.scope"]
        with trio.move_on_after(_ANSWER_S):
            await trio.run_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return Measured()

    def scope(self, unit: str, properties: dict[str, int]) -> list[str]:
        """The words before a command. The process becomes the command, with the same number.

        The name of the scope has the number of this process: the scope of an earlier one may be on its way (see ``Processes``).
        """
        given = [option for name, value in properties.items() for option in ("-p", f"{name}={value}")]
        names = ("--unit", f"{self.name}-{unit}-{os.getpid()}", "--description", f"ykactor {unit}")
        return [self.run, *self.options, "--scope", "--quiet", "--collect", *names, *given, "--"]


def systemd(name: str) -> Systemd | None:
    """The manager that makes scopes with such names for this user; None if there is none."""
    run, control = shutil.which("systemd-run"), shutil.which("systemctl")
    if not _SYSTEMD.is_dir() or run is None or control is None:
        return None
    is_root = os.geteuid() == 0
    bus = {} if is_root else {variable: os.environ[variable] for variable in _BUS if variable in os.environ}
    found = Systemd(run, control, [] if is_root else ["--user"], bus, name)
    trial = [*found.scope("trial", {"CPUWeight": 100, "MemoryMax": 2**30}), "/bin/true"]
    try:
        done = subprocess.run(trial, capture_output=True, timeout=_ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return found if done.returncode == 0 else None


# ---- the best way that this machine has

#: The ways, the best first; each is told with what names begin, and returns None if this machine does not have it.
WAYS: tuple[Callable[[str], Isolation | None], ...] = (systemd, own_cgroups)


def best_isolation(directory: Path) -> Isolation:
    """The first way that there is.

    Args:
        directory: where the jobs are kept, an absolute path.
    """
    name = f"ykactor-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]}"
    return next((found for way in WAYS if (found := way(name)) is not None), Isolation())
