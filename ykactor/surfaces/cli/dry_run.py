"""``submit --dry-run`` and ``run --dry-run``: what would become of the asks of a scenario, or of the tasks of a job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from string import digits

from msgspec import structs, to_builtins

from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS, utc_text
from ykactor.core.values.words import some
from ykactor.sim.dry_run import dry_run
from ykactor.sim.what_if import with_config as with_its_config
from ykactor.surfaces.cli.cells import work
from ykactor.surfaces.cli.options import reserves_nodes
from ykactor.surfaces.cli.present_state import present_state
from ykactor.surfaces.cli.terminal import indented, say, say_lines, write
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.cli.views.listing import Column, Row, field, table
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

#: How long the tasks of a job are tried.
HORIZON_S = 60.0
#: With more asks, neighbours with the same outcome are one row.
_ROWS_MAX = 20
#: Digits of a number at the end of a name.
_DIGITS_MAX = 18


def print_tried(daemon: Destination, journal: Path | None, scenario: Scenario, *, with_config: bool, is_json: bool) -> None:
    """Try a scenario on a copy of the present state, and print its asks: a row for each, or for many with the same outcome."""
    sent = [message for message in scenario.messages if with_config or not _configures(message)]
    tried = structs.replace(scenario, messages=sent)
    if with_config:
        tried = with_its_config(tried, scenario.config)
    fork, begin_ns = present_state(daemon, journal)
    found = dry_run(fork, tried, begin_ns, reserves=reserves_nodes(os.environ))
    for refusal in found.refused:
        say(f"refused: {refusal}", err=True)
    if is_json:
        say_lines(indented(to_builtins(found)))
        return
    rows = [to_builtins(each) for each in found.asks]
    write(table(_columns(begin_ns), rows if len(rows) <= _ROWS_MAX else [*folded(begin_ns, rows)]))


def _configures(message: TimedRequest) -> bool:
    return isinstance(message.request, si.UpdateConfigurationRequest)


# ---- neighbours with the same outcome


def folded(begin_ns: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows, in which neighbours with the same outcome and the same reasons are one, whatever their nodes and victims are."""
    for _, alike in groupby(rows, partial(_outcome, begin_ns)):
        yield _joined([*alike])


def _outcome(begin_ns: int, row: Row) -> tuple[object, ...]:
    """The values that neighbours in one row have in common."""
    telling = row["why"], row["code"], row["reason"], bool(row["preempts"]), bool(row["ends"])
    return row["partitionName"], row["applicationID"], _when(begin_ns, row), *telling


def _joined(rows: Sequence[Row]) -> Row:
    """Rows as one: with the names of all, the number of asks on each node, and all that they preempt and wait for."""
    lost: Resource = {}
    for row in rows:
        add_to(lost, row["workLost"])
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["nodeID"]] = counts.get(row["nodeID"], 0) + 1
    nodes = [*counts] if len(counts) == 1 else [f"{node_id}: {count}" for node_id, count in counts.items()]
    lists = {name: [*dict.fromkeys(each for row in rows for each in row[name])] for name in ("preempts", "ends")}
    keys = _range([row["allocationKey"] for row in rows])
    return {**rows[0], **lists, "allocationKey": keys, "nodeID": some(nodes), "workLost": lost}


def _range(keys: Sequence[str]) -> str:
    """``job.1-200``; of names without consecutive numbers at their ends ``a to z (26)``."""
    if len(keys) == 1:
        return keys[0]
    name = keys[0].rstrip(digits)
    first, last = (key.removeprefix(name) for key in (keys[0], keys[-1]))
    if first.isdecimal() and len(first) <= _DIGITS_MAX and keys == [f"{name}{int(first) + place}" for place in range(len(keys))]:
        return f"{name}{first}-{last}"
    return f"{keys[0]} to {keys[-1]} ({len(keys)})"


# ---- cells


def _when(begin_ns: int, row: Row) -> str:
    """``now`` if it begins when it is sent, else the time of day in UTC; ``unknown`` if it waits for what nobody knows."""
    if row["outcome"] == "waits":
        return "unknown"
    if row["outcome"] != "runs":
        return str(row["outcome"])
    began_s = row["afterSeconds"]
    return "now" if began_s <= row["sentSeconds"] else utc_text(begin_ns + round(began_s * S_NS)).partition("T")[2]


def _note(row: Row) -> str:
    return "; ".join(filter(None, (_preempts(row), _ends(row), _reason(row))))


def _preempts(row: Row) -> str:
    """``preempts t-6 (root.a is 2 vcore below its guarantee (law 4); 12 vcore minutes lost)``."""
    if not row["preempts"]:
        return ""
    lost = [f"{work(name, amount)} lost" for name, amount in sorted(row["workLost"].items()) if amount]
    return f"preempts {some(row['preempts'])} ({'; '.join([row['why'], *lost])})"


def _ends(row: Row) -> str:
    return f"at the latest when {some(row['ends'])} {'ends' if len(row['ends']) == 1 else 'end'}" if row["ends"] else ""


def _reason(row: Row) -> str:
    if not row["code"]:
        return str(row["reason"])
    reason = f"{row['code']}: {row['reason']}"
    return f"until then {reason}" if row["outcome"] == "runs" else reason


def _columns(begin_ns: int) -> list[Column]:
    return [
        Column("ASK", field("allocationKey")),
        Column("APPLICATION", field("applicationID")),
        Column("WHERE", field("nodeID")),
        Column("WHEN", partial(_when, begin_ns)),
        Column("NOTE", _note),
    ]
