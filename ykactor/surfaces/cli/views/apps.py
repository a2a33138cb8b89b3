"""``ykactor apps``: the applications."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import to_builtins

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.states import ApplicationState, Outcome
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values.times import S_NS
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.views.holds import HELD, is_held, state_text, states_of
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.queues import priority
from ykactor.surfaces.cli.views.view import View, command_of


def durations(application: Row) -> dict[str, int]:
    """The seconds that an application has waited for its start and has run; what is not known is left out."""
    submitted_ns, started_ns = (application.get(key) for key in ("submissionTime", "startTime"))
    # Not the time in Completing, in which another task might have come.
    finished_ns = application.get("lastWorkTime", application.get("finishedTime"))
    found = {}
    if submitted_ns is not None and started_ns is not None:
        found["waitedSeconds"] = (started_ns - submitted_ns) // S_NS
    if started_ns is not None and finished_ns is not None:
        found["ranSeconds"] = (finished_ns - started_ns) // S_NS
    return found


#: The columns of applications that have ended, beside their names.
ENDED_COLUMNS = (
    Column("SUBMITTED", field("submissionTime", time_text)),
    Column("WAITED", field("waitedSeconds", cells.age), is_number=True),
    Column("RAN", field("ranSeconds", cells.age), is_number=True),
    Column("ENDED", field("finishedTime", time_text)),
    Column("USED", field("usedSeconds", cells.resource_hours), label="Has used"),
    Column("LOST", field("lostSeconds", cells.resource_hours), label="Lost to preemption"),
    Column("GROUPS", field("groups", ",".join), is_wide=True, label=None),
    Column("REASON", field("reason")),
)

COLOURS = {
    "Accepted": "yellow",
    "Running": "green",
    "Completing": "cyan",
    "Failing": "red",
    "Failed": "red",
    "Cancelled": "yellow",
    "Rejected": "red",
}


def rows(state: PartitionStatus, now_ns: int) -> Iterator[Row]:
    """One for each application."""
    for name, application in state.applications.items():
        row: Row = {"applicationID": name, **to_builtins(application)}
        more = _of_live(row, now_ns) if "priority" in row else durations(row)
        yield row | more


def _of_live(row: Row, now_ns: int) -> Row:
    return {
        "ageSeconds": seconds_since(row["submissionTime"], now_ns),
        "effectivePriority": row.pop("effectivePriority", PRIORITY_MIN),
        "isHeld": is_held(row),
    }


def seconds_since(unix_ns: int, now_ns: int) -> int:
    """Whole seconds; 0 if the clock of the daemon is ahead."""
    return max(0, (now_ns - unix_ns) // S_NS)


def pending_count(groups: list[Row]) -> int:
    """The number of pending asks of an application."""
    return sum(group["count"] for group in groups)


def first_reason(groups: list[Row]) -> str:
    """The reason of the first pending ask."""
    return str(groups[0]["reason"]) if groups else ""


def colour(row: Row) -> str | None:
    """The colour of an application's state."""
    return COLOURS.get(states_of(row)[0])


_NAMES = (
    Column("APPLICATION", field("applicationID")),
    Column("STATE", state_text, colour=colour),
    Column("QUEUE", field("queueName")),
    Column("USER", field("user")),
)
VIEW = View(
    "applications",
    rows,
    name=field("applicationID"),
    columns=(
        *_NAMES,
        Column("PRIORITY", field("effectivePriority", priority), is_number=True),
        Column("USED", field("allocated", cells.resource)),
        Column("RUNNING", field("allocations", lambda tasks: str(len(tasks))), is_number=True),
        Column("PENDING", field("pending", lambda groups: str(pending_count(groups))), is_number=True),
        Column("AGE", field("ageSeconds", cells.age), is_number=True),
        Column("GROUPS", field("groups", ",".join), is_wide=True),
        Column("APP-PRIO", field("priority", priority), is_number=True, is_wide=True, label=None),
        Column("HELD-BY", field("held", lambda hold: str(hold["by"])), is_wide=True, label=None),
        Column("REASON", field("pending", first_reason), is_wide=True, label=None),
    ),
    orders={
        "age": lambda row: (-row.get("ageSeconds", -1), -row.get("finishedTime", 0)),
        "name": lambda row: row["applicationID"],
        "priority": lambda row: (-row.get("effectivePriority", PRIORITY_MIN), -row.get("ageSeconds", -1)),
        "pending": lambda row: -pending_count(row.get("pending", [])),
    },
    filters=("queue", "user"),
    states=(*ApplicationState, Outcome.CANCELLED, HELD),
    past=(*_NAMES, *ENDED_COLUMNS),
)

command = command_of(
    VIEW,
    """List the applications with state, queue, user, priority and usage, the oldest first; then those that have ended.

    STATE has Held behind it if the application or its queue is held. RUNNING and PENDING are numbers of tasks. PRIORITY is that
    of the most important pending ask, the effective one at root as in ykactor asks; APP-PRIO is the ask's own. REASON is why the
    first pending ask waits; ykactor asks has all reasons.

    With --since, and with --state completed, failed, cancelled or rejected, the table is about the past: SUBMITTED, how long an
    application has WAITED for its start and RAN up to the end of its last task, when it ENDED, what its tasks have USED (in core
    hours, GiB hours, and hours of one unit of other types), what of it was LOST to preemption, and the REASON of a failure or
    refusal. The daemon forgets applications 72 hours after their end, and of more than 10,000 those that ended first; ykactor
    usage --by application has what they have used for a year, and ykactor story --state-dir their events.
    """,
)
