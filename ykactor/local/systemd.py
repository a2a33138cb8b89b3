"""A scope of systemd for each task, where it runs and makes some for this user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import trio

from ykactor.local.isolation import Isolation, Measured, weight
from ykactor.local.model import Job, Task

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
