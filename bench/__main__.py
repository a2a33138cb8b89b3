"""``python -m bench``: run the cases, print a table, save the results."""

from pathlib import Path

import click
import msgspec
import trio
from rich.console import Console

from bench.cases import CASES, GROUPS, run_here
from bench.mixes import Mix, cost
from bench.plot import svg
from bench.runs import Report, measure_all
from bench.search import Found, described, in_fresh_process, search
from bench.table import print_report

RESULTS = Path(__file__).parent / "results"
#: The minimum width of the table in columns; a narrower terminal, or a file, would truncate figures.
TABLE_WIDTH = 120


@click.command()
@click.option("--only", "group", type=click.Choice(GROUPS), help="One group of cases instead of all.")
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="How often each case runs.")
@click.option("--case", "name", type=click.Choice(list(CASES)), help="One run of one case, in this process; always JSON.")
@click.option("--mix", "described_mix", metavar="JSON", help="One run of this mix, as --search prints it; always JSON.")
@click.option("--search", "seed", type=int, metavar="SEED", help="Search for the most expensive mix.")
@click.option("--tries", type=click.IntRange(min=1), default=60, show_default=True, help="Of the search: how many mixes to run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else; keep nothing.")
def main(
    group: str | None, runs: int, name: str | None, described_mix: str | None, seed: int | None, tries: int, as_json: bool
) -> None:
    """Measure the whole path: typed requests in, decisions and encoded events out, through the actors."""
    if name is not None:
        _print_json(run_here(name))
        return
    if described_mix is not None:
        _print_json(trio.run(cost, msgspec.json.decode(described_mix, type=Mix)))
        return
    if seed is not None:
        worst = search(seed, tries, in_fresh_process, _print_found)
        click.echo("the worst:")
        _print_found(worst)
        return
    console = Console(stderr=True)
    with console.status("calibrating") as status:
        report = measure_all([group] if group else GROUPS, runs, on_run=status.update)
    if as_json:
        _print_json(report.for_scripts())
        return
    print_report(report, Console(width=max(TABLE_WIDTH, console.width)))
    for path in keep(report, RESULTS):
        click.echo(path)


def keep(report: Report, folder: Path) -> list[Path]:
    """Write the report and its chart; returns the paths of both files."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{report.at.replace(':', '')}.json"
    data.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    chart = folder / "latest.svg"
    chart.write_text(svg(report))
    return [data, chart]


def _print_found(found: Found) -> None:
    click.echo(f"{found.cpu_us:10,.0f} us  --mix '{described(found.mix)}'")


def _print_json(result: object) -> None:
    click.echo(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
