"""``ykactor stats``: numbers about the daemon and its scheduling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click
from msgspec import UNSET, to_builtins

from ykactor.core.inspection.partition_status import PartitionStatus, pending_by_reason, summary_of
from ykactor.core.values.printable import printable
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.views import resource_manager
from ykactor.surfaces.cli.views.description import Part, lines_of
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, shown
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.wire.si import messages as si

#: The most frequent reasons that are shown.
_REASONS_MAX = 10


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "0"


def _preemption(counts: dict[str, object]) -> str:
    texts = {"preemptors": "asks that preempt", "victims": "tasks being preempted", "evictions": "preempted tasks"}
    return ", ".join(f"{text}: {counts[key]}" for key, text in texts.items()) if counts["enabled"] else "disabled"


def _cycles(times: Mapping[str, float]) -> str:
    took = (f"{kind} {cells.number(1e3 * times[f'{kind}Seconds'])} ms" for kind in ("last", "mean", "max"))
    return f"{times['count']}: {', '.join(took)}"


_FIELDS = (
    Column("Partition", field("partition")),
    Column("Queues", field("queues")),
    Column("Nodes", shown("nodes", _counts)),
    Column("Applications", field("applications", _counts)),
    Column("Running tasks", field("allocations")),
    Column("Pending asks", field("pendingAsks")),
    Column("Reservations", shown("reservations")),
    Column("Capacity", shown("capacity", cells.resource)),
    Column("Used", shown("allocated", cells.resource)),
    Column("Pending", shown("pending", cells.resource)),
    Column("Preemption", shown("preemption", _preemption)),
    Column("Cycles", shown("cycles", _cycles)),
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
    """Print numbers about the daemon: what it has, what waits and for what, preemptions, cycles, predicates, the last event.

    They begin with the registered resource manager, and since when it is connected or away.
    Cycles are counted since the daemon was started, also those that found nothing to decide.
    """
    showing.run(described)


def described(snapshot: si.Snapshot) -> Printout:
    """The numbers of a snapshot."""
    rows = [_row(state, snapshot.cycles) for state in snapshot.partitions]
    manager = resource_manager.row_of(snapshot)
    document = {"lastEvent": snapshot.sequence, "term": snapshot.term, **manager, "partitions": rows}

    def lines(is_wide: bool) -> Iterator[str]:
        yield f"Last event {snapshot.sequence} of term {snapshot.term}"
        yield printable(f"Resource manager {resource_manager.text_of(manager)}")
        for row in rows:
            yield ""
            parts = (Part("Pending, by reason", REASONS, row["reasons"]), Part("Predicates", _PREDICATES, row["predicates"]))
            yield from lines_of(_FIELDS, row, parts)(is_wide)

    return Printout(document, [row["partition"] for row in rows], lines)


def reasons(state: PartitionStatus) -> list[Row]:
    """The reasons for which most of the pending asks wait."""
    return [{"reason": reason, "asks": asks} for reason, asks in pending_by_reason(state).most_common(_REASONS_MAX)]


def _row(state: PartitionStatus, cycles: Mapping[str, Mapping[str, float]]) -> Row:
    """The row without what is not shown."""
    row: Row = {"partition": state.name, **to_builtins(summary_of(state)), "reasons": reasons(state)}
    if state.preemption is not UNSET:
        row["preemption"] = to_builtins(state.preemption)
    if state.name in cycles:
        row["cycles"] = cycles[state.name]
    return row | {"predicates": [] if state.predicates is UNSET else to_builtins(state.predicates.classes)}
