"""A job with a terminal of its own, which this command shows on the terminal that it has, as ``srun --pty`` does.

The command makes the terminal, and the shell of the job opens it as its user: no byte goes through the local resource manager,
and nobody gets a terminal that is not of the same user. The job ends with this command.
"""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import click
import trio
from msgspec import structs

from ykactor.local import control
from ykactor.local.model import Job, State
from ykactor.surfaces.cli.jobs.asking import answer, shown
from ykactor.surfaces.cli.terminal import say

#: The descriptors of standard input and output.
_INPUT, _OUTPUT = 0, 1
#: Seconds between two questions whether the job has begun, and for what it has written last.
_PAUSE_S, _REST_S = 0.1, 1.0
_CHUNK = 2**16
_BEFORE = (State.WAITING, State.PENDING)
#: The signals that end this command: also that of a terminal that is closed.
_ENDS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


async def attended(directory: Path, job: Job) -> control.ShownJob:
    """Submit a job with a terminal, and show this until the job has ended.

    Raises:  ClickException.
    """
    if not (os.isatty(_INPUT) and os.isatty(_OUTPUT)):
        raise click.ClickException("found no terminal as standard input and output, expected one with --pty")
    here, end = os.openpty()
    try:
        termios.tcsetattr(end, termios.TCSANOW, termios.tcgetattr(_INPUT))
        _resize(here)
        os.set_blocking(here, False)
        submitted = await answer(directory, control.Submit(structs.replace(job, terminal=os.fsencode(os.ttyname(end)))))
        assert isinstance(submitted, control.Submitted)
        if submitted.notice:
            say(f"{submitted.job}: {submitted.notice}", err=True)
        say(submitted.job, err=True)
        return await _attend(directory, submitted.job, here, end)
    finally:
        os.close(here)


async def _attend(directory: Path, name: str, here: int, end: int) -> control.ShownJob:
    """Show the terminal from the begin of a job to its end; what ends this command ends the job.

    Args:
        here, end: the two ends of the terminal: ``end`` is closed when the job has ended.
    """
    from ykactor.client.connection import alongside  # takes 0.2 s to load, which other jobs do without

    with trio.open_signal_receiver(*_ENDS, signal.SIGWINCH) as signals:
        async with alongside(partial(_on_signals, signals, directory, name, here)):
            while (found := await shown(directory, name)).tasks[0].state in _BEFORE:  # noqa: ASYNC110 (nothing tells)
                await trio.sleep(_PAUSE_S)
            is_over = trio.Event()
            with _raw():
                async with alongside(partial(_copy_input, here), partial(_copy_output, here, is_over)):
                    found = await shown(directory, name, waits=True)
                    os.close(end)
                    with trio.move_on_after(_REST_S):  # something else may have it open
                        await is_over.wait()
    return found


async def _on_signals(signals: AsyncIterator[int], directory: Path, name: str, here: int) -> None:
    """Give the terminal of the job the size of this one; end the job at the end of this command."""
    async for number in signals:
        if number == signal.SIGWINCH:
            _resize(here)
        else:
            with suppress(click.ClickException):  # it has ended
                await answer(directory, control.Cancel(name))


def _resize(here: int) -> None:
    with suppress(OSError):  # the terminal of this command has gone
        termios.tcsetwinsize(here, termios.tcgetwinsize(_OUTPUT))


async def _copy_input(here: int) -> None:
    """Copy what is typed, until there is no terminal any more."""
    while data := await _read(_INPUT):
        while data:
            await trio.lowlevel.wait_writable(here)
            with suppress(BlockingIOError):
                data = data[os.write(here, data) :]


async def _copy_output(here: int, is_over: trio.Event) -> None:
    """Copy what the job writes, until nobody has its terminal open any more, or this one has gone."""
    with suppress(OSError):
        while data := await _read(here):
            while data:
                data = data[os.write(_OUTPUT, data) :]
    is_over.set()


async def _read(descriptor: int) -> bytes:
    """The next bytes of a terminal; none if its other end is closed."""
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return b""


@contextmanager
def _raw() -> Iterator[None]:
    """The terminal of this command gives on each byte, Ctrl-C too, until the block ends."""
    before = termios.tcgetattr(_INPUT)
    try:
        tty.setraw(_INPUT, termios.TCSANOW)
        yield
    finally:
        with suppress(termios.error):  # it has gone
            termios.tcsetattr(_INPUT, termios.TCSADRAIN, before)
