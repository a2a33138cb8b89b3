"""``ykactor asks`` and ``priorities``: what is pending and why, and how its priority comes about on its way to root."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, to_builtins

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.inspection.queue_status import priority_steps
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.cells import seconds_since, time_text
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.queues import priority
from ykactor.surfaces.cli.views.view import View, command_of


def rows(state: PartitionStatus, now_ns: int) -> Iterator[Row]:
    """One for each group of asks of an application that wait for the same reason, with the keys of the first of them."""
    for name, application in state.applications.items():
        job = {"jobName": application.job.name} if application.job is not UNSET and application.job.name else {}
        for group in application.pending or ():
            yield {
                "allocationKey": group.allocation_keys[0],
                "applicationID": name,
                **job,
                "queueName": application.queue_name,
                "user": application.user,
                "ageSeconds": seconds_since(group.oldest_time, now_ns),
                "effectivePriority": group.effective_priority,
                **to_builtins(group),
            }


def name_of(row: Row) -> str:
    """``app-1/t1``, as ``ykactor cancel`` takes it."""
    return f"{row['applicationID']}/{row['allocationKey']}"


#: The columns that name asks, and their importance.
COLUMNS = (
    Column("ASK", field("allocationKey")),
    Column("COUNT", field("count"), is_number=True),
    Column("APPLICATION", field("applicationID")),
    Column("NAME", field("jobName"), is_optional=True),
    Column("QUEUE", field("queueName")),
    Column("USER", field("user"), is_wide=True),
    Column("PRIORITY", field("effectivePriority"), is_number=True),
)
VIEW = View(
    "pending asks",
    rows,
    name=name_of,
    columns=(
        *COLUMNS,
        Column("REQUEST", field("priority"), is_number=True, is_wide=True),
        Column("AGE", field("ageSeconds", cells.age), is_number=True),
        Column("EACH", field("resource", cells.resource)),
        Column("ASKS", field("allocationKeys", ",".join), is_wide=True),
        Column("MAY-PREEMPT", field("nextAttempt", time_text), is_wide=True),
        Column("REASON", field("reason"), is_sentence=True),
    ),
    orders={
        "priority": lambda row: (-row["effectivePriority"], -row["priority"], -row["ageSeconds"]),
        "age": lambda row: -row["ageSeconds"],
        "count": lambda row: -row["count"],
        "queue": lambda row: row["queueName"].split("."),
    },
    filters=("app", "queue", "user"),
)

command = command_of(
    VIEW,
    """List the pending asks with the reason why each waits, in present numbers, the most important first.

    A row is for asks of one application that wait for the same reason: the first of them, how many there are, and what each of
    them wants. NAME is that of the job, if an application is a job that has one. PRIORITY is the effective one at root, see
    ykactor priorities; REQUEST is the ask's own. MAY-PREEMPT is the time from which one may preempt. With -o name a row is
    APP/ASK of its first ask; the others are not printed.
    """,
)


_COPIED = ("allocationKey", "applicationID", "jobName", "queueName", "user", "count", "ageSeconds", "effectivePriority")


def priority_rows(state: PartitionStatus, now_ns: int) -> Iterator[Row]:
    """One for each group of pending asks, as ``rows``."""
    for ask in rows(state, now_ns):
        yield {
            **{key: ask[key] for key in _COPIED if key in ask},
            "request": ask["priority"],
            "application": state.applications[ask["applicationID"]].priority,
            "queue": state.queues[ask["queueName"]].priority,
            "steps": to_builtins([*priority_steps(ask["priority"], ask["queueName"], state.queues)]),
        }


def _offsets(steps: list[Row]) -> str:
    return ",".join(f"{step['queueName']}={step['offset']:+}" for step in steps if step["offset"])


def _fences(steps: list[Row]) -> str:
    return ",".join(step["queueName"] for step in steps if step["isFence"])


PRIORITIES = View(
    "pending asks",
    priority_rows,
    name=name_of,
    columns=(
        *COLUMNS,
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

priorities = command_of(
    PRIORITIES,
    """List what the priority of each pending ask is made of, the most important first.

    REQUEST is the ask's own priority. Each queue from its leaf to root adds its offset (OFFSETS); a fence hides what is inside,
    and shows its offset alone (FENCES). PRIORITY is the result at root, or at the highest queue that you may see. APP-PRIO is the
    highest REQUEST in the application, and QUEUE-PRIO the priority that the leaf shows to its parent. A row is for asks of one
    application that wait for the same reason, with the priority of the most important of them.
    """,
)
