"""``ykactor nodes`` and ``node``: the nodes with what is used and what is free, and one of them with what runs there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click
from msgspec import UNSET, to_builtins

from ykactor.core.inspection.node_status import NodeStatus, node_state
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.views.listing import Column, Part, Printout, Row, field, fields_of, find, lines_of
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.surfaces.cli.views.view import PARTITION, View, command_of
from ykactor.wire.si import messages as si

#: The note for a reader that is limited to queues (SE-84).
NOT_SHOWN = "nodes are not shown to you: what you may see is limited to queues (ykactor rule SE-84)"
_COLOURS = {"Schedulable": "green", "Draining": "yellow", "Drained": "red"}


def rows(state: PartitionStatus, _now_ns: int) -> Iterator[Row]:
    """One for each node.

    Raises:
        ClickException: nodes are not shown.
    """
    if state.nodes is UNSET:
        raise click.ClickException(NOT_SHOWN)
    for node_id, node in state.nodes.items():
        yield row_of(node_id, node)


def row_of(node_id: str, node: NodeStatus) -> Row:
    """A node."""
    return {"nodeID": node_id, "state": node_state(node), "dominantShare": node.dominant_share, **to_builtins(node)}


def colour(row: Row) -> str | None:
    """The colour of a node's state."""
    return _COLOURS[row["state"]]


VIEW = View(
    "nodes",
    rows,
    name=field("nodeID"),
    columns=(
        Column("NODE", field("nodeID")),
        Column("STATE", field("state"), colour=colour),
        Column("USE", field("dominantShare", "{:.0%}".format), is_number=True),
        Column("TASKS", field("allocations", lambda keys: str(len(keys))), is_number=True, label=None),
        Column("USED", field("allocated", cells.resource)),
        Column("FREE", field("available", cells.resource)),
        Column("CAPACITY", field("capacity", cells.resource)),
        Column("FOREIGN", field("occupied", cells.resource), is_wide=True),
        Column("RESERVED-FOR", field("reservations", ", ".join), is_wide=True),
    ),
    orders={
        "name": lambda row: row["nodeID"],
        "use": lambda row: -row["dominantShare"],
        "tasks": lambda row: -len(row["allocations"]),
    },
    states=tuple(_COLOURS),
)

command = command_of(
    VIEW,
    """List the nodes with their state, and what is used, free and there in total.

    STATE is Schedulable, Draining (takes nothing new) or Drained (and nothing runs there any more). USE is the part in use of the
    resource of which the largest part is. FOREIGN is what other schedulers have placed there.
    """,
)


_NAME, *_OTHERS = VIEW.columns
_FIELDS = fields_of((_NAME, PARTITION, *_OTHERS))
_TASKS = (
    Column("TASK", field("allocationKey")),
    Column("APPLICATION", field("applicationID")),
    Column("QUEUE", field("queueName")),
    Column("USER", field("user")),
)
_FOREIGN = (Column("ALLOCATION", field("allocationKey")),)


@click.command()
@click.argument("node_id", metavar="ID", shell_complete=names_of("node"))
@click.option("--partition", metavar="NAME", help="Only in this partition.", shell_complete=names_of("partition"))
@showing_options
def node(node_id: str, partition: str | None, showing: Showing) -> None:
    """Print the node ID: its state and resources, and which tasks run there.

    Exits with code 1 if there is no such node.
    """
    showing.run(lambda snapshot: described(snapshot, node_id, partition))


def described(snapshot: si.Snapshot, node_id: str, partition: str | None) -> Printout:
    """One node of a snapshot.

    Raises:
        ClickException: there is none of this name, or in several partitions.
    """
    state, node = find(snapshot, "node", lambda state: state.nodes or {}, node_id, partition)
    tasks = list(_tasks_on(node_id, state))
    row = {"partition": state.name, **row_of(node_id, node), "tasks": tasks}
    foreign = Counter(node.allocations) - Counter(task["allocationKey"] for task in tasks)
    parts = (Part("Tasks", _TASKS, tasks), Part("Foreign", _FOREIGN, [{"allocationKey": key} for key in foreign]))
    return Printout(row, [node_id], lines_of(_FIELDS, row, parts))


def _tasks_on(node_id: str, state: PartitionStatus) -> Iterator[Row]:
    for application_id, application in state.applications.items():
        for key, place in (application.allocations or {}).items():
            if place == node_id:
                task = {"allocationKey": key, "applicationID": application_id}
                yield task | {"queueName": application.queue_name, "user": application.user}
