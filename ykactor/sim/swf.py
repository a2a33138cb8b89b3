"""Reads traces in the Standard Workload Format of the Parallel Workloads Archive: a line for each job, with 18 numbers.

-1 stands for what is not known. A job has the processors that it asked for, else those that it got; its memory is what it asked
for, else what it used, in KB for each processor. Lines that begin with ``;`` are comments, some with ``Name: value``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ykactor.sim.traces import Job, TraceError, lines_of

#: The numbers of a line, in their order.
FIELDS = (
    "job", "submit", "wait", "run", "allocated", "cpu", "used", "requested", "time", "memory", "status", "user", "group",
    "executable", "queue", "partition", "preceding", "think",
)  # fmt: skip
_HEADER = re.compile(r";\s*(\w+):\s*(\d{1,9})\b")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?")
_KIB = 1024


class Header(Struct):
    """The size of the machine, as far as the comments name it: the nodes and the processors of all of them."""

    nodes: int | None = None
    processors: int | None = None


def read_header(path: Path) -> Header:
    """The size of the machine. Raises:  TraceError."""
    found, is_empty = Header(), True
    for _, line in lines_of(path):
        is_empty = False
        if match := _HEADER.match(line):
            name, value = match[1], int(match[2])
            if name == "MaxNodes":
                found.nodes = value
            elif name == "MaxProcs":
                found.processors = value
    if is_empty:
        raise TraceError(f"{path}: found an empty file, expected a trace")
    return found


def read_jobs(path: Path) -> Iterator[Job]:
    """The jobs in the order of the file.

    Raises:
        TraceError: the first error in the file.
    """
    seen = set[str]()
    for number, line in lines_of(path):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        job = _job(_numbers(path, number, line))
        if job.name in seen:
            raise TraceError(f"{path}:{number}: field job: found {job.name!r}, expected a number that did not occur before")
        seen.add(job.name)
        yield job


def _numbers(path: Path, number: int, line: str) -> dict[str, float]:
    cells = line.split()
    if len(cells) != len(FIELDS):
        raise TraceError(f"{path}:{number}: found {len(cells)} fields, expected {len(FIELDS)}")
    for name, cell in zip(FIELDS, cells, strict=True):
        if not _NUMBER.fullmatch(cell):
            raise TraceError(f"{path}:{number}: field {name}: found {cell[:60]!r}, expected a number")
    return {name: float(cell) for name, cell in zip(FIELDS, cells, strict=True)}


def _job(row: dict[str, float]) -> Job:
    processors = int(row["requested"] if row["requested"] > 0 else row["allocated"])
    memory = row["memory"] if row["memory"] > 0 else row["used"]
    return Job(
        name=f"job-{row['job']:.0f}",
        submit_s=row["submit"],
        run_s=row["run"],
        processors=processors,
        memory=int(memory * _KIB) * max(0, processors) if memory > 0 else None,
        queue=_name("q", row["queue"]),
        user=_name("u", row["user"]),
        group=_name("g", row["group"]),
        wait_s=row["wait"] if row["wait"] >= 0 else None,
    )


def _name(letter: str, number: float) -> str:
    """The name of a numbered queue, user or group; "" if it is not known."""
    return f"{letter}{number:.0f}" if number >= 0 else ""
