"""``ykactor usage``: what applications, users, groups and queues have used and waited for."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from ykactor.access import moments
from ykactor.actors.clock import system_ns
from ykactor.core.accounting.account import DAY_S, Account
from ykactor.core.inspection.accounting import Column, Sums, sums
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.parts import finished
from ykactor.core.values.times import S_NS
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.sim.summary_tables import wide_console
from ykactor.surfaces.cli.cells import printable
from ykactor.surfaces.cli.json_text import indented
from ykactor.surfaces.cli.since import Since
from ykactor.surfaces.cli.state_dir_option import state_dir_option
from ykactor.surfaces.server.recovery import recover_partitions

#: What one unit of the tables is, in base units times seconds, by resource type; of other types an hour of one.
_HOUR_S = 3600
_UNITS = {"vcore": ("core h", 1000 * _HOUR_S), "memory": ("GiB h", 2**30 * _HOUR_S)}
_OTHER_UNIT = ("h", _HOUR_S)


def _columns(_ctx: click.Context, _param: click.Parameter, text: str) -> list[Column]:
    names = [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in names if name not in [*Column]]
    if unknown or len(set(names)) < len(names):
        raise click.BadParameter(f"found {text!r}, expected some of {', '.join(Column)}, with commas between them, each once")
    return [Column(name) for name in names]


@click.command()
@state_dir_option
@click.option(
    "--by",
    "columns",
    metavar="COLUMNS",
    default="user",
    show_default=True,
    callback=_columns,
    help=f"What is summed up for itself: {', '.join(Column)}; several with commas between them.",
)
@click.option("--since", "since_ns", type=Since(), default=0, help="Only from this day on (UTC); default: all that is kept.")
@click.option("--partition", metavar="NAME", help="Only of this partition; default: of all together.")
@click.option("-o", "--output", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
def command(directory: Path, columns: list[Column], since_ns: int, partition: str | None, output: str) -> None:
    """Print what tasks have used (allocated), what asks have waited for, and what was lost by preemption.

    What runs and waits counts up to now. A table has core hours, GiB hours, and hours of one unit of other types; csv and json
    have seconds of base units: thousandths of a core, bytes.
    """
    try:
        found = _sums(directory, columns, since_ns // S_NS // DAY_S, partition)
    except (JournalError, UnreadableRowError, DamagedStateError) as error:
        raise click.ClickException(str(error)) from None
    rows = sorted(found.items())
    if output == "json":
        click.echo(indented([_fields(columns, values) | _amounts(account) for values, account in rows]))
    elif output == "csv":
        _write_csv(columns, rows)
    else:
        _print_table(columns, rows)


def _sums(directory: Path, columns: list[Column], first_day: int, partition: str | None) -> Sums:
    """Of one partition, or of all."""
    with Reader.open(directory) as reader:
        partitions = recover_partitions(reader, reserves=True)
    if partition is not None and partition not in partitions:
        raise click.UsageError(f"--partition: found {partition!r}, expected one of {', '.join(sorted(partitions)) or 'none'}")
    now_ns, found = system_ns(), Sums()
    for name, restored in partitions.items():
        if partition in (None, name):
            for values, account in finished(sums(restored.core.registry, now_ns, columns, first_day)).items():
                found.setdefault(values, Account()).add(account)
    return found


def _fields(columns: list[Column], values: tuple[str | int, ...]) -> dict[str, str]:
    return {column.value: _text(value) for column, value in zip(columns, values, strict=True)}


def _text(value: str | int) -> str:
    """A day as a date."""
    return f"{moments.at(value * DAY_S * S_NS):%Y-%m-%d}" if isinstance(value, int) else value


def _amounts(account: Account) -> dict[str, dict[str, int]]:
    return {"allocated": account.allocated, "waited": account.waited, "lost": account.lost}


def _by_type(account: Account) -> Iterator[tuple[str, list[int]]]:
    """Each resource type, with what was allocated, waited for and lost."""
    amounts = list(_amounts(account).values())
    for name in sorted({name for resource in amounts for name in resource}):
        yield name, [resource.get(name, 0) for resource in amounts]


def _write_csv(columns: list[Column], rows: list[tuple[tuple[str | int, ...], Account]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*columns, "resource", *_amounts(Account())])
    for values, account in rows:
        for name, quantities in _by_type(account):
            writer.writerow([*map(_text, values), name, *quantities])


def _print_table(columns: list[Column], rows: list[tuple[tuple[str | int, ...], Account]]) -> None:
    table = Table(*columns, "resource", *_amounts(Account()), "unit")
    for column in table.columns[-4:-1]:
        column.justify = "right"
    for values, account in rows:
        for name, quantities in _by_type(account):
            unit, factor = _UNITS.get(name, _OTHER_UNIT)
            names = [*map(_text, values), name]
            table.add_row(*map(_cell, names), *(f"{quantity / factor:,.2f}" for quantity in quantities), unit)
    wide_console().print(table)


def _cell(name: str) -> Text:
    """Text, because rich would take brackets for markup."""
    return Text(printable(name))
