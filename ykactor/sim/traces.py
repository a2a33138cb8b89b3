"""Recorded jobs of batch systems as a scenario. A converter reads a format, and makes ``Job`` and ``Machine`` of it.

A job is an application with one ask. One that is wider than a node is a gang of equal parts: its placeholders hold the room, and
the parts begin together (``wire.scenario.endings``). A job arrives when it was submitted, and each part runs as long as the job
did. The wait that was recorded is kept in a tag of the application.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from msgspec import Struct

from ykactor.core.values.resources import QUANTITY_MAX
from ykactor.core.values.words import plural
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.model import SECONDS_MAX
from ykactor.wire.si import messages as si

#: The tag of an application with the seconds that its job waited in the recording.
WAIT_TAG = "recorded-wait-seconds"
#: The resource type of GPUs, as ``ykactor local`` names it.
GPU = "gpu"
#: Of a job that is wider than a node: after 15 minutes without a place for all of its parts each begins on its own (GA-42).
_GROUP, _STYLE = "parts", "Soft"
#: The parts of the widest job.
PARTS_MAX = 100_000
#: An application is Completed 30 s after its last task (AP-50).
_EPILOGUE_S = 60


class TraceError(Exception):
    """An error in a trace file; the text names file, line, column, what was found and what was expected."""


class Machine(Struct, frozen=True):
    """Equal nodes: how many there are, and what each has, memory in bytes. Without memory, that of jobs does not count."""

    nodes: int
    processors: int
    memory: int | None = None
    gpus: int = 0


class Job(Struct, frozen=True):
    """A recorded job.

    Attributes:
        submit_s: seconds since the begin of the recording.
        memory: bytes of the whole job; None if it is not known.
        wait_s: how long it waited; None if it is not known.
    """

    name: str
    submit_s: float
    run_s: float
    processors: int
    memory: int | None = None
    gpus: int = 0
    queue: str = ""
    user: str = ""
    group: str = ""
    wait_s: float | None = None


class LeftOut:
    """The jobs that are not converted, by reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, reason: str) -> None:
        """Count a job."""
        self.counts[reason] += 1

    def __str__(self) -> str:
        """``left out 3 jobs: it did not run (2), its number of processors is not known (1)``; "" if there are none."""
        if not self.counts:
            return ""
        reasons = ", ".join(f"{reason} ({count})" for reason, count in self.counts.most_common())
        return f"left out {plural(self.counts.total(), 'job')}: {reasons}"


def lacks(job: Job) -> str:
    """The reason for which a job cannot be converted; "" if it can."""
    if job.run_s <= 0:
        return "it did not run"
    if job.processors <= 0:
        return "its number of processors is not known"
    if job.submit_s < 0 or job.submit_s + job.run_s > SECONDS_MAX / 2:
        return "its times are out of range"
    if job.processors * 1000 > QUANTITY_MAX or (job.memory or 0) > QUANTITY_MAX or job.gpus > QUANTITY_MAX:
        return "its size is out of range"
    return ""


def scenario_of(name: str, machine: Machine, jobs: Iterable[Job], left_out: LeftOut) -> Scenario:
    """All nodes at second 0, then each job at its time. The last moment is when all would have ended if none waited."""
    kept: list[tuple[Job, int]] = []
    for job in jobs:
        reason = lacks(job) or ("" if (parts := parts_of(job, machine)) else "its parts would be too many")
        if reason:
            left_out(reason)
        else:
            kept.append((job, parts))
    kept.sort(key=lambda each: each[0].submit_s)
    messages = [TimedRequest(0, _nodes(machine))]
    for job, parts in kept:
        messages.extend(_messages(job, parts, machine))
    last_s = max((job.submit_s + job.run_s for job, _ in kept), default=0)
    config = _config(sorted({_queue_of(job) for job, _ in kept}))
    return Scenario(name=name, config=config, until=last_s + _EPILOGUE_S, messages=messages)


def parts_of(job: Job, machine: Machine) -> int:
    """The smallest number of equal parts that each fit on a node; 0 if there is none up to ``PARTS_MAX``."""
    fewest = -(-job.processors // machine.processors)
    if machine.gpus and job.gpus:
        fewest = max(fewest, -(-job.gpus // machine.gpus))
    for parts in range(fewest, min(job.processors, PARTS_MAX) + 1):
        if job.processors % parts == 0 and job.gpus % parts == 0:
            return parts
    return 0


def _queue_of(job: Job) -> str:
    return job.queue or "default"


def _nodes(machine: Machine) -> si.NodeRequest:
    capacity: dict[str, int | str] = {"vcore": machine.processors * 1000}
    if machine.memory is not None:
        capacity["memory"] = machine.memory
    if machine.gpus:
        capacity[GPU] = machine.gpus
    names = (f"n{number}" for number in range(1, machine.nodes + 1))
    return si.NodeRequest(nodes=[si.NodeInfo(name, "CREATE", schedulable_resource=capacity) for name in names])


def _messages(job: Job, parts: int, machine: Machine) -> Iterator[TimedRequest]:
    resource: dict[str, int | str] = {"vcore": job.processors * 1000 // parts}
    if machine.memory is not None and job.memory:
        resource["memory"] = -(-job.memory // parts)
    if job.gpus:
        resource[GPU] = job.gpus // parts
    is_gang = parts > 1
    new = si.AddApplicationRequest(
        job.name,
        f"root.{_queue_of(job)}",
        ugi=si.UserGroupInformation(job.user or "unknown", [job.group] if job.group else []),
        tags={} if job.wait_s is None else {WAIT_TAG: f"{job.wait_s:g}"},
        placeholder_ask={name: int(amount) * parts for name, amount in resource.items()} if is_gang else None,
        gang_scheduling_style=_STYLE if is_gang else "",
    )
    keys = [f"{job.name}.{number}" for number in range(1, parts + 1)] if is_gang else [job.name]
    group = _GROUP if is_gang else ""
    asks = [si.Allocation(key, job.name, resource_per_alloc=resource, placeholder=is_gang, task_group_name=group) for key in keys]
    yield TimedRequest(job.submit_s, si.ApplicationRequest(new=[new]))
    yield TimedRequest(job.submit_s, si.AllocationRequest(allocations=asks), dict.fromkeys(range(parts), job.run_s))


def _config(queues: list[str]) -> str:
    leaves = [{"name": name} for name in queues or ["default"]]
    root = {"name": "root", "submitacl": "*", "queues": leaves}
    return yaml.safe_dump({"partitions": [{"name": "default", "queues": [root]}]}, sort_keys=False)


# ---- lines of a file


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The number and the text of each line.

    Raises:
        TraceError: it is no text.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise TraceError(f"{path}:{number}: not UTF-8 text: {error.reason}") from None
