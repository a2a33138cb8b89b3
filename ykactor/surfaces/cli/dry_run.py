"""``submit --dry-run`` and ``run --dry-run``: what would become of the asks of a scenario, or of the tasks of a job."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from msgspec import structs, to_builtins

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


def print_tried(daemon: Destination, journal: Path | None, scenario: Scenario, *, with_config: bool, is_json: bool) -> None:
    """Try a scenario on a copy of the present state, and print a row for each of its asks."""
    sent = [message for message in scenario.messages if with_config or not _configures(message)]
    tried = structs.replace(scenario, messages=sent)
    if with_config:
        tried = with_its_config(tried, scenario.config)
    fork, begin_ns = present_state(daemon, journal)
    found, refused = dry_run(fork, tried, begin_ns, reserves=reserves_nodes(os.environ))
    for refusal in refused:
        say(f"refused: {refusal}", err=True)
    if is_json:
        say_lines(indented({"beginNs": begin_ns, "asks": to_builtins(found), "refused": refused}))
    else:
        write(table(_columns(begin_ns), [to_builtins(each) for each in found]))


def _configures(message: TimedRequest) -> bool:
    return isinstance(message.request, si.UpdateConfigurationRequest)


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
    return f"when {some(row['ends'])} {'ends' if len(row['ends']) == 1 else 'end'}" if row["ends"] else ""


def _reason(row: Row) -> str:
    reason = f"{row['code']}: {row['reason']}" if row["code"] else str(row["reason"])
    return f"until then {reason}" if row["outcome"] == "runs" and reason else reason


def _columns(begin_ns: int) -> list[Column]:
    return [
        Column("ASK", field("allocationKey")),
        Column("APPLICATION", field("applicationId")),
        Column("WHERE", field("nodeId")),
        Column("WHEN", partial(_when, begin_ns)),
        Column("NOTE", _note),
    ]
