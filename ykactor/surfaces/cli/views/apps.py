"""``ykactor apps``: the applications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values.times import S_NS
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.queues import priority
from ykactor.surfaces.cli.views.view import State, View, command_of

COLOURS = {
    "Accepted": "yellow",
    "Running": "green",
    "Completing": "cyan",
    "Failing": "red",
    "Failed": "red",
    "Rejected": "red",
}


def rows(state: State, now_ns: int) -> Iterator[Row]:
    """One for each application; of one that has ended only its state and queue are known."""
    for name, application in state["applications"].items():
        aged = {"ageSeconds": seconds_since(application["submissionTime"], now_ns)} if "submissionTime" in application else {}
        yield {"applicationID": name, **application, **aged}


def seconds_since(unix_ns: int, now_ns: int) -> int:
    """Whole seconds; 0 if the clock of the daemon is ahead."""
    return max(0, (now_ns - unix_ns) // S_NS)


def pending_count(groups: list[dict[str, Any]]) -> int:
    """How many asks of an application are pending."""
    return sum(group["count"] for group in groups)


def first_reason(groups: list[dict[str, Any]]) -> str:
    """Why the first of the pending asks waits."""
    return str(groups[0]["reason"]) if groups else ""


def colour(row: Row) -> str | None:
    """The colour of an application's state."""
    return COLOURS.get(row["state"])


VIEW = View(
    rows,
    name="applicationID",
    columns=(
        Column("APPLICATION", field("applicationID")),
        Column("STATE", field("state"), colour=colour),
        Column("QUEUE", field("queueName")),
        Column("USER", field("user")),
        Column("PRIORITY", field("priority", priority), is_number=True),
        Column("USED", field("allocated", cells.resource)),
        Column("RUNNING", field("allocations", lambda tasks: str(len(tasks))), is_number=True),
        Column("PENDING", field("pending", lambda groups: str(pending_count(groups))), is_number=True),
        Column("AGE", field("ageSeconds", cells.age), is_number=True),
        Column("GROUPS", field("groups", ",".join), is_wide=True),
        Column("HELD-BY", field("held", lambda hold: str(hold["by"])), is_wide=True),
        Column("REASON", field("pending", first_reason), is_wide=True),
    ),
    orders={
        "age": lambda row: -row.get("ageSeconds", -1),
        "name": lambda row: row["applicationID"],
        "priority": lambda row: (-row.get("priority", PRIORITY_MIN), -row.get("ageSeconds", -1)),
        "pending": lambda row: -pending_count(row.get("pending", [])),
    },
    filters=("queue", "state", "user"),
)

command = command_of(
    VIEW,
    """List the applications with state, queue, user, priority and usage, the oldest first.

    RUNNING and PENDING are numbers of tasks. PRIORITY is that of the most important pending ask. REASON is why the first pending
    ask waits; ykactor asks has all reasons. Applications that have ended are listed until the daemon forgets them.
    """,
)
