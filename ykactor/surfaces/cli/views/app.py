"""``ykactor app``: one application, with what runs and what waits."""

from __future__ import annotations

import click
from msgspec import structs, to_builtins

from ykactor.actors.clock import system_ns
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.views import apps, asks
from ykactor.surfaces.cli.views.description import Part, fields_of, find, lines_of
from ykactor.surfaces.cli.views.holds import held_by
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.surfaces.cli.views.view import PARTITION
from ykactor.wire.si import messages as si

_NAME, *_OTHERS = apps.VIEW.columns
_FIELDS = (
    *fields_of((_NAME, PARTITION, *_OTHERS, *apps.ENDED_COLUMNS)),
    Column("Held by", field("held", held_by)),
    Column("Held with", field("heldWith")),
)
_RUNNING = (Column("TASK", field("allocationKey")), Column("NODE", field("nodeID")))
_REPLACING = (
    Column("ASK", field("allocationKey")),
    Column("PLACEHOLDER", field("placeholder")),
    Column("NODE", field("nodeID")),
)
_ENDED = (
    Column("TASK", field("allocationKey")),
    Column("STATE", field("state")),
    Column("EXIT", lambda row: row.get("signal") or field("exitCode")(row), is_number=True),
    Column("BEGAN", field("startTime", time_text)),
    Column("ENDED", field("finishedTime", time_text), is_wide=True),
    Column("RAN", field("ranNanoseconds", cells.exact_age), is_number=True),
    Column("PEAK", field("peakMemory", cells.memory), is_number=True),
    Column("NODE", field("nodeID")),
)
_OF_THE_APPLICATION = {"APPLICATION", "QUEUE", "USER"}
_PENDING = tuple(column for column in asks.VIEW.columns if column.header not in _OF_THE_APPLICATION)


@click.command()
@click.argument("application_id", metavar="ID")
@click.option("--partition", metavar="NAME", help="Only in this partition.")
@showing_options
def command(application_id: str, partition: str | None, showing: Showing) -> None:
    """Print the application ID: its state, what of it runs on which node, and what is pending and why; if it has ended, what it
    has used, and why it has failed. Ended are its newest tasks of which its resource manager has said how they ended:
    EXIT is the exit code, or the signal that has ended the task, RAN how long it has run, PEAK the most memory that it has used.

    Exits with code 1 if there is no such application.
    """
    showing.run(lambda snapshot: described(snapshot, application_id, partition, system_ns()))


def described(snapshot: si.Snapshot, application_id: str, partition: str | None, now_ns: int) -> Printout:
    """One application of a snapshot.

    Raises:
        ClickException: there is none of this name, or in several partitions.
    """
    state, application = find(snapshot, "application", lambda state: state.applications, application_id, partition)
    alone = structs.replace(state, applications={application_id: application})
    (found,) = apps.rows(alone, now_ns)
    row = {"partition": state.name, **found}
    running = [{"allocationKey": key, "nodeID": node_id} for key, node_id in row.get("allocations", {}).items()]
    parts = (
        Part("Running", _RUNNING, running),
        Part("Replacing a placeholder, when its release is confirmed", _REPLACING, row.get("replacing", [])),
        Part("Pending", _PENDING, list(asks.rows(alone, now_ns))),
        Part("Ended", _ENDED, [record | _ran(record) for record in row.get("records", [])]),
    )
    return Printout(row, [application_id], lines_of(_FIELDS, row | _held_with(row, state), parts))


def _ran(record: Row) -> Row:
    """The time that a task has run, if that is known."""
    if "startTime" not in record or "finishedTime" not in record:
        return {}
    return {"ranNanoseconds": record["finishedTime"] - record["startTime"]}


def _held_with(row: Row, state: PartitionStatus) -> Row:
    """The queue that is held, by whom, if that holds the application."""
    path = row.get("heldWith")
    return {"heldWith": f"{path}, by {held_by(to_builtins(state.queues[path].held))}"} if path else {}
