"""``ykactor partitions``: the partitions, with what they have and what is used."""

from __future__ import annotations

from msgspec import to_builtins

from ykactor.core.inspection.partition_status import PartitionStatus, summary_of
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views import resource_manager
from ykactor.surfaces.cli.views.listing import Column, Row, field, shown
from ykactor.surfaces.cli.views.view import PARTITION, View, command_of


def rows(state: PartitionStatus, _now_ns: int) -> list[Row]:
    """One: numbers of what the partition has, by state where there is one; without those that are not shown."""
    return [to_builtins(summary_of(state))]


def _nodes(nodes: dict[str, int]) -> str:
    total, schedulable = sum(nodes.values()), nodes.get("Schedulable", 0)
    return str(total) if schedulable == total else f"{schedulable}/{total}"


def _total(counts: dict[str, int]) -> str:
    return str(sum(counts.values()))


VIEW = View(
    "partitions",
    rows,
    name=field("partition"),
    columns=(
        PARTITION,
        Column("QUEUES", field("queues"), is_number=True),
        Column("NODES", shown("nodes", _nodes), is_number=True),
        Column("APPLICATIONS", field("applications", _total), is_number=True),
        Column("RUNNING", field("allocations"), is_number=True),
        Column("PENDING", field("pendingAsks"), is_number=True),
        Column("USED", shown("allocated", cells.resource)),
        Column("CAPACITY", shown("capacity", cells.resource)),
        Column("RESERVED", shown("reservations"), is_number=True, is_wide=True),
        Column("WANTED", shown("pending", cells.resource), is_wide=True),
        resource_manager.column("RESOURCE MANAGER"),
    ),
    orders={"name": lambda row: row["partition"]},
    of_all=resource_manager.row_of,
)

command = command_of(
    VIEW,
    """List the partitions with the numbers of their queues, nodes, applications and tasks, and what is used of their capacity.

    NODES is how many are there; 3/4 if one of four is drained. RUNNING and PENDING are numbers of tasks. RESOURCE MANAGER is the
    registered one, which serves all partitions, and since when it is connected or away.
    """,
)
