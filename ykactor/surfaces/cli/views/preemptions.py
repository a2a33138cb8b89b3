"""``ykactor preemptions``: which tasks were preempted, for whom, why, and what came of it."""

from __future__ import annotations

from functools import partial

import click
import msgspec

from ykactor.access.model import is_below, normal_queue
from ykactor.core.messages.conditions import PREEMPTED_BY_QUOTA
from ykactor.core.messages.kinds import PreemptionKind
from ykactor.core.values.words import NAMES_MAX
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.events import opened_past
from ykactor.surfaces.cli.options import since_option
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, none_shown, output_option, table
from ykactor.surfaces.cli.views.showing import show
from ykactor.wire.si import messages as si

#: The events that ``PreemptionRows`` has to see.
KINDS = [
    "REQUEST",
    "QUEUE_ABOVE_MAX",
    "QUEUE_PREEMPTION",
    "APP_ALLOC",
    "ALLOC_CANCEL",
    "ALLOC_NODEREMOVED",
    "ALLOC_PREEMPT",
    "ALLOC_REPLACED",
    "ALLOC_TIMEOUT",
    "REQUEST_CANCEL",
    "REQUEST_TIMEOUT",
]

#: Partition, application, and key of an ask or a task.
_Task = tuple[str, str, str]


class PreemptionRows:
    """Reads events in their order.

    Attributes:
        rows: the oldest first. ``kind`` as in PE-90; ``released`` counts the victims that have ended; ``outcome`` is that of the
            ask: ``pending``, ``placed``, ``cancelled``, or ``repeated`` if it has preempted again. In a queue above its max there
            is no ask, and it is ``pending`` or ``released``, or ``stays`` if the queue stays above its max without victims.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        #: The preemptions whose ask waits.
        self._of_ask: dict[_Task, Row] = {}
        #: The preemptions with a victim that has not ended.
        self._of_victim: dict[_Task, Row] = {}
        #: The victims whose preemption is told next, by partition and queue above its max.
        self._chosen: dict[tuple[str, str], list[dict[str, str]]] = {}

    def read(self, event: si.EventRecord) -> None:
        """The next event."""
        if event.preemption is not None:
            self._add_of_ask(event, event.preemption)
        elif event.event_change_detail == "QUEUE_PREEMPTION":
            self._add_of_quota(event, self._chosen.pop((event.partition, event.queue_name), []))
        elif event.event_change_detail == "QUEUE_ABOVE_MAX":
            self._add_of_quota(event, [])
        elif event.type == "REQUEST":
            if event.message.startswith(PREEMPTED_BY_QUOTA):
                of_queue = event.partition, event.message.removeprefix(PREEMPTED_BY_QUOTA)
                self._chosen.setdefault(of_queue, []).append(_victim_of(event))
        elif event.event_change_detail == "APP_ALLOC":
            self._end(_task_of(event), "placed")
        elif event.event_change_detail.startswith("REQUEST_"):
            self._end(_task_of(event), "cancelled")
        else:
            self._release(_task_of(event))

    def _add_of_ask(self, event: si.EventRecord, entry: si.Preemption) -> None:
        ask = event.partition, event.reference_id, event.object_id
        self._end(ask, "repeated")
        about = {"allocationKey": event.object_id, "applicationID": event.reference_id}
        self._of_ask[ask] = self._add(event, about | msgspec.to_builtins(entry))

    def _add_of_quota(self, event: si.EventRecord, victims: list[dict[str, str]]) -> None:
        row = self._add(event, {"kind": PreemptionKind.QUOTA.value, "why": event.message, "victims": victims})
        if not victims:
            row["outcome"] = "stays"

    def _add(self, event: si.EventRecord, found: Row) -> Row:
        where = {"partition": event.partition, "queueName": event.queue_name}
        row = {"sequence": event.sequence, "timestampNano": event.timestamp_nano, **where, **found}
        row |= {"released": 0, "outcome": "pending"}
        self.rows.append(row)
        for victim in row["victims"]:
            self._of_victim[event.partition, victim["applicationID"], victim["allocationKey"]] = row
        return row

    def _end(self, ask: _Task, outcome: str) -> None:
        row = self._of_ask.pop(ask, None)
        if row is not None:
            row["outcome"] = outcome

    def _release(self, task: _Task) -> None:
        row = self._of_victim.pop(task, None)
        if row is not None:
            row["released"] += 1
            if row["kind"] == PreemptionKind.QUOTA and row["released"] == len(row["victims"]):
                row["outcome"] = "released"


def _task_of(event: si.EventRecord) -> _Task:
    """The ask or task that an event of an application is about."""
    return event.partition, event.object_id, event.reference_id


def _victim_of(event: si.EventRecord) -> dict[str, str]:
    """The task that an event of type ``REQUEST`` is about."""
    return {"queueName": event.queue_name, "applicationID": event.reference_id, "allocationKey": event.object_id}


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
    Column("WHY", field("why"), is_sentence=True),
)


@click.command()
@since_option("events ")
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
    since_ns: int,
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
    rows = daemon.run(_read, daemon, si.Subscribe(partitions=list(partitions), kinds=KINDS), since_ns)
    below = [normal_queue(queue) for queue in queues]
    show(listing([row for row in rows if _is_wanted(row, below, applications)]), output)


async def _read(daemon: Destination, wanted: si.Subscribe, since_ns: int) -> list[Row]:
    """The preemptions since a Unix time that are in memory."""
    rows, is_complete = PreemptionRows(), True
    async with opened_past(daemon, "now") as told:
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
    """True if the ask or a victim is in one of the queues, and the ask or a victim is of one of the applications."""
    tasks = [row, *row["victims"]]
    return (not queues or any(is_below(task["queueName"], queues) for task in tasks)) and (
        not applications or any(task.get("applicationID") in applications for task in tasks)
    )


def listing(rows: list[Row]) -> Printout:
    """The preemptions as a table."""
    names = [str(row["sequence"]) for row in rows]
    return Printout(rows, names, partial(table, _COLUMNS, rows), nothing=none_shown("preemptions"))
