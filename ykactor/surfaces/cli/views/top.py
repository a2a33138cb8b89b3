"""``ykactor top``: the state of a daemon on the whole terminal, drawn again and again."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager

import click
import trio
from msgspec import UNSET, to_builtins
from rich.console import Group
from rich.live import Live
from rich.text import Text

from ykactor.core.inspection.partition_status import PartitionStatus, summary_of
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.values.printable import printable
from ykactor.core.values.words import plural
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.exit_codes import Refused
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views import queues
from ykactor.surfaces.cli.views.daemon import REASONS, absence_of, reasons_of
from ykactor.surfaces.cli.views.listing import Column, Row, field, table
from ykactor.surfaces.cli.views.showing import Take, answers, take_snapshot, taking
from ykactor.wire.si import messages as si

_BAR_WIDTH = 24
#: Lines of a partition beside its queues and reasons: a title, two headers, and two empty ones.
_FIXED_LINES = 5
#: Queues get at most so many thirds of the lines left.
_QUEUES_OF_THREE = 2

_QUEUES = (
    Column("QUEUE", field("queueName")),
    Column("USE", field("use", "{:.0%}".format), is_number=True, colour=lambda row: _use_colour(row["use"])),
    Column("USED OF MAX, | GUARANTEED", field("bar"), colour=lambda row: _use_colour(row["use"])),
    Column("WAITING", field("waiting"), is_number=True, colour=lambda row: "yellow" if row["waiting"] else None),
    Column("RUNNING", queues.running, is_number=True),
    queues.QUEUE_PRIORITY,
    Column("USED", field("allocated", cells.resource)),
    Column("MAX", field("max", cells.resource)),
)
#: The characters of the name of a job that are shown: the reason behind it is what matters.
_NAME_MAX = 16
_ASKS, _REASON = REASONS
_WAITING = (_ASKS, Column("JOBS", field("jobs"), is_optional=True), _REASON)


@click.command()
@daemon_options
def command(daemon: Destination) -> None:
    """Show queues with their usage and what waits for what on the whole terminal, until q or Ctrl-C.

    The bar of a queue shows how much it uses of its quota, or of the cluster if it has none, and where its guarantee is; of the
    resource of which it uses the largest part. If there are more queues than lines, the busiest are shown. A first line says if
    the resource manager is away, and the next ones tell of a configuration that awaits confirmation, and of standbys. JOBS is the
    first job that waits for a reason, by its name if it has one, and how many others do.
    """
    if not has_terminal():
        raise Refused("found no terminal, expected one: use ykactor queues --watch without one")
    daemon.run(_show, daemon)


def has_terminal() -> bool:
    """True if keys can be read and lines be drawn again."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def _show(daemon: Destination) -> None:
    take = taking(take_snapshot, daemon)
    await take()  # before the terminal is taken over: why it fails is then an ordinary line
    with _single_keys(sys.stdin.fileno()) as keyboard, Live(screen=True, auto_refresh=False) as live:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_refresh, live, daemon.url, take)
            await _wait_for_q(keyboard)
            nursery.cancel_scope.cancel()


@contextmanager
def _single_keys(keyboard: int) -> Iterator[int]:
    """Keys can be read without Enter and are not shown."""
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


async def _wait_for_q(keyboard: int) -> None:
    keys = b" "
    while keys and b"q" not in keys:
        await trio.lowlevel.wait_readable(keyboard)
        keys = os.read(keyboard, 100)


async def _refresh(live: Live, url: str, take: Take[si.Snapshot]) -> None:
    body: list[str] = []

    def draw(notice: str) -> None:
        title = click.style(notice, reverse=True)
        live.update(Group(*(Text.from_ansi(line, no_wrap=True, overflow="ellipsis") for line in (title, *body))), refresh=True)

    async with aclosing(answers(take, draw)) as states:
        async for snapshot in states:
            body = frame(snapshot, live.console.height - 1)
            draw(f"{url}, event {snapshot.sequence}, q ends")


def frame(snapshot: si.Snapshot, height: int) -> list[str]:
    """The state on so many lines; each partition gets as many as the others."""
    away = absence_of(snapshot)
    notices = [*([click.style(printable(away), fg="red")] if away else []), *_of_unconfirmed(snapshot), *_of_standbys(snapshot)]
    share = (height - len(notices)) // max(1, len(snapshot.partitions))
    parts = (line for state in snapshot.partitions for line in _of_partition(state, snapshot.cycles, share))
    return [*notices, *parts][:height]


