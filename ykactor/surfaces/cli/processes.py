"""Work in processes of its own, as many at a time as there are processors: forks of this one, each of which sends a result."""

from __future__ import annotations

import gc
import os
import selectors
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import click
from msgspec import Struct

from ykactor.surfaces.cli import exit_codes

#: What is told of the progress before the result.
_STEP = 0.01
#: Ends the lines of progress; the result follows.
_RESULT = b"="

Progress = Callable[[float], None]


class Work(Struct, frozen=True):
    """A named piece of work, which tells its progress, 0 to 1, and returns its result."""

    name: str
    run: Callable[[Progress], bytes]


class _Process:
    """A child, and what it has sent."""

    def __init__(self, number: int, work: Work) -> None:
        self.number = number
        self.name = work.name
        self.done = 0.0
        self._received = bytearray()
        self._has_result = False
        reading, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(reading)
            _work(work, writing)
        os.close(writing)
        self.descriptor = reading

    def receive(self) -> bool:
        """Take what the child has sent; False at its end."""
        data = os.read(self.descriptor, 2**16)
        self._received += data
        while not self._has_result and b"\n" in self._received:
            line, _, rest = bytes(self._received).partition(b"\n")
            self._received = bytearray(rest)
            if line == _RESULT:
                self._has_result = True
            else:
                self.done = float(line)
        return bool(data)

    def result(self) -> bytes:
        """The result of a child that has ended.

        Raises:
            click.ClickException: it has sent none.
        """
        os.close(self.descriptor)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise click.ClickException(f"the process of {self.name} ended with {how}, expected its result")
        return bytes(self._received)

    def kill(self) -> None:
        """End the child, whatever it does."""
        os.close(self.descriptor)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _work(work: Work, descriptor: int) -> NoReturn:
    """Run in the child; if nobody reads any more, its next word ends it, and so does Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    told = 0.0

    def progress(done: float) -> None:
        nonlocal told
        if done >= told + _STEP:
            told = done
            os.write(descriptor, b"%.2f\n" % done)

    try:
        result = work.run(progress)
        with os.fdopen(descriptor, "wb") as pipe:
            pipe.write(_RESULT + b"\n" + result)
    except BaseException:
        traceback.print_exc()
        os._exit(exit_codes.SOFTWARE)
    os._exit(exit_codes.OK)


def results(works: Sequence[Work], progress: Progress) -> list[bytes]:
    """The results in the order of the work; ``progress`` is called with the part of all that is done, 0 to 1.

    Raises:
        click.ClickException: a process has ended without a result; the others are ended then, as with any other error.
    """
    gc.freeze()  # children do not copy what they only look at
    waiting = list(enumerate(works))[::-1]
    running: dict[int, _Process] = {}
    found: dict[int, bytes] = {}
    try:
        with selectors.DefaultSelector() as selector:
            while waiting or running:
                while waiting and len(running) < _processors():
                    process = _Process(*waiting.pop())
                    running[process.descriptor] = process
                    selector.register(process.descriptor, selectors.EVENT_READ)
                for key, _ in selector.select():
                    process = running[key.fd]
                    if not process.receive():
                        selector.unregister(key.fd)
                        found[process.number] = running.pop(key.fd).result()
                progress((len(found) + sum(process.done for process in running.values())) / len(works))
    finally:
        gc.unfreeze()
        for process in running.values():
            process.kill()
    return [found[number] for number in range(len(works))]


def _processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
