"""``ykactor preemptions``: which tasks were preempted, for whom, why, and what came of it."""

from __future__ import annotations

import click
import trio

from ykactor.access.model import is_below, normal_queue
from ykactor.client import Disconnected, RequestRefused
from ykactor.core.messages.reasons import NAMES_MAX
from ykactor.surfaces.cli import cells, past
from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.since import since_option
from ykactor.surfaces.cli.terminal import say, write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, formatted, table
from ykactor.surfaces.cli.views.preemption_rows import KINDS, PreemptionRows
from ykactor.surfaces.cli.views.showing import output_option, write_notes
from ykactor.wire.si import messages as si


def _named(tasks: list[dict[str, str]]) -> str:
    """The first tasks, and how many more there are."""
    names = [f"{task['applicationID']}/{task['allocationKey']}" for task in tasks[:NAMES_MAX]]
    return ",".join([*names, f"+{len(tasks) - NAMES_MAX}"] if len(tasks) > NAMES_MAX else names)


_COLUMNS = (
    Column("TIME", field("timestampNano", time_text)),
    Column("NUMBER", field("sequence"), is_wide=True, is_number=True),
    Column("KIND", field("kind")),
    Column("ASK", field("allocationKey")),
    Column("APPLICATION", field("applicationID")),
    Column("PARTITION", field("partition"), is_wide=True),
    Column("QUEUE", field("queueName")),
    Column("NODE", field("nodeID")),
    Column("VICTIMS", field("victims", _named)),
    Column("RELEASED", lambda row: f"{row['released']}/{len(row['victims'])}", is_number=True),
    Column("OUTCOME", field("outcome")),
    Column("WORK-LOST", field("workLost", cells.resource_hours), is_wide=True),
    Column("WHY", field("why")),
)


@click.command()
@since_option
@click.option("--partition", "partitions", multiple=True, metavar="NAME", help="Only in this partition. Repeatable.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Only for asks or with victims in this queue or below it. Repeatable.",
)
@click.option(
    "--app", "applications", multiple=True, metavar="ID", help="Only for asks or with victims of this application. Repeatable."
)
@output_option
@daemon_options
def command(
    since: int,
    partitions: tuple[str, ...],
    queues: tuple[str, ...],
    applications: tuple[str, ...],
    daemon: Destination,
    output: str,
) -> None:
    """List the preemptions: for which ask, on which node, which tasks, why, and what came of it, the oldest first.

    They are those among the last 100,000 events; a line on standard error says so when older events are missing. KIND is generic
    (for an ask of a queue below its guarantee), required_node (for an ask that requires its node) or quota (in a queue above its
    max). VICTIMS names up to three tasks and says how many more there are; RELEASED is how many of all have ended. OUTCOME says
    whether the ask was placed or cancelled, or has preempted again (repeated); a queue has released its tasks or not yet, or it
    stays above its max. WORK-LOST is what the victims have used. With -o name the number of each event is printed.
    """
    try:
        rows = trio.run(_read, daemon, si.Subscribe(partitions=list(partitions), kinds=KINDS), since)
    except* (Disconnected, RequestRefused) as errors:
        raise click.ClickException(str(errors.exceptions[0])) from None
    below = [normal_queue(queue) for queue in queues]
    printout = listing([row for row in rows if _is_wanted(row, below, applications)])
    write(formatted(printout, output))
    write_notes(printout, output)


async def _read(daemon: Destination, wanted: si.Subscribe, since_ns: int) -> list[Row]:
    """The preemptions since a Unix time that are in memory."""
    rows, is_complete = PreemptionRows(), True
    async with past.opened(daemon, "now") as told:
        async for message in told.events(wanted):
            if isinstance(message, si.Lagged):
                is_complete = False
            elif message.timestamp_nano >= since_ns:
                rows.read(message)
            else:
                is_complete = True
    if not is_complete:
        say("older events are no longer in memory", err=True)
    return rows.rows


def _is_wanted(row: Row, queues: list[str], applications: tuple[str, ...]) -> bool:
    """Whether the ask or a victim is in one of the queues, and the ask or a victim is of one of the applications."""
    tasks = [row, *row["victims"]]
    return (not queues or any(is_below(task["queueName"], queues) for task in tasks)) and (
        not applications or any(task.get("applicationID") in applications for task in tasks)
    )


def listing(rows: list[Row]) -> Printout:
    """The preemptions as a table."""
    return Printout(rows, [str(row["sequence"]) for row in rows], lambda is_wide: table(_COLUMNS, rows, is_wide=is_wide))
