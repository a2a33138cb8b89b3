"""``ykactor simulate``: runs a scenario on a virtual clock and prints a summary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import click
import msgspec
from msgspec import structs, to_builtins

from ykactor.core.messages.facts import Fact
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.ids import PartitionName
from ykactor.sim.direct import DirectPartition
from ykactor.sim.recorded import opening
from ykactor.sim.simulator import Outcome, simulate, simulate_recording, simulate_with_actors
from ykactor.sim.summary import Summary, print_report, wide_console
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import outages_text
from ykactor.surfaces.cli.comparing import JITTER_MAX, OUTPUT_FILE, Comparing, Reloads, compare
from ykactor.surfaces.cli.options import EXISTING_FILE, WholeNumber, grouped, reserves_nodes, text_or_json
from ykactor.surfaces.cli.queue_files import NoTextError
from ykactor.surfaces.cli.terminal import STANDARD_OUTPUT, JsonFile, indented, naming, progress_of, say, say_lines
from ykactor.wire.decision_log import decision_log
from ykactor.wire.queuefile.load import ConfigError
from ykactor.wire.queuefile.load import load as load_config
from ykactor.wire.scenario import Scenario, ScenarioError, TimedRequest, load
from ykactor.wire.scenario.model import json_schema
from ykactor.wire.scenario.units import Units

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
@grouped(
    "comparing",
    Comparing,
    click.option(
        "--compare",
        "base",
        metavar="BASE.yaml",
        type=EXISTING_FILE,
        help="Run the scenario with this queue file too, and print what is different with the other one.",
    ),
    click.option(
        "--json",
        "json_file",
        metavar="FILE",
        type=OUTPUT_FILE,
        help="With --compare: write the comparison to this file, as JSON.",
    ),
    click.option(
        "--html",
        "html_file",
        metavar="FILE",
        type=OUTPUT_FILE,
        help="With --compare: write it to this file, as one page with plots and tables.",
    ),
    click.option(
        "--jitter",
        type=WholeNumber(1, JITTER_MAX),
        metavar="N",
        help="With --compare: N more runs of each, in which applications arrive up to 1 s later, show how much is due to chance.",
    ),
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
    comparing: Comparing,
    schema: bool,
) -> None:
    """Run the SCENARIO file on a virtual clock.

    The file is YAML, JSON or JSON Lines, or a recording (ykactor record). Prints a summary: what was placed, what is pending and
    why, utilisation and waiting times. Messages of the scenario that were refused are printed on standard error.

    With --compare both configurations run, each in a process of its own, and a comparison is printed: waits, slowdown, use,
    preemption, and what queues had less and more than they were entitled to.
    """
    if schema:
        say_lines(schema_text().removesuffix("\n"))
        return
    if scenario is None:
        raise click.UsageError("Missing argument 'SCENARIO'.")
    of_one_run = {"--decisions": decisions, "--final": final, "--actors": actors}
    comparing.check([name for name, value in of_one_run.items() if value])
    with exit_codes.ending(ScenarioError, ConfigError, NoTextError, UnreadableRowError, DamagedStateError):
        units, reloads = Units(), Reloads()

        def look(message: TimedRequest) -> None:
            units.look(message)
            reloads.look(message)

        loaded = load(scenario, config, recordings=True, look=look)
        if loaded.recorded is not None and actors:
            raise click.UsageError("found --actors with a recording, expected one of them")
        loaded = structs.replace(loaded, wakes=loaded.wakes and not no_wakes)
        load_config(loaded.config, loaded.config_file or f"{scenario}: config")  # so that its mistakes name the file
        for warning in units.warnings(scenario):
            say(f"warning: {warning}", err=True)
        if comparing.base is not None:
            reloads.warn()
            compare(scenario, loaded, comparing, as_json=output == "json")
            return
        observer = _Observer(decisions, loaded.begin_ns)
        outcome = _run(loaded, observer, actors=actors)
    if text := outages_text(loaded.outages):
        say(text, err=True)
    for refusal in outcome.refused:
        say(f"refused: {refusal}", err=True)
    if final is not None:
        final.write(msgspec.json.encode(outcome.final) + b"\n")
    _print_summary(loaded, observer.summary, outcome, as_json=output == "json")


def schema_text() -> str:
    """The JSON schema, as in the file that is shipped with the samples."""
    return indented(json_schema()) + "\n"


class _Observer:
    """Summarises facts, and writes the entries that they have in the decision log."""

    def __init__(self, decisions: BinaryIO | None, begin_ns: int) -> None:
        self.summary = Summary(begin_ns)
        self._decisions = decisions
        self._begin_ns = begin_ns

    def begin(self, partitions: Mapping[PartitionName, DirectPartition]) -> None:
        """Take what the partitions have at the begin, which was not decided in this run."""
        for partition in partitions.values():
            for fact in opening(partition, self._begin_ns):
                self.summary.observe(fact)

    def observe(self, _: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        self.summary.observe(fact)
        if self._decisions is not None:
            self._decisions.write(decision_log([fact]))


def _run(scenario: Scenario, observer: _Observer, *, actors: bool) -> Outcome:
    reserves = reserves_nodes(os.environ)
    with progress_of(scenario.name or "simulating") as progress:
        if actors:
            return simulate_with_actors(scenario, observer.observe, progress, reserves=reserves)
        if scenario.recorded is not None:
            return simulate_recording(scenario, observer.observe, progress, observer.begin, reserves=reserves)
        return simulate(scenario, observer.observe, progress, reserves=reserves)


def _print_summary(scenario: Scenario, summary: Summary, outcome: Outcome, *, as_json: bool) -> None:
    report = summary.finish(outcome.end_ns, outcome.waiting)
    if as_json:
        of_scenario = {"name": scenario.name, "outages": to_builtins(scenario.outages)}
        say_lines(indented({**of_scenario, **to_builtins(report), "refused": outcome.refused}))
    else:
        with naming(STANDARD_OUTPUT):
            print_report(report, wide_console())
