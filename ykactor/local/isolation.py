"""The isolation of tasks: a scope of systemd for each, a control group, or only a process group."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import trio
from msgspec import Struct

from ykactor.local.cgroups import Cgroups, Measured, own_cgroups, weight
from ykactor.local.model import Job, Task

#: There if systemd runs.
_SYSTEMD = Path("/run/systemd/system")
_ANSWER_S = 10.0
#: The variables with the address of the manager of a user.
_BUS = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class Systemd(Struct, frozen=True):
    """The manager that has the scopes: that of the machine for root, else that of the user.

    Attributes:
        run, control: the paths of ``systemd-run`` and ``systemctl``: a job may have another search path.
        options: ``--user``, or none.
        environ: where they find the manager: a job may have another environment.
        prefix: begins the names of the scopes; another one for each local resource manager, because each has a ``job-1``.
    """

    run: str
    control: str
    options: list[str]
    environ: dict[str, str]
    prefix: str

    def scope(self, unit: str, properties: dict[str, int]) -> list[str]:
        """The words before a command. The process becomes the command, with the same number.

        The name of the scope has the number of this process: the scope of an earlier one may be on its way (see ``Processes``).
        """
        given = [option for name, value in properties.items() for option in ("-p", f"{name}={value}")]
        names = ("--unit", f"{self.prefix}-{unit}-{os.getpid()}", "--description", f"ykactor {unit}")
        return [self.run, *self.options, "--scope", "--quiet", "--collect", *names, *given, "--"]


class Isolation:
    """The commands that start tasks, and the cleaning when one has ended.

    Args:
        how: None: processes have a group of their own, and no limits.
    """

    def __init__(self, how: Systemd | Cgroups | None) -> None:
        self._systemd = how if isinstance(how, Systemd) else None
        self._cgroups = how if isinstance(how, Cgroups) else None
        #: The environment that the command before a task needs.
        self.environ: dict[str, str] = {} if self._systemd is None else self._systemd.environ

    @property
    def description(self) -> str:
        """One line for who starts the program."""
        if self._systemd is not None:
            return "tasks are scopes of systemd, with a weight of the CPU and a limit of the memory"
        if self._cgroups is None:
            return "tasks are process groups: nothing keeps them from using more than they have asked for"
        limits = (
            "a weight of the CPU and a limit of the memory" if "cpu" in self._cgroups.controllers else "a limit of the memory"
        )
        return f"tasks are control groups, with {limits}"

    def prefix(self, job: Job, task: Task) -> list[str]:
        """The words before the command."""
        if self._systemd is None:
            return []
        properties = {"CPUWeight": weight(job)}
        if memory := job.resource.get("memory", 0):
            properties["MemoryMax"] = memory
        return self._systemd.scope(task.key, properties)

    def group(self, job: Job, task: Task) -> str:
        """The control group that a task has to enter itself; "" if there is none.

        Raises:  OSError.
        """
        return "" if self._cgroups is None else str(self._cgroups.make(job, task))

    async def clean(self, task: Task) -> Measured:
        """Kill what has left the process group, but not the scope or control group; what was measured of the task."""
        if self._cgroups is not None:
            return await self._cgroups.clean(task)
        if self._systemd is None:
            return Measured()
        units = f"{self._systemd.prefix}-{task.key}-*.scope"
        command = [self._systemd.control, *self._systemd.options, "kill", "--signal=KILL", units]
        with trio.move_on_after(_ANSWER_S):
            await trio.run_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return Measured()


def best_isolation(directory: Path) -> Isolation:
    """Scopes, if systemd runs and makes one for this user; else control groups, if they are its own.

    Args:
        directory: where the jobs are kept, an absolute path.
    """
    prefix = f"ykactor-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]}"
    return Isolation(_systemd(prefix) or own_cgroups(prefix))


def _systemd(prefix: str) -> Systemd | None:
    run, control = shutil.which("systemd-run"), shutil.which("systemctl")
    if not _SYSTEMD.is_dir() or run is None or control is None:
        return None
    is_root = os.geteuid() == 0
    bus = {} if is_root else {name: os.environ[name] for name in _BUS if name in os.environ}
    systemd = Systemd(run, control, [] if is_root else ["--user"], bus, prefix)
    trial = [*systemd.scope("trial", {"CPUWeight": 100, "MemoryMax": 2**30}), "/bin/true"]
    try:
        done = subprocess.run(trial, capture_output=True, timeout=_ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return systemd if done.returncode == 0 else None
