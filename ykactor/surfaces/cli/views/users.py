"""``ykactor users``: what users and groups have and may have in each queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import UNSET

from ykactor.core.inspection.partition_status import LimitStatus, PartitionStatus
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.queues import running
from ykactor.surfaces.cli.views.view import View, command_of


def rows(state: PartitionStatus, _now_ns: int) -> Iterator[Row]:
    """One for each limit that somebody counts against, and for each leaf where no limit counts what a user has."""
    limited = [_of_limit(limit) for limit in state.limits]
    yield from limited
    yield from _unlimited(state, {(row["user"], row["queueName"]) for row in limited if "user" in row})


def _of_limit(limit: LimitStatus) -> Row:
    kind, _, name = limit.whose.partition(" ")
    return {
        kind: name,
        "whose": limit.whose,
        "queueName": limit.queue,
        "allocated": limit.allocated,
        "max": limit.max,
        "runningApplications": len(limit.applications),
        "maxApplications": limit.max_applications,
    }


def _unlimited(state: PartitionStatus, counted: set[tuple[str, str]]) -> Iterator[Row]:
    used: dict[tuple[str, str], Counter[str]] = {}
    running: Counter[tuple[str, str]] = Counter()
    for application in state.applications.values():
        key = (application.user or "", application.queue_name)
        if application.allocated is not UNSET and key not in counted:  # it has not ended
            used.setdefault(key, Counter()).update(application.allocated)
            running[key] += bool(application.allocated)
    for (user, path), amounts in used.items():
        yield {
            "user": user,
            "whose": f"user {user}",
            "queueName": path,
            "allocated": dict(amounts),
            "max": None,
            "runningApplications": running[user, path],
            "maxApplications": 0,
        }


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
