"""``ykactor events``: the events that a daemon has in memory."""

from __future__ import annotations

import click
import msgspec

from ykactor.client import Disconnected, RequestRefused
from ykactor.surfaces.cli import cells, loop, past
from ykactor.surfaces.cli.follow import COLOURS, detail_text, time_text
from ykactor.surfaces.cli.since import since_option
from ykactor.surfaces.cli.terminal import say, write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.filters import absent
from ykactor.surfaces.cli.views.listing import Column, Printout, field, formatted, table
from ykactor.surfaces.cli.views.showing import output_option, write_notes
from ykactor.wire.si import messages as si

_COLUMNS = (
    Column("TIME", field("timestampNano", time_text)),
    Column("NUMBER", field("sequence"), is_wide=True, is_number=True),
    Column("TYPE", field("type"), colour=lambda row: COLOURS.get(row["type"])),
    Column("CHANGE", field("eventChangeType")),
    Column("DETAIL", field("eventChangeDetail", detail_text)),
    Column("OBJECT", field("objectID")),
    Column("REFERENCE", field("referenceID")),
    Column("PARTITION", field("partition"), is_wide=True),
    Column("QUEUE", field("queueName"), is_wide=True),
    Column("RESOURCE", field("resource", cells.resource)),
    Column("MESSAGE", field("message")),
)


@click.command()
@since_option
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
    """List the events that the daemon has in memory, in the order of their times.

    Events of the same time are in the order of their numbers, as are those of one partition. The audit tells of a refusal up to a
    minute later: with the time at which it happened, but with a later number. These are the last 100,000 events. A line on
    standard error says so when older ones are missing. ykactor follow prints new events as they come, and ykactor story
    --state-dir reads all that the journal keeps. With -o name the number of each event is printed.
    """
    wanted = si.Subscribe(partitions=list(partitions), queues=list(queues), applications=list(applications), kinds=list(kinds))
    try:
        events, lost, missing = loop.run(_collect, daemon, wanted)
    except* (Disconnected, RequestRefused) as errors:
        raise daemon.problem(errors.exceptions[0]) from None
    if lost is not None and not (events and events[0].timestamp_nano < since):
        say(f"events {lost.from_} to {lost.to} are no longer in memory", err=True)
    printout = listing([event for event in events if event.timestamp_nano >= since], missing)
    write(formatted(printout, output))
    write_notes(printout, output)


def listing(events: list[si.EventRecord], missing_queues: list[str]) -> Printout:
    """The events as rows, in the order of their times."""
    events = sorted(events, key=lambda event: event.timestamp_nano)
    rows = [msgspec.to_builtins(event) for event in events]
    names = [str(event.sequence) for event in events]
    notes = [absent("queue", queue) for queue in missing_queues]
    return Printout(rows, names, lambda is_wide: table(_COLUMNS, rows, is_wide=is_wide), notes)


async def _collect(daemon: Destination, wanted: si.Subscribe) -> tuple[list[si.EventRecord], si.Lagged | None, list[str]]:
    """The wanted events of those that happened up to now, which older ones are lost, and the wanted queues that do not exist."""
    events: list[si.EventRecord] = []
    lost: si.Lagged | None = None
    async with past.opened(daemon, "now") as told:
        async for message in told.events(wanted):
            if isinstance(message, si.Lagged):
                lost = message
            else:
                events.append(message)
        return events, lost, told.missing_queues
