"""``ykactor submit --dry-run``: what would become of the asks of a scenario."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs, to_builtins

from ykactor.core.values.words import some
from ykactor.sim.dry_run import Tried, dry_run
from ykactor.sim.what_if import with_config as with_its_config
from ykactor.surfaces.cli.options import reserves_nodes
from ykactor.surfaces.cli.present_state import present_state
from ykactor.surfaces.cli.terminal import indented, say, say_lines, write
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.cli.views.listing import Column, Row, field, table
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si


def print_tried(daemon: Destination, journal: Path | None, scenario: Scenario, *, with_config: bool, is_json: bool) -> None:
    """Try a scenario on a copy of the present state, and print a row for each of its asks."""
    fork, begin_ns = present_state(daemon, journal)
    sent = [message for message in scenario.messages if with_config or not _configures(message)]
    tried = structs.replace(scenario, messages=sent)
    if with_config:
        tried = with_its_config(tried, scenario.config)
    found, refused = dry_run(fork, tried, begin_ns, reserves=reserves_nodes(os.environ))
    for refusal in refused:
        say(f"refused: {refusal}", err=True)
    if is_json:
        say_lines(indented({"asks": to_builtins(found), "refused": refused}))
    else:
        write(_lines(found))


def _configures(message: TimedRequest) -> bool:
    return isinstance(message.request, si.UpdateConfigurationRequest)


def _lines(found: list[Tried]) -> Iterator[str]:
    yield from table(_COLUMNS, [to_builtins(each) for each in found])


def _when(row: Row) -> str:
    """``now`` if it begins when it is sent; the second of the scenario if later; or its outcome."""
    if row["outcome"] != "runs":
        return str(row["outcome"])
    began_s = row["afterSeconds"]
    return "now" if began_s <= row["sentSeconds"] else f"at {began_s:g} s"


def _note(row: Row) -> str:
    preempts = f"preempts {some(row['preempts'])}" if row["preempts"] else ""
    reason = f"{row['code']}: {row['reason']}" if row["code"] else row["reason"]
    return "; ".join(filter(None, (preempts, reason)))


_COLUMNS = [
    Column("ASK", field("allocationKey")),
    Column("APPLICATION", field("applicationId")),
    Column("WHERE", field("nodeId")),
    Column("WHEN", _when),
    Column("NOTE", _note),
]
