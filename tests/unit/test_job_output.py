"""What ``ykactor logs`` prints of the files of a task."""

import pytest

from ykactor.local.model import Task
from ykactor.surfaces.cli.jobs import output as printed
from ykactor.surfaces.cli.jobs.output import Output


def write(directory, attempt, output, errors=b""):
    """What attempts of task 3 have written."""
    path = directory / f"3.{attempt}"
    path.mkdir(exist_ok=True)
    for name, content in (("out", output), ("err", errors)):
        with (path / name).open("ab") as file:
            file.write(content)


def test_lines_of_several_tasks_have_a_mark(tmp_path, capfdbinary, monkeypatch):
    """Each line has one, also across chunks and if it is not ended; a line that grows is no second one until it is over."""
    monkeypatch.setattr(printed, "_CHUNK", 3)
    output = Output(tmp_path, Task("job-1", 3), mark="3: ")
    output.copy()
    write(tmp_path, 0, b"one\n\nlonger\nha", b"bad")
    output.copy()
    write(tmp_path, 0, b"lf")
    output.copy()
    output.finish()
    assert capfdbinary.readouterr() == (b"3: one\n3: \n3: longer\n3: half\n", b"3: bad\n")


def test_a_line_says_where_an_attempt_begins(tmp_path, capfdbinary):
    """Also if one between them was never started, and so has written nothing."""
    write(tmp_path, 0, b"a\n")
    write(tmp_path, 2, b"c\n")
    Output(tmp_path, Task("job-1", 3, attempt=2)).copy()
    assert capfdbinary.readouterr() == (b"a\nc\n", b"-- attempt 2 --\n")


@pytest.mark.parametrize(
    ("content", "count", "tail"),
    [
        (b"a\nbcd\ne\n", 0, b""),
        (b"a\nbcd\ne\n", 1, b"e\n"),
        (b"a\nbcd\ne", 2, b"bcd\ne"),
        (b"a\n\n\n", 2, b"\n\n"),
        (b"a\nbcd\ne\n", 3, b"a\nbcd\ne\n"),
        (b"a\nbcd\ne\n", 2**31 - 1, b"a\nbcd\ne\n"),
        (b"", 1, b""),
    ],
)
def test_the_tail_of_an_attempt(tmp_path, capfdbinary, monkeypatch, content, count, tail):
    """It is that of the last attempt that has begun; what is written later is printed as a whole."""
    monkeypatch.setattr(printed, "_CHUNK", 2)
    write(tmp_path, 0, b"before\n")
    write(tmp_path, 1, content)
    output = Output(tmp_path, Task("job-1", 3, attempt=1), tail=count)
    output.copy()
    assert capfdbinary.readouterr() == (tail, b"")
    write(tmp_path, 1, b"y\nz\n")
    output.copy()
    assert capfdbinary.readouterr() == (b"y\nz\n", b"")
