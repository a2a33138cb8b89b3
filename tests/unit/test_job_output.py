"""``ykactor logs`` prints the output files of tasks."""

import os

import pytest

from ykactor.local.streams import Streams
from ykactor.surfaces.cli.jobs import output as printed
from ykactor.surfaces.cli.jobs.output import Output


def write(directory, attempt, output, errors=b""):
    """Write the two output files of an attempt of task 3."""
    path = directory / f"3.{attempt}"
    path.mkdir(exist_ok=True)
    for name, content in (("out", output), ("err", errors)):
        with (path / name).open("ab") as file:
            file.write(content)


def test_lines_of_several_tasks_have_a_mark(tmp_path, capfdbinary, monkeypatch):
    """Each line has one, also across chunks and if it is not ended; a line that grows is no second one until it is over."""
    monkeypatch.setattr(printed, "_CHUNK", 8)
    output = Output(tmp_path, 3, {"out": "3: ", "err": "3: "})
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
    output = Output(tmp_path, 3)
    output.attempt = 2
    output.copy()
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
    """The tail is that of the last attempt that has begun; output that comes later is printed as a whole."""
    monkeypatch.setattr(printed, "_CHUNK", 2)
    write(tmp_path, 0, b"before\n")
    write(tmp_path, 1, content)
    output = Output(tmp_path, 3, tail=count)
    output.attempt = 1
    output.copy()
    assert capfdbinary.readouterr() == (tail, b"")
    write(tmp_path, 1, b"y\nz\n")
    output.copy()
    assert capfdbinary.readouterr() == (b"y\nz\n", b"")


def link(directory, index, attempt, target):
    """Make the output file of an attempt a link to a file that the job has named."""
    (directory / f"{index}.{attempt}").mkdir()
    (directory / f"{index}.{attempt}" / "out").symlink_to(target)


@pytest.mark.parametrize(
    ("output", "error", "are_named"),
    [
        (b"", b"", (False, False)),
        (b"f", b"", (True, True)),
        (b"f", b"/dev/stderr", (True, False)),
        (b"f", b"/dev/stdout", (True, True)),
        (b"/dev/stdout", b"", (False, False)),
        (b"/dev/stderr", b"/dev/stdout", (False, False)),
        (b"", b"f", (False, True)),
    ],
)
def test_what_run_prints(output, error, are_named):
    """Standard output is no file that the job names, by whatever name."""
    assert Streams(output=output, error=error).are_named == are_named


def test_a_file_is_not_printed_into_itself(tmp_path, capfd):
    """Otherwise it grows without end; the reason is said once."""
    write(tmp_path, 3, b"")
    link(tmp_path, 3, 0, f"/proc/self/fd/{os.dup(1)}")
    print("one", flush=True)
    output = Output(tmp_path, 3)
    output.copy()
    output.finish()
    said = "out: found the file to which this command prints, expected another one"
    assert capfd.readouterr() == ("one\n", f"what the task has written cannot be read: {said}\n")


def test_a_file_of_several_attempts_is_printed_once(tmp_path, capfdbinary):
    """Output that is new when another attempt has begun has a line before it; a file that was emptied begins again."""
    named = tmp_path / "named"
    named.write_bytes(b"one\ntwo\n")
    link(tmp_path, 3, 0, named)
    output = Output(tmp_path, 3)
    output.copy()
    link(tmp_path, 3, 1, named)
    output.copy()
    assert capfdbinary.readouterr() == (b"one\ntwo\n", b"")
    named.write_bytes(b"new\n")
    output.copy()
    assert capfdbinary.readouterr() == (b"new\n", b"-- attempt 1 --\n")


def test_a_file_of_several_tasks_is_printed_once(tmp_path, capfdbinary):
    """A file of several tasks has no marks, because its lines do not say which task wrote them; files of one task have marks."""
    named = tmp_path / "named"
    named.write_bytes(b"of both\n")
    places = {}
    for index in (3, 4):
        link(tmp_path, index, 0, named)
        (tmp_path / f"{index}.0" / "err").write_bytes(b"own\n")
        Output(tmp_path, index, {"out": "", "err": f"{index}: "}, places=places).copy()
    assert capfdbinary.readouterr() == (b"of both\n", b"3: own\n4: own\n")


def test_what_has_a_file_may_be_left_out(tmp_path, capfdbinary):
    """``run`` prints only what the job has not sent elsewhere."""
    write(tmp_path, 0, b"named\n", b"printed\n")
    Output(tmp_path, 3, {"err": ""}).copy()
    assert capfdbinary.readouterr() == (b"", b"printed\n")
