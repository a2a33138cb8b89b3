"""``ykactor partitions``, ``stats``, ``health``: the daemon as a whole, and the resource manager that it serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import click
import msgspec
from msgspec import UNSET, structs, to_builtins

from ykactor.client import check_health
from ykactor.core.inspection.partition_status import PartitionStatus, pending_by_reason, summary_of
from ykactor.core.values.printable import printable
from ykactor.surfaces.cli import cells, exit_codes
from ykactor.surfaces.cli.cells import NOT_SHOWN, time_text
from ykactor.surfaces.cli.views.listing import Column, Part, Printout, Row, field, lines_of, shown, table
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.surfaces.cli.views.view import PARTITION, View, command_of
from ykactor.wire.rest.configuration import json_of
from ykactor.wire.si import messages as si

# ---- the resource manager, which serves all partitions


def resource_manager_row(answer: si.Snapshot | si.Health) -> Row:
    """``resourceManager``: null if none is registered; {} if it is not shown."""
    return {} if answer.resource_manager is UNSET else {"resourceManager": to_builtins(answer.resource_manager)}


def resource_manager_text(row: Row) -> str:
    """``rm-1, away since 2026-07-31T09:30:00.000Z``, from a row that may have a ``resourceManager``."""
    if "resourceManager" not in row:
        return NOT_SHOWN
    known: Row | None = row["resourceManager"]
    if known is None:
        return "none is registered"
    return f"{known['rmID']}, {'connected' if known['connected'] else 'away'} since {time_text(known['since'])}"


def absence_of(answer: si.Snapshot) -> str:
    """``Resource manager rm-1, away since 2026-07-31T09:30:00.000Z``; "" if it is there, or is not shown."""
    row = resource_manager_row(answer)
    return f"Resource manager {resource_manager_text(row)}" if _is_away(row.get("resourceManager")) else ""


def resource_manager_column(header: str) -> Column:
    """Red if it is away."""
    return Column(header, resource_manager_text, colour=lambda row: "red" if _is_away(row.get("resourceManager")) else None)


def _is_away(known: Row | None) -> bool:
    return known is not None and not known["connected"]


# ---- the partitions


def partition_rows(state: PartitionStatus, _now_ns: int) -> list[Row]:
    """One: numbers of what the partition has, by state where there is one; without those that are not shown."""
    return [to_builtins(summary_of(state))]


def _nodes(nodes: dict[str, int]) -> str:
    total, schedulable = sum(nodes.values()), nodes.get("Schedulable", 0)
    return str(total) if schedulable == total else f"{schedulable}/{total}"


PARTITIONS = View(
    "partitions",
    partition_rows,
    name=field("partition"),
    columns=(
        PARTITION,
        Column("QUEUES", field("queues"), is_number=True),
        Column("NODES", shown("nodes", _nodes), is_number=True),
        Column("APPLICATIONS", field("applications", lambda counts: str(sum(counts.values()))), is_number=True),
        Column("RUNNING", field("allocations"), is_number=True),
        Column("PENDING", field("pendingAsks"), is_number=True),
        Column("USED", shown("allocated", cells.resource)),
        Column("CAPACITY", shown("capacity", cells.resource)),
        Column("RESERVED", shown("reservations"), is_number=True, is_wide=True),
        Column("WANTED", shown("pending", cells.resource), is_wide=True),
        resource_manager_column("RESOURCE MANAGER"),
    ),
    orders={"name": lambda row: row["partition"]},
    of_all=resource_manager_row,
)

partitions = command_of(
    PARTITIONS,
    """List the partitions with the numbers of their queues, nodes, applications and tasks, and what is used of their capacity.

    NODES is how many are there; 3/4 if one of four is drained. RUNNING and PENDING are numbers of tasks. RESOURCE MANAGER is the
    registered one, which serves all partitions, and since when it is connected or away.
    """,
)


# ---- the configuration in force (``ykactor config``)


def configuration(answer: si.Configuration) -> Printout:
    """A configuration."""
    document = msgspec.json.decode(json_of(answer.config, answer.checksum))
    return Printout(document, [answer.checksum], lambda is_wide: answer.config.removesuffix("\n").split("\n"))


# ---- checks

_COLUMNS = (
    Column("CHECK", field("name")),
    Column(
        "RESULT",
        lambda row: "failed" if row["problem"] else "ok",
        colour=lambda row: "red" if row["problem"] else "green",
    ),
    Column("OF", field("description")),
    Column("PROBLEM", field("problem")),
)
_RESOURCE_MANAGER = (resource_manager_column("Resource manager"),)


@click.command()
@click.pass_context
@showing_options
def health(ctx: click.Context, showing: Showing) -> None:
    """Check whether the daemon serves, and whether what it knows agrees with itself; exits with code 1 if something is wrong.

    The checks look at everything that every partition has, at most every 30 s; scheduling goes on meanwhile. Only readers that
    see all partitions and queues may ask for it. The last line tells the registered resource manager, and since when it is
    connected or away, which is nothing wrong with the daemon.
    """
    printout = showing.run_with(check_health, checked)
    if not printout.document["healthy"]:
        ctx.exit(exit_codes.FAILED)


def checked(answer: si.Health) -> Printout:
    """All checks, and the resource manager."""
    rows = [structs.asdict(check) for check in answer.checks]
    document = {"healthy": answer.healthy, "checks": rows, **resource_manager_row(answer), **_standbys_row(answer)}

    def lines(is_wide: bool) -> Iterable[str]:
        return chain(table(_COLUMNS, rows, is_wide), [""], lines_of(_RESOURCE_MANAGER, document, ())(is_wide))

    return Printout(document, [check.description for check in answer.checks], lines)


def _standbys_row(answer: si.Health) -> Row:
    return {} if answer.standbys is UNSET else {"standbys": to_builtins(answer.standbys)}


# ---- numbers about scheduling

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
REASONS = (Column("ASKS", field("asks"), is_number=True), Column("REASON", field("reason"), is_sentence=True))
_PREDICATES = (
    Column("PREDICATE", field("predicate")),
    Column("ASKED", field("asked"), is_number=True),
    Column("PASSED", field("passed"), is_number=True),
    Column("REFUSED", field("refused"), is_number=True),
)


@click.command()
@showing_options
def stats(showing: Showing) -> None:
    """Print numbers about the daemon: what it has, what waits and for what, preemptions, cycles, predicates, the last event.

    They begin with the registered resource manager, and since when it is connected or away.
    Cycles are counted since the daemon was started, also those that found nothing to decide.
    """
    showing.run(described)


def described(snapshot: si.Snapshot) -> Printout:
    """The numbers of a snapshot."""
    rows = [_row(state, snapshot.cycles) for state in snapshot.partitions]
    manager = resource_manager_row(snapshot)
    document = {"lastEvent": snapshot.sequence, "term": snapshot.term, **manager, "partitions": rows}

    def lines(is_wide: bool) -> Iterator[str]:
        yield f"Last event {snapshot.sequence} of term {snapshot.term}"
        yield printable(f"Resource manager {resource_manager_text(manager)}")
        for row in rows:
            yield ""
            parts = (Part("Pending, by reason", REASONS, row["reasons"]), Part("Predicates", _PREDICATES, row["predicates"]))
            yield from lines_of(_FIELDS, row, parts)(is_wide)

    return Printout(document, [row["partition"] for row in rows], lines)


def reasons_of(state: PartitionStatus) -> list[Row]:
    """The reasons for which most of the pending asks wait."""
    return [{"reason": reason, "asks": asks} for reason, asks in pending_by_reason(state).most_common(_REASONS_MAX)]


def _row(state: PartitionStatus, cycles: Mapping[str, Mapping[str, float]]) -> Row:
    """The row without what is not shown."""
    row: Row = {"partition": state.name, **to_builtins(summary_of(state)), "reasons": reasons_of(state)}
    if state.preemption is not UNSET:
        row["preemption"] = to_builtins(state.preemption)
    if state.name in cycles:
        row["cycles"] = cycles[state.name]
    return row | {"predicates": [] if state.predicates is UNSET else to_builtins(state.predicates.classes)}
