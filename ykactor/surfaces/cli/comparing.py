"""``ykactor simulate --compare``: runs a scenario with two configurations, each in its own process, and compares the runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click
import msgspec
from msgspec import Struct, structs, to_builtins

from ykactor.sim import trial
from ykactor.sim.comparison import Comparison, Names
from ykactor.sim.comparison import compare as compared
from ykactor.sim.jitter import jittered
from ykactor.sim.recorded import beginning
from ykactor.sim.trial import RunReport
from ykactor.surfaces.cli.options import reserves_nodes
from ykactor.surfaces.cli.processes import Progress, Work, results
from ykactor.surfaces.cli.queue_files import read_once
from ykactor.surfaces.cli.report import html, text
from ykactor.surfaces.cli.terminal import indented, progress_of, say, say_lines, write
from ykactor.surfaces.files.regular import whole_file
from ykactor.wire.queuefile.load import load as load_config
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

#: More runs of each configuration.
JITTER_MAX = 20
OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)


class Comparing(Struct, frozen=True):
    """The options of a comparison.

    Attributes:
        base: the queue file to compare with; None: there is nothing to compare.
        json_file, html_file: where to write the comparison.
        jitter: how many more runs with other arrivals there are of each.
    """

    base: Path | None
    json_file: Path | None
    html_file: Path | None
    jitter: int | None

    def check(self, of_one_run: list[str]) -> None:
        """Refuse options of a comparison without one, and those of one run with it."""
        of_a_comparison = {"--json": self.json_file, "--html": self.html_file, "--jitter": self.jitter}
        if self.base is None and (given := [name for name, value in of_a_comparison.items() if value is not None]):
            raise click.UsageError(f"{given[0]} needs --compare BASE.yaml")
        if any(file == Path("-") for file in (self.json_file, self.html_file)):
            raise click.UsageError("found -, expected a file for --json and --html; -o json prints the comparison")
        if self.json_file is not None and self.json_file == self.html_file:
            raise click.UsageError(f"found {self.json_file} for --json and --html, expected two files")
        if self.base is not None and of_one_run:
            raise click.UsageError(f"{of_one_run[0]} is of one run: it cannot be used with --compare")

    def files(self) -> Iterator[tuple[Path, Callable[[Comparison], str]]]:
        """The files that are wanted, and what they say of the comparison."""
        if self.json_file is not None:
            yield self.json_file, _json
        if self.html_file is not None:
            yield self.html_file, html.page


class Reloads:
    """Looks for other configurations in the messages of a scenario, as they are read."""

    def __init__(self) -> None:
        self._found = False

    def look(self, message: TimedRequest) -> None:
        """Take the next message."""
        self._found = self._found or isinstance(message.request, si.UpdateConfigurationRequest)

    def warn(self) -> None:
        """Say that both runs get them."""
        if self._found:
            say("warning: the scenario puts other configurations into force: both runs get them", err=True)


def _json(comparison: Comparison) -> str:
    return indented(to_builtins(comparison)) + "\n"


def compare(file: Path, scenario: Scenario, comparing: Comparing, *, as_json: bool) -> None:
    """Run a scenario with its configuration and with that of the base; print the comparison, and write it where it is wanted.

    Raises:
        ConfigError, NoTextError: the base is no valid queue file.
        OSError: a file cannot be written.
        UnreadableRowError, DamagedStateError: the state in a recording is damaged, or of another version.
    """
    assert comparing.base is not None
    name = str(comparing.base)
    base = structs.replace(scenario, config=read_once(name), config_file=name)
    load_config(base.config, name)
    if scenario.recorded is not None:
        beginning(scenario)  # what is wrong with its state is said here, and not by both runs
    names = Names(scenario.name, name, scenario.config_file or f"{file}: config")
    with ExitStack() as files:
        outputs = [(files.enter_context(whole_file(path)), form) for path, form in comparing.files()]
        comparison = _compared(names, [base, scenario], comparing.jitter or 0)
        comparison = structs.replace(comparison, outages=scenario.outages)
        for output, form in outputs:
            output.write(form(comparison).encode())
    for run, refusals in comparison.refused.items():
        for refusal in refusals:
            say(f"refused ({run}): {refusal}", err=True)
    if as_json:
        say_lines(_json(comparison).removesuffix("\n"))
    else:
        write(text.lines(comparison))


def _compared(names: Names, scenarios: Sequence[Scenario], jitter: int) -> Comparison:
    """Run each scenario as it is, and so many times with other arrivals: the same ones for both."""
    works = [
        Work(name if not seed else f"{name} with arrivals {seed}", partial(_run, scenario, seed))
        for name, scenario in zip((names.base, names.other), scenarios, strict=True)
        for seed in range(jitter + 1)
    ]
    with progress_of(names.scenario or "comparing") as progress:
        runs = [msgspec.msgpack.decode(result, type=RunReport) for result in results(works, progress)]
    return compared(names, runs[: jitter + 1], runs[jitter + 1 :])


def _run(scenario: Scenario, seed: int, progress: Progress) -> bytes:
    """One run in its process; only that without other arrivals tells of each application."""
    if not seed:
        return msgspec.msgpack.encode(trial.run(scenario, progress, reserves=reserves_nodes(os.environ)))
    report = trial.run(jittered(scenario, seed), progress, reserves=reserves_nodes(os.environ))
    return msgspec.msgpack.encode(structs.replace(report, applications={}))
