"""The options of ``ykactor run``, and the tables of ``ykactor jobs``."""

from datetime import datetime, timedelta, timezone

import click
import pytest

from ykactor.local.model import After, Condition
from ykactor.surfaces.cli.jobs.tables import ATTEMPTS, Shape
from ykactor.surfaces.cli.jobs.wanted import after, array, begin_ns, variable

NOW = datetime(2026, 7, 31, 12, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "ranges", "at_most"),
    [
        ("1-100", [(1, 100)], 0),
        ("7", [(7, 7)], 0),
        ("1-200%10,300", [(1, 200), (300, 300)], 10),
        ("1,5,7-9%2", [(1, 1), (5, 5), (7, 9)], 2),
        ("3,1-2", [(1, 3)], 0),
        ("0-9:4", [(0, 0), (4, 4), (8, 8)], 0),
        ("0-9999", [(0, 9999)], 0),
    ],
)
def test_an_array(text, ranges, at_most):
    """Indexes, ranges and steps in any order, and how many run at once."""
    found = array(text)
    assert (found.ranges, found.at_most) == (ranges, at_most)


NO_ARRAYS = ("", "x", "-1", "3-1", "1-10000000", "0-10000")
NO_ARRAYS += ("1,1", "1-3,2", "1%0", "1%2,3%4", "1-", "1,,2", "1-5:0", "9" * 30, "\u0661", "1-\n")


@pytest.mark.parametrize("text", NO_ARRAYS)
def test_what_is_no_array(text):
    """The error names what was found, however large it is."""
    with pytest.raises(ValueError, match=r"found .*, expected"):
        array(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18:00", "2026-07-31T18:00:00+02:00"),
        ("12:30", "2026-08-01T12:30:00+02:00"),
        ("06:15:30", "2026-08-01T06:15:30+02:00"),
        ("+2h", "2026-07-31T14:30:00+02:00"),
        ("+0s", "2026-07-31T12:30:00+02:00"),
        ("2026-12-01T18:00Z", "2026-12-01T18:00:00+00:00"),
        ("2026-12-01T18:00+0100", "2026-12-01T18:00:00+01:00"),
    ],
)
def test_a_begin(text, expected):
    """A time of day is the next one, in the time zone of the person."""
    assert begin_ns(text, NOW) == round(datetime.fromisoformat(expected).timestamp() * 1e9)


NO_BEGINS = ("", "+", "+-1h", "-1h", "25:00", "2h", "2026-13-01", "9999-12-31", "0001-01-01", "+200000h", "nan", "1e300")


@pytest.mark.parametrize("text", NO_BEGINS)
def test_what_is_no_begin(text):
    """Nor is what nobody plans."""
    with pytest.raises(ValueError, match=r"found .*, expected 18:00"):
        begin_ns(text, NOW)


def test_a_dependency():
    """A dependency without a condition waits for completion."""
    assert after("job-3") == After("job-3")
    assert after("job-3.4:failed") == After("job-3", 4, Condition.FAILED)
    assert after("job-3:any") == After("job-3", condition=Condition.ANY)
    for wrong in ("", ":ok", "job-3:", "job-3:never", "job-3:ok:any"):
        with pytest.raises(ValueError, match=r"found .*, expected JOB"):
            after(wrong)


ROWS = [
    {"task": "job-1.2", "jobID": "job-1", "index": 2, "state": "Failed", "exitCode": 3, "signal": "", "ranSeconds": 5.0},
    {"task": "job-1.1", "jobID": "job-1", "index": 1, "state": "Running", "signal": ""},
    {"task": "job-2.0", "jobID": "job-2", "index": 0, "state": "Failed", "exitCode": 137, "signal": "SIGKILL", "ranSeconds": 9.0},
]


def shaped(**options):
    shape = Shape(**({"sort": "", "columns": "task,state,ran,exit", "no_headers": False, "output": "table"} | options))
    printout = shape.printout(ATTEMPTS, ROWS, "task", "attempts")
    return list(printout.lines(False)), printout.names


def test_rows_are_sorted_and_have_the_columns_that_are_named():
    """Unknown values are last in both directions; names are in the same order."""
    assert shaped(sort="ran")[0] == [
        "TASK     STATE      RAN     EXIT",
        "job-1.2  Failed   5.00s        3",
        "job-2.0  Failed   9.00s  SIGKILL",
        "job-1.1  Running      -        -",
    ]
    lines, names = shaped(sort="-RAN", no_headers=True, columns="Task")
    assert (lines, names) == (["job-2.0", "job-1.2", "job-1.1"], ["job-2.0", "job-1.2", "job-1.1"])


def test_commas_separate_cells():
    """One line for each row, also without headers."""
    assert shaped(output="csv", columns="task,exit", sort="task")[0] == ["TASK,EXIT", "job-1.1,-", "job-1.2,3", "job-2.0,SIGKILL"]
    assert shaped(output="csv", columns="task", no_headers=True)[0] == ["job-1.2", "job-1.1", "job-2.0"]
    for option in ("sort", "columns"):
        with pytest.raises(click.UsageError, match="found the column 'x', expected one of TASK, STATE"):
            shaped(**{option: "x"})


def test_variables(monkeypatch):
    """A value may be empty and have an equals sign; without one it is that of this process, which must have it."""
    monkeypatch.setenv("MINE", "é")
    monkeypatch.delenv("OTHER", raising=False)
    assert [variable(text) for text in ("MINE", "MINE=", "OTHER=a=b")] == [
        (b"MINE", "é".encode()),
        (b"MINE", b""),
        (b"OTHER", b"a=b"),
    ]
    for text in ("", "=a", "OTHER"):
        with pytest.raises(ValueError, match="expected"):
            variable(text)
