"""``ykactor apps`` and ``app``: the applications, and one of them with what runs and what waits."""

from __future__ import annotations

from collections.abc import Iterator

import click
from msgspec import structs, to_builtins

from ykactor.actors.clock import system_ns
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.states import ApplicationState, Outcome
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values.times import S_NS
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.cells import seconds_since, time_text
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.views import asks
from ykactor.surfaces.cli.views.listing import Column, Part, Printout, Row, field, fields_of, find, lines_of
from ykactor.surfaces.cli.views.queues import priority
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.surfaces.cli.views.view import HELD, PARTITION, View, command_of, held_by, is_held, state_text, states_of
from ykactor.wire.si import messages as si


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
    Column("REASON", field("reason"), is_sentence=True),
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
    Column("NAME", field("job", lambda job: str(job["name"])), is_optional=True),
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
    first pending ask waits; ykactor asks has all reasons. NAME is that of the job, if one has it.

    With --since, and with --state completed, failed, cancelled or rejected, the table is about the past: SUBMITTED, how long an
    application has WAITED for its start and RAN up to the end of its last task, when it ENDED, what its tasks have USED (in core
    hours, GiB hours, and hours of one unit of other types), what of it was LOST to preemption, and the REASON of a failure or
    refusal. The daemon forgets applications 72 hours after their end, and of more than 10,000 those that ended first; ykactor
    usage --by application has what they have used for a year, and ykactor story --state-dir their events.
    """,
)


_NAME, *_OTHERS = VIEW.columns
_FIELDS = (
    *fields_of((_NAME, PARTITION, *_OTHERS, *ENDED_COLUMNS)),
    Column("Held by", field("held", held_by)),
    Column("Held with", field("heldWith")),
)
_RUNNING = (Column("TASK", field("allocationKey")), Column("NODE", field("nodeID")))
_REPLACING = (
    Column("ASK", field("allocationKey")),
    Column("PLACEHOLDER", field("placeholder")),
    Column("NODE", field("nodeID")),
)
_ENDED = (
    Column("TASK", field("allocationKey")),
    Column("STATE", field("state")),
    Column("EXIT", lambda row: row.get("signal") or field("exitCode")(row), is_number=True),
    Column("BEGAN", field("startTime", time_text)),
    Column("ENDED", field("finishedTime", time_text), is_wide=True),
    Column("RAN", field("ranNanoseconds", cells.exact_age), is_number=True),
    Column("PEAK", field("peakMemory", cells.memory), is_number=True),
    Column("NODE", field("nodeID")),
)
_OF_THE_APPLICATION = {"APPLICATION", "NAME", "QUEUE", "USER"}
_PENDING = tuple(column for column in asks.VIEW.columns if column.header not in _OF_THE_APPLICATION)


@click.command()
@click.argument("application_id", metavar="ID", shell_complete=names_of("app"))
@click.option("--partition", metavar="NAME", help="Only in this partition.", shell_complete=names_of("partition"))
@showing_options
def app(application_id: str, partition: str | None, showing: Showing) -> None:
    """Print the application ID: its state, what of it runs on which node, and what is pending and why; if it has ended, what it
    has used, and why it has failed. Ended are its newest tasks of which its resource manager has said how they ended:
    EXIT is the exit code, or the signal that has ended the task, RAN how long it has run, PEAK the most memory that it has used.

    Exits with code 1 if there is no such application.
    """
    showing.run(lambda snapshot: described(snapshot, application_id, partition, system_ns()))


def described(snapshot: si.Snapshot, application_id: str, partition: str | None, now_ns: int) -> Printout:
    """One application of a snapshot.

    Raises:
        ClickException: there is none of this name, or in several partitions.
    """
    state, application = find(snapshot, "application", lambda state: state.applications, application_id, partition)
    alone = structs.replace(state, applications={application_id: application})
    (found,) = rows(alone, now_ns)
    row = {"partition": state.name, **found}
    running = [{"allocationKey": key, "nodeID": node_id} for key, node_id in row.get("allocations", {}).items()]
    parts = (
        Part("Running", _RUNNING, running),
        Part("Replacing a placeholder, when its release is confirmed", _REPLACING, row.get("replacing", [])),
        Part("Pending", _PENDING, list(asks.rows(alone, now_ns))),
        Part("Ended", _ENDED, [record | _ran(record) for record in row.get("records", [])]),
    )
    return Printout(row, [application_id], lines_of(_FIELDS, row | _held_with(row, state), parts))


def _ran(record: Row) -> Row:
    """The time that a task has run, if that is known."""
    if "startTime" not in record or "finishedTime" not in record:
        return {}
    return {"ranNanoseconds": record["finishedTime"] - record["startTime"]}


def _held_with(row: Row, state: PartitionStatus) -> Row:
    """The queue that is held, by whom, if that holds the application."""
    path = row.get("heldWith")
    return {"heldWith": f"{path}, by {held_by(to_builtins(state.queues[path].held))}"} if path else {}
