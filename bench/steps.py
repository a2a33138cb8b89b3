"""``python -m bench.steps``: which tasks of a daemon spend the CPU time of a placement, for the messages of ``small_messages``.

The daemon is this module with the arguments of ``ykactor``, started by itself with ``YKACTOR_BENCH_STEPS``. An instrument of
trio adds up the CPU time of the event loop's thread by task; on SIGUSR1 the daemon writes what it and its other threads have
spent since the last one.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import thread_time
from typing import NamedTuple
from unittest.mock import patch

import click
import msgspec
import trio
from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.cases import SMALL
from bench.small_messages import Sending, place
from bench.workloads import Workload
from ykactor.surfaces.cli.main import main as ykactor

_OUT = "YKACTOR_BENCH_STEPS"
_LOOP, _POLL = "event loop: choosing tasks", "event loop: polling sockets"
#: A part of the name of a task, and the part of the work that it does.
_PARTS = {
    "WebSocket.run": "session: frames",
    "serve_listeners": "session: requests, from decoding to the partition's inbox",
    "RequestHandler.answer": "session: acknowledgements",
    "_send_messages": "session: sending",
    "partition ": "turn: partition",
    "queue ": "turn: queues",
    "node ": "turn: nodes",
    "scheduler ": "turn: scheduler",
    "feed": "feed: events, responses, records of the journal",
    "fan-out": "feed: followers",
    "journal": "journal: gathering, telling what is durable",
    "TrioToken": "journal: wake-ups by its thread",
    "Trio thread": "journal: thread that commits",
    "log writer": "log: thread that writes lines",
}
#: The part of tasks that are not in the table.
OTHER = "other"


class _Run(NamedTuple):
    """The number of asks, and how they are sent."""

    asks: int
    sending: Sending


_RUNS = {
    "1, 100 a second": _Run(500, Sending(1, 0.01)),
    "1, 1000 a second": _Run(5_000, Sending(1, 0.001)),
    "1": _Run(8_000, Sending(1)),
    "10": _Run(16_000, Sending(10)),
    "100": _Run(16_000, Sending(100)),
}


class Spent(Struct):
    """CPU seconds and steps by task or thread."""

    cpu_s: dict[str, float]
    steps: dict[str, int]


# ---- in the daemon


class _Clock(trio.abc.Instrument):
    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._cpu_s: defaultdict[str, float] = defaultdict(float)
        self._steps: Counter[str] = Counter()
        self._threads_s, self._since_s = _threads_s(), thread_time()

    def _note(self, part: str, steps: int) -> None:
        now_s = thread_time()
        self._cpu_s[part] += now_s - self._since_s
        self._steps[part] += steps
        self._since_s = now_s

    def before_task_step(self, _: trio.lowlevel.Task) -> None:
        self._note(_LOOP, 0)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._note(_part_of(task.name), 1)

    def before_io_wait(self, _: float) -> None:
        self._note(_LOOP, 0)

    def after_io_wait(self, _: float) -> None:
        self._note(_POLL, 1)

    def write(self, *_: object) -> None:
        """Handle SIGUSR1."""
        for name, seconds in _threads_s().items():
            self._cpu_s[_part_of(name)] += seconds - self._threads_s.get(name, 0.0)
        Path(os.environ[_OUT]).write_bytes(msgspec.json.encode(Spent(self._cpu_s, self._steps)))
        self._reset()


def _threads_s() -> dict[str, float]:
    """The CPU time of each thread but that of the event loop."""
    clocks = {
        f"{thread.name} {thread.ident}": time.pthread_getcpuclockid(thread.ident)
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and thread.ident is not None
    }
    return {name: time.clock_gettime(clock) for name, clock in clocks.items()}


def _part_of(name: str) -> str:
    return next((part for start, part in _PARTS.items() if start in name), OTHER)


def _serve() -> None:
    clock = _Clock()
    signal.signal(signal.SIGUSR1, clock.write)
    with patch("trio.run", partial(trio.run, instruments=[clock])):
        ykactor(prog_name="ykactor")


# ---- beside the daemon


async def measured(workload: Workload, sending: Sending) -> Spent:
    """Measure what a daemon with a journal spends for the asks of a workload."""
    spent = Spent({}, {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spent"
        os.mkfifo(path)

        async def note(pid: int) -> Spent:
            os.kill(pid, signal.SIGUSR1)
            return msgspec.json.decode(await trio.to_thread.run_sync(path.read_bytes), type=Spent)

        @asynccontextmanager
        async def noting(_: str, pid: int) -> AsyncIterator[None]:
            nonlocal spent
            await note(pid)
            yield
            spent = await note(pid)

        with patch.dict(os.environ, {_OUT: str(path)}):
            await place(workload, sending, has_journal=True, program="bench.steps", beside=noting)
    return spent


def _table(spent: dict[str, Spent]) -> Table:
    table = Table(title="CPU us, and steps, for each placement", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("part")
    for name in spent:
        table.add_column(name, justify="right")
    for part in dict.fromkeys((*_PARTS.values(), _LOOP, _POLL, OTHER)):
        cells = ((each.cpu_s.get(part, 0) * 1e6, each.steps.get(part, 0), _RUNS[name].asks) for name, each in spent.items())
        table.add_row(part, *(f"{cpu_us / asks:.1f} ({steps / asks:.2f})" for cpu_us, steps, asks in cells))
    table.add_row("whole", *(f"{sum(each.cpu_s.values()) * 1e6 / _RUNS[name].asks:.1f}" for name, each in spent.items()))
    return table


@click.command()
def main() -> None:
    """Print the table."""
    spent = {name: trio.run(measured, SMALL.workload(run.asks), run.sending) for name, run in _RUNS.items()}
    Console(width=140).print(_table(spent))


if __name__ == "__main__":
    _serve() if _OUT in os.environ else main()
