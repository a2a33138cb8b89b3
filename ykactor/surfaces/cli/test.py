"""``ykactor test``: whether queue configurations do what is expected of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, ElementTree, SubElement

import click

from ykactor.core.values.printable import printable
from ykactor.core.values.words import plural
from ykactor.sim.cases import Failure, run_case
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import EXISTING_FILE, reserves_nodes
from ykactor.surfaces.cli.terminal import say
from ykactor.surfaces.files.regular import whole_file
from ykactor.wire.queuefile.load import ConfigError
from ykactor.wire.scenario import ScenarioError
from ykactor.wire.scenario.cases import Case, Cases, load_cases


class _Ran(NamedTuple):
    """A case that has run, with the lines that say where it has failed."""

    case: Case
    failures: list[str]


@click.command()
@click.argument("files", metavar="CASES.yaml...", nargs=-1, required=True, type=EXISTING_FILE)
@click.option("-k", "text", default="", metavar="TEXT", help="Run only the cases with this text in their names.")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the results to this file, in the form of JUnit.",
)
def command(files: tuple[Path, ...], text: str, junit: Path | None) -> None:
    """Run cases: what a queue configuration is expected to do with some nodes and applications, on a virtual clock.

    Prints one line for each expectation that is not met, with its line in the file. The exit code is 0 if all are met, 1 if
    not, or if a file is wrong, 2 if one cannot be read. The form of the files is in ykactor/sim/README.md.
    """
    ran: dict[Path, list[_Ran]] = {}
    for file in files:
        with exit_codes.ending(ScenarioError, ConfigError):
            cases = load_cases(file)
            ran[file] = [_run(cases, case) for case in cases.cases if text in case.name]
    if junit is not None:
        with whole_file(junit) as results:
            _junit(ran).write(results, encoding="utf-8", xml_declaration=True)
    every = [each for found in ran.values() for each in found]
    failed = sum(1 for each in every if each.failures)
    if not every:
        raise click.ClickException(f"no case has {text!r} in its name")
    say(f"{failed} of {plural(len(every), 'case')} failed" if failed else f"{plural(len(every), 'case')} passed")
    if failed:
        raise SystemExit(exit_codes.FAILED)


def _run(cases: Cases, case: Case) -> _Ran:
    """Run a case, and print where it fails."""
    lines = [_line(cases, case, failure) for failure in run_case(case, reserves=reserves_nodes(os.environ))]
    for line in lines:
        say(line)
    return _Ran(case, lines)


def _line(cases: Cases, case: Case, failure: Failure) -> str:
    return printable(f"{cases.file}:{cases.line(failure.keys)}: {case.name}: {failure}")


def _junit(ran: dict[Path, list[_Ran]]) -> ElementTree:
    suites = Element("testsuites")
    for file, found in ran.items():
        failed = sum(1 for each in found if each.failures)
        suite = SubElement(suites, "testsuite", name=str(file), tests=str(len(found)), failures=str(failed))
        for each in found:
            case = SubElement(suite, "testcase", classname=str(file), name=printable(each.case.name))
            if each.failures:
                SubElement(case, "failure", message=each.failures[0]).text = "\n".join(each.failures)
    return ElementTree(suites)
