"""The files that tasks write, printed while they grow."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

import trio

from ykactor.local.untrusted import Unreadable, is_there, open_linked
from ykactor.surfaces.cli.terminal import say

#: Seconds between two looks at what a task has written.
PAUSE_S = 0.05
#: Bytes that are read at a time; a line of a marked file that is longer is broken.
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
        index: of the task.
        marks: of those of ``NAMES`` that are printed, what comes before each line; "": they are copied byte by byte.
        tail: of how many lines of the last attempt so far to begin with; None: with all attempts.
        places: in the files that were read before.

    Attributes:
        attempt: the last one that is known; others may have followed.
    """

    def __init__(
        self,
        directory: Path,
        index: int,
        marks: Mapping[str, str] = UNMARKED,
        *,
        tail: int | None = None,
        places: Places | None = None,
    ) -> None:
        self.attempt = 0
        self._directory = directory
        self._index = index
        self._marks = marks
        self._tail = tail
        self._places: Places = {} if places is None else places
        self._files: list[_File] = []
        #: The attempt that is printed, and that of which a line says that it begins: the first one needs none.
        self._printed = self._announced = -1

    async def keep_copying(self) -> None:
        """Copy what is new again and again."""
        while True:
            self.copy()
            await trio.sleep(PAUSE_S)

    def copy(self) -> None:
        """Write what is new to standard output and standard error."""
        if self._printed < 0:
            self._begin()
        while True:
            is_over = self._printed < self.attempt or is_there(self._path(self._printed + 1))
            for file in self._files:
                file.copy(self._announce, is_whole=is_over)
            if not is_over:
                return
            self._printed += 1
            self._files = self._opened(None)

    def finish(self) -> None:
        """Write what is left: the task has ended."""
        self.copy()
        for file in self._files:
            file.copy(self._announce, is_whole=True)

    def _begin(self) -> None:
        """Open the first attempt that is printed."""
        self._printed = 0
        if self._tail is not None:
            self._printed = next((number for number in range(self.attempt, 0, -1) if is_there(self._path(number))), 0)
        self._announced = self._printed
        self._files = self._opened(self._tail)

    def _announce(self) -> None:
        """Say where an attempt begins, before the first that it has written: several may append to one file."""
        if self._announced < self._printed:
            self._announced = self._printed
            say(f"{max(self._marks.values())}-- attempt {self._printed} --", err=True)

    def _path(self, attempt: int) -> Path:
        return self._directory / f"{self._index}.{attempt}"

    def _opened(self, tail: int | None) -> list[_File]:
        attempt, targets = self._path(self._printed), dict(zip(NAMES, (sys.stdout.buffer, sys.stderr.buffer), strict=True))
        return [_File(attempt / name, targets[name], mark.encode(), tail, self._places) for name, mark in self._marks.items()]


class _File:
    """A file that grows, and where it is copied to.

    Args:
        mark: before each line, which is copied when it has ended; empty: it is copied byte by byte.
        tail: with how many lines to begin; None: with all.
        places: as of ``Output``.
    """

    def __init__(self, path: Path, target: BinaryIO, mark: bytes, tail: int | None, places: Places) -> None:
        self._path = path
        self._target = target
        self._mark = mark
        self._tail = tail
        self._places = places
        self._is_unreadable = False

    def copy(self, before: Callable[[], None], *, is_whole: bool) -> None:
        """Write what is new, if there is something; there may be no such file yet.

        Args:
            before: called first then.
            is_whole: whether nothing more comes, and so a line without an end is one too.
        """
        try:
            descriptor = _opened(self._path)
        except FileNotFoundError:
            return
        except Unreadable as reason:  # the job has replaced its own output, or it is in no file
            if not self._is_unreadable:
                self._is_unreadable = True
                say(f"{self._mark.decode()}what the task has written cannot be read: {reason}", err=True)
            return
        if descriptor is not None:
            with open(descriptor, "rb") as file:
                self._copy(file, before, is_whole)

    def _copy(self, file: BinaryIO, before: Callable[[], None], is_whole: bool) -> None:
        status = os.fstat(file.fileno())
        identity = status.st_dev, status.st_ino
        place = self._places.get(identity)
        if place is None:
            place = 0 if self._tail is None else _place_of_last(file.fileno(), status.st_size, self._tail)
        elif place > status.st_size:  # somebody has emptied it
            place = 0
        while chunk := os.pread(file.fileno(), min(status.st_size - place, _CHUNK), place):
            if self._mark and not (chunk := _lines(chunk, is_whole or len(chunk) == _CHUNK)):
                break
            before()
            self._target.write(self._marked(chunk) if self._mark else chunk)
            place += len(chunk)
        self._places[identity] = place
        self._target.flush()

    def _marked(self, lines: bytes) -> bytes:
        return self._mark + lines.removesuffix(b"\n").replace(b"\n", b"\n" + self._mark) + b"\n"


def _opened(path: Path) -> int | None:
    """The descriptor of ``open_linked``. What this command prints to a file that it reads would never end.

    Raises:  FileNotFoundError, Unreadable.
    """
    descriptor = open_linked(path)
    if descriptor is not None and any(os.path.samestat(os.fstat(descriptor), os.fstat(own)) for own in (1, 2)):
        os.close(descriptor)
        raise Unreadable(f"{path.name}: found the file to which this command prints, expected another one")
    return descriptor


def _lines(chunk: bytes, is_whole: bool) -> bytes:
    """The whole lines with which a chunk begins; if there is none, all of it if it is as much as there will be."""
    return chunk[: chunk.rfind(b"\n") + 1] or (chunk if is_whole else b"")


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
    output.finish()
    return found
