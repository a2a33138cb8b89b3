"""``ykactor what-if``: tries a change on a copy of the state of a daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import structs, to_builtins

from ykactor.core.values.printable import printable
from ykactor.core.values.words import some
from ykactor.sim.what_if import Comparison, Difference, Status, compare, with_config
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import NONE, time_text
from ykactor.surfaces.cli.options import EXISTING_FILE, Number, reserves_nodes, text_or_json
from ykactor.surfaces.cli.present_state import check_asks_nobody, on_option, present_state
from ykactor.surfaces.cli.queue_files import NoTextError, name_of, read_once
from ykactor.surfaces.cli.terminal import indented, say, say_lines, write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Column, Row, field, table
from ykactor.wire.queuefile.load import ConfigError
from ykactor.wire.queuefile.load import load as load_config
from ykactor.wire.scenario import Scenario, ScenarioError, load
from ykactor.wire.scenario.model import SECONDS_MAX
from ykactor.wire.scenario.units import unit_warnings

#: The length of both runs without a scenario.
SECONDS = 60.0
#: The lines of the table; JSON has all.
ROWS_MAX = 100


@click.command()
@click.argument("scenario", type=EXISTING_FILE, required=False)
@on_option
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="QUEUES.yaml",
    help="Put this queue file into force first; - is standard input. Default: that of the scenario, if it has one.",
)
@click.option(
    "--seconds",
    type=Number(min=0, max=SECONDS_MAX),
    help=f"How long both runs are. Default: until the end of the scenario, and {SECONDS:g} without one.",
)
@text_or_json("json: one document, with everything that is different.")
@daemon_options
def command(
    scenario: Path | None, journal: Path | None, config_file: str | None, seconds: float | None, output: str, daemon: Destination
) -> None:
    """Run the state of a daemon twice, as it is and with a change, and print what is different at the end.

    The change is a configuration, or what the file SCENARIO has: messages of resource managers and acts of operators, each with
    its second from now on. Nothing of the daemon changes. Both runs begin now, on a virtual clock. In both nothing else arrives,
    a task ends only if the scenario says so, and releases that the scheduler starts are confirmed at once.
    Without --on it needs the role replica.
    """
    if scenario is None and config_file is None:
        raise click.UsageError("found neither SCENARIO nor --config, expected a change")
    if journal is not None:
        check_asks_nobody("--on")
    change = _change(scenario, config_file)
    if seconds is not None:
        change = structs.replace(change, until=seconds)
    fork, begin_ns = present_state(daemon, journal)
    comparison = compare(fork, change, begin_ns, reserves=reserves_nodes(os.environ))
    for refusal in comparison.refused:
        say(f"refused: {refusal}", err=True)
    if output == "json":
        say_lines(indented(to_builtins(comparison)))
    else:
        write(_lines(journal or daemon.url, comparison))


def _change(file: Path | None, config_file: str | None) -> Scenario:
    """The change as a scenario whose first message is its configuration, if it has one; ends the command if it is wrong."""
    change = Scenario("", "", SECONDS)
    with exit_codes.ending(ScenarioError, ConfigError, NoTextError):
        if file is not None:
            change = load(file)
            for warning in unit_warnings(file, change.messages):
                say(f"warning: {warning}", err=True)
        text, name = change.config, change.config_file or f"{file}: config"
        if config_file is not None:
            text, name = read_once(config_file), name_of(config_file)
        if not text and config_file is None:
            return change
        load_config(text, name)  # so that its mistakes name the file
        return with_config(change, text)


# ---- for people

_TOTALS = [
    Column("TASKS", field("run")),
    *(Column(name.upper(), field(name), is_number=True) for name in ("runs", "waits", "ended", "refused")),
]
_COLUMNS = [Column(name, field(name)) for name in ("PARTITION", "APPLICATION", "QUEUE", "TASKS", "AS IT IS", "WHAT IF")]


def _lines(source: Path | str, comparison: Comparison) -> Iterator[str]:
    yield printable(f"{source} at {time_text(comparison.begin_ns)}, {comparison.seconds:g} s later:")
    yield from (printable(f"  {change}") for change in comparison.changes)
    runs = {"as it is": comparison.as_it_is, "what if": comparison.what_if}
    yield from table(_TOTALS, [{"run": name, **to_builtins(found)} for name, found in runs.items()])
    yield ""
    if not comparison.differences:
        yield "no task and no application is different"
        return
    rows = [_row(difference) for difference in comparison.differences[:ROWS_MAX]]
    has_one = len({row["PARTITION"] for row in rows}) == 1
    yield from table(_COLUMNS[1:] if has_one else _COLUMNS, rows)
    if len(comparison.differences) > ROWS_MAX:
        yield f"and {len(comparison.differences) - ROWS_MAX} more; -o json has all"


def _row(difference: Difference) -> Row:
    found = difference.what_if or difference.as_it_is
    return {
        "PARTITION": difference.partition_name,
        "APPLICATION": difference.application_id,
        "QUEUE": "" if found is None else found.queue_name,
        "TASKS": some(difference.allocation_keys),
        "AS IT IS": status_text(difference.as_it_is),
        "WHAT IF": status_text(difference.what_if),
    }


def status_text(status: Status | None) -> str:
    """``runs on n1 after 5 s``, ``waits: ...``, ``ended on n1 after 5 s: ...``; ``-`` if there is none."""
    if status is None:
        return NONE
    where = f" on {status.node_id}" if status.node_id else ""
    when = "" if status.after_seconds is None else f" after {status.after_seconds:g} s"
    why = f": {status.reason}" if status.reason else ""
    return f"{status.state}{where}{when}{why}"
