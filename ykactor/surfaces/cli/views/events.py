"""``ykactor events``: the events that a daemon has in memory."""

from __future__ import annotations

import click
import msgspec
import trio
from msgspec import structs

from ykactor.client import Disconnected, RequestRefused
from ykactor.client.connection import MessageStream, open_connection
from ykactor.client.login import Login
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.follow import COLOURS, time_text
from ykactor.surfaces.cli.since import Since
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Column, Printout, field, formatted, table
from ykactor.surfaces.cli.views.showing import output_option, write
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

#: How long the daemon may be silent: after a second without events it says how far it is.
SILENCE_S = 60.0

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
    login = Login(**daemon.login())
    async with open_connection(daemon.url, "/v1/feed", login=login, subprotocols=[JSON.name], compresses=True) as connection:
        stream = MessageStream(connection, JSON)
        await stream.send(si.Subscribe(from_="now"))
        now = await _receive(stream)
        assert isinstance(now, si.Bookmark), "it confirms a subscription"
        await stream.send(structs.replace(wanted, from_=0, instance=now.instance))
        while not isinstance(message := await _receive(stream), si.Bookmark) or message.sequence:
            pass  # what the first subscription still had
        return await _up_to(now.sequence, stream)


async def _up_to(last: int, stream: MessageStream) -> tuple[list[si.EventRecord], si.Lagged | None]:
    events: list[si.EventRecord] = []
    lost: si.Lagged | None = None
    reached = 0
    while reached < last:
        match await _receive(stream):
            case si.Events(events=batch):
                events += [event for event in batch if event.sequence <= last]
                reached = batch[-1].sequence
            case si.Bookmark(sequence=sequence):
                reached = sequence
            case si.Lagged() as lost:
                reached = lost.to
    return events, lost


async def _receive(stream: MessageStream) -> si.FeedMessage:
    with trio.move_on_after(SILENCE_S):
        message = JSON.decode_feed(await stream.receive())
        if isinstance(message, si.ErrorResponse):
            raise RequestRefused(message.code, message.message, message.path)
        return message
    raise Disconnected(f"no message within {SILENCE_S:g} s, the daemon has too much to do")
