"""Reads what Slurm's ``sacct --parsable2`` or ``-P`` prints: columns between ``|``, with their names in the first line.

Only whole jobs count, not their steps. Columns: ``JobID`` (or ``JobIDRaw``), ``Submit``, ``ElapsedRaw`` (or ``Elapsed``), and of
``ReqCPUS``, ``AllocCPUS``, ``NCPUS`` the first that there is. Also used, if they are there: ``User``, ``Group``, ``Account``,
``Partition``, ``Start``, ``ReqTRES`` and ``ReqMem``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from ykactor.sim.traces import Job, LeftOut, TraceError, lines_of

_CPUS = ("ReqCPUS", "AllocCPUS", "NCPUS")
_STEP = re.compile(r"\.\w+$")
#: ``[days-]hours:minutes:seconds``, maybe with less in front.
_ELAPSED = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,6}):)?(\d{1,6}):(\d{1,2})(?:\.\d+)?")
#: ``4000M``; ``c`` is for each processor, ``n`` for each node.
_MEMORY = re.compile(r"(\d{1,12}(?:\.\d+)?)([KMGTP]?)([cn]?)")
_UNITS = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_GPU_TRES = re.compile(r"gres/gpu(?::[^=]+)?")
_NO_QUEUE_LETTER = re.compile(r"[^A-Za-z0-9_:#/@-]")
#: Times that are not known.
_UNKNOWN = ("", "Unknown", "None", "N/A")


class _Row:
    """A line, whose cells have the names of the columns."""

    def __init__(self, path: Path, number: int, cells: Mapping[str, str]) -> None:
        self._place = f"{path}:{number}"
        self._cells = cells

    def __getitem__(self, column: str) -> str:
        return self._cells.get(column, "")

    def first(self, columns: Sequence[str]) -> str:
        """The first of these columns that there is."""
        return next((self[column] for column in columns if column in self._cells), "")

    def refuse(self, column: str, expected: str) -> NoReturn:
        raise TraceError(f"{self._place}: column {column}: found {self[column][:60]!r}, expected {expected}")

    def second(self, column: str) -> float | None:
        """A time as Unix seconds; None if it is not known."""
        text = self[column]
        if text in _UNKNOWN:
            return None
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            self.refuse(column, "a time such as 2024-03-01T12:00:00")
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    def elapsed(self) -> float:
        if raw := self["ElapsedRaw"]:
            if not (raw.isascii() and raw.isdigit() and len(raw) <= 12):
                self.refuse("ElapsedRaw", "seconds")
            return float(raw)
        match = _ELAPSED.fullmatch(self["Elapsed"])
        if match is None:
            self.refuse("Elapsed", "a duration such as 1-02:03:04")
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)

    def cpus(self) -> int:
        text = self.first(_CPUS)
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def read_jobs(path: Path, left_out: LeftOut, *, by_account: bool = False) -> Iterator[Job]:
    """The jobs in the order of the file; ``left_out`` counts those without a time of submission.

    Raises:
        TraceError: the first error in the file.
    """
    rows = list(_rows(path))
    known = [second for row in rows if (second := row.second("Submit")) is not None]
    begin_s, seen = min(known, default=0.0), set[str]()
    for row in rows:
        submit_s = row.second("Submit")
        if submit_s is None:
            left_out("its time of submission is not known")
            continue
        job = _job(row, submit_s, begin_s, "Account" if by_account else "Partition")
        if job.name in seen:
            row.refuse("JobID", "one that did not occur before (leave out --duplicates)")
        seen.add(job.name)
        yield job


def _rows(path: Path) -> Iterator[_Row]:
    lines = lines_of(path)
    _, first = next(lines, (1, ""))
    header = first.removesuffix("|").split("|")
    for columns in (("JobID", "JobIDRaw"), ("Submit",), ("ElapsedRaw", "Elapsed"), _CPUS):
        if not set(columns) & set(header):
            raise TraceError(f"{path}:1: column {' or '.join(columns)}: missing, found {first[:200] or 'an empty file'}")
    for number, line in lines:
        cells = line.split("|")[: len(header)] if line.endswith("|") else line.split("|")
        if not line:
            continue
        if len(cells) != len(header):
            raise TraceError(f"{path}:{number}: found {len(cells)} columns, expected {len(header)}")
        row = _Row(path, number, dict(zip(header, cells, strict=True)))
        if not _STEP.search(row.first(("JobID", "JobIDRaw"))):
            yield row


def _job(row: _Row, submit_s: float, begin_s: float, queue: str) -> Job:
    start_s, tres = row.second("Start"), _tres(row["ReqTRES"])
    processors = row.cpus()
    return Job(
        name=f"job-{row.first(('JobID', 'JobIDRaw'))}",
        submit_s=submit_s - begin_s,
        run_s=row.elapsed(),
        processors=processors,
        memory=_memory(tres.get("mem", "") or row["ReqMem"], processors, tres),
        gpus=sum(int(count) for name, count in tres.items() if _GPU_TRES.fullmatch(name) and count.isdigit()),
        queue=_queue(row[queue]),
        user=row["User"],
        group=row["Group"] or row["Account"],
        wait_s=None if start_s is None or start_s < submit_s else start_s - submit_s,
    )


def _queue(text: str) -> str:
    """The first of several partitions, as the name of a queue."""
    return _NO_QUEUE_LETTER.sub("-", text.split(",")[0])[:64].lower()


def _tres(text: str) -> dict[str, str]:
    """``cpu=4,mem=16G,gres/gpu=2``: what was asked for. The sum of a kind of GPUs comes without its models, or with them only."""
    found = dict(item.partition("=")[::2] for item in text.split(",") if "=" in item)
    if "gres/gpu" in found:
        return {name: count for name, count in found.items() if ":" not in name}
    return found


def _memory(text: str, processors: int, tres: Mapping[str, str]) -> int | None:
    """The bytes of the whole job; None if they are not known."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        return None
    amount, unit, each = match.groups()
    count = processors if each == "c" else int(tres.get("node", "1")) if each == "n" and tres.get("node", "1").isdigit() else 1
    return int(float(amount) * _UNITS[unit]) * count or None