def _of_unconfirmed(snapshot: si.Snapshot) -> Iterator[str]:
    """The configuration that awaits confirmation, and why the one before could not come back."""
    if snapshot.unconfirmed is not UNSET:
        yield click.style(printable(str(snapshot.unconfirmed)), fg="yellow")
        if snapshot.unconfirmed.problem:
            yield click.style(printable(f"it could not: {snapshot.unconfirmed.problem}"), fg="red")


def _of_standbys(snapshot: si.Snapshot) -> Iterator[str]:
    """The problem with the standbys, if there is one, and a line for each."""
    if snapshot.standbys is not UNSET:
        if snapshot.standbys.problem:
            yield click.style(f"Standbys: {snapshot.standbys.problem}", fg="red")
        for standby in snapshot.standbys.connected:
            yield click.style(printable(f"Standby {standby}"), fg="yellow" if standby.behind else None)


def _of_partition(state: PartitionStatus, cycles: Mapping[str, Mapping[str, float]], height: int) -> Iterator[str]:
    summary = summary_of(state)
    room = max(2, height - _FIXED_LINES)
    rows = _queue_rows(state)
    reasons = reasons_of(state)
    shown = rows[: max(room - len(reasons), room * _QUEUES_OF_THREE // 3)]
    numbers = (
        plural(sum(summary.applications.values()), "application"),
        f"{plural(summary.allocations, 'task')} running",
        f"{plural(summary.pending_asks, 'ask')} pending",
        *([] if summary.nodes is UNSET else [plural(sum(summary.nodes.values()), "node")]),
        *(f"last cycle {cells.number(1e3 * times['lastSeconds'])} ms" for name, times in cycles.items() if name == state.name),
    )
    yield click.style(printable(f"{state.name}: {', '.join(numbers)}"), bold=True)
    yield from table(_QUEUES, sorted(shown, key=lambda row: row["queueName"].split(".")), is_wide=True)
    yield ""
    if reasons:
        jobs = _jobs_by_reason(state)
        rows = [row | {"jobs": jobs.get(row["reason"], "")} for row in reasons[: room - len(shown)]]
        yield from table(_WAITING, rows, is_wide=True)
        yield ""


def _jobs_by_reason(state: PartitionStatus) -> dict[str, str]:
    """Per reason, the first job that waits for it, by its name or else its ID, and how many others do: ``train +2``."""
    found: dict[str, dict[str, None]] = {}
    for application_id, application in state.applications.items():
        if application.job is not UNSET:
            for group in application.pending or ():
                found.setdefault(group.reason, {})[application.job.name or application_id] = None
    return {reason: _some(list(names)) for reason, names in found.items()}


def _some(names: Sequence[str]) -> str:
    first, *others = names
    short = first if len(first) <= _NAME_MAX else first[: _NAME_MAX - 1] + "\u2026"
    return f"{short} +{len(others)}" if others else short


def _queue_rows(state: PartitionStatus) -> list[Row]:
    """The queues, the busiest first: those in which most waits, then those that use most."""
    cluster = state.queues["root"].max or {} if "root" in state.queues else {}
    rows = [_queue_row(path, queue, cluster) for path, queue in state.queues.items()]
    return sorted(rows, key=lambda row: (-row["waiting"], -row["use"], row["queueName"].count(".")))


def _queue_row(path: str, queue: QueueStatus, cluster: dict[str, int]) -> Row:
    limits = cluster | (queue.max or {})
    parts = [(queue.allocated.get(name, 0) / limit, name) for name, limit in limits.items() if limit > 0]
    use, name = max(parts, default=(0.0, ""))
    guaranteed = (queue.guaranteed or {}).get(name)
    mark = None if guaranteed is None else guaranteed / limits[name]
    return {"queueName": path, **to_builtins(queue), "waiting": queue.pending_asks or 0, "use": use, "bar": bar(use, mark)}


def bar(use: float, mark: float | None) -> str:
    """``[######|....]``: a part of a whole, with a mark at another part."""
    filled = min(_BAR_WIDTH, round(use * _BAR_WIDTH))
    places = ["#"] * filled + ["."] * (_BAR_WIDTH - filled)
    if mark is not None:
        places[min(_BAR_WIDTH - 1, int(mark * _BAR_WIDTH))] = "|"
    return f"[{''.join(places)}]"


def _use_colour(use: float) -> str:
    """Green while there is room, yellow when it gets tight, red when it is full."""
    return "red" if use >= 1 else "yellow" if use >= 0.8 else "green"
