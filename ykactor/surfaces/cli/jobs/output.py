"""``ykactor logs``: prints what tasks write."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import click
import trio

from ykactor.local.model import Task
from ykactor.local.streams import is_shared
from ykactor.local.untrusted import Unreadable, is_there, open_linked
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
    patterns = map(os.fsencode, (found.job.output, found.job.error or found.job.output))
    are_shared = {name: is_shared(pattern, found.job.count) for name, pattern in zip(NAMES, patterns, strict=True)}
    places: Places = {}
    for task in found.tasks:
        mark = f"{task.index}: " if len(found.tasks) > 1 else ""
        marks = {name: "" if is_of_all else mark for name, is_of_all in are_shared.items()}
        output = Output(Path(found.directory), task, marks, tail=tail, places=places)
        if follows:
            await copy_until(output, partial(shown, directory, f"{found.job.id}.{task.index}", waits=True))
        else:
            output.copy()
        output.finish()


_PAUSE_S = 0.05
_CHUNK = 2**16

T = TypeVar("T")
#: The files of an attempt, or links to those that the job has named, and the marks before their lines.
NAMES = ("out", "err")
UNMARKED = dict.fromkeys(NAMES, "")
#: How much of each file was read, by its device and number: what several attempts or tasks have written to one is printed once.
Places = dict[tuple[int, int], int]


class Output:
    """The output of the attempts of a task, one attempt after the other.

    Args:
        directory: of the job.
        task: its present attempt, or an earlier one.
        marks: of those of ``NAMES`` that are printed, what comes before each line; "": they are copied byte by byte.
        tail: of how many lines of the present attempt to begin with; None: with all attempts.
        places: in the files that were read before.
    """

    def __init__(
        self,
        directory: Path,
        task: Task,
        marks: Mapping[str, str] = UNMARKED,
        *,
        tail: int | None = None,
        places: Places | None = None,
    ) -> None:
        self._directory = directory
        self._index = task.index
        self._known = task.attempt
        self._marks = marks
        self._places: Places = {} if places is None else places
        self._attempt = 0
        if tail is not None:
            self._attempt = next((number for number in range(task.attempt, 0, -1) if is_there(self._path(number))), 0)
        #: The attempt of which a line says that it begins: the first one that is printed needs none.
        self._announced = self._attempt
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
                file.copy(self._announce)
            if not is_over:
                return
            self.finish()
            self._attempt += 1
            self._files = self._opened(None)

    def finish(self) -> None:
        """End a line that the task has not ended, if what follows belongs to another mark."""
        for file in self._files:
            file.finish()

    def _announce(self) -> None:
        """Say where an attempt begins, before the first that it has written: several may append to one file."""
        if self._announced < self._attempt:
            self._announced = self._attempt
            say(f"{max(self._marks.values())}-- attempt {self._attempt} --", err=True)

    def _path(self, attempt: int) -> Path:
        return self._directory / f"{self._index}.{attempt}"

    def _opened(self, tail: int | None) -> list[_File]:
        attempt, targets = self._path(self._attempt), dict(zip(NAMES, (sys.stdout.buffer, sys.stderr.buffer), strict=True))
        return [_File(attempt / name, targets[name], mark.encode(), tail, self._places) for name, mark in self._marks.items()]


class _File:
    """A file that grows, and where it is copied to.

    Args:
        mark: before each line; empty: it is copied byte by byte.
        tail: with how many lines to begin; None: with all.
        places: as of ``Output``.
    """

    def __init__(self, path: Path, target: BinaryIO, mark: bytes, tail: int | None, places: Places) -> None:
        self._path = path
        self._target = target
        self._mark = mark
        self._tail = tail
        self._places = places
        self._is_in_line = False
        self._is_unreadable = False

    def copy(self, before: Callable[[], None]) -> None:
        """Write what is new, if there is something; ``before`` is called first then. There may be no such file yet."""
        try:
            descriptor = open_linked(self._path)
        except FileNotFoundError:
            return
        except Unreadable as reason:  # the job has replaced its own output, or it is in no file
            if not self._is_unreadable:
                self._is_unreadable = True
                say(f"{self._mark.decode()}what the task has written cannot be read: {reason}", err=True)
            return
        if descriptor is not None:
            with open(descriptor, "rb") as file:
                self._copy(file, before)

    def _copy(self, file: BinaryIO, before: Callable[[], None]) -> None:
        status = os.fstat(file.fileno())
        identity = status.st_dev, status.st_ino
        place = self._places.get(identity)
        if place is None:
            place = 0 if self._tail is None else _place_of_last(file.fileno(), status.st_size, self._tail)
        elif place > status.st_size:  # somebody has emptied it
            place = 0
        if place < status.st_size:
            before()
        file.seek(place)
        while place < status.st_size and (chunk := file.read(min(status.st_size - place, _CHUNK))):
            self._write(chunk)
            place += len(chunk)
        self._places[identity] = place
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
