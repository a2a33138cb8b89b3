"""``ykactor stats``: numbers about the daemon and its scheduling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views import partitions
from ykactor.surfaces.cli.views.description import Part, lines_of
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.surfaces.cli.views.view import State
from ykactor.wire.si import messages as si

#: The most frequent reasons that are shown.
_REASONS_MAX = 10


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "0"


def _preemption(counts: dict[str, object]) -> str:
    texts = {"preemptors": "asks preempt", "victims": "tasks are being preempted", "evictions": "tasks were preempted"}
    return ", ".join(f"{counts[key]} {text}" for key, text in texts.items()) if counts["enabled"] else "disabled"


_FIELDS = (
    Column("Partition", field("partition")),
    Column("Queues", field("queues")),
    Column("Nodes", field("nodes", _counts)),
    Column("Applications", field("applications", _counts)),
    Column("Running tasks", field("allocations")),
    Column("Pending asks", field("pendingAsks")),
    Column("Reservations", field("reservations")),
    Column("Capacity", field("capacity", cells.resource)),
    Column("Used", field("allocated", cells.resource)),
    Column("Pending", field("pending", cells.resource)),
    Column("Preemption", field("preemption", _preemption)),
)
REASONS = (Column("ASKS", field("asks"), is_number=True), Column("REASON", field("reason")))
_PREDICATES = (
    Column("PREDICATE", field("predicate")),
    Column("ASKED", field("asked"), is_number=True),
    Column("PASSED", field("passed"), is_number=True),
    Column("REFUSED", field("refused"), is_number=True),
)


@click.command()
@showing_options
def command(showing: Showing) -> None:
    """Print numbers about the daemon: what it has, what waits and for what, preemptions, predicates, and the last event."""
    showing.run(described)


def described(snapshot: si.Snapshot) -> Printout:
    """The numbers of a snapshot."""
    rows = [*map(_row, snapshot.partitions)]
    document = {"lastEvent": snapshot.sequence, "instance": snapshot.instance, "partitions": rows}

    def lines(is_wide: bool) -> Iterator[str]:
        yield f"Last event {snapshot.sequence} of {snapshot.instance}"
        for row in rows:
            yield ""
            parts = (Part("Pending, by reason", REASONS, row["reasons"]), Part("Predicates", _PREDICATES, row["predicates"]))
            yield from lines_of(_FIELDS, row, parts)(is_wide)

    return Printout(document, [row["partition"] for row in rows], lines)


def reasons(state: State) -> list[Row]:
    """For what most of the pending asks wait."""
    waiting: Counter[str] = Counter()
    for application in state["applications"].values():
        for group in application.get("pending", ()):
            waiting[group["reason"]] += group["count"]
    return [{"reason": reason, "asks": asks} for reason, asks in waiting.most_common(_REASONS_MAX)]


def _row(state: State) -> Row:
    (row,) = partitions.rows(state, 0)
    return {
        "partition": state["name"],
        **row,
        "reasons": reasons(state),
        "preemption": state.get("preemption"),  # not seen by everybody
        "predicates": state.get("predicates", {}).get("classes", []),
    }
