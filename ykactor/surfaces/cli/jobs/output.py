"""``ykactor logs``: prints what tasks write."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import click
import trio

from ykactor.local.model import Task
from ykactor.local.untrusted import Unreadable, is_there, open_regular
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import directory_option, shown
from ykactor.surfaces.cli.options import WholeNumber
from ykactor.surfaces.cli.terminal import say

_TAIL_MAX = 2**31 - 1


@click.command()
@click.argument("name", metavar="JOB[.INDEX]", shell_complete=names_of("job"))
@directory_option
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the tasks have ended, one after the other.")
@click.option(
    "--tail",
    type=WholeNumber(0, _TAIL_MAX),
    metavar="N",
    help="Only the last N lines of each task, of standard output and of standard error, of the last attempt so far.",
)
def logs(name: str, directory: Path, follows: bool, tail: int | None) -> None:
    """Print what the tasks of JOB have written, all their attempts, to standard output and standard error.

    If the job has several tasks, each line begins with the index of its task, as in 3: text. A line such as -- attempt 1 -- on
    standard error comes before what a task has written after it was started again.
    """
    loop.run(_print, directory, name, follows, tail)


async def _print(directory: Path, name: str, follows: bool, tail: int | None) -> None:
    found = await shown(directory, name)
    are_marked = len(found.tasks) > 1
    for task in found.tasks:
        output = Output(Path(found.directory), task, mark=f"{task.index}: " if are_marked else "", tail=tail)
        if follows:
            await copy_until(output, partial(shown, directory, f"{found.job.id}.{task.index}", waits=True))
        else:
            output.copy()
        output.finish()


_PAUSE_S = 0.05
_CHUNK = 2**16

T = TypeVar("T")


class Output:
    """The files ``out`` and ``err`` of the attempts of a task, one attempt after the other.

    Args:
        directory: of the job.
        task: its present attempt, or an earlier one.
        mark: before each line.
        tail: of how many lines of the present attempt to begin with; None: with all attempts.
    """

    def __init__(self, directory: Path, task: Task, *, mark: str = "", tail: int | None = None) -> None:
        self._directory = directory
        self._index = task.index
        self._known = task.attempt
        self._mark = mark
        self._attempt = 0
        if tail is not None:
            self._attempt = next((number for number in range(task.attempt, 0, -1) if is_there(self._path(number))), 0)
        self._files = self._opened(tail)

    async def keep_copying(self) -> None:
        """Copy what is new again and again."""
        while True:
            self.copy()
            await trio.sleep(_PAUSE_S)

    def copy(self) -> None:
        """Write what is new to standard output and standard error."""
        while True:
            is_over = self._attempt < self._known or is_there(self._path(self._attempt + 1))
            for file in self._files:
                file.copy()
            if not is_over:
                return
            self.finish()
            self._attempt += 1
            self._files = self._opened(None)
            if is_there(self._path(self._attempt)):
                say(f"{self._mark}-- attempt {self._attempt} --", err=True)

    def finish(self) -> None:
        """End a line that the task has not ended, if what follows belongs to another mark."""
        for file in self._files:
            file.finish()

    def _path(self, attempt: int) -> Path:
        return self._directory / f"{self._index}.{attempt}"

    def _opened(self, tail: int | None) -> list[_File]:
        attempt, mark = self._path(self._attempt), self._mark.encode()
        return [_File(attempt / "out", sys.stdout.buffer, mark, tail), _File(attempt / "err", sys.stderr.buffer, mark, tail)]


class _File:
    """A file that grows, and where it is copied to.

    Args:
        mark: before each line; empty: it is copied byte by byte.
        tail: with how many lines to begin; None: with all.
    """

    def __init__(self, path: Path, target: BinaryIO, mark: bytes, tail: int | None) -> None:
        self._path = path
        self._target = target
        self._mark = mark
        self._tail = tail
        self._place = 0
        self._is_in_line = False
        self._is_unreadable = False

    def copy(self) -> None:
        """Write what is new. There may be no such file yet."""
        tail, self._tail = self._tail, None
        try:
            descriptor = open_regular(self._path)
        except FileNotFoundError:
            return
        except Unreadable as reason:  # the job has replaced its own output
            if not self._is_unreadable:
                self._is_unreadable = True
                say(f"{self._mark.decode()}what the task has written cannot be read: {reason}", err=True)
            return
        with open(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if tail is not None:
                self._place = _place_of_last(descriptor, size, tail)
            file.seek(self._place)
            while self._place < size and (chunk := file.read(min(size - self._place, _CHUNK))):
                self._write(chunk)
                self._place += len(chunk)
        self._target.flush()

    def finish(self) -> None:
        """End a line that is not ended, if lines have a mark."""
        if self._mark and self._is_in_line:
            self._target.write(b"\n")
            self._target.flush()
            self._is_in_line = False

    def _write(self, chunk: bytes) -> None:
        if self._mark:
            start = b"" if self._is_in_line else self._mark
            self._is_in_line = not chunk.endswith(b"\n")
            lines = chunk.removesuffix(b"\n").replace(b"\n", b"\n" + self._mark)
            chunk = start + lines + (b"" if self._is_in_line else b"\n")
        self._target.write(chunk)


def _place_of_last(descriptor: int, size: int, count: int) -> int:
    """The place at which the last lines of a file begin, in bytes; a last line without an end is one too."""
    if not count:
        return size
    end = size
    left = count
    while end > 0:
        start = max(0, end - _CHUNK)
        chunk = os.pread(descriptor, end - start, start)
        place = len(chunk) - 1 if end == size else len(chunk)  # the end of the last line begins no other one
        while (place := chunk.rfind(b"\n", 0, place)) >= 0:
            left -= 1
            if not left:
                return start + place + 1
        end = start
    return 0


async def copy_until(output: Output, end: Callable[[], Awaitable[T]]) -> T:
    """Copy what the task writes until ``end`` returns, and then the rest."""
    from ykactor.client.connection import alongside  # takes 0.2 s to load, which ``wait`` does without

    async with alongside(output.keep_copying):
        found = await end()
    output.copy()
    return found
