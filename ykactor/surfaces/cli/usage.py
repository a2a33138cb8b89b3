"""``ykactor usage``: what applications, users, groups and queues have used and waited for."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from ykactor.actors.clock import system_ns
from ykactor.client import read_usage
from ykactor.core.accounting.accounts import ALL_DAYS, Account
from ykactor.core.inspection.accounting import Column, day_text, named, sums
from ykactor.core.values.parts import finished
from ykactor.core.values.printable import printable
from ykactor.core.values.times import DAY_NS
from ykactor.sim.summary import wide_console
from ykactor.surfaces.cli.cells import hour_of
from ykactor.surfaces.cli.history import opened
from ykactor.surfaces.cli.options import EXISTING_DIRECTORY, PAST
from ykactor.surfaces.cli.terminal import indented, say, say_lines, write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import none_shown
from ykactor.surfaces.cli.views.showing import taking
from ykactor.surfaces.files.recovery import recover_partitions

#: The values of the columns, and what was counted.
Row = tuple[tuple[str, ...], Account]


def _columns(_ctx: click.Context, _param: click.Parameter, text: str) -> list[Column]:
    names = [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in names if name not in [*Column]]
    if unknown or len(set(names)) < len(names):
        raise click.BadParameter(f"found {text!r}, expected some of {', '.join(Column)}, with commas between them, each once")
    return [Column(name) for name in names]


@click.command()
@click.option(
    "--by",
    "columns",
    metavar="COLUMNS",
    default="user",
    show_default=True,
    callback=_columns,
    help=f"What is summed up for itself: {', '.join(Column)}; several with commas between them.",
)
@click.option("--since", "since_ns", type=PAST, default=0, help="Only from this day on (UTC); default: all that is kept.")
@click.option(
    "--until",
    "until_ns",
    type=PAST,
    default=ALL_DAYS[-1] * DAY_NS,
    help="Only up to the end of this day (UTC); default: up to now.",
)
@click.option("--partition", metavar="NAME", help="Only of this partition; default: of all together.")
@click.option("-o", "--output", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.option(
    "--state-dir",
    type=EXISTING_DIRECTORY,
    help="Read the journal in this state directory instead of asking a daemon, which may run meanwhile.",
)
@daemon_options
def command(
    columns: list[Column],
    since_ns: int,
    until_ns: int,
    partition: str | None,
    output: str,
    state_dir: Path | None,
    daemon: Destination,
) -> None:
    """Print what tasks have used (allocated), what asks have waited for, and what was lost by preemption.

    What runs and waits counts up to now. A table has core hours, GiB hours, and hours of one unit of other types, and their total
    at the end; csv and json have seconds of base units: thousandths of a core, bytes.
    """
    days = range(since_ns // DAY_NS, until_ns // DAY_NS + 1)
    if not days:
        raise click.UsageError("found --until before --since, expected it on the same day or later")
    if state_dir is None:
        found = _from_daemon(daemon, columns, days, partition)
    else:
        found = _from_journal(state_dir, columns, days, partition)
    rows = sorted(found.items())
    if output == "json":
        say_lines(indented([dict(zip(columns, values, strict=True)) | _amounts(account) for values, account in rows]))
    elif output == "csv":
        _write_csv(columns, rows)
    elif rows:
        _print_table(columns, rows)
    else:
        say(none_shown("accounts"), err=True)


def _from_daemon(
    daemon: Destination, columns: list[Column], days: range, partition: str | None
) -> dict[tuple[str, ...], Account]:
    first_day, last_day = day_text(days[0]), day_text(days[-1])
    partitions = [] if partition is None else [partition]
    ask = partial(read_usage, by=columns, first_day=first_day, last_day=last_day, partitions=partitions)
    rows = daemon.run(taking(ask, daemon))
    return {
        tuple(getattr(row, column) for column in columns): Account(*map(_exact, (row.allocated, row.waited, row.lost)))
        for row in rows
    }


def _exact(amounts: Mapping[str, int | str]) -> dict[str, int]:
    return {name: int(amount) for name, amount in amounts.items()}


def _from_journal(directory: Path, columns: list[Column], days: range, partition: str | None) -> dict[tuple[str, ...], Account]:
    with opened(directory) as reader:
        partitions = recover_partitions(reader, reserves=True)
    if partition is not None and partition not in partitions:
        raise click.UsageError(f"--partition: found {partition!r}, expected one of {', '.join(sorted(partitions)) or 'none'}")
    now_ns, found = system_ns(), dict[tuple[str, ...], Account]()
    for name, restored in partitions.items():
        if partition in (None, name):
            for values, account in finished(sums(restored.core.registry, now_ns, columns, days)).items():
                found.setdefault(tuple(named(columns, values).values()), Account()).add(account)
    return found


def _amounts(account: Account) -> dict[str, dict[str, int]]:
    return {"allocated": account.allocated, "waited": account.waited, "lost": account.lost}


def _by_type(account: Account) -> Iterator[tuple[str, list[int]]]:
    """Each resource type, with what was allocated, waited for and lost."""
    amounts = list(_amounts(account).values())
    for name in sorted({name for resource in amounts for name in resource}):
        yield name, [resource.get(name, 0) for resource in amounts]


def _write_csv(columns: list[Column], rows: list[Row]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "resource", *_amounts(Account())])
    for values, account in rows:
        for name, quantities in _by_type(account):
            writer.writerow([*values, name, *quantities])
    write(text.getvalue().removesuffix("\n").split("\n"))


def _print_table(columns: list[Column], rows: list[Row]) -> None:
    table = Table(*columns, "resource", *_amounts(Account()), "unit")
    for column in table.columns[-4:-1]:
        column.justify = "right"
    total = Account()
    for values, account in rows:
        total.add(account)
        _add_lines(table, values, account)
    table.add_section()
    _add_lines(table, ("total", *[""] * (len(columns) - 1)), total)
    wide_console().print(table)


def _add_lines(table: Table, values: tuple[str, ...], account: Account) -> None:
    """A line for each resource type."""
    for name, quantities in _by_type(account):
        unit, factor = hour_of(name)
        cells = (Text(printable(text)) for text in (*values, name))  # because rich would take brackets for markup
        table.add_row(*cells, *(f"{quantity / factor:,.2f}" for quantity in quantities), unit)
