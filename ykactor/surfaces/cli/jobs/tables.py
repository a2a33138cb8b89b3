"""The tables of jobs, tasks and attempts: which columns and rows they have, and in which order and form they are printed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct, structs

from ykactor.actors.clock import system_ns
from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import duration_text
from ykactor.core.values.times import S_NS
from ykactor.local.control import JobRow, Record
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.cells import seconds_since, time_text
from ykactor.surfaces.cli.options import grouped
from ykactor.surfaces.cli.views.listing import FORMATS, Column, Printout, Row, field, table

CSV = "csv"
Key = Callable[[Row], Any]


class Field(Struct, frozen=True):
    """A column, and by what rows are sorted that are sorted by it; None sorts last."""

    column: Column
    key: Key


def _field(header: str, key: str, text: Callable[[Any], str] = str, *, is_wide: bool = False, is_number: bool = False) -> Field:
    """A column with one field of a row, which also sorts."""
    return Field(Column(header, field(key, text), is_wide=is_wide, is_number=is_number), lambda row: row.get(key))


def _sentence(header: str, key: str, text: Callable[[Any], str] = str) -> Field:
    """A column with a text that may be long."""
    return Field(Column(header, field(key, text), is_sentence=True), lambda row: row[key])


def _duration(seconds: float) -> str:
    return cells.exact_age(round(seconds * S_NS))


def _states(row: Row) -> str:
    return ",".join(f"{state}={count}" for state, count in row["states"].items())


def _number(job: str) -> int:
    return int(job.rpartition("-")[2])


def _exit(row: Row) -> str:
    return row["signal"] or field("exitCode")(row)


_EACH = Field(Column("EACH", field("resource", cells.resource), is_wide=True), lambda row: sorted(row["resource"].items()))
_NAME = _field("NAME", "name")
_USER = _field("USER", "user", is_wide=True)
_QUEUE = _field("QUEUE", "queueName")
_PRIORITY = _field("PRIORITY", "priority", is_wide=True, is_number=True)
_SUBMITTED = _field("SUBMITTED", "submissionTime", time_text, is_wide=True)

JOBS = (
    Field(Column("JOB", field("jobID")), lambda row: _number(row["jobID"])),
    _NAME,
    _QUEUE,
    Field(Column("STATES", _states), _states),
    _field("AGE", "ageSeconds", cells.age, is_number=True),
    Field(Column("EACH", field("resource", cells.resource)), _EACH.key),
    _USER,
    _PRIORITY,
    _SUBMITTED,
    _sentence("COMMAND", "arguments", " ".join),
)
ATTEMPTS = (
    Field(Column("TASK", field("task")), lambda row: (_number(row["jobID"]), row["index"])),
    _field("STATE", "state"),
    _field("ATTEMPT", "attempt", is_number=True),
    Field(Column("NAME", field("name"), is_wide=True), _NAME.key),
    _USER,
    Field(Column("QUEUE", field("queueName"), is_wide=True), _QUEUE.key),
    _PRIORITY,
    Field(Column("EXIT", _exit, is_number=True), _exit),
    _SUBMITTED,
    _field("ELIGIBLE", "eligibleTime", time_text, is_wide=True),
    _field("BEGAN", "startTime", time_text, is_wide=True),
    _field("ENDED", "finishedTime", time_text, is_wide=True),
    _field("WAITED", "waitedSeconds", _duration, is_number=True),
    _field("RAN", "ranSeconds", _duration, is_number=True),
    _field("CPU", "cpuTime", cells.exact_age, is_wide=True, is_number=True),
    _field("PEAK", "peakMemory", cells.memory, is_number=True),
    _EACH,
    _field("NODE", "nodeID", is_wide=True),
    _field("GPUS", "gpus", lambda gpus: ",".join(map(str, gpus))),
    _sentence("REASON", "reason"),
)

#: The fields of one job.
DETAILS = (
    *(each.column for each in JOBS if each.column.header not in ("SUBMITTED", "AGE")),
    Column("GANG", field("isGang", lambda is_gang: "yes" if is_gang else "")),
    Column("HELD", lambda row: "yes" if row["isHeld"] else "by an operator" if row["isHeldThere"] else ""),
    Column("AFTER", lambda row: ",".join(row["after"])),
    Column("NOT BEFORE", field("beginTime", time_text)),
    Column("TIME LIMIT", field("timeLimitSeconds", lambda limit_s: duration_text(round(limit_s * S_NS)))),
    Column("SUBMITTED", field("submissionTime", time_text)),
    Column("DIRECTORY", field("directory")),
    Column("INPUT", field("input")),
    Column("OUTPUT", field("output")),
    Column("ERROR", field("error")),
)


#: Fields that have another name in JSON, that of other verbs for the same.
_KEYS = {
    "id": "jobID",
    "job": "jobID",
    "queue": "queueName",
    "node": "nodeID",
    "exit_code": "exitCode",
    "peak_memory": "peakMemory",
    "cpu_ns": "cpuTime",
    "submitted_ns": "submissionTime",
    "eligible_ns": "eligibleTime",
    "started_ns": "startTime",
    "ended_ns": "finishedTime",
    "begin_ns": "beginTime",
    "time_limit_s": "timeLimitSeconds",
    "is_gang": "isGang",
    "is_held": "isHeld",
    "is_held_there": "isHeldThere",
}
#: Fields of which 0 says that there is none.
_NONE_IF_0 = {"submitted_ns", "eligible_ns", "started_ns", "ended_ns", "begin_ns", "time_limit_s"}


def job_row(job: JobRow) -> Row:
    """A job as JSON."""
    return _document(job) | {"ageSeconds": seconds_since(job.submitted_ns, system_ns())}


def attempt_row(record: Record) -> Row:
    """A record as JSON: how long the attempt has waited for its place since it was eligible, and how long it has run."""
    row, now_ns = _document(record) | {"task": f"{record.job}.{record.index}"}, system_ns()
    if record.eligible_ns:
        row["waitedSeconds"] = ((record.started_ns or record.ended_ns or now_ns) - record.eligible_ns) / S_NS
    if record.started_ns:
        row["ranSeconds"] = ((record.ended_ns or now_ns) - record.started_ns) / S_NS
    return row


def _document(found: JobRow | Record) -> Row:
    """The fields as other verbs name them, without what is not known."""
    row: Row = msgspec.to_builtins(found)
    known = {key: value for key, value in row.items() if value is not None and (value or key not in _NONE_IF_0)}
    return {_KEYS.get(key, key): value for key, value in known.items()}


class Shape(Struct, frozen=True):
    """The form in which rows are printed.

    Attributes:
        sort: the header of a column, with ``-`` before it for the largest first; "" leaves them as they are.
        columns: the headers of the columns, with commas; "" means the usual ones.
        no_headers: whether the line of headers is left out.
        output: one of ``FORMATS``, or csv.
    """

    sort: str
    columns: str
    no_headers: bool
    output: str

    def printout(self, fields: Sequence[Field], rows: list[Row], name: str, things: str) -> Printout:
        """The rows in this shape, each named by its field ``name``.

        Raises:  UsageError: there is no such column.
        """
        is_wide = self.output in ("wide", CSV) or bool(self.columns)
        chosen = [_named(fields, header) for header in self.columns.split(",")] if self.columns else fields
        columns = [structs.replace(each.column, is_wide=False) for each in chosen if is_wide or not each.column.is_wide]
        rows = self._sorted(fields, rows)
        lines = _csv(columns, rows) if self.output == CSV else table(columns, rows, is_wide=self.output == "wide")
        shown = [line for number, line in enumerate(lines) if number or not self.no_headers]
        nothing = f"no {things} match" if not rows else ""
        return Printout(rows, [str(row[name]) for row in rows], lambda is_wide: shown, [nothing] if nothing else [])

    def _sorted(self, fields: Sequence[Field], rows: list[Row]) -> list[Row]:
        if not self.sort:
            return rows
        key = _named(fields, self.sort.removeprefix("-")).key
        known, unknown = [row for row in rows if key(row) is not None], [row for row in rows if key(row) is None]
        return sorted(known, key=key, reverse=self.sort.startswith("-")) + unknown


def _named(fields: Sequence[Field], header: str) -> Field:
    for each in fields:
        if each.column.header == header.strip().upper():
            return each
    known = ", ".join(each.column.header for each in fields)
    raise click.UsageError(f"found the column {header.strip()!r}, expected one of {known}")


def _csv(columns: Sequence[Column], rows: Iterable[Row]) -> Iterator[str]:
    yield _csv_line(column.header for column in columns)
    for row in rows:
        yield _csv_line(printable(column.text(row)) for column in columns)


def _csv_line(texts: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(texts)
    return line.getvalue()


shape_options = grouped(
    "shape",
    Shape,
    click.option("--sort", default="", metavar="COLUMN", help="Sort by a column; -COLUMN puts the largest first."),
    click.option("--columns", default="", metavar="COLUMN,...", help="Only these columns, in this order; any that wide has."),
    click.option("--no-headers", "no_headers", is_flag=True, help="Leave out the line of headers."),
    click.option(
        "-o",
        "--output",
        type=click.Choice((*FORMATS, CSV)),
        default="table",
        show_default=True,
        help="wide: a table with more columns; csv: the same with commas; json, yaml: all fields; name: only names.",
    ),
)
