"""The files that a job names for its standard input, output and error."""

import pytest
from localjobs import job_of

from ykactor.local.checks import checked
from ykactor.local.jobs import SubmitRefused
from ykactor.local.model import Task
from ykactor.local.processes import files
from ykactor.local.streams import Streams, is_shared, pattern

TASK = Task("job-3", 7, attempt=2, node="n1")


def paths(task=TASK, **fields):
    job = job_of("true", id="job-3", directory=b"/d%a", first=7, last=9, **fields)
    return files(job, task)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%j-%a.%n", b"/d%a/job-3-7.2"),
        ("%A_%3a %%a", b"/d%a/job-3_007 %a"),
        ("/%u/%N/%x", b"/me/n1/mine"),
        ("%12j\udcff", b"/d%a/job-3\xff"),
        ("../up", b"/d%a/../up"),
    ],
)
def test_the_letters_of_a_path(text, expected):
    """They are those of Slurm, numbers with zeros; the directory of the job has none."""
    assert paths(streams=Streams(output=pattern(text)), user="me", name="mine")[1].path == expected


def test_a_job_without_a_name_has_its_id():
    """A path has something for each letter."""
    assert paths(streams=Streams(input=b"%x"))[0].path == b"/d%a/job-3"


def test_what_is_not_named():
    """Nothing is opened for it; standard error goes where standard output does."""
    assert paths() == []
    assert [file.path for file in paths(streams=Streams(output=b"o"))] == [b"", b"/d%a/o", b"/d%a/o"]
    assert [file.path for file in paths(streams=Streams(error=b"e"))] == [b"", b"", b"/d%a/e"]


@pytest.mark.parametrize(
    ("found", "attempt", "last", "is_emptied"),
    [
        (b"%a", 0, 9, True),
        (b"%a", 1, 9, False),
        (b"x", 0, 7, True),
        (b"x", 0, 9, False),
        (b"%%a", 0, 9, False),
        (b"%2a", 0, 9, True),
    ],
)
def test_only_the_first_attempt_empties_a_file_of_its_own(found, attempt, last, is_emptied):
    """Retries append, and so do the tasks of a job that write to one file."""
    job = job_of("true", first=7, last=last, streams=Streams(output=found))
    assert files(job, Task("job-3", 7, attempt=attempt))[1].is_emptied is is_emptied
    assert is_shared(found, job.count) is (last > 7 and not is_emptied and not attempt)


@pytest.mark.parametrize("text", ["", "%", "x%", "%z", "%123a", "%-1a", "a\0b", "x" * 4096, "%%%"])
def test_what_is_no_path(text):
    """The command says so, and so does the local resource manager, which any program can ask."""
    with pytest.raises(ValueError, match=r"found .*, expected"):
        pattern(text)
    if text:
        with pytest.raises(SubmitRefused, match="found the file"):
            checked(job_of("true", streams=Streams(error=text.encode())))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"terminal": b"/dev/tty1"}, "found the terminal b'/dev/tty1'"),
        ({"terminal": b"/dev/pts/../sda"}, "found the terminal"),
        ({"last": 1}, "several tasks, retries or files"),
        ({"retries": 1}, "several tasks, retries or files"),
        ({"streams": Streams(input=b"x")}, "several tasks, retries or files"),
    ],
)
def test_what_does_not_go_with_a_terminal(fields, found):
    """Only one task at a time has it, and nothing but terminals is opened as one."""
    checked(job_of("true", terminal=b"/dev/pts/3"))
    with pytest.raises(SubmitRefused, match=found):
        checked(job_of("true", **{"terminal": b"/dev/pts/3"} | fields))
