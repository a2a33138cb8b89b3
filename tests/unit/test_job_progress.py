"""The progress of an array that ``ykactor wait`` and ``run`` show on a terminal, and the output that they print."""

import io
import os
from pathlib import Path

import click
import pytest
import trio
from localjobs import job_of
from msgspec import structs

from ykactor.local import answers, control
from ykactor.local.model import State, Task
from ykactor.surfaces.cli.jobs import following, progress

HERE = Path("/")
#: The tasks of a job in the seconds one after the other; it has ended after 2.5 s.
STATES = [
    {State.PENDING: 3, State.WAITING: 1},
    {State.RUNNING: 1, State.ENDING: 1, State.COMPLETED: 1, State.PENDING: 1},
    {State.RUNNING: 1, State.COMPLETED: 1, State.FAILED: 1, State.CANCELLED: 1},
]
LINES = [
    "job-1: 0 done, 0 running, 0 failed, 4 waiting",
    "job-1: 1 done, 2 running, 0 failed, 1 waiting",
    "job-1: 1 done, 1 running, 2 failed, 0 waiting",
]


def row(states, count, **fields):
    job = answers.job_row(job_of("", id="job-1", first=3, last=count + 2), states)
    return structs.replace(job, **{"count": count} | fields)


@pytest.fixture
def asked(monkeypatch):
    """The names that were asked for; the job of ``count`` tasks ends after 2.5 s."""
    names = []

    async def shown(directory, name, *, waits=False):
        second = min(int(trio.current_time()), 2)
        names.append(name)
        if waits:
            await trio.sleep(2.5)
        return control.ShownJob(row(STATES[second], 4), [Task("job-1", 3)], "", "")

    monkeypatch.setattr(progress, "shown", shown)
    return names


class Terminal(io.StringIO):
    """A terminal as standard error."""

    def isatty(self):
        return True

    def fileno(self):
        return 2


@pytest.fixture
def terminal(monkeypatch):
    """Makes standard error a terminal of so many columns.

    It is called in the test itself: pytest sets standard error anew after each fixture.
    """

    def made(columns):
        errors = Terminal()
        monkeypatch.setattr("sys.stderr", errors)
        monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((columns, 24)))
        return errors

    return made


@pytest.mark.parametrize(("columns", "most"), [(0, 79), (80, 79), (20, 19)])
async def test_one_line_is_written_again(asked, terminal, autojump_clock, columns, most):
    """The line has room on the terminal, and is gone in the end."""
    screen = terminal(columns)
    assert (await progress.ended(HERE, "job-1")).job.id == "job-1"
    lines = [line[:most] for line in LINES]
    assert screen.getvalue() == "".join(f"\r{line}" for line in lines) + "\r" + " " * len(lines[-1]) + "\r"
    assert asked.count("job-1.3") == 3, "an answer about one task has not all of them"


async def test_a_task_has_no_progress(asked, terminal, autojump_clock):
    """Only a job as a whole has."""
    screen = terminal(80)
    await progress.ended(HERE, "job-1.3")
    assert screen.getvalue() == ""


async def test_without_a_terminal_nothing_is_written(asked, capsys, autojump_clock):
    """Files and programs get the end alone."""
    await progress.ended(HERE, "job-1")
    assert (asked, capsys.readouterr().err) == (["job-1"], "")


class Writing:
    """The tasks 3 and 4 of a job, which the test lets write; the commands ask about them."""

    def __init__(self, directory, **fields):
        self.directory = directory
        self.row = row({}, 2, **fields)
        self.tasks = {index: Task("job-1", index) for index in (3, 4)}

    async def shown(self, directory, name, *, waits=False):
        while waits and not all(task.state.is_final for task in self.tasks.values()):  # noqa: ASYNC110 (nothing tells when)
            await trio.sleep(0.01)
        return control.ShownJob(self.row, list(self.tasks.values()), str(self.directory), "")

    async def answer(self, directory, query):
        assert query.only_present
        return control.AttemptList([task for task in self.tasks.values() if task.state in query.states])

    def write(self, index, text, name="out"):
        self.tasks[index].state = State.RUNNING
        attempt = self.directory / f"{index}.{self.tasks[index].attempt}"
        attempt.mkdir(exist_ok=True)
        with (attempt / name).open("a") as file:
            file.write(text)

    def end(self, index, state=State.COMPLETED):
        self.tasks[index].state = state


@pytest.fixture
def writing(monkeypatch, tmp_path):
    made = Writing(tmp_path)
    for module in (progress, following):
        monkeypatch.setattr(module, "shown", made.shown)
    monkeypatch.setattr(following, "answer", made.answer)
    return made


async def test_tasks_are_followed_side_by_side(writing, capsys, autojump_clock):
    """Only whole lines are printed, each with the name of its task; a last one without an end when its task has ended."""
    found = []

    async def act():
        writing.write(3, "one\nha")
        writing.write(4, "two\n")
        await trio.sleep(1)
        found.append(capsys.readouterr().out)
        writing.write(4, "more", "err")
        writing.write(3, "lf\n")
        await trio.sleep(1)
        found.append(capsys.readouterr().out)
        writing.end(4)
        await trio.sleep(1)
        found.append(capsys.readouterr().err)
        writing.tasks[3] = Task("job-1", 3, attempt=1)
        writing.write(3, "again\n")
        writing.end(3, State.FAILED)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act)
        await progress.ended(HERE, "job-1", follows=True)
    assert found == ["job-1.3: one\njob-1.4: two\n", "job-1.3: half\n", "job-1.4: more\n"]
    assert capsys.readouterr() == ("job-1.3: again\n", "job-1.3: -- attempt 1 --\n")


async def test_what_had_ended_before_is_printed_too(writing, capsys, autojump_clock):
    """Also of a task that nobody has seen run."""
    for index in (3, 4):
        writing.write(index, f"{index}\n")
        writing.end(index)
    await progress.ended(HERE, "job-1", follows=True)
    assert capsys.readouterr().out == "job-1.3: 3\njob-1.4: 4\n"


async def test_output_is_for_its_user_alone(writing):
    """An operator of a shared machine sees the job of somebody else, and one sentence."""
    job = control.ShownJob(row({}, 2, user="somebody else"), [], "/", "", is_shared=True)
    with pytest.raises(click.ClickException, match="found a job of somebody else: what job-1 has written is for this user alone"):
        await following.follow(HERE, job, "job-1")


async def test_a_file_of_all_tasks_has_no_marks(writing, tmp_path, capsys, autojump_clock):
    """A file of all tasks is printed once."""
    writing.row = row({}, 2, output="/x/all", error="/x/%a")
    (tmp_path / "all").write_text("of both\n")
    for index in (3, 4):
        writing.write(index, f"{index}\n", "err")
        (tmp_path / f"{index}.0" / "out").symlink_to(tmp_path / "all")
        writing.end(index)
    await progress.ended(HERE, "job-1", follows=True)
    assert capsys.readouterr() == ("of both\n", "job-1.3: 3\njob-1.4: 4\n")
