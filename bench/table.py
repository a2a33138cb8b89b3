"""A report as a table: one row for each figure."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.phases import PHASES, figure_of
from bench.runs import Figure, Report, Result
from bench.targets import YUNIKORN_CALIBRATION_S, target, times_better, yunikorn_here

_SHORT = {"allocations_per_second": "alloc/s", "others_per_second": "others/s"}


def print_report(report: Report, console: Console) -> None:
    """Print the table, whose caption describes the machine, and a table of the phases of those cases that time them."""
    title = f"Benchmark of {report.at}, median of {report.runs} runs"
    table = Table(title=title, caption=_caption(report), box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in ("case", "nodes", "asks", "RSS MiB", "figure", "median", "min", "max", "target", "", "YuniKorn", "ratio"):
        table.add_column(heading, justify="left" if heading in ("case", "figure", "") else "right", no_wrap=True)
    timed = [result for result in report.results if figure_of(PHASES[0]) in result.figures]
    for result in report.results:
        if result in timed:
            continue
        size = [result.name, number(result.nodes), number(result.asks), number(result.rss_mib) if result.rss_mib else ""]
        for name, figure in result.figures.items():
            table.add_row(*size, *_cells(result.name, name, figure, report.calibration))
            size = [""] * len(size)
    if table.rows:
        console.print(table)
    if timed:
        console.print(_phases(timed))


def _phases(results: list[Result]) -> Table:
    """A row for each case, a column for each phase."""
    title = "CPU time of an allocation in us, by phase; the phases add up to the whole"
    table = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in ("case", "whole", *PHASES):
        table.add_column(heading, justify="left" if heading == "case" else "right", no_wrap=True)
    for result in results:
        names = ("cpu_us", *map(figure_of, PHASES))
        table.add_row(result.name, *(f"{result.figures[name].median:.1f}" for name in names))
    return table


def _caption(report: Report) -> str:
    return (
        f"Calibration loop: {report.calibration:.3f} s. YuniKorn was measured where it takes {YUNIKORN_CALIBRATION_S} s, its "
        "figures are scaled to this machine; a ratio above 1 says how many times better we are. "
        f"Python {report.python}, {report.machine}."
    )


def _cells(case: str, name: str, figure: Figure, calibration: float) -> list[str]:
    goal = target(case, name)
    bound = verdict = theirs = ratio = ""
    if goal.bound is not None:
        bound = number(goal.bound)
        verdict = "[green]met[/]" if goal.is_met(name, figure) else "[red]missed[/]"
    if goal.yunikorn is not None:
        yunikorn = yunikorn_here(name, goal.yunikorn, calibration)
        theirs, ratio = number(yunikorn), f"{times_better(name, figure.median, yunikorn):.1f}"
    values = [number(value) for value in (figure.median, figure.min, figure.max)]
    return [_SHORT.get(name, name), *values, bound, verdict, theirs, ratio]


def number(value: float) -> str:
    """Whole numbers and values from 100 on without decimals, others with three significant digits."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
