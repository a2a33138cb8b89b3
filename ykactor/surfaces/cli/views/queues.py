"""``ykactor queues``: the tree of queues, with usage against guaranteed and max."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import to_builtins

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.states import QueueState
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values.quantities import duration_text
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views.listing import Column, Row, field, shown
from ykactor.surfaces.cli.views.view import HELD, View, command_of, is_held, state_text

_COLOURS = {"Draining": "yellow"}


def rows(state: PartitionStatus, _now_ns: int) -> Iterator[Row]:
    """One for each queue."""
    for path, queue in state.queues.items():
        row: Row = {"queueName": path, **to_builtins(queue)}
        yield row | {"isHeld": is_held(row)}


def priority(value: int) -> str:
    """The priority of a queue or application; ``-`` when nothing in it is pending."""
    return cells.NONE if value == PRIORITY_MIN else str(value)


def running(row: Row) -> str:
    """The number of running applications, and the limit if there is one."""
    most = row["maxApplications"]
    return f"{row['runningApplications']}/{most}" if most else str(row["runningApplications"])


def above_max(row: Row) -> str:
    """The amounts by which the queue is above its max, and why it stays there; "" if it is not."""
    return f"{row['queueName']}: {row['aboveMax']['reason']}" if "aboveMax" in row else ""


def walltime(row: Row) -> str:
    """The time for which tasks run that do not say it, and the longest one."""
    times = [row.get(name) for name in ("walltimeDefault", "walltimeMax")]
    return "/".join(duration_text(time) if time else cells.NONE for time in times) if any(times) else ""


#: The priority that the parent sees; asks and applications have another one, that at root.
QUEUE_PRIORITY = Column("QUEUE-PRIO", field("priority", priority), is_number=True)
VIEW = View(
    "queues",
    rows,
    name=field("queueName"),
    columns=(
        Column("QUEUE", field("queueName")),
        Column("STATE", state_text, colour=lambda row: _COLOURS.get(row["state"])),
        Column("USED", field("allocated", cells.resource)),
        Column("GUARANTEED", field("guaranteed", cells.resource)),
        Column("MAX", field("max", cells.resource)),
        Column("PENDING", field("pending", cells.resource)),
        Column("RUNNING", running, is_number=True),
        QUEUE_PRIORITY,
        Column("HEADROOM", field("headroom", cells.resource), is_wide=True),
        Column("SHARE", shown("share", "{:.2f}".format), is_wide=True, is_number=True),
        Column("SORT", field("sortPolicy"), is_wide=True),
        Column("OFFSET", field("priorityOffset"), is_wide=True, is_number=True),
        Column("FENCE", lambda row: "yes" if row["priorityPolicy"] == "fence" else "no", is_wide=True),
        Column("PREEMPTION", field("preemptionPolicy"), is_wide=True),
        Column("WALLTIME", walltime, is_wide=True),
        Column("HELD-BY", field("held", lambda hold: str(hold["by"])), is_wide=True),
        Column("DYNAMIC", lambda row: "no" if row["isManaged"] else "yes", is_wide=True),
    ),
    orders={
        "tree": lambda row: row["queueName"].split("."),
        "share": lambda row: -row.get("share", 0.0),
        "priority": lambda row: -row["priority"],
    },
    filters=("queue",),
    states=(*QueueState, HELD),
    remark=above_max,
)

command = command_of(
    VIEW,
    """List the queues with usage, guarantee, quota, pending resources, running applications and priority.

    STATE has Held behind it if the queue or one above it is held. RUNNING is the number of running applications, of how many at
    most. QUEUE-PRIO is the priority that the parent sees, of the most important ask in it. HEADROOM is what is left on the whole
    path. SHARE is the usage against the guarantee: 1.00 is all that is guaranteed. "-" is no limit or no guarantee.
    Standard error says of a queue above its max how far it is above it, and why it stays there.
    """,
)
