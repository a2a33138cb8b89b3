"""``ykactor events``: the events that a daemon has in memory."""

from __future__ import annotations

import click
import msgspec
import trio

from ykactor.client import Disconnected, RequestRefused
from ykactor.surfaces.cli import cells, past
from ykactor.surfaces.cli.follow import COLOURS, time_text
from ykactor.surfaces.cli.since import Since
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Column, Printout, field, formatted, table
from ykactor.surfaces.cli.views.showing import output_option, write
from ykactor.wire.si import messages as si

_COLUMNS = (
    Column("TIME", field("timestampNano", time_text)),
    Column("NUMBER", field("sequence"), is_wide=True, is_number=True),
    Column("TYPE", field("type"), colour=lambda row: COLOURS.get(row["type"])),
    Column("CHANGE", field("eventChangeType")),
    Column("DETAIL", field("eventChangeDetail")),
    Column("OBJECT", field("objectID")),
    Column("REFERENCE", field("referenceID")),
    Column("PARTITION", field("partition"), is_wide=True),
    Column("QUEUE", field("queueName"), is_wide=True),
    Column("RESOURCE", field("resource", cells.resource)),
    Column("MESSAGE", field("message")),
)


@click.command()
@click.option(
    "--since",
    type=Since(),
    default=0,
    metavar="TIME",
    help="Only events from this time on: in UTC, as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago.",
)
@click.option("--partition", "partitions", multiple=True, metavar="NAME", help="Only what is in this partition. Repeatable.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only what is in this queue or below it. Repeatable.")
@click.option("--app", "applications", multiple=True, metavar="ID", help="Only events of this application. Repeatable.")
@click.option("--kind", "kinds", multiple=True, help="Only events of this type (APP) or detail (APP_RUNNING). Repeatable.")
@output_option
@daemon_options
def command(
    since: int,
    partitions: tuple[str, ...],
    queues: tuple[str, ...],
    applications: tuple[str, ...],
    kinds: tuple[str, ...],
    daemon: Destination,
    output: str,
) -> None:
    """List the events that the daemon has in memory, the oldest first.

    These are the last 100,000. A line on standard error says so when older ones are missing. ykactor follow prints new events as
    they come, and ykactor story --state-dir reads all that the journal keeps. With -o name the number of each event is printed.
    """
    wanted = si.Subscribe(partitions=list(partitions), queues=list(queues), applications=list(applications), kinds=list(kinds))
    try:
        events, lost = trio.run(_collect, daemon, wanted)
    except* (Disconnected, RequestRefused) as errors:
        raise click.ClickException(str(errors.exceptions[0])) from None
    if lost is not None and not (events and events[0].timestamp_nano < since):
        click.echo(f"events {lost.from_} to {lost.to} are no longer in memory", err=True)
    write(formatted(listing([event for event in events if event.timestamp_nano >= since]), output))


def listing(events: list[si.EventRecord]) -> Printout:
    """The events as rows."""
    rows = [msgspec.to_builtins(event) for event in events]
    names = [str(event.sequence) for event in events]
    return Printout(rows, names, lambda is_wide: table(_COLUMNS, rows, is_wide=is_wide))


async def _collect(daemon: Destination, wanted: si.Subscribe) -> tuple[list[si.EventRecord], si.Lagged | None]:
    """The wanted events of those that happened up to now, and which older ones are lost."""
    events: list[si.EventRecord] = []
    lost: si.Lagged | None = None
    async with past.opened(daemon, "now") as told:
        async for message in told.events(wanted):
            if isinstance(message, si.Lagged):
                lost = message
            else:
                events.append(message)
    return events, lost
