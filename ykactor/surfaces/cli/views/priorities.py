"""``ykactor priorities``: how the priority of each pending ask comes about on its way to root."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import to_builtins

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.inspection.queue_status import priority_steps
from ykactor.surfaces.cli.views import asks
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.queues import priority
from ykactor.surfaces.cli.views.view import View, command_of

_COPIED = ("allocationKey", "applicationID", "queueName", "user", "count", "ageSeconds", "effectivePriority")


def rows(state: PartitionStatus, now_ns: int) -> Iterator[Row]:
    """One for each group of pending asks, as ``asks.rows``."""
    for ask in asks.rows(state, now_ns):
        yield {
            **{key: ask[key] for key in _COPIED},
            "request": ask["priority"],
            "application": state.applications[ask["applicationID"]].priority,
            "queue": state.queues[ask["queueName"]].priority,
            "steps": to_builtins([*priority_steps(ask["priority"], ask["queueName"], state.queues)]),
        }


def _offsets(steps: list[Row]) -> str:
    return ",".join(f"{step['queueName']}={step['offset']:+}" for step in steps if step["offset"])


def _fences(steps: list[Row]) -> str:
    return ",".join(step["queueName"] for step in steps if step["isFence"])


VIEW = View(
    "pending asks",
    rows,
    name=asks.name_of,
    columns=(
        *asks.COLUMNS,
        Column("REQUEST", field("request"), is_number=True),
        Column("APP-PRIO", field("application", priority), is_number=True),
        Column("QUEUE-PRIO", field("queue", priority), is_number=True),
        Column("OFFSETS", field("steps", _offsets)),
        Column("FENCES", field("steps", _fences)),
    ),
    orders={
        "priority": lambda row: (-row["effectivePriority"], -row["request"], -row["ageSeconds"]),
        "request": lambda row: (-row["request"], -row["ageSeconds"]),
        "queue": lambda row: (row["queueName"].split("."), -row["request"], -row["ageSeconds"]),
    },
    filters=("queue", "user"),
)

command = command_of(
    VIEW,
    """List what the priority of each pending ask is made of, the most important first.

    REQUEST is the ask's own priority. Each queue from its leaf to root adds its offset (OFFSETS); a fence hides what is inside,
    and shows its offset alone (FENCES). PRIORITY is the result at root, or at the highest queue that you may see. APP-PRIO is the
    highest REQUEST in the application, and QUEUE-PRIO the priority that the leaf shows to its parent. A row is for asks of one
    application that wait for the same reason, with the priority of the most important of them.
    """,
)
