"""The isolation of tasks: how the command of each is started and limited, and what is cleaned when it has ended.

``Isolation`` itself gives each task a process group. Every other way is a class of its own, found by ``best_isolation``.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.local.model import Job, Task

#: The default weight, which is that of one core here, and the most.
_WEIGHT_OF_A_CORE, _WEIGHT_MAX = 100, 10_000


class Measured(Struct, frozen=True):
    """The resources of a task that the kernel has counted.

    Attributes:
        peak_memory: the most bytes that it has used at a time; None if it was not measured.
        is_short: whether a process of it was killed because it wanted more memory than it may use.
    """

    peak_memory: int | None = None
    is_short: bool = False


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
