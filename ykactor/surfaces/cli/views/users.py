"""``ykactor users``: what users and groups have and may have in each queue."""

from __future__ import annotations

from msgspec import to_builtins

from ykactor.core.inspection.partition_status import PartitionStatus, uses_of
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.queues import running
from ykactor.surfaces.cli.views.view import View, command_of


def rows(state: PartitionStatus, _now_ns: int) -> list[Row]:
    """One for each limit that somebody counts against, and for each leaf where no limit counts what a user has."""
    return [to_builtins(use) for use in uses_of(state)]


VIEW = View(
    "users or groups that use anything",
    rows,
    name=lambda row: row.get("user") or row["group"],
    columns=(
        Column("USER", field("user")),
        Column("GROUP", field("group")),
        Column("QUEUE", field("queueName")),
        Column("USED", field("allocated", cells.resource)),
        Column("MAX", field("max", cells.resource)),
        Column("RUNNING", running, is_number=True),
    ),
    orders={
        "name": lambda row: (row["whose"], row["queueName"].split(".")),
        "queue": lambda row: (row["queueName"].split("."), row["whose"]),
    },
    filters=("queue", "user"),
)

command = command_of(
    VIEW,
    """List what users and groups use in each queue, and what limits allow them.

    A row is for a limit that somebody counts against, or for a leaf queue where a user has applications and no limit of its own.
    RUNNING is the number of running applications, of how many at most. "-" under MAX is no limit.
    """,
)
