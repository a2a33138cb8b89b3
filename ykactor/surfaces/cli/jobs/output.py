"""``ykactor logs``: prints what tasks write."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

import click
import trio

from ykactor.local.untrusted import Unreadable, is_there, open_regular
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.jobs.asking import directory_option, shown
from ykactor.surfaces.cli.terminal import say


@click.command()
@click.argument("task", metavar="JOB[.INDEX]", shell_complete=names_of("job"))
@directory_option
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the task has ended.")
def logs(task: str, directory: Path, follows: bool) -> None:
    """Print what a task of JOB has written, all its attempts, to standard output and standard error.

    The INDEX is needed if the job has several tasks.
    """
    loop.run(_print, directory, task, follows)


async def _print(directory: Path, name: str, follows: bool) -> None:
    found = await shown(directory, name)
    if len(found.tasks) > 1:
        first, last = found.job.indexes
        raise click.ClickException(f"found {name}, which has several tasks, expected {name}.{first} to {name}.{last}")
    output = Output(Path(found.directory), found.tasks[0].index)
    if follows:
        await copy_until(output, lambda: shown(directory, name, waits=True))
    else:
        output.copy()


_PAUSE_S = 0.05
_CHUNK = 2**16

T = TypeVar("T")


class Output:
    """The files ``out`` and ``err`` of the attempts of a task, one attempt after the other.

    Args:
        directory: of the job.
    """

    def __init__(self, directory: Path, index: int) -> None:
        self._directory = directory
        self._index = index
        self._attempt = 0
        self._places = {"out": 0, "err": 0}
        self._unreadable: set[Path] = set()

    async def keep_copying(self) -> None:
        """Copy what is new again and again."""
        while True:
            self.copy()
            await trio.sleep(_PAUSE_S)

    def copy(self) -> None:
        """Write what is new to standard output and standard error."""
        while True:
            attempt = self._directory / f"{self._index}.{self._attempt}"
            is_over = is_there(self._directory / f"{self._index}.{self._attempt + 1}")
            for name, target in (("out", sys.stdout.buffer), ("err", sys.stderr.buffer)):
                self._places[name] += self._copy(attempt / name, self._places[name], target)
            if not is_over:
                return
            self._attempt += 1
            self._places = {"out": 0, "err": 0}

    def _copy(self, path: Path, place: int, target: BinaryIO) -> int:
        """Returns the number of bytes from ``place`` to the present end; 0 if there is no such file yet."""
        try:
            descriptor = open_regular(path)
        except FileNotFoundError:
            return 0
        except Unreadable as reason:  # the job has replaced its own output
            if path not in self._unreadable:
                self._unreadable.add(path)
                say(f"what the task has written cannot be read: {reason}", err=True)
            return 0
        with open(descriptor, "rb") as file:
            file.seek(place)
            count = left = max(0, os.fstat(descriptor).st_size - place)
            while left and (chunk := file.read(min(left, _CHUNK))):
                target.write(chunk)
                left -= len(chunk)
        target.flush()
        return count - left


async def copy_until(output: Output, end: Callable[[], Awaitable[T]]) -> T:
    """Copy what the task writes until ``end`` returns, and then the rest."""
    from ykactor.client.connection import alongside  # takes 0.2 s to load, which ``wait`` does without

    async with alongside(output.keep_copying):
        found = await end()
    output.copy()
    return found
