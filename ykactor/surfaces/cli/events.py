"""``ykactor follow`` and ``events``: the events of a daemon as they come, and those that it has in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import click
import msgspec
import trio
from msgspec import UNSET, structs

from ykactor.client import Disconnected, FollowedMessage, follow
from ykactor.client.connection import MessageStream, open_feed
from ykactor.client.login import Login
from ykactor.client.reconnecting import OnConnection, silently
from ykactor.core.values.printable import printable
from ykactor.core.values.words import plural
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.cells import amount, detail_text, time_text, waited
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.options import grouped, since_option, text_or_json
from ykactor.surfaces.cli.terminal import on_one_line, say, write
from ykactor.surfaces.cli.urls import DAEMON_URL, Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Column, Printout, absent, field, none_shown, output_option, table
from ykactor.surfaces.cli.views.showing import show
from ykactor.wire.si import messages as si

T = TypeVar("T")

COLOURS = {"AUDIT": "red", "APP": "cyan", "NODE": "magenta", "QUEUE": "yellow", "REQUEST": "blue", "USERGROUP": "green"}


def _only(flag: str, field: str, explanation: str, metavar: str | None = None) -> Callable[[T], T]:
    """An option that may be given several times, whose values are a list of ``Subscribe``."""
    option = partial(click.option, multiple=True, callback=lambda _ctx, _param, given: list(given))
    completed = names_of(flag.removeprefix("--")) if flag != "--kind" else None
    return option(flag, field, metavar=metavar, help=explanation, shell_complete=completed)  # type: ignore[return-value]


_kinds = _only("--kind", "kinds", "Only events of this type (APP) or detail (APP_RUNNING). Repeatable.")


@click.command()
@click.argument("address", metavar="[URL]", type=DAEMON_URL, required=False)
@daemon_options
@click.option(
    "--from",
    "from_",
    default="now",
    metavar="PLACE",
    callback=lambda _ctx, _param, place: _place(place),
    help="Where to start: now, snapshot (the state, then events), or the number of an event (then the event after it).",
)
@_only("--queue", "queues", "Only events of this queue and of all queues below it. Repeatable.")
@_only("--app", "applications", "Only events of this application. Repeatable.")
@_kinds
@grouped("wanted", si.Subscribe)
@text_or_json("text: a line with columns for each event; json: the messages as the daemon sends them, one on each line.")
def follow_command(address: str | None, daemon: Destination, wanted: si.Subscribe, output: str) -> None:
    """Print the events of the daemon at URL until Ctrl-C. URL may be given as the argument or with --url.

    Columns: time, sequence number, type, change, detail, object, reference, resource, message. The object is what the event is
    about; the reference is the other object involved, for example the application of an ask. If the connection is lost, the
    command reconnects. A line on standard error says to which daemon it is connected, and whether events may be missing.
    """
    chosen = structs.replace(daemon, url=address or daemon.url)
    shown = as_text if output == "text" else on_one_line
    chosen.run(print_messages, chosen, wanted, shown, lambda line: write([line]), partial(say, err=True))


def _place(text: str) -> int | str:
    """The place that ``--from`` names."""
    if text.isascii() and text.isdecimal():
        return int(text)
    if text not in ("now", "snapshot"):
        raise click.BadParameter(f"found {text!r}, expected now, snapshot or the number of an event")
    return text


async def print_messages(
    daemon: Destination,
    subscribe: si.Subscribe,
    format_message: Callable[[FollowedMessage], str],
    write: Callable[[str], object],
    on_connection: OnConnection = silently,
) -> None:
    """Write a line for each message until cancelled; ``on_connection`` as in ``follow``."""
    async with follow(
        daemon.url,
        from_=subscribe.from_,
        queues=subscribe.queues,
        applications=subscribe.applications,
        kinds=subscribe.kinds,
        on_connection=on_connection,
        **daemon.login(),
    ) as messages:
        async for message in messages:
            write(format_message(message))


def as_text(message: FollowedMessage) -> str:
    """The message for people."""
    match message:
        case si.EventRecord():
            return click.style(printable(event_line(message)), fg=COLOURS.get(message.type))
        case si.Lagged():
            return click.style(f"events {message.from_} to {message.to} are lost, no longer in memory", fg="red", bold=True)
        case si.JournalStatus(writable=True):
            return click.style("the daemon writes its journal again", fg="green", bold=True)
        case si.JournalStatus():
            text = f"no events since {time_text(message.since_nano)}: the daemon cannot write its journal: {message.reason}"
            return click.style(printable(text), fg="red", bold=True)
        case si.Snapshot():
            return click.style(_state_line(message), dim=True)


def _state_line(snapshot: si.Snapshot) -> str:
    """The size of the state: all of it would be thousands of characters on one line."""
    found = {kind: [getattr(state, f"{kind}s") for state in snapshot.partitions] for kind in ("queue", "node", "application")}
    counts = ", ".join(plural(sum(map(len, each)), kind) for kind, each in found.items() if UNSET not in each)
    return f"state after event {snapshot.sequence}: {counts} (-o json prints all of it, ykactor story KEY one of them)"


def event_line(event: si.EventRecord) -> str:
    """Aligned columns; long names shift the columns after them, nothing is cut."""
    resource = ", ".join(f"{name} {amount(name, value)}" for name, value in (event.resource or {}).items())
    detail = detail_text(event.event_change_detail)
    text = "; ".join(event.message.splitlines()) or ("" if event.waited is None else waited(event.waited))
    where = "" if event.partition == "default" else f"[{event.partition}] "
    return (
        f"{time_text(event.timestamp_nano)} {event.sequence:8} {event.type:9} {event.event_change_type:6} {detail:19} "
        f"{event.object_id:24} {event.reference_id:20} {resource:28} {where}{text}"
    ).rstrip()


# ---- the past of a daemon: its answer to a subscription, then the events that it has in memory up to this answer

#: Seconds that the daemon may be silent: after one without events it says how far it is.
SILENCE_S = 60.0


class Past:
    """A connection that has been told what is now.

    Attributes:
        now: the answer, with the number of the last event.
        missing_queues: those of the wanted queues that do not exist; known when the events come.
    """

    def __init__(self, stream: MessageStream, now: si.Bookmark | si.Snapshot) -> None:
        self.now = now
        self.missing_queues: list[str] = []
        self._stream = stream

    async def events(self, wanted: si.Subscribe) -> AsyncIterator[si.EventRecord | si.Lagged]:
        """The wanted ones up to now, and which are no longer in memory."""
        last = self.now.sequence
        if not last:
            return
        await self._stream.send(structs.replace(wanted, from_=0, term=self.now.term))
        while not isinstance(message := await _receive(self._stream), si.Bookmark) or message.sequence:
            pass  # what the first subscription still had
        self.missing_queues = message.missing_queues
        async for told in up_to(last, self._stream):
            yield told


async def up_to(last: int, stream: MessageStream) -> AsyncIterator[si.EventRecord | si.Lagged]:
    """The messages before event ``last``: events, or that the daemon is there although it shows no more of them."""
    reached = 0
    while reached < last:
        match await _receive(stream):
            case si.Events(events=batch):
                for event in batch:
                    if event.sequence <= last:
                        yield event
                reached = batch[-1].sequence
            case si.Bookmark(sequence=sequence):
                reached = sequence
            case si.Lagged() as lost:
                yield lost
                reached = lost.to


@asynccontextmanager
async def opened_past(daemon: Destination, from_: str) -> AsyncIterator[Past]:
    """Ask for what is ``now``, or for a ``snapshot``.

    Raises:
        Disconnected, RequestRefused: as `follow` does.
    """
    async with open_feed(daemon.url, Login(**daemon.login())) as stream:
        await stream.send(si.Subscribe(from_=from_))
        now = await _receive(stream)
        while not isinstance(now, si.Bookmark | si.Snapshot):
            now = await _receive(stream)  # the daemon tells first that it cannot write its journal
        yield Past(stream, now)


async def _receive(stream: MessageStream) -> si.FeedMessage:
    with trio.move_on_after(SILENCE_S):
        return await stream.receive_feed()
    raise Disconnected(f"no message within {SILENCE_S:g} s, the daemon has too much to do")


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
    Column("MESSAGE", field("message"), is_sentence=True),
)


@click.command()
@since_option("events ")
@_only("--partition", "partitions", "Only what is in this partition. Repeatable.", metavar="NAME")
@_only("--queue", "queues", "Only what is in this queue or below it. Repeatable.", metavar="NAME")
@_only("--app", "applications", "Only events of this application. Repeatable.", metavar="ID")
@_kinds
@grouped("wanted", si.Subscribe)
@output_option
@daemon_options
def command(since_ns: int, wanted: si.Subscribe, daemon: Destination, output: str) -> None:
    """List the events that the daemon has in memory, in the order of their times.

    Events of the same time are in the order of their numbers, as are those of one partition. The audit tells of a refusal up to a
    minute later: with the time at which it happened, but with a later number. These are the last 100,000 events. A line on
    standard error says so when older ones are missing. ykactor follow prints new events as they come, and ykactor story
    --state-dir reads all that the journal keeps. With -o name the number of each event is printed.
    """
    events, lost, missing = daemon.run(_collect, daemon, wanted)
    if lost is not None and not (events and events[0].timestamp_nano < since_ns):
        say(f"events {lost.from_} to {lost.to} are no longer in memory", err=True)
    show(listing([event for event in events if event.timestamp_nano >= since_ns], missing), output)


def listing(events: list[si.EventRecord], missing_queues: list[str]) -> Printout:
    """The events as rows, in the order of their times."""
    events = sorted(events, key=lambda event: event.timestamp_nano)
    rows = [msgspec.to_builtins(event) for event in events]
    names = [str(event.sequence) for event in events]
    notes = [absent("queue", queue) for queue in missing_queues]
    return Printout(rows, names, partial(table, _COLUMNS, rows), notes, none_shown("events"))


async def _collect(daemon: Destination, wanted: si.Subscribe) -> tuple[list[si.EventRecord], si.Lagged | None, list[str]]:
    """The wanted events of those that happened up to now, which older ones are lost, and the wanted queues that do not exist."""
    events: list[si.EventRecord] = []
    lost: si.Lagged | None = None
    async with opened_past(daemon, "now") as told:
        async for message in told.events(wanted):
            if isinstance(message, si.Lagged):
                lost = message
            else:
                events.append(message)
        return events, lost, told.missing_queues
