"""``ykactor partitions``: the partitions, with what they have and what is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views.apps import pending_count
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.nodes import state_of
from ykactor.surfaces.cli.views.view import State, View, command_of


def rows(state: State, _now_ns: int) -> Iterator[Row]:
    """One: numbers of what the partition has, by state where there is one."""
    applications = state["applications"].values()
    root = state["queues"].get("root", {})  # not seen by everybody
    yield {
        "queues": len(state["queues"]),
        "nodes": dict(sorted(Counter(map(state_of, state["nodes"].values())).items())),
        "applications": dict(sorted(Counter(application["state"] for application in applications).items())),
        "allocations": sum(len(application.get("allocations", ())) for application in applications),
        "pendingAsks": sum(pending_count(application.get("pending", [])) for application in applications),
        "reservations": sum(len(node["reservations"]) for node in state["nodes"].values()),
        "capacity": root.get("max"),
        "allocated": root.get("allocated"),
        "pending": root.get("pending"),
    }


def _nodes(nodes: dict[str, int]) -> str:
    total, schedulable = sum(nodes.values()), nodes.get("Schedulable", 0)
    return str(total) if schedulable == total else f"{schedulable}/{total}"


def _total(counts: dict[str, int]) -> str:
    return str(sum(counts.values()))


VIEW = View(
    rows,
    name="partition",
    columns=(
        Column("QUEUES", field("queues"), is_number=True),
        Column("NODES", field("nodes", _nodes), is_number=True),
        Column("APPLICATIONS", field("applications", _total), is_number=True),
        Column("RUNNING", field("allocations"), is_number=True),
        Column("PENDING", field("pendingAsks"), is_number=True),
        Column("USED", field("allocated", cells.resource)),
        Column("CAPACITY", field("capacity", cells.resource)),
        Column("RESERVED", field("reservations"), is_number=True, is_wide=True),
        Column("WANTED", field("pending", cells.resource), is_wide=True),
    ),
    orders={"name": lambda row: row["partition"]},
)

command = command_of(
    VIEW,
    """List the partitions with the numbers of their queues, nodes, applications and tasks, and what is used of their capacity.

    NODES is how many are there; 3/4 if one of four is drained. RUNNING and PENDING are numbers of tasks.
    """,
)
