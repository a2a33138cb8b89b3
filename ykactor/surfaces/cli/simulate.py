"""``ykactor simulate``: runs a scenario on a virtual clock and prints a summary."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click
import msgspec
from msgspec import structs
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from ykactor.core.messages.facts import Fact
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.printable import printable
from ykactor.sim.simulator import Observe, Outcome, simulate, simulate_with_actors
from ykactor.sim.summary import Summary, print_report, wide_console
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import EXISTING_FILE, reserves_nodes, text_or_json
from ykactor.surfaces.cli.terminal import JsonFile, indented, say, say_lines
from ykactor.wire.decision_log import decision_log
from ykactor.wire.queuefile.load import ConfigError
from ykactor.wire.queuefile.load import load as load_config
from ykactor.wire.scenario import Scenario, ScenarioError, load
from ykactor.wire.scenario.model import json_schema
from ykactor.wire.scenario.units import unit_warnings

#: Opened before the run, so that a long run does not fail at its end because the file cannot be written.
_OUTPUT = JsonFile("wb", lazy=False)


@click.command()
@click.argument("scenario", type=EXISTING_FILE, required=False)
@click.option(
    "--config",
    metavar="QUEUES.yaml",
    type=EXISTING_FILE,
    help="Use this queue file instead of the configuration of the scenario.",
)
@click.option("--decisions", type=_OUTPUT, help="Write the decision log to this file, as JSON Lines.")
@click.option("--final", type=_OUTPUT, help="Write the final state to this file, as JSON.")
@text_or_json("The form of the summary; json is one document.")
@click.option("--actors", is_flag=True, help="Use the actors of the daemon instead of a plain loop; the decisions are the same.")
@click.option(
    "--no-wakes",
    is_flag=True,
    help="Look at delays only when something else happens, as recorded scenarios expect it (`wakes: false` in a scenario).",
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of scenario files, for editors, and run nothing.")
def command(
    scenario: Path | None,
    config: Path | None,
    decisions: BinaryIO | None,
    final: BinaryIO | None,
    output: str,
    actors: bool,
    no_wakes: bool,
    schema: bool,
) -> None:
    """Run the SCENARIO file on a virtual clock.

    The file is YAML, JSON or JSON Lines. Prints a summary: what was placed, what is pending and why, utilisation and waiting
    times. Messages of the scenario that were refused are printed on standard error.
    """
    if schema:
        say_lines(schema_text().removesuffix("\n"))
        return
    if scenario is None:
        raise click.UsageError("Missing argument 'SCENARIO'.")
    with exit_codes.ending(ScenarioError, ConfigError):
        loaded = load(scenario, config)
        load_config(loaded.config, loaded.config_file or f"{scenario}: config")  # so that its mistakes name the file
        for warning in unit_warnings(scenario, loaded):
            say(f"warning: {warning}", err=True)
        observer = _Observer(decisions)
        outcome = _run(structs.replace(loaded, wakes=loaded.wakes and not no_wakes), observer.observe, actors=actors)
    for refusal in outcome.refused:
        say(f"refused: {refusal}", err=True)
    if final is not None:
        final.write(msgspec.json.encode(outcome.final) + b"\n")
    _print_summary(loaded.name, observer.summary, outcome, as_json=output == "json")


def schema_text() -> str:
    """The JSON schema, as in the file that is shipped with the samples."""
    return indented(json_schema()) + "\n"


class _Observer:
    """Summarises facts, and writes the entries that they have in the decision log."""

    def __init__(self, decisions: BinaryIO | None) -> None:
        self.summary = Summary()
        self._decisions = decisions

    def observe(self, _: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        self.summary.observe(fact)
        if self._decisions is not None:
            self._decisions.write(decision_log([fact]))


def _run(scenario: Scenario, observe: Observe, *, actors: bool) -> Outcome:
    run = partial(simulate_with_actors if actors else simulate, observe=observe, reserves=reserves_nodes(os.environ))
    if not sys.stderr.isatty():
        return run(scenario)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(printable(scenario.name or "simulating")), total=1.0)
        return run(scenario, progress=lambda share: bar.update(task, completed=share))


def _print_summary(name: str, summary: Summary, outcome: Outcome, *, as_json: bool) -> None:
    report = summary.finish(outcome.end_ns, outcome.waiting)
    if as_json:
        document = {"name": name, **msgspec.to_builtins(report), "refused": outcome.refused}
        say_lines(indented(document))
    else:
        print_report(report, wide_console())
