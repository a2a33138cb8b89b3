"""``python -m bench.trace``: the Python code that an ask runs through, counted, so that the speed of the machine does not matter.

The first table is about one ask of a running application in a message of its own: from the bytes at the socket of a daemon with a
journal to the feed, until the resource manager has the allocation and the acknowledgement. Nobody follows the feed.

| figure | what is counted |
|---|---|
| files, functions | files and functions of the product in which code ran |
| calls | calls of these functions; a generator or coroutine that is resumed is called again |
| moves | calls of a function in another file than that of the call before |

The second table is about workloads of the group ``throughput``: for each ask, the calls of Python functions and of built-in ones,
by the phases of ``bench.phases``. All calls in the thread count, also those of trio.

``--line`` prints instead the functions that the ask runs through, in order.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import click
import trio
from msgspec import Struct, structs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from trio._core import _instrumentation
from trio_websocket import WebSocketConnection, open_websocket_url

from bench import phases
from bench.cases import PLACED
from bench.harness import running
from bench.measures import place_all
from bench.phases import PHASES, PhaseClock
from bench.workloads import ASK, Workload
from ykactor import core
from ykactor.actors.clock import Clock
from ykactor.actors.pauses import settle_memory
from ykactor.core.values.times import S_NS
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.files.state_dir import StateSettings, open_state_dir
from ykactor.surfaces.net.doors import Door
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

#: What only notes the phases, and does not count.
_MEASURING = {__file__, phases.__file__, _instrumentation.__file__}
_PRODUCT = str(Path(core.__file__).parents[1])
#: The messages of one ask each: the first ones start the application and fill caches. Of the others the one with the fewest calls
#: is shown, because timers of the daemon may be due during some.
_WARM_UP, _TRACED = 5, 5
_ONE = "own-1000"
_BULK = ("own-1000", "apps-1000-fair", "one-app-50k")


class Trace(Struct):
    """The code of the product that ran: each call in order."""

    calls: list[CodeType]

    def files(self) -> set[str]:
        """The files in which code ran."""
        return {code.co_filename for code in self.calls}

    def functions(self) -> set[CodeType]:
        """The functions that were called."""
        return set(self.calls)

    def moves(self) -> int:
        """The number of times another file than before was entered; the first one counts too."""
        return sum(1 for _ in groupby(self.calls, key=lambda code: code.co_filename))


class Calls(Struct):
    """Calls by phase."""

    python: Counter[str]
    built_in: Counter[str]


# ---- one ask in one message


async def of_one_ask(workload: Workload) -> Trace:
    """Trace a daemon with a journal for an ask of the first application of the workload, in a message of its own."""
    traces: list[Trace] = []
    async with _daemon(workload.config()) as url, open_websocket_url(f"{url}/v1/rm", subprotocols=[JSON.name]) as manager:
        for number, request in enumerate((si.RegisterResourceManagerRequest(rm_id="bench"), *workload.setup())):
            await manager.send_message(JSON.encode(structs.replace(request, id=f"setup-{number}")))
            await _receive(manager, f'"setup-{number}"'.encode())
        for number in range(_WARM_UP + _TRACED):
            ask = si.Allocation(allocation_key=f"one-{number}", application_id="app-0", resource_per_alloc=ASK)
            text = JSON.encode(si.AllocationRequest(allocations=[ask], id=f"message-{number}"))
            key, answered = f'"{ask.allocation_key}"'.encode(), f'"message-{number}"'.encode()
            with _traced() as trace:
                await manager.send_message(text)
                await _receive(manager, key, answered)
            traces.append(trace)
    return min(traces[_WARM_UP:], key=lambda trace: len(trace.calls))


@contextmanager
def _traced() -> Iterator[Trace]:
    """The code of the product that runs in this thread during the block."""
    trace = Trace([])

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_PRODUCT):
            trace.calls.append(frame.f_code)

    sys.setprofile(note)
    try:
        yield trace
    finally:
        sys.setprofile(None)


@asynccontextmanager
async def _daemon(config: str) -> AsyncIterator[str]:
    """The URL of a daemon in this thread; only its journal is written by another one."""
    clock = Clock.of_the_system()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    door = Door.of(listener)
    with tempfile.TemporaryDirectory() as folder:
        with open_state_dir(StateSettings(Path(folder), "full", 2**20, 3600 * S_NS), reserves=True) as state:
            daemon = Daemon(queuefile.load(config), Settings(), clock, journal=state.journal(clock.now_ns), terms=state.terms)
            async with listener, trio.open_nursery() as nursery:
                await nursery.start(daemon.run, [door], Notifier(None))
                yield door.url
                daemon.stop()
                await daemon.stopped.wait()


async def _receive(connection: WebSocketConnection, *marks: bytes) -> None:
    """Receive messages until each mark was in one of them."""
    missing = set(marks)
    while missing:
        message = await connection.get_message()
        text = message.encode() if isinstance(message, str) else message
        missing = {mark for mark in missing if mark not in text}


# ---- many asks


async def in_bulk(workload: Workload) -> Calls:
    """The calls from the first request until the last allocation was read on both sides."""
    requests = workload.requests()
    async with running(workload.config(), workload.setup()) as rig:
        settle_memory()
        with _counted() as calls:
            await place_all(rig, workload.asks, requests)
    return calls


@contextmanager
def _counted() -> Iterator[Calls]:
    """The calls in this thread during the block. The task that enters it sends requests."""
    clock, calls = PhaseClock(trio.lowlevel.current_task()), Calls(Counter(), Counter())

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename not in _MEASURING:
            calls.python[clock.phase] += 1
        elif event == "c_call" and frame.f_code.co_filename not in _MEASURING:
            calls.built_in[clock.phase] += 1

    with clock.told():
        trio.lowlevel.add_instrument(clock)
        sys.setprofile(note)
        try:
            yield calls
        finally:
            sys.setprofile(None)
            trio.lowlevel.remove_instrument(clock)


# ---- the tables


def _one_table(trace: Trace) -> Table:
    table = Table(title="One ask in one message", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("files", "functions", "calls", "moves"):
        table.add_column(heading, justify="right")
    table.add_row(*map(str, (len(trace.files()), len(trace.functions()), len(trace.calls), trace.moves())))
    return table


def _line(trace: Trace) -> Iterator[str]:
    """The functions in order, with the number of calls where one is called several times without another one in between."""
    for code, calls in groupby(trace.calls):
        times = len(list(calls))
        file = Path(code.co_filename).relative_to(_PRODUCT)
        yield f"{file}:{code.co_firstlineno} {code.co_qualname}{f' x{times}' if times > 1 else ''}"


def _bulk_table(counted: dict[str, Calls]) -> Table:
    table = Table(title="Calls for each ask in bulk: Python + built-in", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("phase")
    for name in counted:
        table.add_column(name, justify="right")
    for phase in PHASES:
        pairs = ((PLACED[name].asks, calls.python[phase], calls.built_in[phase]) for name, calls in counted.items())
        table.add_row(phase, *(_pair(*pair) for pair in pairs))
    wholes = ((PLACED[name].asks, calls.python.total(), calls.built_in.total()) for name, calls in counted.items())
    table.add_row("whole", *(_pair(*whole) for whole in wholes))
    return table


def _pair(asks: int, python: int, built_in: int) -> str:
    return f"{python / asks:.1f} + {built_in / asks:.1f}"


@click.command()
@click.option("--line", "is_line", is_flag=True, help="Print the functions that one ask runs through, in order.")
def main(is_line: bool) -> None:
    """Print the tables."""
    trace = trio.run(of_one_ask, PLACED[_ONE])
    if is_line:
        for step in _line(trace):
            click.echo(step)
        return
    console = Console()
    console.print(_one_table(trace))
    console.print(_bulk_table({name: trio.run(in_bulk, PLACED[name]) for name in _BULK}))


if __name__ == "__main__":
    main()
