"""``ykactor partitions``: the partitions, with what they have and what is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import UNSET

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views import resource_manager
from ykactor.surfaces.cli.views.listing import Column, Row, field, shown
from ykactor.surfaces.cli.views.nodes import state_of
from ykactor.surfaces.cli.views.view import PARTITION, View, command_of


def rows(state: PartitionStatus, _now_ns: int) -> Iterator[Row]:
    """One: numbers of what the partition has, by state where there is one; without those that are not shown."""
    applications = state.applications.values()
    yield {
        "queues": len(state.queues),
        **_of_nodes(state),
        "applications": dict(sorted(Counter(application.state for application in applications).items())),
        "allocations": sum(len(application.allocations or ()) for application in applications),
        "pendingAsks": sum(group.count for application in applications for group in application.pending or ()),
        **_of_root(state),
    }


def _of_nodes(state: PartitionStatus) -> Row:
    if state.nodes is UNSET:
        return {}
    nodes = state.nodes.values()
    return {
        "nodes": dict(sorted(Counter(map(state_of, nodes)).items())),
        "reservations": sum(len(node.reservations) for node in nodes),
    }


def _of_root(state: PartitionStatus) -> Row:
    root = state.queues.get("root")
    return {} if root is None else {"capacity": root.max, "allocated": root.allocated, "pending": root.pending}


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
