"""``ykactor node``: one node, with what runs there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.cli.views import nodes
from ykactor.surfaces.cli.views.description import Part, fields_of, find, lines_of
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.surfaces.cli.views.view import PARTITION
from ykactor.wire.si import messages as si

_NAME, *_OTHERS = nodes.VIEW.columns
_FIELDS = fields_of((_NAME, PARTITION, *_OTHERS))
_TASKS = (
    Column("TASK", field("allocationKey")),
    Column("APPLICATION", field("applicationID")),
    Column("QUEUE", field("queueName")),
    Column("USER", field("user")),
)
_FOREIGN = (Column("ALLOCATION", field("allocationKey")),)


@click.command()
@click.argument("node_id", metavar="ID")
@click.option("--partition", metavar="NAME", help="Only in this partition.")
@showing_options
def command(node_id: str, partition: str | None, showing: Showing) -> None:
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
    row = {"partition": state.name, **nodes.row_of(node_id, node), "tasks": tasks}
    foreign = Counter(node.allocations) - Counter(task["allocationKey"] for task in tasks)
    parts = (Part("Tasks", _TASKS, tasks), Part("Foreign", _FOREIGN, [{"allocationKey": key} for key in foreign]))
    return Printout(row, [node_id], lines_of(_FIELDS, row, parts))


def _tasks_on(node_id: str, state: PartitionStatus) -> Iterator[Row]:
    for application_id, application in state.applications.items():
        for key, place in (application.allocations or {}).items():
            if place == node_id:
                task = {"allocationKey": key, "applicationID": application_id}
                yield task | {"queueName": application.queue_name, "user": application.user}
