"""``ykactor follow``: prints the events of a running daemon, one on each line."""

from collections.abc import Callable
from datetime import UTC, datetime

import click
from msgspec import UNSET, structs

from ykactor.client import Disconnected, FollowedMessage, RequestRefused, follow
from ykactor.client.reconnecting import OnConnection, silently
from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import quantity_text
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.cells import NONE
from ykactor.surfaces.cli.check_config import plural
from ykactor.surfaces.cli.terminal import on_one_line, say, write
from ykactor.surfaces.cli.urls import DaemonUrl, Destination, daemon_options
from ykactor.wire.si import messages as si

COLOURS = {"AUDIT": "red", "APP": "cyan", "NODE": "magenta", "QUEUE": "yellow", "REQUEST": "blue", "USERGROUP": "green"}


@click.command()
@click.argument("address", metavar="[URL]", type=DaemonUrl(), required=False)
@daemon_options
@click.option(
    "--from",
    "from_",
    default="now",
    metavar="PLACE",
    callback=lambda _ctx, _param, place: _place(place),
    help="Where to start: now, snapshot (the state, then events), or the number of an event (then the event after it).",
)
@click.option("--queue", "queues", multiple=True, help="Only events of this queue and of all queues below it. Repeatable.")
@click.option("--app", "applications", multiple=True, help="Only events of this application. Repeatable.")
@click.option("--kind", "kinds", multiple=True, help="Only events of this type (APP) or detail (APP_RUNNING). Repeatable.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: a line with columns for each event; json: the messages as the daemon sends them, one on each line.",
)
def command(
    address: str | None,
    daemon: Destination,
    from_: int | str,
    queues: tuple[str, ...],
    applications: tuple[str, ...],
    kinds: tuple[str, ...],
    output: str,
) -> None:
    """Print the events of the daemon at URL until Ctrl-C. URL may be given as the argument or with --url.

    Columns: time, sequence number, type, change, detail, object, reference, resource, message. The object is what the event is
    about; the reference is the other object involved, for example the application of an ask. If the connection is lost, the
    command reconnects. A line on standard error says to which daemon it is connected, and whether events may be missing.
    """
    chosen = structs.replace(daemon, url=address or daemon.url)
    subscribe = si.Subscribe(
        from_=from_,
        queues=list(queues),
        applications=list(applications),
        kinds=list(kinds),
    )
    try:
        loop.run(print_messages, chosen, subscribe, as_text if output == "text" else as_json, _print_line, _print_notice)
    except* (Disconnected, RequestRefused) as errors:
        raise chosen.problem(errors.exceptions[0]) from None


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


def _print_line(line: str) -> None:
    write([line])


def _print_notice(sentence: str) -> None:
    say(sentence, err=True)


def as_json(message: FollowedMessage) -> str:
    """The message as on the wire."""
    return on_one_line(message)


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
    resource = ", ".join(f"{name} {quantity_text(name, value)}" for name, value in (event.resource or {}).items())
    detail = detail_text(event.event_change_detail)
    text = "; ".join(event.message.splitlines())
    where = "" if event.partition == "default" else f"[{event.partition}] "
    return (
        f"{time_text(event.timestamp_nano)} {event.sequence:8} {event.type:9} {event.event_change_type:6} {detail:19} "
        f"{event.object_id:24} {event.reference_id:20} {resource:28} {where}{text}"
    ).rstrip()


def detail_text(detail: str) -> str:
    """The detail of an event; ``-`` if it has none."""
    return NONE if detail == "DETAILS_NONE" else detail


def time_text(unix_ns: int) -> str:
    """UTC, to the millisecond."""
    moment = datetime.fromtimestamp(unix_ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{unix_ns // 10**6 % 1000:03}Z"
