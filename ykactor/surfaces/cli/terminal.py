"""The only way in which commands print: nothing that others have chosen can command the terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from ykactor.core.values.printable import printable, printable_json, printable_lines

if TYPE_CHECKING:
    from ykactor.wire.si import messages as si

#: The name of it in messages.
STANDARD_OUTPUT = "standard output"
#: A colour, as ``click.style`` has it, and its end.
_STYLE = re.compile("(\x1b\\[[0-9;]*m)")

#: The part of the work after which a bar is drawn again.
_PROGRESS_STEP = 0.01


def is_terminal() -> bool:
    """True if standard output is a terminal."""
    return sys.stdout.isatty()


def terminal_width() -> int | None:
    """The characters of a line: of the terminal, or what the variable COLUMNS says also where there is none."""
    return shutil.get_terminal_size().columns if is_terminal() or os.environ.get("COLUMNS") else None


def say(line: str, *, err: bool = False) -> None:
    """Print a line for people; a text of others in it cannot begin another one."""
    _echo(printable(line), err=err)


def warn(line: str) -> None:
    """Print a line for people on standard error."""
    say(line, err=True)


def say_lines(text: str, *, err: bool = False) -> None:
    """Print a text of several lines for people."""
    _echo(printable_lines(text), err=err)


def write(lines: Iterable[str]) -> None:
    """Print lines, all at once: a write for each of thousands takes long.

    They may have colours, and what others have chosen in them is printable already, but for texts that programs read as they are,
    such as a queue file. On a terminal everything but colours is made printable.
    """
    text = "\n".join(lines)
    if text and is_terminal():
        text = "".join(part if _STYLE.fullmatch(part) else printable_lines(part) for part in _STYLE.split(text))
    if text:
        _echo(text)


def _echo(text: str, *, err: bool = False) -> None:
    with naming("standard error" if err else STANDARD_OUTPUT):
        click.echo(text, err=err)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Gives errors of a file, such as a full disk, its name."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or name) from None


@contextmanager
def changing_line() -> Iterator[Callable[[str], None]]:
    """A line on standard error, which is a terminal: each text takes the place of the last one, and in the end it is gone."""
    width = 0

    def show(text: str) -> None:
        nonlocal width
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80  # some say that they have none
        text = printable(text)[: columns - 1]
        click.echo("\r" + text.ljust(width), err=True, nl=False)
        width = len(text)

    try:
        yield show
    finally:
        click.echo("\r" + " " * width + "\r", err=True, nl=False)


@contextmanager
def progress_of(name: str) -> Iterator[Callable[[float], None]]:
    """A bar on standard error, if that is a terminal; it is told what part of the work is done, 0 to 1."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console  # takes 0.1 s to load, which most commands do without
    from rich.markup import escape
    from rich.progress import Progress

    # No thread draws it: work may be done in forks of this process.
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(escape(printable(name)), total=1.0)
        shown = 0.0

        def show(done: float) -> None:
            nonlocal shown
            if done - shown >= _PROGRESS_STEP:  # to draw it takes longer than most steps of the work
                shown = done
                bar.update(task, completed=done, refresh=True)

        bar.refresh()
        yield show


class JsonFile(click.File):
    """A binary file for JSON, or standard output. Documents and lines of JSON Lines are written to it as a whole.

    The end of the command writes all of it, or fails.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = STANDARD_OUTPUT if value == "-" else str(value)
        file = _JsonStream(super().convert(value, param, ctx), name, is_shown=value == "-" and is_terminal())
        if ctx is not None:
            ctx.call_on_close(file.flush)  # before click closes it, which hides errors
        return file


class _JsonStream:
    """A file to which JSON is written, or a terminal, which nothing in it can command."""

    def __init__(self, stream: IO[bytes], name: str, *, is_shown: bool) -> None:
        self._stream = stream
        self._name = name
        self._is_shown = is_shown
        self._is_written = False  # a file that is opened when something is written to it stays closed else

    def write(self, data: bytes) -> int:
        """Write JSON."""
        self._is_written = True
        with naming(self._name):
            return self._stream.write(printable_json(data.decode()).encode() if self._is_shown else data)

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._is_written:
            with naming(self._name):
                self._stream.flush()


def indented(document: Any) -> str:
    """The document on several lines, without the last line end."""
    return printable_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def on_one_line(document: Any) -> str:
    """The document as a line of JSON Lines, without its end."""
    return printable_json(msgspec.json.encode(document).decode())


def print_journal_status(status: si.JournalStatus) -> None:
    """Print on standard error that the daemon cannot write its journal, or can again: nothing is acknowledged meanwhile."""
    text = "the daemon writes its journal again" if status.writable else f"waiting for the journal of the daemon: {status.reason}"
    say(text, err=True)
