"""``ykactor asks``: what is pending, and why."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.views.apps import seconds_since
from ykactor.surfaces.cli.views.listing import Column, Row, field
from ykactor.surfaces.cli.views.priority_steps import priority_steps
from ykactor.surfaces.cli.views.view import State, View, command_of


def rows(state: State, now_ns: int) -> Iterator[Row]:
    """One for each group of asks of an application that wait for the same reason, with the keys of the first of them."""
    for name, application in state["applications"].items():
        for group in application.get("pending", ()):
            *_, last = priority_steps(group["priority"], application["queueName"], state["queues"])
            yield {
                "allocationKey": group["allocationKeys"][0],
                "applicationID": name,
                "queueName": application["queueName"],
                "user": application["user"],
                "ageSeconds": seconds_since(min(group["creationTimes"]), now_ns),
                "effectivePriority": last["priority"],
                **group,
            }


VIEW = View(
    rows,
    name="allocationKey",
    columns=(
        Column("ASK", field("allocationKey")),
        Column("COUNT", field("count"), is_number=True),
        Column("APPLICATION", field("applicationID")),
        Column("QUEUE", field("queueName")),
        Column("USER", field("user"), is_wide=True),
        Column("PRIORITY", field("effectivePriority"), is_number=True),
        Column("AGE", field("ageSeconds", cells.age), is_number=True),
        Column("EACH", field("resource", cells.resource)),
        Column("ASKS", field("allocationKeys", ",".join), is_wide=True),
        Column("MAY-PREEMPT", field("nextAttempt", time_text), is_wide=True),
        Column("REASON", field("reason")),
    ),
    orders={
        "priority": lambda row: (-row["effectivePriority"], -row["priority"], -row["ageSeconds"]),
        "age": lambda row: -row["ageSeconds"],
        "count": lambda row: -row["count"],
        "queue": lambda row: row["queueName"].split("."),
    },
    filters=("queue", "user"),
)

command = command_of(
    VIEW,
    """List the pending asks with the reason why each waits, in present numbers, the most important first.

    A row is for asks of one application that wait for the same reason: the first of them, how many there are, and what each of
    them wants. PRIORITY is the effective one at root, see ykactor priorities. MAY-PREEMPT is the time from which one may preempt.
    """,
)
