"""``ykactor nodes``: the nodes, with what is used and what is free."""

from __future__ import annotations

from collections.abc import Iterator

import click
from msgspec import UNSET, to_builtins

from ykactor.core.inspection.node_status import NodeStatus, node_state
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.view import View, command_of

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
