"""What keeps tasks apart: a scope of systemd for each, or only a process group."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import trio
from msgspec import Struct

from ykactor.local.model import Job, Task

#: There if systemd runs.
_SYSTEMD = Path("/run/systemd/system")
_ANSWER_S = 10.0
#: Where the manager of a user is found.
_BUS = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
#: systemd's default is that of one core.
_WEIGHT_OF_A_CORE = 100


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
        """What comes before a command. It becomes the command, with the same process number.

        The name of the scope has the number of this process: the scope of an earlier one may be on its way (see ``Processes``).
        """
        given = [option for name, value in properties.items() for option in ("-p", f"{name}={value}")]
        names = ("--unit", f"{self.prefix}-{unit}-{os.getpid()}", "--description", f"ykactor {unit}")
        return [self.run, *self.options, "--scope", "--quiet", "--collect", *names, *given, "--"]


class Isolation:
    """How tasks are started, and what is done when one has ended.

    Args:
        systemd: None: processes have a group of their own, and no limits.
    """

    def __init__(self, systemd: Systemd | None) -> None:
        self._systemd = systemd
        #: What the command before a task needs to find.
        self.environ: dict[str, str] = {} if systemd is None else systemd.environ

    @property
    def description(self) -> str:
        """One line for who starts the program."""
        if self._systemd is None:
            return "tasks are process groups: nothing keeps them from using more than they have asked for"
        return "tasks are scopes of systemd, with a weight of the CPU and a limit of the memory"

    def prefix(self, job: Job, task: Task) -> list[str]:
        """What comes before the command."""
        if self._systemd is None:
            return []
        properties = {"CPUWeight": max(1, min(10_000, job.resource.get("vcore", 0) * _WEIGHT_OF_A_CORE // 1000))}
        if memory := job.resource.get("memory", 0):
            properties["MemoryMax"] = memory
        return self._systemd.scope(task.key, properties)

    async def clean(self, task: Task) -> None:
        """Kill what has left the process group, but not the scope."""
        if self._systemd is None:
            return
        units = f"{self._systemd.prefix}-{task.key}-*.scope"
        command = [self._systemd.control, *self._systemd.options, "kill", "--signal=KILL", units]
        with trio.move_on_after(_ANSWER_S):
            await trio.run_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def best_isolation(directory: Path) -> Isolation:
    """Scopes, if systemd runs and makes one for this user.

    Args:
        directory: where the jobs are kept, an absolute path.
    """
    run, control = shutil.which("systemd-run"), shutil.which("systemctl")
    if not _SYSTEMD.is_dir() or run is None or control is None:
        return Isolation(None)
    is_root = os.geteuid() == 0
    bus = {} if is_root else {name: os.environ[name] for name in _BUS if name in os.environ}
    prefix = f"ykactor-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]}"
    systemd = Systemd(run, control, [] if is_root else ["--user"], bus, prefix)
    trial = [*systemd.scope("trial", {"CPUWeight": _WEIGHT_OF_A_CORE, "MemoryMax": 2**30}), "/bin/true"]
    try:
        done = subprocess.run(trial, capture_output=True, timeout=_ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        return Isolation(None)
    return Isolation(systemd if done.returncode == 0 else None)
