"""Asking a daemon and printing what a command shows of its answer, mostly of a snapshot, once or again and again."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import NoReturn, TypeVar, Unpack

import click
import trio
from msgspec import Struct
from rich.cells import cell_len

from ykactor.client import Disconnected, follow
from ykactor.client.login import LoginOptions
from ykactor.core.values.printable import printable
from ykactor.core.values.words import plural
from ykactor.surfaces.cli.options import grouped
from ykactor.surfaces.cli.terminal import say, write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Printout, formatted, output_option
from ykactor.wire.si import messages as si

#: Seconds that a daemon may take for an answer: a large snapshot takes a second or two, also under load.
ANSWER_S = 60.0
#: The shortest pause between two answers ...
PAUSE_S = 2.0
#: ... and how many times as long as the last one took: the daemon schedules nothing while it makes one of a large state.
_PAUSE_FACTOR = 9

T = TypeVar("T")
Take = Callable[[], Awaitable[T]]
#: Asks the daemon of a URL, with ``LoginOptions``; raises as ``take_snapshot``.
Ask = Callable[..., Awaitable[T]]


class Showing(Struct, frozen=True):
    """The source, the form and the interval of what a command prints."""

    daemon: Destination
    output: str
    is_watching: bool

    def run(self, show: Callable[[si.Snapshot], Printout]) -> None:
        """Print what ``show`` makes of the state, as ``run_with`` does."""
        self.run_with(take_snapshot, show)

    def run_with(self, ask: Ask[T], show: Callable[[T], Printout]) -> Printout:
        """Print what ``show`` makes of the answer to ``ask``, with ``--watch`` until Ctrl-C; what was printed.

        Raises:
            ClickException: there is no connection, or the daemon refuses to answer, or ``show`` raises it.
        """
        return self.daemon.run(self._run, ask, show)

    async def _run(self, ask: Ask[T], printed: Callable[[T], Printout]) -> Printout:
        take = taking(ask, self.daemon)
        if self.is_watching:
            await watch(take, printed, self.output, is_terminal=sys.stdout.isatty())
        printout = printed(await take())
        show(printout, self.output)
        return printout


def taking(ask: Ask[T], daemon: Destination) -> Take[T]:
    """Asks this daemon, and waits for up to ``ANSWER_S``."""
    login = daemon.login()  # read once: the token may come from a pipe

    async def take() -> T:
        with trio.move_on_after(ANSWER_S):
            return await ask(daemon.url, **login)
        raise Disconnected(f"{daemon.url}: no answer within {ANSWER_S:g} s, the daemon has too much to do")

    return take


async def take_snapshot(url: str, **login: Unpack[LoginOptions]) -> si.Snapshot:
    """The present state of a daemon, as far as it shows it.

    Raises:
        Disconnected: there is no connection. RequestRefused: the daemon does not show its state.
    """
    async with follow(url, from_="snapshot", waits=False, **login) as messages:
        async for message in messages:
            if isinstance(message, si.Snapshot):
                return message
    raise AssertionError("following does not end")


async def answers(take: Take[T], on_lost: Callable[[str], object]) -> AsyncGenerator[T, None]:
    """Yields an answer again and again, every ``PAUSE_S`` or less often if it takes long.

    Goes on when the daemon is away for a while, with a sentence to ``on_lost``; raises as ``take`` if it is at the beginning.
    """
    is_first = True
    while True:
        began_at = trio.current_time()
        try:
            answer = await take()
        except Disconnected as lost:
            if is_first:
                raise
            on_lost(f"trying again every {PAUSE_S:g} s: {lost}")
            await trio.sleep(PAUSE_S)
        else:
            is_first = False
            took_s = trio.current_time() - began_at
            yield answer
            await trio.sleep(max(PAUSE_S, _PAUSE_FACTOR * took_s))


async def watch(take: Take[T], show: Callable[[T], Printout], output: str, *, is_terminal: bool) -> NoReturn:
    """Print the answer again and again: on a terminal in place of the last one, else below it, after a line between them.

    Notes are above the answer on a terminal, else told once.
    """
    between: list[str] = []
    async with aclosing(answers(take, partial(say, err=True))) as found:
        async for answer in found:
            printout = show(answer)
            lines = formatted(printout, output)
            if is_terminal:
                click.clear()
                write(on_screen(chain(map(printable, printout.notes), lines), *shutil.get_terminal_size()))
            else:
                write(chain(between, lines))
                if not between:
                    write_notes(printout, output)
                between = ["---" if output == "yaml" else ""]
    raise AssertionError("answers do not end")


def on_screen(lines: Iterable[str], width: int, height: int) -> Iterator[str]:
    """The first lines, as many as a terminal shows at once, and how many are left; long ones take several rows of it."""
    every = [row for line in lines for row in line.split("\n")]
    room = height - 2  # for the last line, and for the cursor below it
    for number, line in enumerate(every):
        room -= max(1, -(-cell_len(click.unstyle(line)) // width))
        if room < 0:
            yield f"... {plural(len(every) - number, 'more line')}"
            return
        yield line


def show(printout: Printout, output: str) -> None:
    """Print it in one of ``FORMATS``, and its notes."""
    write(formatted(printout, output))
    write_notes(printout, output)


def write_notes(printout: Printout, output: str) -> None:
    """Print the notes on standard error: names that do not exist, or that a table is empty."""
    is_empty_table = not printout.names and output in ("table", "wide")
    for note in printout.notes or [printout.nothing] * (is_empty_table and printout.nothing != ""):
        say(note, err=True)


#: The options of all commands that print the state.
showing_options = grouped(
    "showing",
    Showing,
    output_option,
    click.option(
        "--watch", "-w", "is_watching", is_flag=True, help=f"Print again every {PAUSE_S:g} s, a large state less often."
    ),
    daemon_options,
)
